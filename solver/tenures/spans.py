"""Holds, spans alone and losses (`solver.tenures.holds`) in terms of nodes: what the rules about losses work
on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.losses import DOWNGRADED, LOST
from solver.tenures.holds import EARLIER, GOT, KNOWN, TAKEN, Spans
from solver.tenures.lines import NO
from solver.tenures.numbers import Numbers, nodes_before


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
    owned: NDArray[np.uint8]
    ended: NDArray[np.uint8]
    ptr: NDArray[np.int64]


def no_spans() -> Nodes:
    """Of which nothing is known."""
    numbers, kinds = np.empty(0, np.int64), np.empty(0, np.uint8)
    return Nodes(numbers, numbers, numbers, numbers, numbers, kinds, kinds, kinds, kinds, numbers)


class Losses(NamedTuple):
    """All that the rules need: holds and spans alone; the losses of lines and of the right to write; the
    accesses that took a line, spans alone that begin with a write, and that got one, holds that begin with a
    read. unowned: holds whose line came from no core that had it alone. ender: int64 (spans alone,), the loss
    that ended each, number in `downgraded`, or in `taken` plus as many as there are `downgraded`; -1 if none
    did. mate: of `taken`, `takes`, `downgraded` and `gets` each one's partner, int64 (n,), -1 as long as it
    is not known."""

    holds: Nodes
    alone: Nodes
    taken: Nodes
    takes: Nodes
    downgraded: Nodes
    gets: Nodes
    unowned: Nodes
    ender: NDArray[np.int64]
    mate: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

    def copy(self) -> Losses:
        """One that can find more partners by itself."""
        taken, takes, downgraded, gets = self.mate
        return self._replace(mate=(taken.copy(), takes.copy(), downgraded.copy(), gets.copy()))


def make_losses(spans: tuple[Spans, Spans, Spans], numbers: Numbers, n_lines: int) -> Losses:
    """The spans in terms of nodes, which `numbers` has of all their rows."""
    n_streams = len(numbers.n_rows)
    holds, alone, lost = (_nodes(part, numbers, n_lines) for part in spans)
    parts = (
        _chosen(lost, lost.start == LOST, n_streams, n_lines),
        _chosen(alone, alone.start == TAKEN, n_streams, n_lines),
        _chosen(lost, lost.start == DOWNGRADED, n_streams, n_lines),
        _chosen(holds, holds.start == GOT, n_streams, n_lines),
    )
    ender = np.full(len(alone.line), -1, np.int64)
    find_enders(alone, parts[2], parts[0], n_streams, ender)
    unowned = _chosen(holds, (holds.owned == NO) & (holds.start != EARLIER), n_streams, n_lines)
    taken, takes, downgraded, gets = (np.full(len(part.line), -1, np.int64) for part in parts)
    return Losses(holds, alone, *parts, unowned, ender, (taken, takes, downgraded, gets))


@njit(cache=True, nogil=True)
def number_spans(spans, numbers, line, stream, first, before, after):  # type: ignore[no-untyped-def]
    """Fill these columns of `Nodes` from `Spans`."""
    for i in range(line.size):
        s = np.int64(spans.stream[i])
        line[i], stream[i] = spans.line[i], s
        first[i] = nodes_before(numbers, s, spans.first[i]) if spans.first[i] >= 0 else -1
        before[i] = nodes_before(numbers, s, spans.before[i] + 1) - 1
        after[i] = nodes_before(numbers, s, spans.after[i])


@njit(cache=True, nogil=True)
def count_spans(line, stream, n_streams, ptr):  # type: ignore[no-untyped-def]
    """Fill `Nodes.ptr` (all 0)."""
    for i in range(line.size):
        ptr[line[i] * n_streams + stream[i] + 1] += 1
    for key in range(ptr.size - 1):
        ptr[key + 1] += ptr[key]


def _nodes(spans: Spans, numbers: Numbers, n_lines: int) -> Nodes:
    n = len(spans.line)
    line, stream, first, before, after = (np.empty(n, np.int64) for _ in range(5))
    number_spans(spans, numbers, line, stream, first, before, after)
    ptr = _ptr(line, stream, len(numbers.n_rows), n_lines)
    return Nodes(line, stream, first, before, after, spans.start, spans.end, spans.owned, spans.ended, ptr)


def _ptr(
    line: NDArray[np.int64], stream: NDArray[np.int64], n_streams: int, n_lines: int
) -> NDArray[np.int64]:
    ptr = np.zeros(n_lines * n_streams + 1, np.int64)
    count_spans(line, stream, n_streams, ptr)
    return ptr


def _chosen(nodes: Nodes, which: NDArray[np.bool_], n_streams: int, n_lines: int) -> Nodes:
    at = np.flatnonzero(which)
    line, stream = nodes.line.take(at), nodes.stream.take(at)
    return Nodes(
        line, stream, nodes.first.take(at), nodes.before.take(at), nodes.after.take(at), nodes.start.take(at),
        nodes.end.take(at), nodes.owned.take(at), nodes.ended.take(at),
        _ptr(line, stream, n_streams, n_lines),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _last_like(lost, key, before, after):  # type: ignore[no-untyped-def]
    """The last of the losses of a line and stream that lies between these nodes, -1 if there is none."""
    low, high = lost.ptr[key], lost.ptr[key + 1]
    first = low
    while low < high:
        middle = (low + high) // 2
        if lost.before[middle] <= before:
            low = middle + 1
        else:
            high = middle
    # Which of them, where several lie between two rows, nobody can say: they have the same `before`.
    while low > first and lost.before[low - 1] == before:
        low -= 1
        if lost.after[low] == after:
            return low
    return -1


@njit(cache=True, nogil=True)
def find_enders(alone, downgraded, taken, n_streams, ender):  # type: ignore[no-untyped-def]
    """Fill `Losses.ender`: KNOWN ends of spans alone are downgrades, the others losses, if they are known."""
    for x in range(alone.line.size):
        key, before, after = alone.line[x] * n_streams + alone.stream[x], alone.before[x], alone.after[x]
        if alone.end[x] == KNOWN:
            ender[x] = _last_like(downgraded, key, before, after)
        else:
            loss = _last_like(taken, key, before, after)
            ender[x] = loss + downgraded.line.size if loss >= 0 else -1
