"""What a miss record of a page carries: how many lines of it differ, which, and their bytes (docs/format.md,
section 4)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.rows.record import PAGE_LINE, PAGE_LINES

#: Why bytes are none: they are too few; lines are out of order, or not in the page.
NO_BYTES, BAD_LINES = -21, -22


@njit(cache=True)
def page_miss_size(data, start):  # type: ignore[no-untyped-def]
    """Bytes that the record carries (data: uint8[], from `start` on), or why it cannot be one."""
    if start >= data.shape[0]:
        return np.int64(NO_BYTES)
    n = np.int64(data[start])
    size = 1 + n * (1 + PAGE_LINE)
    if n > PAGE_LINES:
        return np.int64(BAD_LINES)
    if size > data.shape[0] - start:
        return np.int64(NO_BYTES)
    for k in range(n):
        number = data[start + 1 + k]
        if number >= PAGE_LINES or (k > 0 and number <= data[start + k]):
            return np.int64(BAD_LINES)
    return size
