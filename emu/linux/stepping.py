"""Running tasks step by step (`emu.schedule.stepped`): what the machine keeps of it, and one step.

Nothing of a step may depend on what others do meanwhile, unless it shares something with them. So every task
keeps a core of its own, and time stands still as long as anybody can run.

Under TSO a system call waits until its core's store buffer is empty: the task stands before the instruction
that makes it (`emu.hooks.fence`), and makes it at the beginning of its next step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES
from emu.board.board import Stopped
from emu.board.stepping import Committing, settle_step, take_commit
from emu.bus.store_buffer import ADDRESS, SIZE
from emu.core.recorded import RecordedCore
from emu.linux.ground.wait import Reason
from emu.linux.guest import Guest
from emu.linux.tasks.task import State, Task
from emu.linux.turn import Turning
from emu.native.state import CORE_AT, MACHINE_AT, RIGHT_WRITE, STOP_CALL
from emu.schedule.policy import Slice
from emu.schedule.stepped import Stepped

#: Calls that only wait for a time.
_SLEEPS = ("nanosleep", "clock_nanosleep")


@dataclass(frozen=True)
class Served:
    """A call that was served in a step. name: '' for a number without one. result: None while it waits, or if
    the task is gone. heap: where the heap ended before the call, and where it ends behind it."""

    tid: int
    name: str
    arguments: tuple[int, ...]
    result: int | None
    heap: tuple[int, int] = (0, 0)


@dataclass
class Stepping:
    """How a machine runs step by step. held: cores whose task stands before a system call, which it has made
    but nobody has served. cycles: what time it is. served: the call of the last step. passed: time has gone
    on since somebody has looked. doubts: what has happened that a step does not show."""

    policy: Stepped
    cycles: int
    held: set[int] = field(default_factory=set)
    served: Served | None = None
    passed: bool = False
    doubts: set[str] = field(default_factory=set)


class StepMachine(Turning, Committing, Protocol):
    """What a step needs of the machine, see `emu.linux.machine.LinuxMachine`."""

    guest: Guest

    def waits_before_refusal(self, number: int) -> bool:
        """Whether the core has stopped at an access that is refused; it has not been tried then."""

    def go_on_to(self, deadline: int) -> None:
        """Time goes on, to a time of the guest's monotonic clock."""


def take_step(machine: StepMachine, steps: Stepping, piece: Slice, length: int) -> None:
    """Let a core's task make its step, or `length` instructions of it; or the core's store buffer."""
    if not piece.length:
        take_commit(machine, piece.core)
        return
    _take_own(machine, steps, piece.core, length)
    settle_step(machine, steps, piece.core)


def _take_own(machine: StepMachine, steps: Stepping, number: int, length: int) -> None:
    words = machine.words
    core, task = machine.cores[number], machine.queue.current[number]
    assert task is not None
    begun, end = core.count, core.count + length
    if number in steps.held:
        steps.held.remove(number)
        _serve_call(machine, steps, number, task)
    while machine.queue.current[number] is task and not machine.ended():
        if core.count >= end:
            steps.policy.unfinished = task.tid
            return
        stopped = machine.run_slice(number, end - core.count, exact=True, events=1)
        machine.watcher.ran(number, failed=stopped is Stopped.FAULT)
        if stopped is not Stopped.KERNEL:
            if words[MACHINE_AT.shared] != words[MACHINE_AT.shared_stop]:
                steps.policy.unfinished = task.tid
            return
        if core.words[CORE_AT.stop_reason] == STOP_CALL:
            if begun + 1 == core.count == core.words[CORE_AT.drains]:
                _serve_call(machine, steps, number, task)
                continue
            steps.held.add(number)
            return
        # Whether an access is refused may depend on what others do before it: it is a step of its own.
        if core.count != begun and machine.waits_before_refusal(number):
            return
        machine.serve(number)
        machine.watcher.served()


def loses_page(core: RecordedCore, rights: NDArray[np.uint8]) -> bool:
    """Whether a page may not be written to any more to which the core's buffer holds a store. rights:
    uint8[pages]."""
    rows = core.held_rows()
    first, last = rows[:, ADDRESS], rows[:, ADDRESS] + rows[:, SIZE] - np.uint64(1)
    pages = np.concatenate([first, last]) // np.uint64(PAGE_BYTES)
    return not (rights[pages] & np.uint8(RIGHT_WRITE)).all()


def _serve_call(machine: StepMachine, steps: Stepping, number: int, task: Task) -> None:
    call, *arguments = machine.cores[number].read_call()
    abi = machine.process.abi
    name = abi.calls.get(call & 0xFFFFFFFF, "")
    facts, space = machine.guest.facts, machine.process.space
    facts.asked, heap = False, space.heap_end
    machine.serve(number)
    machine.watcher.served()
    machine.watcher.called(task.tid, task.call_number)
    if facts.asked:
        steps.doubts.add("/proc tells what other threads do")
    if name in _SLEEPS and task.state is State.BLOCKED and task.wait is not None:
        # It may last as long as anybody likes, since nobody else need run meanwhile.
        machine.go_on_to(task.wait.deadline or 0)
        task.end_wait(Reason.TIMEOUT)
    result = None
    if machine.queue.current[number] is task and not machine.ended():
        result = machine.cores[number].read_register(abi.result)
    steps.served = Served(task.tid, name, tuple(arguments), result, (heap, space.heap_end))
