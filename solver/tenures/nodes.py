"""Which rows become nodes, and where the writes of a line and stream are among them: kernels on columns."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def number_rows(firsts, lasts, wrote, base, first, last, node, rows):  # type: ignore[no-untyped-def]
    """Number the rows of one stream that begin or end a tenure, or write, from 0 in ascending order.

    firsts, lasts, wrote: int64, ascending. first, last, node: int64 of the same lengths, filled with the
    numbers of those rows. rows: int64, filled from `base` on with the rows. Returns how many there are.
    """
    n, i, j, k = 0, 0, 0, 0
    while i < firsts.size or j < lasts.size or k < wrote.size:
        row = np.int64(np.iinfo(np.int64).max)
        if i < firsts.size:
            row = min(row, firsts[i])
        if j < lasts.size:
            row = min(row, lasts[j])
        if k < wrote.size:
            row = min(row, wrote[k])
        while i < firsts.size and firsts[i] == row:
            first[i] = n
            i += 1
        while j < lasts.size and lasts[j] == row:
            last[j] = n
            j += 1
        while k < wrote.size and wrote[k] == row:
            node[k] = n
            k += 1
        rows[base + n] = row
        n += 1
    return n


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
