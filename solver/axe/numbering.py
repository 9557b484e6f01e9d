"""Numbers for values: as `np.unique` with the inverse, in time linear in the number of values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN


@njit(cache=True)
def enter_values(values, number, table, distinct):  # type: ignore[no-untyped-def]
    """Number values (uint64) as they come: into `number` (int32); `distinct` (uint64) has them. table: int32,
    -1, a power of two long. Returns how many there are; -1 if the table or `distinct` is too small."""
    count, mask, shift = 0, table.size - 1, 64
    while (1 << (64 - shift)) < table.size:
        shift -= 1
    for i in range(values.size):
        slot = np.int64((values[i] * GOLDEN) >> np.uint64(shift))
        while table[slot] >= 0 and distinct[table[slot]] != values[i]:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            if count == distinct.size:
                return -1
            table[slot] = count
            distinct[count] = values[i]
            count += 1
        number[i] = table[slot]
    return count


def _power(least: int) -> int:
    return 1 << (least - 1).bit_length()


def numbered(values: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """(the distinct values, ascending; for each value its place among them, int32). values: uint64 (n,)."""
    room, number = 256, np.empty(len(values), np.int32)
    while True:
        distinct = np.empty(room, np.uint64)
        count = enter_values(values, number, np.full(_power(2 * room), -1, np.int32), distinct)
        if count >= 0:
            break
        room = min(16 * room, max(256, len(values)))
    order = np.argsort(distinct[:count])
    place = np.empty(count, np.int32)
    place[order] = np.arange(count, dtype=np.int32)
    return distinct[:count][order], place[number]
