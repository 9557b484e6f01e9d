"""From clocks of nodes to edges: between rows of the region, and between the operations of its problem."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.tenures.clocks import Clocks


@njit(cache=True, nogil=True)
def list_edges(c, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the edges that neither the node before nor another edge implies. Returns how many."""
    n, n_streams = 0, c.clock.shape[1]
    for t in range(n_streams):
        for here in range(c.ptr[t], c.ptr[t + 1]):
            mine = c.clock[here]
            for u in range(n_streams):
                told = c.clock[here - 1, u] if here > c.ptr[t] else np.int32(0)
                if u == t or mine[u] <= told:
                    continue
                implied = False
                for v in range(n_streams):
                    if v != t and v != u and mine[v] > 0 and not implied:
                        implied = c.clock[c.ptr[v] + mine[v] - 1, u] >= mine[u]
                if not implied:
                    out[n, 0], out[n, 1] = u, c.row[c.ptr[u] + mine[u] - 1] + 1
                    out[n, 2], out[n, 3] = t, c.row[here]
                    n += 1
    return n


def row_edges(clocks: Clocks) -> NDArray[np.int64]:
    """What the clocks know, transitively reduced: int64 (n, 4), stream, how many of its rows come before,
    other stream, its row that waits for them."""
    out = np.empty((int((clocks.clock > 0).sum()), 4), np.int64)
    return out[: list_edges(clocks, out)].copy()


def break_rows(edges: NDArray[np.int64], n_streams: int) -> list[NDArray[np.int64]]:
    """Rows of each stream (int64 (n,), ascending) at which an edge begins or ends, so that an operation must
    not have rows on both sides; one that lies inside an indivisible access stands for the row after that.
    edges: of `row_edges`."""
    ends = edges.reshape(-1, 2)
    most = int(ends[:, 1].max(initial=0)) + 1
    keys = np.unique(ends[:, 0] * most + ends[:, 1])
    starts = np.searchsorted(keys, np.arange(n_streams + 1) * most)
    return [keys[first:end] - s * most for s, (first, end) in enumerate(pairwise(starts.tolist()))]


@njit(cache=True, nogil=True)
def lift_clocks(c, stream_ptr, end_row, clock):  # type: ignore[no-untyped-def]
    """Fill clock (int32 (n_ops, n_streams)): how many operations of each stream come before each operation.
    stream_ptr, end_row: as of `Problem`."""
    n_streams = c.clock.shape[1]
    told = np.empty(n_streams, np.int32)
    for t in range(n_streams):
        node = c.ptr[t]
        told[:] = 0
        for o in range(stream_ptr[t], stream_ptr[t + 1]):
            while node < c.ptr[t + 1] and c.row[node] < end_row[o]:
                node += 1
            if node == c.ptr[t]:
                continue
            for u in range(n_streams):
                n = c.clock[node - 1, u]
                if u == t or n == 0:
                    continue
                if n == told[u]:
                    clock[o, u] = clock[o - 1, u]
                    continue
                told[u] = n
                ends = end_row[stream_ptr[u] : stream_ptr[u + 1]]
                clock[o, u] = np.searchsorted(ends, c.row[c.ptr[u] + n - 1] + 1, side="right")


@njit(cache=True, nogil=True)
def list_op_edges(stream_ptr, clock, out):  # type: ignore[no-untyped-def]
    """As `list_edges`, between operations. Returns how many."""
    n, n_streams = 0, clock.shape[1]
    for t in range(n_streams):
        for o in range(stream_ptr[t], stream_ptr[t + 1]):
            mine = clock[o]
            for u in range(n_streams):
                told = clock[o - 1, u] if o > stream_ptr[t] else np.int32(0)
                if u == t or mine[u] <= told:
                    continue
                implied = False
                for v in range(n_streams):
                    if v != t and v != u and mine[v] > 0 and not implied:
                        implied = clock[stream_ptr[v] + mine[v] - 1, u] >= mine[u]
                if not implied:
                    out[n, 0], out[n, 1] = stream_ptr[u] + mine[u] - 1, o
                    n += 1
    return n


def op_edges(clocks: Clocks, stream_ptr: NDArray[np.int64], end_row: NDArray[np.int64]) -> NDArray[np.int64]:
    """What the clocks say of operations, as `Problem.edges`: int64 (n, 2). None has rows on both sides of a
    row of `break_rows`."""
    clock = np.zeros((len(end_row), clocks.clock.shape[1]), np.int32)
    lift_clocks(clocks, stream_ptr, end_row, clock)
    out = np.empty((int((clock > 0).sum()), 2), np.int64)
    return out[: list_op_edges(stream_ptr, clock, out)].copy()
