"""Call stacks at moments of a recording: one replay of each core, which is looked at before each."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from corebraid.names.program import GuestProgram
from corebraid.names.threads import thread_at, thread_name
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
    """Keeps the stack before each of `counts`."""

    def __init__(self, recording: Recording, core: int, counts: list[int], program: GuestProgram) -> None:
        super().__init__(recording, core, counts, start=start_of(recording, core, counts))
        self._program, self._memory = program, _CoreMemory(self._core.core.memory)
        self._names = StackNames(program, self._memory)
        self.stacks: dict[int, Stack] = {}

    def _stop(self, count: int) -> None:
        super()._stop(count)
        who = who_at(self._recording, self._number, count)
        registers = self.states[count].registers
        self.stacks[count] = stack_of(who, self._program, self._names, registers, self._memory)


def who_at(recording: Recording, core: int, count: int) -> str:
    """'thread 1001 (name)', or 'core 0' of firmware. Raises FormatError."""
    thread = thread_at(recording, core, count)
    return thread_name(recording.manifest.end, thread) if thread else f"core {core}"


def stacks_at(
    recording: Recording, program: GuestProgram, moments: Iterable[Moment]
) -> dict[Moment, Stack]:
    """The stacks before these instructions; without those that a core never comes to. Raises Divergence,
    FormatError."""
    wanted: dict[int, list[int]] = {}
    for core, count in sorted(set(moments)):
        wanted.setdefault(core, []).append(count)
    found = {}
    for core, counts in wanted.items():
        replay = _StackReplay(recording, core, counts, program)
        for _ in replay.run():
            pass
        found.update({(core, count): stack for count, stack in replay.stacks.items()})
    return found
