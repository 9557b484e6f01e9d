"""What nodes know of their own streams, and where the writes of a line and stream are among them."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit


@njit(cache=True, nogil=True)
def own_order(ptr, clock):  # type: ignore[no-untyped-def]
    """Of its own stream every node knows the nodes before it. ptr: int64 (n_streams + 1,), where the nodes of
    each stream begin. clock: int32 (n, n_streams), all 0."""
    for s in range(ptr.size - 1):
        for j in range(ptr[s + 1] - ptr[s]):
            clock[ptr[s] + j, s] = j


@njit(cache=True, nogil=True)
def sort_writes(line, stream, tenure, n_streams, ptr, by, final):  # type: ignore[no-untyped-def]
    """Sort writes by line and stream, and leave their order otherwise. line, stream: of the tenures; tenure:
    int32 (n,), of each write. ptr: int64 (n_lines * n_streams + 1,), all 0, filled with where those of each
    line and stream begin. by: int64 (n,), filled. final: bool (n,), sorted: whether it is the last of its
    tenure, whose writes stand together."""
    for k in tenure:
        ptr[np.int64(line[k]) * n_streams + stream[k] + 1] += 1
    for key in range(ptr.size - 1):
        ptr[key + 1] += ptr[key]
    # Each entry runs ahead to where the next one begins, and is put back.
    for w in range(tenure.size):
        key = np.int64(line[tenure[w]]) * n_streams + stream[tenure[w]]
        by[ptr[key]] = w
        ptr[key] += 1
    for key in range(ptr.size - 1, 0, -1):
        ptr[key] = ptr[key - 1]
    ptr[0] = 0
    for at in range(by.size):
        final[at] = at + 1 == by.size or tenure[by[at]] != tenure[by[at + 1]]
