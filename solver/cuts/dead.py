"""The memo of a cut search: cuts from which no way leads on, kept whole, so that it never errs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.cuts.table import cut_slot

_FIRST_SLOTS = 1 << 10


@njit(cache=True)
def insert_cuts(cuts, reasons, keys, filled, why):  # type: ignore[no-untyped-def]
    """Enter cuts into an empty table."""
    for i in range(cuts.shape[0]):
        slot, _ = cut_slot(cuts[i], keys, filled, 1)
        filled[slot] = 1
        keys[slot] = cuts[i]
        why[slot] = reasons[i]


class Dead(NamedTuple):
    """A table of cuts in open addressing. keys: int32 (n, n_streams). filled: uint8 (n,). why: uint64
    (n, 2), the reasons (`solver.cuts.walk`)."""

    keys: NDArray[np.int32]
    filled: NDArray[np.uint8]
    why: NDArray[np.uint64]


class DeadCuts:
    """A table of dead cuts that grows. table: `Dead`."""

    def __init__(self, n_streams: int) -> None:
        self.table = _empty(_FIRST_SLOTS, n_streams)

    @property
    def bytes(self) -> int:
        """Memory that the table takes."""
        return sum(column.nbytes for column in self.table)

    def grow(self) -> None:
        """Make the table four times as large."""
        keys, filled, why = self.table
        self.table = _empty(4 * len(filled), keys.shape[1])
        insert_cuts(keys[filled != 0], why[filled != 0], *self.table)


def _empty(n: int, n_streams: int) -> Dead:
    return Dead(np.zeros((n, n_streams), np.int32), np.zeros(n, np.uint8), np.zeros((n, 2), np.uint64))
