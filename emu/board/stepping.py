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
from emu.core.recorded import RecordedCore
from emu.native.state import CORE_AT, MACHINE_AT
from emu.schedule.policy import Slice
from emu.schedule.stepped import Stepped


@dataclass
class CoreSteps:
    """How a machine runs step by step. failing: cores that stand before an instruction which fails. doubts:
    what has happened that a step does not show."""

    policy: Stepped
    failing: set[int] = field(default_factory=set)
    doubts: set[str] = field(default_factory=set)


class StepBoard(Sliced, Protocol):
    """What a step needs of the machine, see `emu.board.firmware.Machine`."""

    fault: Fault | None

    def withdraw_fault(self, number: int) -> bool:
        """Let a core that has failed stand before the instruction that did, if it can be tried again."""


def take_step(machine: StepBoard, steps: CoreSteps, piece: Slice, length: int) -> None:
    """Let a core make its step, or `length` instructions of it."""
    number, words = piece.core, machine.words
    core = machine.cores[number]
    stopped = machine.run_slice(number, length, exact=True, events=1)
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


def _fails_now(core: RecordedCore, words: memoryview, steps: CoreSteps, number: int) -> bool:
    """Whether the instruction that has failed is the step's event, or a step by itself, or the machine was
    powered off right before it."""
    at_event = core.words[CORE_AT.shared_at] == core.count + 1
    return at_event or number in steps.failing or bool(words[MACHINE_AT.power])
