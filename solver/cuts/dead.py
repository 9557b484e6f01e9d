"""The memo of a cut search: cuts from which no way leads on, kept whole, so that it never errs."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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


class DeadCuts:
    """A table of cuts in open addressing. keys: int32 (n, n_streams). filled: uint8 (n,). why: uint64
    (n, 2), the reasons (`solver.cuts.walk`)."""

    def __init__(self, n_streams: int) -> None:
        self.keys: NDArray[np.int32] = np.zeros((_FIRST_SLOTS, n_streams), np.int32)
        self.filled: NDArray[np.uint8] = np.zeros(_FIRST_SLOTS, np.uint8)
        self.why: NDArray[np.uint64] = np.zeros((_FIRST_SLOTS, 2), np.uint64)

    @property
    def bytes(self) -> int:
        """Memory that the table takes."""
        return self.keys.nbytes + self.filled.nbytes + self.why.nbytes

    def grow(self) -> None:
        """Make the table four times as large."""
        cuts, reasons = self.keys[self.filled != 0], self.why[self.filled != 0]
        n = len(self.filled) * 4
        self.keys, self.filled = np.zeros((n, cuts.shape[1]), np.int32), np.zeros(n, np.uint8)
        self.why = np.zeros((n, 2), np.uint64)
        insert_cuts(cuts, reasons, self.keys, self.filled, self.why)
