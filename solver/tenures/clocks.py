"""What is known to come before what: a vector clock for every node.

A node is a row that begins or ends a tenure on a hot line, or writes to one. Node j of stream t has, for
every stream u, how many nodes of u are known to come before it. Of its own stream that is j."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.tenures.holds import Spans
from solver.tenures.lines import Tenures, Writes
from solver.tenures.nodes import own_order, sort_writes
from solver.tenures.numbers import Numbers, count_nodes, list_nodes, mark_nodes, no_nodes, number_nodes

#: `state`: whether a clock has changed since it was last 0; whether a node was found to precede itself.
CHANGED, CYCLE = 0, 1


class Clocks(NamedTuple):
    """The nodes and their clocks. ptr: int64 (n_streams + 1,): where each stream's nodes begin. row: int64
    (n,), ascending in each stream. clock: int32 (n, n_streams). state: int64 (2,). news: int64 (n_streams,):
    of each stream the first node that has learned something since the clocks were closed."""

    ptr: NDArray[np.int64]
    row: NDArray[np.int64]
    clock: NDArray[np.int32]
    state: NDArray[np.int64]
    news: NDArray[np.int64]


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


def make_clocks(
    tenures: Tenures, writes: Writes, n_rows: list[int], n_lines: int, spans: Sequence[Spans] = ()
) -> tuple[Clocks, Places, Numbers]:
    """Clocks that know nothing but the order of each stream. n_rows: of each stream. spans: all rows that
    they name are to be nodes too."""
    n_streams, numbers = len(n_rows), no_nodes(n_rows)
    wrote_in = tenures.stream[writes.tenure]
    for stream, row in (
        (tenures.stream, tenures.first),
        (tenures.stream, tenures.last),
        (wrote_in, writes.row),
    ):
        mark_nodes(numbers, stream, row)
    for part in spans:
        for row in (part.first, part.before, part.after):
            mark_nodes(numbers, part.stream, row)
    ptr = np.empty(n_streams + 1, np.int64)
    count_nodes(numbers, ptr)
    row, clock = np.empty(ptr[-1], np.int64), np.zeros((ptr[-1], n_streams), np.int32)
    list_nodes(numbers, row)
    own_order(ptr, clock)
    clocks = Clocks(ptr, row, clock, np.zeros(2, np.int64), np.diff(ptr))
    first, last = np.empty(len(tenures.first), np.int64), np.empty(len(tenures.first), np.int64)
    node = np.empty(len(writes.row), np.int64)
    number_nodes(numbers, tenures.stream, tenures.first, first)
    number_nodes(numbers, tenures.stream, tenures.last, last)
    number_nodes(numbers, wrote_in, writes.row, node)
    starts, by = np.zeros(n_lines * n_streams + 1, np.int64), np.empty(len(node), np.int64)
    final = np.empty(len(node), np.bool_)
    sort_writes(tenures.line, tenures.stream, writes.tenure, n_streams, starts, by, final)
    tenure = writes.tenure[by].astype(np.int64)
    places = Places(
        first, last, tenures.stream.astype(np.int64), np.ones(len(first), np.bool_), np.arange(n_streams),
        starts, node[by], tenure, writes.after[by], final,
    )  # fmt: skip
    return clocks, places, numbers


@inner
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
        c.news[t] = min(c.news[t], j)


@inner
def find_news(c, head):  # type: ignore[no-untyped-def]
    """Fill `head` (int64 (n_streams,)) with the first node of each stream that a change concerns: one that
    has learned something, or that knew one that has."""
    for t in range(head.size):
        head[t] = c.news[t]
        for u in range(head.size):
            # Up to what has changed every stream's clocks grow.
            low, high = c.ptr[t], c.ptr[t] + head[t]
            while u != t and low < high:
                middle = (low + high) // 2
                if c.clock[middle, u] > c.news[u]:
                    high = middle
                else:
                    low = middle + 1
            if u != t:
                head[t] = low - c.ptr[t]


@inner
def go_on(c, t, head):  # type: ignore[no-untyped-def]
    """The next node of stream t, number head[t], as far as its clock can be closed: takes over what the node
    before knows. Returns a stream that must come further first, -1 for none: then the clock is closed."""
    here, waits = c.ptr[t] + head[t], -1
    fresh = False
    for u in range(head.size):
        told = c.clock[here - 1, u] if head[t] else np.int32(0)
        if u == t or c.clock[here, u] == told:
            continue
        if c.clock[here, u] < told:
            c.clock[here, u] = told
            continue
        fresh = True
        if c.clock[here, u] > head[u]:
            waits = u
    if not fresh or waits >= 0:
        return waits
    for u in range(head.size):
        if u == t or c.clock[here, u] == 0:
            continue
        other = c.ptr[u] + c.clock[here, u] - 1
        for v in range(head.size):
            if v != t and c.clock[other, v] > c.clock[here, v]:
                c.clock[here, v] = c.clock[other, v]
    return -1


@inner
def next_stream(c, u, stack, n, waiting):  # type: ignore[no-untyped-def]
    """Stream stack[n - 1], which went on, waits for stream u, or for none any more (-1). Returns how many are
    on the stack from now on, the last of which goes on; 0 where it waits for itself, a cycle."""
    t = stack[n - 1]
    if u < 0:
        waiting[t] = False
        return n - 1
    if waiting[u]:
        c.state[CYCLE] = 1
        return 0
    waiting[u] = True
    stack[n] = u
    return n + 1


@njit(cache=True, nogil=True)
def close(c):  # type: ignore[no-untyped-def]
    """Let every clock know what those before it know.

    One way through what a change concerns: before a node come the node before it and those that it knows, so
    that when its turn comes their clocks are closed. A stream that waits for another is left until that one
    has come far enough; one that waits for itself is a cycle."""
    n_streams = c.clock.shape[1]
    if c.state[CYCLE]:
        return
    head, until = np.empty(n_streams, np.int64), np.zeros(n_streams, np.int64)
    stack, waiting = np.empty(n_streams, np.int64), np.zeros(n_streams, np.bool_)
    find_news(c, head)
    for s in range(n_streams):
        stack[0], n = s, 1
        until[s] = c.ptr[s + 1] - c.ptr[s]
        waiting[s] = True
        while n > 0:
            t = stack[n - 1]
            u = -1
            while u < 0 and head[t] < until[t]:
                u = go_on(c, t, head)
                if u < 0:
                    head[t] += 1
            if u >= 0:
                until[u] = c.clock[c.ptr[t] + head[t], u]
            n = next_stream(c, u, stack, n, waiting)
        if c.state[CYCLE]:
            return
    for s in range(n_streams):
        c.news[s] = c.ptr[s + 1] - c.ptr[s]


@inner
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


@inner
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
