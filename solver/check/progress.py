"""How far a walk has come: an array of counters, int64 (4,), by these names."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: The stream inside an unfinished indivisible access, -1 for none.
UNFINISHED = 0
#: Rows walked.
WALKED = 1
#: The stratum of the last row: later rows are of no earlier one.
STRATUM = 2
#: Words entered in `solver.check.words.Words.touched`.
TOUCHED = 3


def no_progress() -> NDArray[np.int64]:
    """The counters of a walk that begins."""
    return np.array([-1, 0, 0, 0], np.int64)
