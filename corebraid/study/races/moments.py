"""Call stacks at moments of a recording: one replay of each core, which is looked at before each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from corebraid.names.program import GuestProgram
from corebraid.study.stack_names import StackNames
from corebraid.study.stacks import Stack, stack_of
from recorder.files.reader import Recording
from recorder.replay.pause import PausedReplay
from recorder.replay.seek import start_of

#: (core, instruction count).
Moment = tuple[int, int]


class _CoreMemory:
    """What a core has of the guest's memory. Its own stack is among it."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory

    def read(self, address: int, size: int) -> bytes | None:
        """See `corebraid.names.unwinding.machine.Memory`."""
        if not 0 <= address <= len(self._memory) - size:
            return None
        return self._memory[address : address + size].tobytes()


class _StackReplay(PausedReplay):
    """Keeps the stack before each of some instructions. whose: who runs there, by their counts."""

    def __init__(self, recording: Recording, core: int, whose: dict[int, str], program: GuestProgram) -> None:
        counts = sorted(whose)
        super().__init__(recording, core, counts, start=start_of(recording, core, counts))
        self._whose, self._program, self._memory = whose, program, _CoreMemory(self._core.core.memory)
        self._names = StackNames(program, self._memory)
        self.stacks: dict[int, Stack] = {}

    def _stop(self, count: int) -> None:
        super()._stop(count)
        registers = self.states[count].registers
        self.stacks[count] = stack_of(self._whose[count], self._program, self._names, registers, self._memory)


def stacks_at(
    recording: Recording, program: GuestProgram, moments: Mapping[Moment, str]
) -> dict[Moment, Stack]:
    """The stacks before these instructions, of whom each is said; without those that a core never comes to.
    Raises Divergence, FormatError."""
    wanted: dict[int, dict[int, str]] = {}
    for (core, count), who in moments.items():
        wanted.setdefault(core, {})[count] = who
    found = {}
    for core, whose in wanted.items():
        replay = _StackReplay(recording, core, whose, program)
        for _ in replay.run():
            pass
        found.update({(core, count): stack for count, stack in replay.stacks.items()})
    return found
