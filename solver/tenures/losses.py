"""What losses prove: who has a line alone shares it with nobody, and who loses it loses it to somebody.

Rules over `holds.Spans`, all of one line:

- While one stream has the line alone no other holds it. So if another's hold is known to begin before that
  ends, it ended before it began; and if the other's end is known to come after it began, the other began after
  it ended.
- A hold that ends with a loss ends by a write that took the line, another stream's, which lies between the
  row before the loss and the row after.
- A stream that had the line alone and lost its right to write lost it to a read that got the line, likewise.

The second and the third hold of recordings whose recorder obtains lines only for accesses that happen
(`Traces.misses_prove_writes`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.tenures.candidates import some_after, some_before
from solver.tenures.clocks import Clocks, first_after, learn
from solver.tenures.holds import EARLIER, GOT, KNOWN, OPEN, TAKEN, Spans


class Nodes(NamedTuple):
    """Spans in terms of nodes, numbered in their streams.

    line, stream: int64 (n,). first: int64 (n,), -1 for EARLIER. before: int64 (n,), -1 for none. after: int64
    (n,), past the stream's nodes for none. start, end: uint8 (n,). ptr: int64 (n_lines * n_streams + 1,): the
    spans of stream s on line l are those from ptr[l * n_streams + s] on, in order.
    """

    line: NDArray[np.int64]
    stream: NDArray[np.int64]
    first: NDArray[np.int64]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    start: NDArray[np.uint8]
    end: NDArray[np.uint8]
    ptr: NDArray[np.int64]


class Losses(NamedTuple):
    """All that the rules need: holds, spans alone, those of the latter that began with a write, and holds that
    began with a read."""

    holds: Nodes
    alone: Nodes
    takes: Nodes
    gets: Nodes


def rows_of(spans: tuple[Spans, Spans], n_rows: list[int]) -> list[NDArray[np.int64]]:
    """Rows of each stream that must be nodes."""
    rows = []
    for s, n in enumerate(n_rows):
        parts = [
            column[part.stream == s] for part in spans for column in (part.first, part.before, part.after)
        ]
        here = np.unique(np.concatenate(parts))
        rows.append(here[(here >= 0) & (here < n)])
    return rows


def make_losses(spans: tuple[Spans, Spans], clocks: Clocks, n_streams: int, n_lines: int) -> Losses:
    """The spans in terms of nodes, all of whose rows `clocks` has."""
    holds, alone = (_nodes(part, clocks, n_streams, n_lines) for part in spans)
    return Losses(
        holds, alone, _chosen(alone, alone.start == TAKEN, n_streams, n_lines),
        _chosen(holds, holds.start == GOT, n_streams, n_lines),
    )  # fmt: skip


def _nodes(spans: Spans, clocks: Clocks, n_streams: int, n_lines: int) -> Nodes:
    stream, line = spans.stream.astype(np.int64), spans.line.astype(np.int64)
    first, before, after = (np.empty(len(line), np.int64) for _ in range(3))
    for s in range(n_streams):
        mine, rows = stream == s, clocks.row[clocks.ptr[s] : clocks.ptr[s + 1]]
        first[mine] = np.searchsorted(rows, spans.first[mine])
        before[mine] = np.searchsorted(rows, spans.before[mine], side="right") - 1
        after[mine] = np.searchsorted(rows, spans.after[mine])
    first[spans.start == EARLIER] = -1
    ptr = _ptr(line, stream, n_streams, n_lines)
    return Nodes(line, stream, first, before, after, spans.start, spans.end, ptr)


def _ptr(
    line: NDArray[np.int64], stream: NDArray[np.int64], n_streams: int, n_lines: int
) -> NDArray[np.int64]:
    starts = np.searchsorted(line * n_streams + stream, np.arange(n_lines * n_streams + 1))
    return starts.astype(np.int64)


def _chosen(nodes: Nodes, which: NDArray[np.bool_], n_streams: int, n_lines: int) -> Nodes:
    *columns, _ = nodes
    kept = [column[which] for column in columns]
    return Nodes(*kept, _ptr(kept[0], kept[1], n_streams, n_lines))


@njit(cache=True, nogil=True)
def first_from(places, low, high, node):  # type: ignore[no-untyped-def]
    """The first index from low to high at which ascending `places` (int64) is at least `node`."""
    while low < high:
        middle = (low + high) // 2
        if places[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def tell(c, u, i, t, j):  # type: ignore[no-untyped-def]
    """Node i of stream u, if there is one, comes before node j of stream t, if there is one."""
    if i >= 0 and j < c.ptr[t + 1] - c.ptr[t]:
        learn(c, u, i, t, j)


@njit(cache=True, nogil=True)
def apply_alone(a, h, c):  # type: ignore[no-untyped-def]
    """One sweep of the first rule. a, h: spans alone, and holds (`Nodes`). Returns a span that contradicts a
    hold, -1 if there is none."""
    n_streams = c.clock.shape[1]
    for x in range(a.line.size):
        u, first, before = a.stream[x], a.first[x], a.before[x]
        for v in range(n_streams):
            low, high = h.ptr[a.line[x] * n_streams + v], h.ptr[a.line[x] * n_streams + v + 1]
            if v == u or low == high:
                continue
            earlier, later = low, high
            if a.end[x] == OPEN:
                earlier = high
            elif before >= 0:
                earlier = first_from(h.first, low, high, np.int64(c.clock[c.ptr[u] + before, v]))
            else:
                earlier = first_from(h.first, low, high, np.int64(0))
            if a.start[x] == EARLIER:
                later = low
            else:
                later = first_from(h.before, low, high, first_after(c, v, u, first))
                if h.end[high - 1] == OPEN:
                    later = min(later, high - 1)
            if earlier > later:
                return x
            if earlier > low:
                tell(c, v, h.before[earlier - 1], u, first)
            if later < high:
                tell(c, u, before, v, h.first[later])
    return -1


@njit(cache=True, nogil=True)
def apply_witnesses(ended, by, c):  # type: ignore[no-untyped-def]
    """One sweep of the second or the third rule: each of the spans `ended` that ends with a loss ended by the
    beginning of one of the spans `by`. Returns one for which there is none, else -1."""
    n_streams = c.clock.shape[1]
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for x in range(ended.line.size):
        if ended.end[x] != KNOWN:
            continue
        s, before, after = ended.stream[x], ended.before[x], ended.after[x]
        found = False
        for v in range(n_streams):
            earliest[v] = latest[v] = -1
            low = by.ptr[ended.line[x] * n_streams + v]
            high = by.ptr[ended.line[x] * n_streams + v + 1]
            if v == s or low == high:
                continue
            if before >= 0:
                low = first_from(by.first, low, high, np.int64(c.clock[c.ptr[s] + before, v]))
            if after < c.ptr[s + 1] - c.ptr[s]:
                high = first_from(by.first, low, high, first_after(c, v, s, after))
            if low < high:
                earliest[v], latest[v] = by.first[low], by.first[high - 1]
                found = True
        if not found:
            return x
        some_before(c, earliest, s, after)
        some_after(c, latest, s, before)
    return -1
