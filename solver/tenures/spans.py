"""Holds, spans alone and losses (`solver.tenures.holds`) in terms of nodes: what the rules about losses work
on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.losses import DOWNGRADED, LOST
from solver.tenures.clocks import Clocks
from solver.tenures.holds import EARLIER, GOT, KNOWN, TAKEN, Spans
from solver.tenures.lines import NO


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


def rows_of(spans: tuple[Spans, Spans, Spans], n_rows: list[int]) -> list[NDArray[np.int64]]:
    """Rows of each stream that must be nodes."""
    rows = []
    for s, n in enumerate(n_rows):
        parts = [
            column[part.stream == s] for part in spans for column in (part.first, part.before, part.after)
        ]
        here = np.unique(np.concatenate(parts))
        rows.append(here[(here >= 0) & (here < n)])
    return rows


def make_losses(spans: tuple[Spans, Spans, Spans], clocks: Clocks, n_streams: int, n_lines: int) -> Losses:
    """The spans in terms of nodes, all of whose rows `clocks` has."""
    holds, alone, lost = (_nodes(part, clocks, n_streams, n_lines) for part in spans)
    parts = (
        _chosen(lost, lost.start == LOST, n_streams, n_lines),
        _chosen(alone, alone.start == TAKEN, n_streams, n_lines),
        _chosen(lost, lost.start == DOWNGRADED, n_streams, n_lines),
        _chosen(holds, holds.start == GOT, n_streams, n_lines),
    )
    ender = _enders(alone, parts[2], parts[0])
    unowned = _chosen(holds, (holds.owned == NO) & (holds.start != EARLIER), n_streams, n_lines)
    taken, takes, downgraded, gets = (np.full(len(part.line), -1, np.int64) for part in parts)
    return Losses(holds, alone, *parts, unowned, ender, (taken, takes, downgraded, gets))


def _nodes(spans: Spans, clocks: Clocks, n_streams: int, n_lines: int) -> Nodes:
    stream, line = spans.stream.astype(np.int64), spans.line.astype(np.int64)
    first, before, after = (np.empty(len(line), np.int64) for _ in range(3))
    for s in range(n_streams):
        mine, rows = stream == s, clocks.row[clocks.ptr[s] : clocks.ptr[s + 1]]
        first[mine] = np.searchsorted(rows, spans.first[mine])
        before[mine] = np.searchsorted(rows, spans.before[mine], side="right") - 1
        after[mine] = np.searchsorted(rows, spans.after[mine])
    first[spans.first < 0] = -1
    ptr = _ptr(line, stream, n_streams, n_lines)
    return Nodes(line, stream, first, before, after, spans.start, spans.end, spans.owned, spans.ended, ptr)


def _ptr(
    line: NDArray[np.int64], stream: NDArray[np.int64], n_streams: int, n_lines: int
) -> NDArray[np.int64]:
    starts = np.searchsorted(line * n_streams + stream, np.arange(n_lines * n_streams + 1))
    return starts.astype(np.int64)


def _chosen(nodes: Nodes, which: NDArray[np.bool_], n_streams: int, n_lines: int) -> Nodes:
    line, stream = nodes.line[which], nodes.stream[which]
    return Nodes(
        line, stream, nodes.first[which], nodes.before[which], nodes.after[which], nodes.start[which],
        nodes.end[which], nodes.owned[which], nodes.ended[which], _ptr(line, stream, n_streams, n_lines),
    )  # fmt: skip


def _enders(alone: Nodes, downgraded: Nodes, taken: Nodes) -> NDArray[np.int64]:
    """`Losses.ender`."""
    where = {}
    for first, lost in ((0, downgraded), (len(downgraded.line), taken)):
        columns = (column.tolist() for column in (lost.line, lost.stream, lost.before, lost.after))
        for i, key in enumerate(zip(*columns, strict=True)):
            where[(first > 0 or lost is taken, *key)] = first + i
    columns = (column.tolist() for column in (alone.line, alone.stream, alone.before, alone.after))
    keys = zip((alone.end != KNOWN).tolist(), *columns, strict=True)
    return np.array([where.get(key, -1) for key in keys], np.int64)
