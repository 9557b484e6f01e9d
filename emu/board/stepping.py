"""Running cores step by step (`emu.schedule.stepped`): what a machine of firmware keeps of it, and one step.

Nothing of a step may depend on what other cores do meanwhile, unless it shares something with them. So no
miss takes time: a core's clock is its own instruction count. And a core that fails does so in a step of its
own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from emu.board.board import Stopped
from emu.board.faults import Fault
from emu.board.sliced import Sliced
from emu.bus.commit import (
    FORCED_DRAIN,
    FORCED_FULL,
    FORCED_KERNEL,
    FORCED_OLD,
    FORCED_PAGE,
    FORCED_PART,
)
from emu.bus.store_buffer import OLDEST
from emu.core.recorded import RecordedCore
from emu.native.state import CORE_AT, MACHINE_AT
from emu.schedule.policy import Slice
from emu.schedule.stepped import Stepped

#: What a step does not show, of stores that had to commit within it.
_FORCED = {
    FORCED_OLD: f"a store was buffered for {OLDEST} instructions, and had to commit: later was not tried",
    FORCED_FULL: "a store buffer was full, and its oldest store had to commit: a larger one was not tried",
    FORCED_PART: "a load overlapped a buffered store in part, which had to commit: later was not tried",
    FORCED_DRAIN: "an instruction that waits for the store buffer could not be stopped before it",
    FORCED_KERNEL: "a thread was interrupted with stores buffered: that they commit later was not tried",
    FORCED_PAGE: "a page was taken or protected while stores to it were buffered: later was not tried",
}


@dataclass
class CoreSteps:
    """How a machine runs step by step. failing: cores that stand before an instruction which fails. doubts:
    what has happened that a step does not show."""

    policy: Stepped
    failing: set[int] = field(default_factory=set)
    doubts: set[str] = field(default_factory=set)


class Committing(Sliced, Protocol):
    """What a step of a store buffer needs of the machine, see `emu.board.board.Board`."""

    def commit_step(self, number: int, *, own: bool) -> None:
        """See `Board`."""

    def ended(self) -> str:
        """Why the run is over, empty while it is not."""


class Doubted(Protocol):
    """How a machine runs step by step, see `CoreSteps`."""

    policy: Stepped
    doubts: set[str]


class StepBoard(Committing, Protocol):
    """What a step needs of the machine, see `emu.board.firmware.Machine`."""

    fault: Fault | None

    def withdraw_fault(self, number: int) -> bool:
        """Let a core that has failed stand before the instruction that did, if it can be tried again."""


def take_step(machine: StepBoard, steps: CoreSteps, piece: Slice, length: int) -> None:
    """Let a core make its step, or `length` instructions of it; or its store buffer."""
    number, words = piece.core, machine.words
    core = machine.cores[number]
    if not piece.length:
        take_commit(machine, number)
        return
    stopped = machine.run_slice(number, length, exact=True, events=1)
    settle_step(machine, steps, number)
    if machine.fault is not None and machine.fault.refused:
        steps.doubts.add(f"not emulated: {machine.fault.what}")
    elif stopped is Stopped.FAULT and not _fails_now(core, words, steps, number):
        # What others do before the machine ends with it is theirs to choose.
        if machine.withdraw_fault(number):
            steps.failing.add(number)
            machine.watcher.ran(number, failed=False)
            return
        steps.doubts.add("an instruction trapped (int3, int, a system call): others were not tried before it")
    machine.watcher.ran(number, failed=stopped is Stopped.FAULT)
    if stopped is Stopped.SLICE and words[MACHINE_AT.shared] != words[MACHINE_AT.shared_stop]:
        steps.policy.unfinished = number


def buffers_of(cores: list[RecordedCore]) -> tuple[list[int], list[int]]:
    """Cores that wait until store buffers are empty, or have room; and those whose buffers hold stores."""
    holding = [k for k, core in enumerate(cores) if core.words[CORE_AT.buffered]]
    return [k for k in holding if _waits(cores[k].words)], holding


def _waits(words: memoryview) -> bool:
    here = words[CORE_AT.count] + 1
    for_room = words[CORE_AT.room] == here and words[CORE_AT.committed] < words[CORE_AT.room_for]
    return bool(words[CORE_AT.drains] == here or for_room)


def take_commit(machine: Committing, number: int) -> None:
    """Let the oldest store of a core's buffer commit."""
    machine.commit_step(number, own=True)
    machine.watcher.stores_committed()


def settle_step(machine: Committing, steps: Doubted, number: int) -> None:
    """Behind a step under TSO: what nobody looks at commits, and what had to is a doubt."""
    if steps.policy.buffers is None:
        return
    machine.commit_step(number, own=False)
    if machine.ended():
        # All will commit, once the run is over.
        steps.policy.left = steps.policy.buffers()
    if forced := machine.words[MACHINE_AT.forced]:
        steps.doubts |= {why for bit, why in _FORCED.items() if forced & bit}


def _fails_now(core: RecordedCore, words: memoryview, steps: CoreSteps, number: int) -> bool:
    """Whether the instruction that has failed is the step's event, or a step by itself, or the machine was
    powered off right before it."""
    at_event = core.words[CORE_AT.shared_at] == core.count + 1
    return at_event or number in steps.failing or bool(words[MACHINE_AT.power])
