"""Words at which threads have waited by reading them over and over until another wrote there: ad-hoc
synchronisation (Jannesari and Tichy, "Identifying Ad-hoc Synchronization for Enhanced Race Detection", IPDPS
2010, who look for such loops in the program; here they are looked for in what it did)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import READ
from corebraid.study.races.accesses import Shared

#: How often the same value is read at a place, one time after the other, at least, before another one.
_LEAST = 3


@njit(cache=True)
def find_waits(key, who, value, reads, least, found):  # type: ignore[no-untyped-def]
    """Which keys, of a thread, a place and an address, are waited at. key: int64 (n,), of each access;
    who: int64 (n,), threads from 0; value: uint64 (n,); reads: bool (n,). found: bool (keys,), filled in. A
    thread that writes to a shared word in between does not wait."""
    stores = np.zeros(who.max() + 1, np.int64)
    since = np.full(found.size, -1, np.int64)
    last = np.zeros(found.size, np.uint64)
    times = np.zeros(found.size, np.int64)
    for i in range(key.size):
        k, t = key[i], who[i]
        if not reads[i]:
            stores[t] += 1
            continue
        if since[k] != stores[t]:
            since[k], times[k] = stores[t], 0
        if times[k] > 0 and value[i] != last[k]:
            found[k] |= times[k] >= least
            times[k] = 0
        times[k] += 1
        last[k] = value[i]


def waited_at(shared: Shared, n_cores: int) -> list[tuple[int, int]]:
    """(address, bytes) of what is read so."""
    mine = np.flatnonzero(shared.rows["core"] < n_cores)
    if not len(mine):
        return []
    rows = shared.rows[mine]
    _, who = np.unique(shared.who[mine], return_inverse=True)
    keys = np.stack([who.astype(np.uint64), rows["pc"], rows["addr"], rows["size"].astype(np.uint64)], axis=1)
    every, key = np.unique(keys, axis=0, return_inverse=True)
    found = np.zeros(len(every), np.bool_)
    reads: NDArray[np.bool_] = rows["kind"] == READ
    find_waits(key.reshape(-1), who.astype(np.int64), rows["old"].copy(), reads, _LEAST, found)
    return [(address, size) for _, _, address, size in every[found].tolist()]
