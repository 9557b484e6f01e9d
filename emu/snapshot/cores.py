"""A core as it was at one moment, but for what was learnt of its code since.

The emulator keeps its translations, and the block table the blocks that it knows. They are good for the same
bytes again: so lines of code that the core has received since keep their bytes, though it has not received
them (`emu.bus.line_state.FORGOTTEN`). Whoever fetches one misses on it as the first time, and finds what is
there already. Where bytes that the core did have by then were changed, what was translated of them is thrown
away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.memory import PAGE_BYTES
from emu.core.core import Core
from emu.native.recursion import notes, set_notes
from emu.native.state import CODE, CORE_AT, DIRTY, PADDED
from emu.snapshot.arenas import Arenas
from emu.snapshot.code_pages import CHANGED, KEPT, keep_code

#: Words of a core that say what it knows of code, or serve speed alone.
_LEARNT = (
    "table", "key_mask", "key_shift", "infos", "unstable", "offsets", "code_bytes", "entries", "known",
    "known_limit", "offsets_n", "offsets_limit", "code_n", "code_limit", "tlb_wanted", "fills",
)  # fmt: skip
_PLACES = tuple(getattr(CORE_AT, name) for name in _LEARNT)


class _Pages(NamedTuple):
    """Pages of a core's memory: their numbers (uint64[n]), words (uint64[n, lines, words of a line]), bytes
    of their lines' states (uint8[n, lines]) and flags (uint8[n])."""

    numbers: NDArray[np.uint64]
    content: NDArray[np.uint64]
    states: NDArray[np.uint8]
    flags: NDArray[np.uint8]


@dataclass(frozen=True)
class Learnt:
    """What a core knows of code when it is about to be restored. words: of `_LEARNT`."""

    pages: _Pages
    words: list[int]
    coprocessor: bool


class SavedCore:
    """A core that stands between two slices. What is in arrays is kept elsewhere."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # From here on every page that changes is listed.
        core.page_flags[core.dirty_pages[: core.words[CORE_AT.dirty_n]]] &= np.uint8(~DIRTY & 0xFF)
        core.words[CORE_AT.dirty_n] = 0
        core.forget_stale()
        core.protect_again()
        self._lines = PAGE_BYTES >> core.words[CORE_AT.line_shift]
        self._engine, self._notes = core.save_engine(), notes(np.uint64(core.handle))

    def learnt(self) -> Learnt:
        """To be asked before anything is restored."""
        core = self._core
        core.forget_stale()
        dirty = core.dirty_pages[: core.words[CORE_AT.dirty_n]]
        pages = self._pages(dirty[core.page_flags[dirty] & (CODE | PADDED) != 0])
        return Learnt(pages, [core.words[place] for place in _PLACES], core.coprocessor)

    def restore(self, learnt: Learnt, arenas: Arenas) -> None:
        """Everything else is: registers, and what was learnt."""
        core = self._core
        core.restore_engine(self._engine)
        set_notes(np.uint64(core.handle), self._notes)
        for place, word in zip(_PLACES, learnt.words, strict=True):
            core.words[place] = word
        core.coprocessor = learnt.coprocessor
        if len(learnt.pages.numbers):
            self._keep_code(learnt.pages, arenas)
        core.protect_again()

    def _pages(self, numbers: NDArray[np.uint64]) -> _Pages:
        core = self._core
        content = core.memory.view(np.uint64).reshape(-1, self._lines, PAGE_BYTES // self._lines // 8)
        states = core.line_state.reshape(-1, self._lines)
        return _Pages(numbers, content[numbers], states[numbers], core.page_flags[numbers])

    def _keep_code(self, late: _Pages, arenas: Arenas) -> None:
        """late: pages of code as they were in the end; they are as they were then by now."""
        core, found = self._core, np.zeros(len(late.numbers), np.uint8)
        keep_code(*late, core.memory.view(np.uint64), core.line_state, core.page_flags, found)
        for number in late.numbers[found & CHANGED != 0].tolist():
            core.words[CORE_AT.unstable] = 1
            core.forget_code(number * PAGE_BYTES, (number + 1) * PAGE_BYTES)
        for k in np.flatnonzero(found & KEPT).tolist():
            number = int(late.numbers[k])
            arenas.keep(core.memory[number * PAGE_BYTES :], late.content[k].view(np.uint8).ravel())
            arenas.keep(core.line_state[number * self._lines :], late.states[k])
            arenas.keep(core.page_flags[number:], late.flags[k : k + 1])
