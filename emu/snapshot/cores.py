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
from emu.bus.line_state import forgotten_too, received
from emu.core.core import Core
from emu.native.recursion import notes, set_notes
from emu.native.state import CODE, CORE_AT, DIRTY, PADDED, UNSTABLE
from emu.snapshot.arenas import SavedArena

#: Words of a core that say what it knows of code, or serve speed alone.
_LEARNT = (
    "table", "key_mask", "key_shift", "infos", "unstable", "offsets", "code_bytes", "entries", "known",
    "known_limit", "offsets_n", "offsets_limit", "code_n", "code_limit", "tlb_wanted", "fills",
)  # fmt: skip
_PLACES = tuple(getattr(CORE_AT, name) for name in _LEARNT)


class _Pages(NamedTuple):
    """Pages of a core's memory: their numbers (uint64[n]), bytes (uint8[n, lines, line bytes]), bytes of
    their lines' states (uint8[n, lines]) and flags (uint8[n])."""

    numbers: NDArray[np.uint64]
    content: NDArray[np.uint8]
    states: NDArray[np.uint8]
    flags: NDArray[np.uint8]


@dataclass(frozen=True)
class Learnt:
    """What a core knows of code when it is about to be restored. words: of `_LEARNT`."""

    pages: _Pages
    words: list[int]
    coprocessor: bool


class Arenas:
    """The arenas of a machine, by what lies in them."""

    def __init__(self, arenas: list[SavedArena]) -> None:
        self._arenas = arenas

    def keep(self, place: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
        """From now on `data` is what `place`, a part of one of them, is restored to."""
        address = int(place.ctypes.data)
        for arena in self._arenas:
            first, size = arena.extent
            if first <= address < first + size:
                arena.keep(address - first, data)
                return
        raise ValueError(f"no arena has {address:#x}")


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
            self._keep_code(learnt.pages, self._pages(learnt.pages.numbers), arenas)
        core.protect_again()

    def _pages(self, numbers: NDArray[np.uint64]) -> _Pages:
        core = self._core
        content = core.memory.reshape(-1, self._lines, PAGE_BYTES // self._lines)[numbers]
        states = core.line_state.reshape(-1, self._lines)[numbers]
        return _Pages(numbers, content, states, core.page_flags[numbers])

    def _keep_code(self, late: _Pages, then: _Pages, arenas: Arenas) -> None:
        """late: pages of code as they were at the end. then: as they are restored."""
        had = received(then.states)
        content = np.where(had[..., None], then.content, late.content)
        states = np.where(had, then.states, forgotten_too(then.states, late.states))
        flags = then.flags | late.flags & np.uint8(CODE | PADDED | UNSTABLE)
        changed = had & (then.content != late.content).any(axis=2)
        flags |= np.where(changed.any(axis=1), np.uint8(UNSTABLE), np.uint8(0))
        core = self._core
        if changed.any():
            core.words[CORE_AT.unstable] = 1
        for k in np.flatnonzero(changed.any(axis=1)).tolist():
            first = int(late.numbers[k]) * PAGE_BYTES
            core.forget_code(first, first + PAGE_BYTES)
        new = (content != then.content).any(axis=(1, 2)) | (states != then.states).any(axis=1)
        new |= flags != then.flags
        for k in np.flatnonzero(new).tolist():
            number = int(late.numbers[k])
            first, line = number * PAGE_BYTES, number * self._lines
            arenas.keep(core.memory[first:], content[k].ravel())
            arenas.keep(core.line_state[line:], states[k])
            arenas.keep(core.page_flags[number:], flags[k : k + 1])
