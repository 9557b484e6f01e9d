"""One slice of a core that runs tasks: pieces of it, and the kernel's work between them."""

from __future__ import annotations

from typing import Protocol

from emu.board.board import Stopped
from emu.board.sliced import Sliced
from emu.linux.tasks.process import Process
from emu.linux.tasks.run_queue import RunQueue
from emu.linux.tasks.task import Task
from emu.native.state import CORE_AT, MACHINE_AT, STOP_CALL
from emu.schedule.policy import Scheduler, Slice


class Turning(Sliced, Protocol):
    """What a turn needs of the machine, see `emu.linux.machine.LinuxMachine`."""

    queue: RunQueue
    process: Process

    def serve(self, number: int) -> None:
        """Serve the core, which has stopped for the kernel."""

    def ended(self) -> str:
        """Why the run is over, empty while it is not."""

    def shared_event(self) -> bool:
        """Whether the scheduler is to be asked after a call."""


def take_turn(
    machine: Turning, piece: Slice, length: int, scheduler: Scheduler, begun: int | None = None
) -> None:
    """Run a core for about `length` instructions, its kernel's calls and pages served. The slice ends early
    when its task is gone, at a call that counts as its last event, or where `scheduler` wants to be asked.
    begun: see `emu.board.board.Board.turn`."""
    number, watcher, queue = piece.core, machine.watcher, machine.queue
    core, words = machine.cores[number], machine.words
    task, end = queue.current[number], core.count + length
    last_event = words[MACHINE_AT.shared] + piece.events if piece.events else 0
    arrivals = queue.arrivals
    while True:
        left = last_event - words[MACHINE_AT.shared] if last_event else 0
        stopped = machine.run_slice(number, end - core.count, exact=piece.exact, events=left, begun=begun)
        begun = None
        watcher.ran(number, failed=stopped is Stopped.FAULT)
        if stopped is not Stopped.KERNEL:
            return
        called = core.words[CORE_AT.stop_reason] == STOP_CALL
        machine.serve(number)
        watcher.served()
        if called and task is not None and _ends_with_call(machine, task, scheduler):
            return
        gone = queue.current[number] is not task or machine.ended()
        news = scheduler.eager and queue.arrivals != arrivals
        if gone or news or core.count >= end:
            return


def _ends_with_call(machine: Turning, task: Task, scheduler: Scheduler) -> bool:
    """The task has made a system call. Returns whether its slice ends with it."""
    if len(machine.process.tasks) > 1:
        machine.watcher.called(task.tid, task.call_number)
    if task.yields:
        scheduler.yielded(task.tid)
    return machine.shared_event() or task.yields
