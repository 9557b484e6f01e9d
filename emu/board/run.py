"""The loop of every machine: who can run, which core runs next and how far, and what happens between slices.

That a seed gives the same run again rests on this order, so it stands here alone. Who wants to know what
happens is a `Watcher`: a recorder, a controlled re-execution, a benchmark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.native.state import MACHINE_AT
from emu.schedule.policy import Scheduler

if TYPE_CHECKING:
    from emu.board.board import Board


class Watcher:
    """Told what a machine does, as it happens; this one does not look."""

    def before_slice(self, total: int) -> str:
        """The next slice is about to be chosen. total: instructions of all cores so far. Returns why the run
        is to end here, or nothing."""
        return ""

    def bounded(self, length: int) -> int:
        """The length of the next slice, if it is not to be longer. length: instructions."""
        return length

    def drain(self, number: int) -> None:
        """A core's log must be emptied (`RecordedCore.take_log`)."""

    def ran(self, number: int, *, failed: bool) -> None:
        """A core has run for a while. failed: it ended with an instruction that does not retire."""

    def served(self) -> None:
        """The kernel has served a core in its slice."""

    def called(self, who: int, call: int) -> None:
        """A task has made a system call while there are several tasks."""

    def switched(self, number: int, flags: int, who: int) -> None:
        """The kernel has replaced a core's registers. flags: CONTEXT_*. who: the task."""

    def agents_moved(self) -> None:
        """Agents have accessed memory between slices."""

    def stores_committed(self) -> None:
        """Cores' stores may have left their buffers between slices."""

    def interrupted(self, number: int) -> None:
        """A core goes on in its interrupt handler."""

    def between_slices(self) -> None:
        """All that happens between two slices has happened."""


def run(machine: Board, scheduler: Scheduler) -> tuple[str, int | None]:
    """Run until the guest ends, fails or stands still, or the machine's watcher wants no more. Returns why,
    and in which core's slice; None: between slices."""
    watcher, words = machine.watcher, machine.words
    while True:
        counts = [core.count for core in machine.cores]
        if reason := watcher.before_slice(sum(counts)):
            return reason, None
        ran = None
        if runnable := machine.runnable():
            piece = scheduler.next(runnable, counts, words[MACHINE_AT.shared], machine.tasks())
            ran = piece.core
            machine.turn(piece, watcher.bounded(piece.length), scheduler)
        elif reason := machine.stands_still():
            return reason, None
        if reason := machine.ended():
            return reason, ran
        machine.between_slices()
        watcher.between_slices()
        if machine.fault is not None:
            return machine.ended(), machine.fault.core
        if reason := machine.ended():
            return reason, None
