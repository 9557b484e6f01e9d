"""A miss proves a foreign write (`solver.tenures.misses`), under TSO: between the last accesses of a tenure,
of both of its chains, and the record that begins the core's next one on the line."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.tenures.buffered_lines import Followed
from solver.tenures.clocks import first_after, first_write, learn
from solver.tenures.scan import MISSED


def parts_before(found: Followed, n_cores: int) -> NDArray[np.int64]:
    """For each part of a tenure that leads it, where that began with a miss: the parts of the tenure that the
    same core had on the line before, in the same region; int64 (n_parts, 2), -1 for none and of others."""
    t, parts = found.tenures, found.parts
    before = np.full((len(t.line), 2), -1, np.int64)
    core = np.where(t.stream > n_cores, t.stream - n_cores - 1, t.stream)
    mine = np.flatnonzero(t.begin >= 0)
    by = mine[np.lexsort((parts.tenure[mine], t.line[mine], core[mine]))]
    new = np.concatenate([[True], np.diff(parts.tenure[by]) != 0])[: len(by)]
    group = np.cumsum(new) - 1
    leaders = by[new]
    pairs = np.full((len(leaders) + 1, 2), -1, np.int64)
    pairs[group, (t.stream[by] > n_cores).astype(np.int64)] = by
    same = np.zeros(len(leaders), np.bool_)
    same[1:] = (t.line[leaders][1:] == t.line[leaders][:-1]) & (core[leaders][1:] == core[leaders][:-1])
    wanted = parts.lead[by] & (t.how[by] == MISSED) & same[group]
    before[by[wanted]] = pairs[group[wanted] - 1]
    return before


@njit(cache=True, nogil=True)
def _between(k, before, t, p, c, earliest, latest):  # type: ignore[no-untyped-def]
    """For every stream the nodes of the first and the last write that may lie between the parts `before` of a
    tenure and the record of tenure k, -1 for none. Returns whether there is any."""
    n_streams, b = c.clock.shape[1], p.begins[k]
    found = False
    for u in range(n_streams):
        earliest[u] = latest[u] = -1
        begin, end = p.ptr[t.line[k] * n_streams + u], p.ptr[t.line[k] * n_streams + u + 1]
        if p.owner[u] == p.owner[b] or begin == end:
            continue
        low = begin
        for part in before:
            if part >= 0:
                low = max(low, first_write(p, begin, end, c.clock[c.ptr[t.stream[part]] + p.last[part], u]))
        high = first_write(p, begin, end, first_after(c, u, b, p.first[k]))
        if low < high:
            earliest[u], latest[u] = p.node[low], p.node[high - 1]
            found = True
    return found


@njit(cache=True, nogil=True)
def _some_before(c, nodes, t, j):  # type: ignore[no-untyped-def]
    """One of these nodes, one a stream or -1, comes before node j of stream t: so does what comes before all
    of them."""
    for v in range(nodes.size):
        least = np.int64(2147483647)
        for u in range(nodes.size):
            if nodes[u] >= 0:
                least = min(least, nodes[u] + 1 if u == v else np.int64(c.clock[c.ptr[u] + nodes[u], v]))
        if v != t and least > 0:
            learn(c, v, least - 1, t, j)


@njit(cache=True, nogil=True)
def _some_after(c, nodes, s, i):  # type: ignore[no-untyped-def]
    """One of these nodes comes after node i of stream s: so does what comes after all of them."""
    for v in range(nodes.size):
        if v == s:
            continue
        node = np.int64(0)
        for u in range(nodes.size):
            if nodes[u] >= 0:
                node = max(node, nodes[u] if u == v else first_after(c, v, u, nodes[u]))
        if c.ptr[v] + node < c.ptr[v + 1]:
            learn(c, s, i, v, node)


@njit(cache=True, nogil=True)
def apply_buffered_misses(t, p, c, before):  # type: ignore[no-untyped-def]
    """One sweep over all parts of tenures (`Tenures`, `Places`, `Clocks`). before: of `parts_before`. Returns
    a part whose miss nobody can have caused, -1 if there is none."""
    n_streams = c.clock.shape[1]
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for k in range(t.line.size):
        if before[k, 0] < 0 and before[k, 1] < 0:
            continue
        if not _between(k, before[k], t, p, c, earliest, latest):
            return k
        _some_before(c, earliest, p.begins[k], p.first[k])
        for part in before[k]:
            if part >= 0:
                _some_after(c, latest, np.int64(t.stream[part]), p.last[part])
    return -1
