"""Recording a Linux program: tasks on cores, the kernel between slices and in them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.memory import ADDRESS_SPACE
from corebraid.base.rows.record import CONTEXT_START, END_EXIT, END_FAULT, END_HALTED, END_LIMIT, END_STOPPED
from emu.board.run import run
from emu.bus.names import PAGE
from emu.core.surroundings import KERNEL
from emu.linux.boot import GuestSpec, Sink, boot
from emu.linux.ground.failure import Unsupported
from emu.linux.machine import LinuxMachine
from emu.linux.memory.address_space import AddressSpace
from emu.linux.tasks.waiting import shown, tell, works_for_outside
from emu.native.state import MACHINE_AT, RIGHT_EXECUTE
from emu.schedule.lone import LONE, Lone
from emu.schedule.scheduler import is_named_policy, learns
from isa.abi import LinuxAbi
from isa.table import Isa
from recorder.capture.base import BaseCapture, Progress
from recorder.capture.guest import SYSTEM
from recorder.capture.learning import (
    Learner,
    Learnt,
    Life,
    StopRecording,
    handlers_of,
    ignore_output,
    learning_options,
    learning_place,
    learnt,
)
from recorder.capture.machine import machine_config
from recorder.capture.options import Outcome, RecordOptions, check_model
from recorder.files.collectors import Collector, Guest
from recorder.files.end import IDLE, MOST_NAMES, MOST_WAITS, End
from recorder.files.evidence_names import check_evidence
from recorder.files.image_file import nonzero_pages
from recorder.files.json_fields import MOST_TEXT, Scalar
from recorder.files.objects import ObjectKeeper

_END_CODES = {
    "exit": END_EXIT, "signal": END_EXIT, "fault": END_FAULT, "deadlock": END_HALTED, IDLE: END_HALTED,
    "limit": END_LIMIT, "time-limit": END_STOPPED, "interrupted": END_STOPPED,
}  # fmt: skip


class LinuxCapture(BaseCapture):
    """One recording of a Linux program in the making. output, error: take what it prints."""

    agents = ("kernel",)

    def __init__(
        self,
        spec: GuestSpec,
        directory: Path,
        isa: Isa,
        abi: LinuxAbi,
        options: RecordOptions,
        output: Sink,
        error: Sink,
        more: dict[str, Scalar] | None = None,
        watchers: tuple[Collector, ...] = (),
    ) -> None:
        check_model(options)
        check_evidence(options.evidence, options.model, linux=True)
        config = machine_config(options, bool(watchers), KERNEL)
        config.check()
        self._scheduler = options.make_scheduler(self._begin_schedule)
        if options.bus == PAGE and options.scheduler is None and is_named_policy(options.schedule):
            # A timer may go off so much later.
            self._scheduler = Lone(self._scheduler, LONE, lambda: True)
        #: Told of system calls that are made while there are several tasks: task, number.
        self.on_call: Callable[[int, int], None] = lambda who, number: None
        self._total = 0
        self.machine = LinuxMachine(config, isa, self)
        self.machine.shared = options.shared
        if options.steps is not None and options.model == "tso":
            for core in self.machine.cores:
                core.let_calls_wait()
        if options.shared is not None and options.steps is None:
            self.machine.count_calls()
        self._scheduler.know_waits(self.machine.timed)
        if learns(options.schedule):
            self.machine.queue.rank = self._scheduler.rank
        self.guest = boot(self.machine, abi, spec, output, error, self._drain_agents)
        with ExitStack() as undone:
            undone.callback(self.close)
            super().__init__(directory, isa, options, self.machine, *self._identity(spec, more or {}))
            self._objects = ObjectKeeper(directory, self.writer.manifest)
            guest = Guest(
                options.cores, self.machine.bus.line, options.seed, self.machine.home, options.symbols,
                # Libraries come when they are asked for: it grows.
                self.guest.process.space.code, late_code=self.guest.process.space.late_code,
                used=self._pages(), losses=self.machine.losses,
            )  # fmt: skip
            self._collect(guest, watchers)
            undone.pop_all()

    def _identity(self, spec: GuestSpec, more: dict[str, Scalar]) -> tuple[str, bytes, dict[str, Scalar]]:
        """The program's name and bytes, and the facts that decide the run."""
        process = self.guest.process
        raw = process.space.history[0].file
        assert raw is not None
        facts: dict[str, Scalar] = {
            "guest": "linux",
            "path": process.executable,
            "clock": spec.clock,
            "memory_limit": spec.memory,
            **more,
        }
        return process.name, raw.page(0, raw.size()), facts

    def close(self) -> None:
        """Let go of every file of the host's. The guest cannot go on."""
        self.guest.process.descriptors.close_all()
        self.guest.filesystem.close()

    def living(self, number: int) -> tuple[int, list[Life]]:
        """The task on a core, and all that live."""
        task = self.machine.queue.current[number]
        tasks = self.guest.process.tasks.values()
        lives = [Life(t.tid, t.parent, t.stack, ends=t.clear_child_tid) for t in tasks]
        if task is not None and self.machine.handles_signal(number):
            lives.append(handlers_of(Life(task.tid, stack=task.stack)))
            return lives[-1].who, lives
        return (0 if task is None else task.tid), lives

    def _note_agents(self) -> None:
        """What the kernel did so far came before what runs next."""
        agent, done = len(self.machine.cores), self.machine.words[MACHINE_AT.agent_number]
        if done != self._stood[agent]:
            self._note_slice(agent, done)
        self._evidence.agents()

    # -- the run -------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> Outcome:
        """Run to the end of the guest and finish the recording. progress may raise `StopRecording`."""
        machine = self.machine
        with self._or_nothing():
            self.writer.write_image("initial", nonzero_pages(machine.home, pages=self._pages()))
        for number in range(len(machine.cores)):
            self._context(number, CONTEXT_START)
        machine.boot(self.guest)
        self._progress = progress
        return self.go_on()

    def go_on(self, *, again: bool = False) -> Outcome:
        """Run to the end, from where the machine stands. again: see `emu.board.run`."""
        try:
            reason, ended_by = run(self.machine, self._scheduler, again=again)
        except StopRecording as stop:
            reason, ended_by = stop.reason, None
        return self._finish(reason, ended_by)

    def before_slice(self, total: int) -> str:
        """See `BaseCapture.before_slice`; also the limit of system calls."""
        most = self._options.most_calls
        return "limit" if most and self.guest.kernel.calls_made >= most else super().before_slice(total)

    def _done(self, total: int) -> int:
        """Of the slice before: the limit has always been looked at after another one."""
        done, self._total = self._total, total
        return done

    def served(self) -> None:
        """The kernel may have waited for other cores' stores too."""
        if self._unseen:
            return
        self._note_all_commits()
        self._note_agents()

    def called(self, who: int, call: int) -> None:
        """Hand it on to who learns."""
        self.on_call(who, call)

    def switched(self, number: int, flags: int, who: int) -> None:
        """Log the core's new registers. The kernel has waited for the core's stores."""
        if self._unseen:
            return
        self.served()
        self._context(number, flags, who)

    def between_slices(self) -> None:
        """Note what the kernel did, take it out, and set a stratum where one is due."""
        machine = self.machine
        self.served()
        if (
            machine.words[MACHINE_AT.agent_n] > machine.words[MACHINE_AT.agent_limit] // 2
            or machine.syncs_wait
        ):
            self._drain_agents()
        # A core that stands before a call has counted it, and its log has nothing of it yet.
        held = machine.steps is not None and machine.steps.held
        if not held and self._timer.due(self._strata):
            self._stratum()

    # -- the end -------------------------------------------------------------------------------------

    def _finish(self, reason: str, ended_by: int | None) -> Outcome:
        machine, process = self.machine, self.guest.process
        machine.meet_all()
        self._note_all_commits()
        lost = self._write_back()
        self._note_agents()
        for number, core in enumerate(machine.cores):
            # Accesses of an instruction that was begun and will not be begun again.
            self._note_slice(number, core.count + 1)
        fault, killed = machine.fault, machine.killed
        if killed is not None:
            # Signals are also delivered between slices.
            ended_by = machine.killed_core
        waiting = machine.who_waits() if reason == "deadlock" else []
        if works_for_outside(waiting):
            reason = IDLE
        text = f"pc {fault.pc:#x}: {fault.what}" if fault else tell(waiting) or machine.end_text()
        end = End(
            reason,
            process.exit_code,
            ended_by,
            machine.cores[ended_by].count if ended_by is not None else None,
            shown(text, MOST_TEXT),
            tuple(waiting[:MOST_WAITS]),
            killed.address if killed is not None else None,
            tuple((tid, shown(name, MOST_TEXT)) for tid, name in process.own_names().items())[:MOST_NAMES],
        )
        outcome = self._end(_END_CODES[reason], end)
        # The recording comes first: this may fail.
        self.guest.filesystem.keep()
        if lost:
            raise UsageError(lost, remedy="the recording is complete")
        return outcome

    def _write_back(self) -> str:
        """Give memory that is shared with files to them. Returns why it failed."""
        try:
            self.guest.process.space.write_back()
        except Unsupported as refused:
            return refused.what
        return ""

    def code_of_program(self) -> list[tuple[int, int]]:
        """Where code of the program, and of libraries that are not the system's, has been, as (first byte,
        end)."""
        history = self.guest.process.space.history
        program = history[0].file
        assert program is not None
        code = ((one, one.file) for one in history if one.file is not None and one.rights & RIGHT_EXECUTE)
        return [
            (one.start, one.end)
            for one, file in code
            if file.key == program.key or not file.path.startswith(SYSTEM)
        ]

    def _drain_all(self) -> None:
        super()._drain_all()
        if not self._options.unwritten:
            self._objects.update(self.guest.process.space.history)

    def _pages(self) -> NDArray[np.int64]:
        return self.guest.process.space.used_pages()

    def _runs(self, number: int) -> int:
        task = self.machine.queue.current[number]
        return 0 if task is None else task.tid

    def _totals(self) -> dict[str, Scalar]:
        return {
            "calls": self.guest.kernel.calls_made,
            "tasks": self.guest.process.next_tid - self.guest.process.pid,
            "resident_pages": self.guest.process.space.most_pages,
            **({"shared_events": int(self.machine.state["shared"])} if self._options.shared else {}),
        }


class _Calls:
    """Tells a learner of system calls, and of what they take of an address space."""

    def __init__(self, learner: Learner, space: AddressSpace) -> None:
        self._learner, self._taken = learner, list[tuple[int, int]]()
        space.taken = lambda start, end: self._taken.append((start, end))

    def __call__(self, who: int, number: int) -> None:
        self._learner.call(who, number)
        for start, end in self._taken:
            self._learner.take_away(who, start, end)
        self._taken.clear()


def learn_linux(spec: GuestSpec, isa: Isa, abi: LinuxAbi, options: RecordOptions) -> Learnt:
    """Run the program, and see which words its tasks share. Nothing that it writes is kept."""
    binds = tuple(replace(bind, writable=False) for bind in spec.root.binds)
    spec = replace(spec, root=replace(spec.root, binds=binds, keep_writes=None))

    hidden: dict[str, None] = {}
    timed = False
    own = set[tuple[int, int]]()

    def run(number: int) -> tuple[Learner, Outcome]:
        nonlocal timed
        learner = Learner(number)
        with learning_place() as directory:
            chosen = learning_options(options, number)
            capture = LinuxCapture(
                spec, directory, isa, abi, chosen, ignore_output, ignore_output, watchers=(learner,)
            )
            learner.tasks, capture.on_call = capture.living, _Calls(learner, capture.guest.process.space)
            with closing(capture), capture.writer:
                outcome = capture.run(learner.enough)
                hidden.update(dict.fromkeys(capture.guest.filesystem.absent.hidden()))
                timed |= capture.guest.kernel.timed
                own.update(capture.code_of_program())
                return learner, outcome

    found = learnt(map(run, range(options.learning)))

    # What the system's libraries do so is done under locks of theirs, or is meant.
    def mine(places: NDArray[np.uint64]) -> NDArray[np.bool_]:
        inside = [(places >= start) & (places < end) for start, end in own]
        return np.any(inside, axis=0) if inside else np.zeros(places.shape, bool)

    split, crossed = found.split[mine(found.split)], found.overtaken[mine(found.overtaken).all(axis=1)]
    return replace(found, hidden=tuple(hidden), timed=timed, split=split, overtaken=crossed)


def record_linux(
    spec: GuestSpec,
    directory: Path,
    isa: Isa,
    abi: LinuxAbi,
    options: RecordOptions,
    output: Sink,
    error: Sink,
    progress: Progress | None = None,
    more: dict[str, Scalar] | None = None,
) -> tuple[Outcome, LinuxCapture]:
    """Record a Linux program into the new directory `directory`; see `recorder.capture.firmware.record`.

    Returns what became of it, and the capture, which still knows the guest.
    """
    if options.must_learn:
        options = replace(options, shared=learn_linux(spec, isa, abi, options).shared)
    capture = LinuxCapture(spec, directory, isa, abi, options, output, error, more)
    with closing(capture), capture.writer:
        return capture.run(progress), capture


__all__ = ["ADDRESS_SPACE", "GuestSpec", "LinuxCapture", "StopRecording", "record_linux"]
