"""An order of operations made to keep `Problem.edges`, by engines whose evidence says nothing of them.

Their evidence says which access saw which. Orders that agree on that for every granule are equivalent (MICRO
2009, Figure 2), so any of them will do: one that also keeps the edges is looked for.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.problem import Problem


@njit(cache=True)
def conflicts(order, part_ptr, granule, old, new, n_granules, edges):  # type: ignore[no-untyped-def]
    """The conflicts of an order on each granule, as edges (int64 (n, 2)) from one operation to a later one: a
    write and what sees it, a write and the next, a reader and the next write. Filled in if there is room.
    Returns how many."""
    n = 0
    wrote = np.full(n_granules, -1, np.int64)
    # Readers since the last write, a list for each granule through the parts.
    newest, before = np.full(n_granules, -1, np.int64), np.full(granule.size, -1, np.int64)
    reader = np.full(granule.size, -1, np.int64)
    for i in range(order.size):
        op = order[i]
        for p in range(part_ptr[op], part_ptr[op + 1]):
            g, writes = granule[p], old[p] != new[p]
            if wrote[g] >= 0:
                if n < edges.shape[0]:
                    edges[n, 0], edges[n, 1] = wrote[g], op
                n += 1
            if writes:
                q = newest[g]
                while q >= 0:
                    if n < edges.shape[0]:
                        edges[n, 0], edges[n, 1] = reader[q], op
                    n += 1
                    q = before[q]
                wrote[g], newest[g] = op, -1
            else:
                reader[p], before[p] = op, newest[g]
                newest[g] = p
    return n


@njit(cache=True)
def sort_edges(edges, order, stream_ptr, found):  # type: ignore[no-untyped-def]
    """A topological order of operations under edges (int64 (n, 2)) and their streams' orders, into `found`
    (int64 (n_ops,)); of those that may come next the one that is first in `order`. Returns how many were
    placed: all, unless there is a cycle."""
    n = order.size
    ptr, missing, rank = np.zeros(n + 1, np.int64), np.zeros(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        rank[order[i]] = i
    for k in range(edges.shape[0]):
        ptr[edges[k, 0] + 1] += 1
        missing[edges[k, 1]] += 1
    for op in range(n):
        ptr[op + 1] += ptr[op]
    succ, at = np.empty(edges.shape[0], np.int64), ptr[:-1].copy()
    for k in range(edges.shape[0]):
        succ[at[edges[k, 0]]] = edges[k, 1]
        at[edges[k, 0]] += 1
    position, placed = stream_ptr[:-1].copy(), 0
    while placed < n:
        best, least = -1, n
        for s in range(position.size):
            op = position[s]
            if op < stream_ptr[s + 1] and missing[op] == 0 and rank[op] < least:
                best, least = s, rank[op]
        if best < 0:
            return placed
        op = position[best]
        position[best] += 1
        found[placed] = op
        placed += 1
        for k in range(ptr[op], ptr[op + 1]):
            missing[succ[k]] -= 1
    return placed


def conflicts_of(problem: Problem, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 (n, 2), an earlier and a later one: the conflicts of an order of operations, of all or some."""
    arrays = order, problem.part_ptr, problem.granule, problem.old, problem.new, len(problem.address)
    room = np.empty((4 * len(problem.granule) + 16, 2), np.int64)
    n = conflicts(*arrays, room)
    if n > len(room):
        room = np.empty((n, 2), np.int64)
        conflicts(*arrays, room)
    return room[:n]


def keep_edges(problem: Problem, order: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """An order equivalent to `order` (int64 (n_ops,), legal but for `edges`) that keeps the problem's edges;
    None if there is none."""
    if not len(problem.edges):
        return order
    found = np.empty(problem.n_ops, np.int64)
    edges = np.concatenate([conflicts_of(problem, order), problem.edges])
    placed = sort_edges(edges, order, problem.stream_ptr, found)
    return found if placed == problem.n_ops else None
