"""Open addressing for cuts and other rows of small integers. Keys are compared whole: a table never errs."""

from __future__ import annotations

import numpy as np

from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.kernels import inner


@inner
def row_hash(row, length, run):  # type: ignore[no-untyped-def]
    """Hash (uint64) of the first `length` of `row` (int32), entry `run` counted one higher (-1: none)."""
    h = np.uint64(0)
    for i in range(length):
        h = (h ^ np.uint64(np.uint32(row[i] + (1 if i == run else 0)))) * GOLDEN
        h ^= h >> np.uint64(29)
    return h


@inner
def cut_slot(position, keys, stamp, now):  # type: ignore[no-untyped-def]
    """(slot, found) of a cut in a table that holds its keys: where it is, or where it belongs. keys: int32
    (n, S). stamp: (n,); a slot is filled if its stamp is `now`."""
    mask = np.uint64(stamp.size - 1)
    slot = row_hash(position, position.size, -1) & mask
    while stamp[slot] == now:
        same = True
        for s in range(position.size):
            if keys[slot, s] != position[s]:
                same = False
                break
        if same:
            return np.int64(slot), True
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot), False


@inner
def node_slot(position, run, keys, table, least):  # type: ignore[no-untyped-def]
    """Slot of the cut after `position` with one more operation of stream `run` (-1: none) in a table of
    nodes: the one that holds its number, or an empty one. keys: int32 (n, S), the nodes' cuts. table: int32;
    numbers below `least` count as empty."""
    mask = np.uint64(table.size - 1)
    slot = row_hash(position, position.size, run) & mask
    while table[slot] >= least:
        node, same = table[slot], True
        for s in range(position.size):
            if keys[node, s] != position[s] + (1 if s == run else 0):
                same = False
                break
        if same:
            break
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot)
