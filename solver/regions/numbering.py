"""Numbers for the values that granules take in a problem."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN

_SPREAD = np.uint64(0xD6E8FEB86659FD93)


@njit(cache=True)
def number_values(granule, old, new, keys, key_granule, values, reads, makers):  # type: ignore[no-untyped-def]
    """Number the pairs of granule and value, and count what comes of each (`Walk`). keys: int32, -1, a power
    of two more than twice the parts; key_granule: the same. Returns how many there are."""
    mask, n = np.uint64(keys.size - 1), 0
    value_of = np.empty(keys.size, np.uint64)
    for p in range(granule.size):
        for side in range(2):
            value = old[p] if side == 0 else new[p]
            # Every bit of both counts: few values stand in thousands of granules.
            slot = ((np.uint64(granule[p]) * _SPREAD) ^ value) * GOLDEN
            slot = (slot ^ (slot >> np.uint64(32))) & mask
            while keys[slot] >= 0 and (key_granule[slot] != granule[p] or value_of[slot] != value):
                slot = (slot + np.uint64(1)) & mask
            if keys[slot] < 0:
                keys[slot], key_granule[slot], value_of[slot] = n, granule[p], value
                n += 1
            values[p, side] = keys[slot]
        if old[p] == new[p]:
            reads[values[p, 0]] += 1
        else:
            makers[values[p, 1]] += 1
    return n
