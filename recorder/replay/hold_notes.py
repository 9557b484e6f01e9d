"""Whether an order of holds could let two of them overlap that may not, as their rows tell.

Values keep holds apart but for one case: a core only reads a page, and others had it alone meanwhile and left
it as they found it (`emu/hooks/trace_holds.py`). That needs a page that somebody found so, and somebody left
so, while another read it: where there is none, no order of the rows has it, and nobody need look.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import GETS, OF_HOLD, SHARES, TAKES

_Found = list[NDArray[np.uint64]]
#: A page and what it held, as one number: two of them may have the same, and are looked at for nothing.
_MIX = np.uint64(0x9E3779B97F4A7C15)


class HoldNotes:
    """What the rows of some cores' holds found and left, told core by core."""

    def __init__(self) -> None:
        #: By core: what it read, found when it took a page for itself, and left then.
        self._read: dict[int, _Found] = {}
        self._taken: dict[int, _Found] = {}
        self._left: dict[int, _Found] = {}

    def begin(self, core: int) -> None:
        """The rows of this core follow, from the first on."""
        for found in (self._read, self._taken, self._left):
            found[core] = [np.zeros(0, np.uint64)]

    def add(self, core: int, rows: NDArray[np.void]) -> None:
        """Rows of a core, EVENT[n]."""
        holds = rows[rows["flags"] & np.uint8(OF_HOLD) == OF_HOLD]
        what, page = holds["pc"] & np.uint64(3), holds["addr"] * _MIX
        for found, of, field in (
            (self._read, what == GETS, "old"), (self._read, what == SHARES, "new"),
            (self._taken, what == TAKES, "old"), (self._left, what >= SHARES, "new"),
        ):  # fmt: skip
            found[core].append(np.unique(page[of] ^ holds[field][of]))

    def may_overlap(self, cores: int) -> bool:
        """Whether some hold could stand inside another's that may not, or not all of so many cores are
        known."""
        if len(self._read) < cores:
            return True
        for core, read in self._read.items():
            changed = np.intersect1d(self._others(self._taken, core), self._others(self._left, core))
            if len(np.intersect1d(_of([read]), changed)):
                return True
        return False

    @staticmethod
    def _others(found: dict[int, _Found], core: int) -> NDArray[np.uint64]:
        return _of([pieces for other, pieces in found.items() if other != core])


def _of(found: list[_Found]) -> NDArray[np.uint64]:
    pieces = [piece for pieces in found for piece in pieces]
    return np.unique(np.concatenate([np.zeros(0, np.uint64), *pieces]))
