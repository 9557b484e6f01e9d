"""The loop of every machine: who can run, which core runs next and how far, and what happens between slices.

That a seed gives the same run again rests on this order, so it stands here alone. Who wants to know what
happens is a `Watcher`.
"""

from __future__ import annotations

from emu.board.board import Board
from emu.native.state import MACHINE_AT
from emu.schedule.policy import TIME, Scheduler


def run(machine: Board, scheduler: Scheduler, *, again: bool = False) -> tuple[str, int | None]:
    """Run until the guest ends, fails or stands still, or the machine's watcher wants no more. Returns why,
    and in which core's slice; None: between slices. again: this has been left, by an exception, when the
    scheduler was asked."""
    watcher, words = machine.watcher, machine.words
    while True:
        counts = [core.count for core in machine.cores]
        if not again and (reason := watcher.before_slice(sum(counts))):
            return reason, None
        again = False
        ran = None
        if runnable := machine.runnable():
            if (ran := machine.take_stretch(runnable, sum(counts), scheduler)) is None:
                piece = scheduler.next(runnable, counts, words[MACHINE_AT.shared], machine.tasks())
                if piece.core == TIME:
                    machine.let_time_pass()
                else:
                    ran = piece.core
                    machine.turn(piece, watcher.bounded(piece.length), scheduler)
                    if scheduler.follows:
                        _tell(machine, scheduler)
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


def _tell(machine: Board, scheduler: Scheduler) -> None:
    counts = [core.count for core in machine.cores]
    scheduler.ended(machine.runnable(), counts, machine.words[MACHINE_AT.shared], machine.tasks())
