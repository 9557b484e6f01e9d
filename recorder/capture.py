"""Recording firmware: run the machine slice by slice, write down what each core could not compute itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emu.elf import load_image
from emu.machine import Machine, Stopped
from isa.table import Isa
from recorder.capture_base import FLUSH_EVERY, BaseCapture, Console, Progress, machine_config
from recorder.evidence import Collector, Guest, check_evidence
from recorder.image_file import nonzero_pages
from recorder.learning import (
    Learner,
    Learnt,
    StopRecording,
    ignore_output,
    learning_options,
    learning_place,
    learnt,
)
from recorder.manifest import End
from recorder.record import (
    CONTEXT_INTERRUPT,
    CONTEXT_START,
    END_FAULT,
    END_HALTED,
    END_LIMIT,
    END_POWER_OFF,
    END_STOPPED,
)
from recorder.record_options import Outcome, RecordOptions, check_model

__all__ = ["Capture", "Outcome", "RecordOptions", "record"]

_END_CODES = {
    "power-off": END_POWER_OFF, "fault": END_FAULT, "halted": END_HALTED, "limit": END_LIMIT,
    "interrupted": END_STOPPED, "time-limit": END_STOPPED,
}  # fmt: skip


class Capture(BaseCapture):
    """One recording in the making. watchers: are handed all events as collectors are, and record nothing."""

    def __init__(
        self,
        program: Path,
        directory: Path,
        isa: Isa,
        options: RecordOptions,
        console: Console,
        watchers: tuple[Collector, ...] = (),
    ) -> None:
        config = machine_config(options, bool(watchers))
        check_model(options)
        check_evidence(options.evidence, options.model)
        config.check()
        self._scheduler = options.make_scheduler()
        image, raw = load_image(program, isa, options.memory_bytes)
        self._console = console
        self.machine = Machine(config, isa, image, self._drain)
        if options.shared is not None:
            self.machine.watch(options.shared)
        super().__init__(directory, isa, options, self.machine, program.name, raw, {})
        guest = Guest(
            options.cores, options.cache.line, options.seed, self.machine.home, options.symbols,
            self.machine.executable(), self.machine.post, losses=self.machine.losses,
        )  # fmt: skip
        self._collect(guest, watchers)

    def _drain_console(self) -> None:
        if self.machine.state["console_n"]:
            self._console(self.machine.take_console())

    # -- the run -------------------------------------------------------------------------------------

    def run(self, progress: Progress | None = None) -> Outcome:
        """Run to the end of the guest and finish the recording."""
        machine = self.machine
        self.writer.write_image("initial", nonzero_pages(machine.home))
        for number in range(len(machine.cores)):
            self._context(number, CONTEXT_START)
        try:
            reason, ended_by = self._run_slices(progress)
        except StopRecording as stop:
            reason, ended_by = stop.reason, None
        return self._finish(reason, ended_by)

    def _run_slices(self, progress: Progress | None) -> tuple[str, int | None]:
        machine = self.machine
        counts = machine.core_rows["count"]
        total = 0
        while True:
            if progress is not None:
                progress(total)
            runnable = machine.runnable()
            if runnable:
                piece = self._scheduler.next(runnable, counts.tolist(), int(machine.state["shared"]))
                length = self._bounded(piece.length)
                stopped = machine.run_slice(piece.core, length, exact=piece.exact, events=piece.events)
                # An instruction that fails does not retire, but it was fetched.
                tried = 1 if stopped is Stopped.FAULT else 0
                self._note_commits(piece.core)
                self._note_slice(piece.core, machine.cores[piece.core].count + tried)
                self._evidence.turn(piece.core)
                if stopped is Stopped.POWER:
                    return "power-off", piece.core
                if stopped is Stopped.FAULT:
                    return "fault", piece.core
            elif machine.deadlocked():
                return "halted", None
            self._between_slices()
            if machine.fault is not None:
                return "fault", machine.fault.core
            total = int(counts.sum())
            if self._options.limit and total >= self._options.limit:
                return "limit", None
            if total - self._written_at >= FLUSH_EVERY:
                self._written_at = total
                self._drain_all()

    def _between_slices(self) -> None:
        machine, agent = self.machine, len(self.machine.cores)
        if machine.step_agents():
            self._note_slice(agent, int(machine.state["agent_number"]))
        machine.step_mail()
        if machine.step_store_buffers():
            self._note_all_commits()
        machine.raise_timers()
        for number in machine.interrupted():
            if machine.deliver_interrupt(number):
                self._note_commits(number)
                self._note_slice(agent, int(machine.state["agent_number"]))
                self._context(number, CONTEXT_INTERRUPT)
        self._evidence.agents()
        if machine.state["agent_n"] > machine.state["agent_limit"] // 2 or machine.syncs_wait:
            self._drain_agents()
        if self._strata_due():
            self._stratum()
        self._drain_console()

    def _finish(self, reason: str, ended_by: int | None) -> Outcome:
        machine, fault = self.machine, self.machine.fault
        end = End(
            reason,
            int(machine.state["exit_code"]) if reason == "power-off" else None,
            ended_by,
            machine.cores[ended_by].count if ended_by is not None else None,
            f"pc {fault.pc:#x}: {fault.what}" if fault else "",
        )
        return self._end(_END_CODES[reason], end)


def learn(program: Path, isa: Isa, options: RecordOptions) -> Learnt:
    """Run the image once, and see which words its cores share."""
    learner = Learner()
    with learning_place() as directory:
        chosen = learning_options(options)
        capture = Capture(program, directory, isa, chosen, ignore_output, watchers=(learner,))
        with capture.writer:
            outcome = capture.run(learner.enough)
    return learnt(learner, outcome)


def record(
    program: Path,
    directory: Path,
    isa: Isa,
    options: RecordOptions,
    console: Console,
    progress: Progress | None = None,
    watchers: tuple[Collector, ...] = (),
) -> Outcome:
    """Record `program` into the new directory `directory`.

    console: called with what the guest prints. progress: called with the instructions so far, after each
    slice. watchers: see `Capture`. Raises UsageError and ImageError before anything is written.
    """
    if options.must_learn:
        options = replace(options, shared=learn(program, isa, options).shared)
    capture = Capture(program, directory, isa, options, console, watchers)
    with capture.writer:
        return capture.run(progress)
