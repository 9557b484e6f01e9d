"""The pages of a replayed core whose accesses are traced, from one moment to the next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import ALONE, UNCOUNTED
from emu.bus.losses import DOWNGRADED
from emu.core.core import Core
from emu.core.running import flush_tlb
from emu.hooks.trace import trace_made_alone
from emu.hooks.trace_holds import close_spell, end_hold, open_spell, resume_hold
from emu.hooks.watch import BY_HOLDS, KEPT, LATER, WATCHED
from emu.native.state import address_of

Pages = NDArray[np.uint64]

#: A mark of a page, beside those of `emu.hooks.watch`, while it is looked for.
_TAKEN = np.uint8(8)
#: And of one whose rows are not counted.
_OTHERS = np.uint8(16)
_WORD = 8


@njit(cache=True)
def _tell(rows, marks, pages, kept, order):  # type: ignore[no-untyped-def]
    """Add rows of what became of pages (uint64[n]) whose bytes were `kept` (uint8[n, PAGE_BYTES]), in this
    order (int64[n]). Returns how many pages were told of before the trace was full."""
    core = rows[0]
    for k in range(order.size):
        if core.trace_n >= core.trace_limit:
            return k
        page = pages[order[k]]
        flags = ALONE | UNCOUNTED if marks[page] & _OTHERS else ALONE
        trace_made_alone(core, page, kept[order[k]], flags)
    return order.size


@njit(cache=True)
def take_kept(rows, marks, pages, kept, taken):  # type: ignore[no-untyped-def]
    """Move what is kept of `pages` (uint64[n]) from one pair (uint64[n], uint8[n, PAGE_BYTES]) of pages and
    their bytes to another, in no order. Returns how many that were."""
    left_to_take = 0
    for page in pages:
        if marks[page] & KEPT:
            marks[page] |= _TAKEN
            left_to_take += 1
    n, left, k = 0, np.int64(rows[0].kept_n), 0
    while n < left_to_take:
        page = kept[0][k]
        if marks[page] & _TAKEN == np.uint8(0):
            k += 1
            continue
        marks[page] &= ~(KEPT | _TAKEN)
        taken[0][n] = page
        taken[1][n] = kept[1][k]
        n += 1
        left -= 1
        kept[0][k] = kept[0][left]
        kept[1][k] = kept[1][left]
    rows[0].kept_n = np.uint64(left)
    return n


@njit(cache=True)
def _open(rows, pages, mine):  # type: ignore[no-untyped-def]
    for k in range(pages.size):
        open_spell(rows[0], pages[k], mine[k])


@njit(cache=True)
def _close(rows, pages, mine):  # type: ignore[no-untyped-def]
    for k in range(pages.size):
        close_spell(rows[0], pages[k], mine[k])


@njit(cache=True)
def _share(rows, pages, first):  # type: ignore[no-untyped-def]
    """The core tells of those of pages (uint64[n]), from `first` on, that it has alone, as if it lost the
    right to write to them. Returns how many were looked at before the trace was full."""
    core = rows[0]
    for k in range(first, pages.size):
        if core.trace_n >= core.trace_limit:
            return k
        end_hold(core, pages[k], DOWNGRADED)
    return pages.size


@njit(cache=True)
def _resume(rows, pages):  # type: ignore[no-untyped-def]
    for page in pages:
        resume_hold(rows[0], page)


class Watching(NamedTuple):
    """What is asked of a traced core. ever: pages that are watched at some time, uint64[n], ascending.
    uncounted: those of them whose rows are UNCOUNTED. marking: accesses to other pages are traced too, by a
    hook on all, and marked. gains: what comes with a page is traced, too. by_holds: pages, uint64[n], of
    which not accesses but holds are rows (`emu.hooks.trace_holds`); the core must be told of its losses
    then; spells: it will be so of others too (`WatchedPages.open_spells`). words: addresses of words of those
    that agents use, uint64[n], ascending: they are told apart."""

    ever: Pages
    uncounted: Pages
    marking: bool
    gains: bool
    by_holds: Pages
    spells: bool
    words: NDArray[np.uint64]


class WatchedPages:
    """Which pages of a core are traced (`emu.hooks.watch`). Before the core's first run."""

    def __init__(self, core: Core, asked: Watching) -> None:
        self._core, ever = core, asked.ever
        self._marks = host_memory(len(core.memory) // PAGE_BYTES)
        self._marks[ever] = LATER
        self._marks[asked.uncounted] |= _OTHERS
        self._kept, self._told = _room(len(ever)), _room(len(ever))
        self._order = np.zeros(0, np.int64)
        self._shared, self._sharing = 0, np.zeros(0, np.uint64)
        self._watched = np.zeros(0, np.uint64)
        row = core.row
        row["watched"], row["kept"] = address_of(self._marks), address_of(self._kept[1])
        row["kept_pages"] = address_of(self._kept[0])
        row["marking"], row["gains"] = asked.marking, asked.gains
        self._marks[asked.by_holds] = self._marks[asked.by_holds] & ~LATER | BY_HOLDS
        self._held = host_memory(len(core.memory) // PAGE_BYTES * _WORD).view(np.uint64)
        row["holds"] = address_of(self._held) if len(asked.by_holds) or asked.spells else 0
        self._use_words(asked.words)
        if not asked.marking:
            core.tell_of_accesses()

    def watch(self, pages: Pages) -> None:
        """From now on these pages are traced, uint64[n], ascending, and no others; what became of them before
        has been told (`choose`, `tell`)."""
        if not np.array_equal(pages, self._watched):
            self._marks[self._watched] &= ~WATCHED
            self._marks[pages] |= WATCHED
            self._watched = pages
            flush_tlb(self._core.rows)

    def open_spells(self, pages: Pages, mine: NDArray[np.bool_], words: Pages) -> None:
        """From now on holds of these pages are rows, uint64[n], no accesses. mine: bool[n], which this core
        has alone, so that it tells what they hold; the trace must have room for that. words: from now on, of
        all pages."""
        self._use_words(words)
        _open(self._core.rows, pages, mine)
        flush_tlb(self._core.rows)

    def close_spells(self, pages: Pages, mine: NDArray[np.bool_], words: Pages) -> None:
        """The same where it is accesses again."""
        _close(self._core.rows, pages, mine)
        self._use_words(words)
        flush_tlb(self._core.rows)

    def _use_words(self, words: Pages) -> None:
        self._words = words.copy()
        row = self._core.row
        row["agents_words"], row["agents_words_n"] = address_of(self._words), len(self._words)

    def choose(self, pages: Pages) -> None:
        """Before `watch` of these pages: what the core has made of them alone is to be told."""
        n = take_kept(self._core.rows, self._marks, pages, self._kept, self._told)
        self._order = np.argsort(self._told[0][:n])

    def tell(self) -> bool:
        """Add rows of what was chosen. Whether all are there: if not, the trace must be taken first."""
        done = _tell(self._core.rows, self._marks, *self._told, self._order) if len(self._order) else 0
        self._order = self._order[done:]
        if not len(self._order) and self._shared < len(self._sharing):
            self._shared = _share(self._core.rows, self._sharing, self._shared)
        return not len(self._order) and self._shared == len(self._sharing)

    def hand_over(self, ever: Pages, by_holds: Pages) -> None:
        """In place of `choose`, at a handover: all that the core has made is to be told, of pages that are
        watched at some time (uint64[n], ascending) and of those of which holds are rows (uint64[m])."""
        self.choose(ever)
        self._shared, self._sharing = 0, by_holds
        # Whatever the core stores to next is to be asked about again.
        flush_tlb(self._core.rows)

    def take_over(self, pages: Pages) -> None:
        """The core begins at a handover: of these pages (uint64[n]) holds are rows, and it has them."""
        _resume(self._core.rows, pages)


def _room(n: int) -> tuple[Pages, NDArray[np.uint8]]:
    """For n pages and their bytes."""
    return np.zeros(max(1, n), np.uint64), host_memory(max(1, n) * PAGE_BYTES).reshape(-1, PAGE_BYTES)
