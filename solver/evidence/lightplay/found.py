"""What a search for the orders of a slice comes back with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Orders that a search lists at most; it counts all.
MOST_LISTED = 4096
#: Interleavings that a permutation back end tries at most for one slice unless told otherwise.
DEFAULT_TRIES = 1 << 28


@dataclass(frozen=True)
class Found:
    """The correct orders of a slice. orders: int64 (k, n), the first ones, at most MOST_LISTED. total: how
    many there are, or at least that many where not all were tried (`exhausted` is False then). work:
    interleavings tried, or cuts explored. backend: "cpu", "cuda" or "cut"."""

    orders: NDArray[np.int64]
    total: int
    exhausted: bool
    work: int
    seconds: float
    backend: str
