"""Recording firmware: run the machine slice by slice, write down what each core could not compute itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from corebraid.base.rows.record import (
    CONTEXT_INTERRUPT,
    CONTEXT_START,
    END_FAULT,
    END_HALTED,
    END_LIMIT,
    END_POWER_OFF,
    END_STOPPED,
)
from emu.board.elf import load_image
from emu.board.firmware import Machine
from emu.board.run import run
from emu.bus.names import PAGE
from emu.schedule.lone import LONE, Lone
from emu.schedule.scheduler import is_named_policy
from isa.table import Isa
from recorder.capture.base import BaseCapture, Console, Progress
from recorder.capture.learning import (
    Learner,
    Learnt,
    StopRecording,
    ignore_output,
    learning_options,
    learning_place,
    learnt,
)
from recorder.capture.machine import machine_config
from recorder.capture.options import Outcome, RecordOptions, check_model
from recorder.files.collectors import Collector, Guest
from recorder.files.end import End
from recorder.files.evidence_names import check_evidence
from recorder.files.image_file import nonzero_pages

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
        self._scheduler = options.make_scheduler(self._begin_schedule)
        image, raw = load_image(program, isa, options.memory_bytes)
        self._console = console
        self.machine = Machine(config, isa, image, self)
        if options.bus == PAGE and options.scheduler is None and is_named_policy(options.schedule):
            self._scheduler = Lone(self._scheduler, LONE, self.machine.undisturbed)
        if options.shared is not None:
            self.machine.watch(options.shared)
        super().__init__(directory, isa, options, self.machine, program.name, raw, {})
        guest = Guest(
            options.cores, self.machine.bus.line, options.seed, self.machine.home, options.symbols,
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
        self._progress = progress
        return self.go_on()

    def go_on(self, *, again: bool = False) -> Outcome:
        """Run to the end, from where the machine stands. again: see `emu.board.run`."""
        try:
            reason, ended_by = run(self.machine, self._scheduler, again=again)
        except StopRecording as stop:
            reason, ended_by = stop.reason, None
        return self._finish(reason, ended_by)

    def agents_moved(self) -> None:
        """Note how far the devices are."""
        self._note_slice(len(self.machine.cores), int(self.machine.state["agent_number"]))

    def interrupted(self, number: int) -> None:
        """Note the frame, and the core's new registers."""
        self._note_commits(number)
        self.agents_moved()
        self._context(number, CONTEXT_INTERRUPT)

    def between_slices(self) -> None:
        """Take out what devices did, and set a stratum where one is due."""
        machine = self.machine
        self._evidence.agents()
        if machine.state["agent_n"] > machine.state["agent_limit"] // 2 or machine.syncs_wait:
            self._drain_agents()
        if self._timer.due(self._strata):
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
    """Run the image, and see which words its cores share."""

    def run(number: int) -> tuple[Learner, Outcome]:
        learner = Learner(number)
        with learning_place() as directory:
            chosen = learning_options(options, number)
            capture = Capture(program, directory, isa, chosen, ignore_output, watchers=(learner,))
            with capture.writer:
                return learner, capture.run(learner.enough)

    return learnt(map(run, range(options.learning)))


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
