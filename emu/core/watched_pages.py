"""The pages of a replayed core whose accesses are traced, from one moment to the next."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.core.core import Core, flush_tlb
from emu.hooks.trace import trace_made_alone
from emu.hooks.watch import KEPT, LATER, WATCHED
from emu.native.state import CORE_AT, address_of

Pages = NDArray[np.uint64]


@njit(cache=True)
def _tell(rows, pages, kept):  # type: ignore[no-untyped-def]
    """Add rows of what became of pages (uint64[n]) whose bytes were `kept` (uint8[n, PAGE_BYTES]). Returns
    how many pages were told of before the trace was full."""
    core = rows[0]
    for k in range(pages.size):
        if core.trace_n >= core.trace_limit:
            return k
        trace_made_alone(core, pages[k], kept[k])
    return pages.size


class WatchedPages:
    """Which pages of a core are traced (`emu.hooks.watch`). ever: those that will be at some time, uint64[n],
    ascending. marking: accesses to others are traced too, by a hook on all, and marked. Before the core's
    first run."""

    def __init__(self, core: Core, ever: Pages, *, marking: bool) -> None:
        self._core = core
        self._marks = host_memory(len(core.memory) // PAGE_BYTES)
        self._marks[ever] = LATER
        self._kept = host_memory(max(1, len(ever)) * PAGE_BYTES).reshape(-1, PAGE_BYTES)
        self._kept_pages = np.zeros(max(1, len(ever)), np.uint64)
        self._watched = np.zeros(0, np.uint64)
        self._told, self._before = np.zeros(0, np.uint64), np.zeros((0, PAGE_BYTES), np.uint8)
        row = core.row
        row["watched"], row["kept"] = address_of(self._marks), address_of(self._kept)
        row["kept_pages"] = address_of(self._kept_pages)
        row["marking"] = marking
        if not marking:
            core.tell_of_accesses()

    def watch(self, pages: Pages) -> None:
        """From now on these pages are traced, uint64[n], ascending, and no others; what became of them before
        has been told (`choose`, `tell`)."""
        if not np.array_equal(pages, self._watched):
            self._marks[self._watched] &= ~WATCHED
            self._marks[pages] |= WATCHED
            self._watched = pages
            flush_tlb(self._core.rows)

    def choose(self, pages: Pages) -> None:
        """Before `watch` of these pages: what the core has made of them alone is to be told."""
        n = int(self._core.words[CORE_AT.kept_n])
        kept_pages, kept = self._kept_pages[:n], self._kept[:n]
        chosen = np.isin(kept_pages, pages)
        order = np.argsort(kept_pages[chosen])
        self._told, self._before = kept_pages[chosen][order], kept[chosen][order]
        self._marks[self._told] &= ~KEPT
        left = n - len(self._told)
        if left < n:
            self._kept_pages[:left], self._kept[:left] = kept_pages[~chosen], kept[~chosen]
            self._core.row["kept_n"] = left

    def tell(self) -> bool:
        """Add rows of what was chosen. Whether all are there: if not, the trace must be taken first."""
        done = _tell(self._core.rows, self._told, self._before)
        self._told, self._before = self._told[done:], self._before[done:]
        return not len(self._told)
