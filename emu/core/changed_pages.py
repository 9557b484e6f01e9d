"""Which pages of a core's memory have changed: since somebody asked last, and ever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.core.core import Core
from emu.native.state import CORE_AT

#: Marks of a page.
_CHANGED, _EVER = np.uint8(1), np.uint8(2)


@njit(cache=True)
def _note(dirty, marks, changed, ever, n):  # type: ignore[no-untyped-def]
    """List pages (uint64[]) that are not listed yet. n: int64[2], how many `changed` and `ever` hold."""
    for page in dirty:
        if marks[page] & _CHANGED == np.uint8(0):
            changed[n[0]] = page
            n[0] += 1
        if marks[page] & _EVER == np.uint8(0):
            ever[n[1]] = page
            n[1] += 1
        marks[page] |= _CHANGED | _EVER


class ChangedPages:
    """The pages of one core, brought up to date by `note`: whenever its list of them is about to be emptied
    (a digest), and before one looks."""

    def __init__(self, core: Core) -> None:
        self._core = core
        pages = len(core.memory) // PAGE_BYTES
        self._marks = host_memory(pages)
        self._changed, self._ever = (host_memory(8 * pages).view(np.uint64) for _ in range(2))
        self._n = np.zeros(2, np.int64)

    def note(self) -> None:
        """Take over what the core has listed."""
        core = self._core
        dirty = core.dirty_pages[: core.words[CORE_AT.dirty_n]]
        _note(dirty, self._marks, self._changed, self._ever, self._n)

    @property
    def changed(self) -> NDArray[np.uint64]:
        """Those that changed since `forget`, uint64[n] in no order."""
        return self._changed[: self._n[0]]

    @property
    def ever(self) -> NDArray[np.uint64]:
        """Those that ever did, uint64[n] in no order: all that the core has received."""
        return self._ever[: self._n[1]]

    def received(self) -> NDArray[np.uint64]:
        """All that the core has received by now, uint64[n] in no order."""
        self.note()
        return self.ever

    def forget(self) -> None:
        """Nothing has changed yet."""
        self._marks[self.changed] &= ~_CHANGED
        self._n[0] = 0
