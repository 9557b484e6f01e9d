"""What is known to come before what: a vector clock for every node.

A node is a row that begins or ends a tenure on a hot line, or writes to one. Node j of stream t has, for
every stream u, how many nodes of u are known to come before it. Of its own stream that is j."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.tenures.lines import Tenures, Writes

#: `state`: whether a clock has changed since it was last 0; whether a node was found to precede itself.
CHANGED, CYCLE = 0, 1


class Clocks(NamedTuple):
    """The nodes and their clocks. ptr: int64 (n_streams + 1,): where each stream's nodes begin. row: int64
    (n,), ascending in each stream. clock: int32 (n, n_streams). state: int64 (2,)."""

    ptr: NDArray[np.int64]
    row: NDArray[np.int64]
    clock: NDArray[np.int32]
    state: NDArray[np.int64]


class Places(NamedTuple):
    """Tenures and writes in terms of nodes, numbered in their streams.

    first, last: int64 (n_tenures,). begins: int64 (n_tenures,), the stream that `first` is of. lead: bool
    (n_tenures,), False of a second part of the same tenure. owner: int64 (n_streams,), whose each stream is:
    under SC its own; a core under TSO has several (`buffered_clocks`). ptr: int64 (n_lines * n_streams + 1,):
    the writes of stream s to line l are those from ptr[l * n_streams + s] on, in order. node: int64
    (n_writes,). tenure: int64 (n_writes,). after: uint64 (n_writes,), as of `Writes`. final: bool
    (n_writes,), whether it is its tenure's last write.
    """

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    begins: NDArray[np.int64]
    lead: NDArray[np.bool_]
    owner: NDArray[np.int64]
    ptr: NDArray[np.int64]
    node: NDArray[np.int64]
    tenure: NDArray[np.int64]
    after: NDArray[np.uint64]
    final: NDArray[np.bool_]


def make_clocks(tenures: Tenures, writes: Writes, n_streams: int, n_lines: int) -> tuple[Clocks, Places]:
    """Clocks that know nothing but the order of each stream."""
    stream_of_write = tenures.stream[writes.tenure]
    rows, ptr = [], [0]
    first, last = np.empty(len(tenures.first), np.int64), np.empty(len(tenures.first), np.int64)
    node = np.empty(len(writes.row), np.int64)
    for s in range(n_streams):
        mine, wrote = tenures.stream == s, stream_of_write == s
        here = np.unique(np.concatenate([tenures.first[mine], tenures.last[mine], writes.row[wrote]]))
        first[mine] = np.searchsorted(here, tenures.first[mine])
        last[mine] = np.searchsorted(here, tenures.last[mine])
        node[wrote] = np.searchsorted(here, writes.row[wrote])
        rows.append(here)
        ptr.append(ptr[-1] + len(here))
    clock = np.zeros((ptr[-1], n_streams), np.int32)
    for s in range(n_streams):
        clock[ptr[s] : ptr[s + 1], s] = np.arange(len(rows[s]))
    key = tenures.line[writes.tenure].astype(np.int64) * n_streams + stream_of_write
    by_line = np.lexsort((node, key))
    starts = np.searchsorted(key[by_line], np.arange(n_lines * n_streams + 1))
    tenure = writes.tenure[by_line].astype(np.int64)
    final = np.ones(len(tenure), np.bool_)
    # Of one line and stream a tenure's writes stand together.
    final[:-1] = (tenure[1:] != tenure[:-1]) | (key[by_line][1:] != key[by_line][:-1])
    clocks = Clocks(
        np.array(ptr, np.int64), np.concatenate([np.empty(0, np.int64), *rows]), clock, np.zeros(2, np.int64)
    )
    places = Places(
        first, last, tenures.stream.astype(np.int64), np.ones(len(first), np.bool_), np.arange(n_streams),
        starts.astype(np.int64), node[by_line], tenure, writes.after[by_line], final,
    )  # fmt: skip
    return clocks, places


@njit(cache=True, nogil=True)
def learn(c, u, i, t, j):  # type: ignore[no-untyped-def]
    """Node i of stream u comes before node j of stream t."""
    if u == t:
        if i >= j:
            c.state[CYCLE] = 1
        return
    here = c.ptr[t] + j
    if c.clock[here, u] <= i:
        c.clock[here, u] = i + 1
        c.state[CHANGED] = 1


@njit(cache=True, nogil=True)
def close(c):  # type: ignore[no-untyped-def]
    """Let every clock know what those before it know, until nothing changes. Returns whether anything did."""
    n_streams = c.clock.shape[1]
    ever, again = False, True
    while again and not c.state[CYCLE]:
        again = False
        for t in range(n_streams):
            for here in range(c.ptr[t], c.ptr[t + 1]):
                mine = c.clock[here]
                if here > c.ptr[t]:
                    before = c.clock[here - 1]
                    for v in range(n_streams):
                        if v != t and before[v] > mine[v]:
                            mine[v] = before[v]
                            again = True
                for u in range(n_streams):
                    # What the node before knew of u, it has from there.
                    if u == t or mine[u] == 0 or (here > c.ptr[t] and mine[u] == c.clock[here - 1, u]):
                        continue
                    other = c.clock[c.ptr[u] + mine[u] - 1]
                    for v in range(n_streams):
                        if v == t:
                            if other[v] > here - c.ptr[t]:
                                c.state[CYCLE] = 1
                                return ever
                        elif other[v] > mine[v]:
                            mine[v] = other[v]
                            again = True
        ever = ever or again
    return ever


@njit(cache=True, nogil=True)
def first_after(c, t, s, i):  # type: ignore[no-untyped-def]
    """The first node of stream t that is known to come after node i of stream s, or how many t has."""
    if t == s:
        return i + 1
    low, high = c.ptr[t], c.ptr[t + 1]
    while low < high:
        middle = (low + high) // 2
        if c.clock[middle, s] > i:
            high = middle
        else:
            low = middle + 1
    return low - c.ptr[t]


@njit(cache=True, nogil=True)
def first_write(p, begin, end, node):  # type: ignore[no-untyped-def]
    """The first of the writes from `begin` to `end` (of one line and stream) whose node is at least
    `node`."""
    while begin < end:
        middle = (begin + end) // 2
        if p.node[middle] >= node:
            end = middle
        else:
            begin = middle + 1
    return begin
