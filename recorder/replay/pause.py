"""Isolated replay up to some instruction counts, to look at the core there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from recorder.replay.driver import CODE_WINDOW
from recorder.replay.seek import start_of
from recorder.replay.start import Start


@dataclass(frozen=True)
class CoreState:
    """A core at an instruction count. registers: name and value, in the ISA table's order. code: the
    bytes at `pc`, as the core sees them. wide: the registers of more than 8 bytes."""

    core: int
    count: int
    pc: int
    registers: dict[str, int]
    code: bytes
    wide: frozenset[str]


#: Called with a core where a replay has stopped, and its memory, uint8[n], as it is as long as that lasts.
Look = Callable[[CoreState, NDArray[np.uint8]], None]


class PausedReplay(CoreReplay):
    """A replay that looks at the core before the instructions `counts` (instructions retired), and ends at
    the last. look: called at each. Stores that are in the store buffer there have the bytes as old ones that
    they would overwrite if they committed there.
    """

    def __init__(
        self,
        recording: Recording,
        core: int,
        counts: Iterable[int],
        *,
        traced: bool = False,
        start: Start | None = None,
        look: Look | None = None,
    ) -> None:
        self._look = look
        stops = sorted(set(counts))
        super().__init__(recording, core, traced=traced, stops=stops, start=start)
        #: The core at each of the counts that it came to.
        self.states: dict[int, CoreState] = {}

    def state(self, count: int) -> CoreState:
        """The core at one of the counts. Raises UsageError if it never came so far."""
        if count not in self.states:
            raise UsageError(
                "the core never comes so far",
                expected=Phrase(Option("until"), f" at most {self.result.count}"),
                found=str(count),
                where=f"core {self.result.core}",
                remedy="give an earlier count",
            )
        return self.states[count]

    def _over(self) -> bool:
        return bool(self._stops) and self._stops[-1] in self.states

    def _stop(self, count: int) -> None:
        core = self._core.core
        context, isa = core.context(), self._isa
        pc = isa.read(context, isa.program_counter)
        registers = {register.name: isa.read(context, register.name) for register in isa.registers}
        code = core.memory[pc : pc + CODE_WINDOW].tobytes() if pc < len(core.memory) else b""
        wide = frozenset(one.name for one in isa.registers if one.size > 8)
        self.states[count] = CoreState(self._number, count, pc, registers, code, wide)
        if self._look is not None:
            self._look(self.states[count], core.memory)


def states_at(
    recording: Recording, core: int, counts: Iterable[int], look: Look | None = None
) -> dict[int, CoreState]:
    """The core before these instructions, by one replay from the last checkpoint before them; without those
    that it never comes to. look: called at each. Raises Divergence, FormatError."""
    counts = sorted(counts)
    replay = PausedReplay(recording, core, counts, start=start_of(recording, core, counts), look=look)
    for _ in replay.run():
        pass
    return replay.states
