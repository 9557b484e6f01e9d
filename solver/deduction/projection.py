"""One granule by itself: the cuts of a region as its accesses see them, exactly.

A legal order, restricted to the accesses of one granule, is a path in the granule's own graph of cuts (one
rank per segment, `solver.deduction.chains`). So a cut whose projection cannot reach the end there is dead,
and what comes before what on every path there must come before it in every legal order. A region of many
granules has a huge graph; those of its granules are small.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.cuts.table import node_slot
from solver.deduction.rules import reach_to


@inner
def may_step(rank, k, first, end, clock, c):  # type: ignore[no-untyped-def]
    """Whether what must precede the next access of segment `first` + k has run, as far as the granule
    shows."""
    op = c.access_op[c.access_ptr[first + k] + rank[k]]
    for j in range(end - first):
        at = c.access_ptr[first + j] + rank[j]
        waiting = j != k and at < c.access_ptr[first + j + 1]
        if waiting and c.access_op[at] < clock[op, c.segment_stream[first + j]]:
            return False
    return True


@njit(cache=True)
def project(g, clock, most, c):  # type: ignore[no-untyped-def]
    """The graph of granule g: (ranks int32 (n, segments), alive bool (n,), whether it has at most `most`
    nodes). Not alive at all if it has no path to the end."""
    first, end = c.segment_ptr[g], c.segment_ptr[g + 1]
    n_segments = end - first
    room = 64
    rank, child = np.zeros((room, n_segments), np.int32), np.empty((room, n_segments), np.int32)
    value = np.empty(room, np.uint64)
    table = np.full(256, -1, np.int32)
    value[0] = c.initial[g]
    table[node_slot(rank[0], -1, rank, table, 0)] = 0
    total = c.access_ptr[end] - c.access_ptr[first]
    n, i = 1, 0
    while i < n:
        if n > most:
            return rank[:0], np.zeros(0, np.bool_), False
        if n + n_segments > room:
            room *= 4
            wider, children = np.zeros((room, n_segments), np.int32), np.empty((room, n_segments), np.int32)
            values = np.empty(room, np.uint64)
            wider[:n], children[:n], values[:n] = rank[:n], child[:n], value[:n]
            rank, child, value = wider, children, values
            table = np.full(4 * room, -1, np.int32)
            for node in range(n):
                table[node_slot(rank[node], -1, rank, table, 0)] = node
        for k in range(n_segments):
            child[i, k] = -1
            at = c.access_ptr[first + k] + rank[i, k]
            if at == c.access_ptr[first + k + 1] or c.access_old[at] != value[i]:
                continue
            if not may_step(rank[i], k, first, end, clock, c):
                continue
            slot = node_slot(rank[i], k, rank, table, 0)
            if table[slot] < 0:
                rank[n] = rank[i]
                rank[n, k] += 1
                value[n] = c.access_new[at]
                table[slot] = n
                n += 1
            child[i, k] = table[slot]
        i += 1
    alive = np.zeros(n, np.bool_)
    # Nodes come by number of accesses run, so the last one is the end if that can be reached.
    alive[n - 1] = rank[n - 1].sum() == total and value[n - 1] == c.final[g]
    for i in range(n - 2, -1, -1):
        for k in range(n_segments):
            if child[i, k] >= 0 and alive[child[i, k]]:
                alive[i] = True
                break
    return rank[:n], alive, True


@njit(cache=True)
def raise_from_projection(g, rank, alive, clocks, f, news, c):  # type: ignore[no-untyped-def]
    """Note what comes before what on every path of granule g. f, news: `solver.deduction.rules`."""
    first, end = c.segment_ptr[g], c.segment_ptr[g + 1]
    n_segments, base = end - first, c.access_ptr[first]
    low = np.full((c.access_ptr[end] - base, n_segments), np.int32(1 << 30), np.int32)
    for i in range(rank.shape[0]):
        if alive[i]:
            for k in range(n_segments):
                if rank[i, k] > 0:
                    a = c.access_ptr[first + k] - base + rank[i, k] - 1
                    for j in range(n_segments):
                        low[a, j] = min(low[a, j], rank[i, j])
    for k in range(n_segments):
        for at in range(c.access_ptr[first + k + 1] - 1, c.access_ptr[first + k] - 1, -1):
            for j in range(n_segments):
                if at + 1 < c.access_ptr[first + k + 1]:
                    low[at - base, j] = min(low[at - base, j], low[at + 1 - base, j])
                if j != k and low[at - base, j] > 0:
                    x = c.access_op[c.access_ptr[first + j] + low[at - base, j] - 1]
                    reach_to(clocks, c.access_op[at], c.op_stream[x], x + 1, f, news)
