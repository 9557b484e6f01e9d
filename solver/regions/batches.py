"""A region's rows in an order that its sync points allow, many segments at once: between two sync points
often lie a few rows only, and to take those for themselves costs more than what a kernel does with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT
from solver.regions.sync_order import Segments
from solver.regions.traces import Events

#: Rows of a batch from which on no segment is added to it.
BATCH_ROWS = 1 << 16
#: Rows as bytes that nobody looks into: fields cost time where arrays are joined.
_OPAQUE = np.dtype(f"V{EVENT.itemsize}")


class Pieces(NamedTuple):
    """Segments of a batch, or a piece of a long one, (n,) each, in their order. begin, end: int64, where its
    rows begin and end in the batch. stream, owner: int64, as in `Segments`. goes_on: bool, whether it goes on
    with the segment of the piece before."""

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    stream: NDArray[np.int64]
    owner: NDArray[np.int64]
    goes_on: NDArray[np.bool_]


class Batch(NamedTuple):
    """rows: EVENT (n,), those of one stream behind one another. pieces: which of them come when."""

    rows: Events
    pieces: Pieces


class _Source:
    """One stream's rows, to be taken in turn."""

    def __init__(self, pieces: Iterator[Events]) -> None:
        self._pieces, self._rest = pieces, np.zeros(0, EVENT)

    def take(self, n: int) -> Iterator[Events]:
        """The next n rows, in the arrays in which they come."""
        while n > 0:
            if not len(self._rest):
                self._rest = next(self._pieces)
            taken, self._rest = self._rest[:n], self._rest[n:]
            n -= len(taken)
            yield taken


def stream_by_stream(streams: list[Iterator[Events]]) -> Iterator[Batch]:
    """The rows of a region without sync points, in the arrays in which they come; how many there will be need
    not be known. Each stream is its own owner."""
    for stream, pieces in enumerate(streams):
        for number, rows in enumerate(pieces):
            begin, end, whose = (np.full(1, n, np.int64) for n in (0, len(rows), stream))
            yield Batch(rows, Pieces(begin, end, whose, whose, np.full(1, number > 0)))


def batches(cut: Segments, streams: list[Iterator[Events]], full: int = BATCH_ROWS) -> Iterator[Batch]:
    """The rows of a region, segment by segment; a batch is good until the next one is asked for. streams: the
    rows of each, in arrays that do not end inside an indivisible access, and are good as long. full: from how
    many rows on nothing is added to a batch; a segment of more comes alone, in the arrays in which its rows
    come."""
    sources = [_Source(pieces) for pieces in streams]
    begin = _begins(cut, len(streams))
    behind = np.cumsum(cut.end - begin)
    first, n = 0, len(behind)
    while first < n:
        before = int(behind[first - 1]) if first else 0
        end = int(np.searchsorted(behind, before + full, side="right"))
        if end <= first:
            yield from _long(cut, first, int(behind[first]) - before, sources)
            first += 1
        else:
            yield _joined(cut, begin, range(first, end), sources)
            first = end


def _begins(cut: Segments, n_streams: int) -> NDArray[np.int64]:
    """How many rows of its stream have come when each segment begins: int64 (n,)."""
    begin = np.zeros(len(cut.end), np.int64)
    for stream in range(n_streams):
        mine = np.flatnonzero(cut.stream == stream)
        begin[mine[1:]] = cut.end[mine[:-1]]
    return begin


def _long(cut: Segments, at: int, n: int, sources: list[_Source]) -> Iterator[Batch]:
    stream, owner = cut.stream[at : at + 1], cut.owner[at : at + 1]
    for number, rows in enumerate(sources[int(stream[0])].take(n)):
        begin, end = np.zeros(1, np.int64), np.full(1, len(rows), np.int64)
        yield Batch(rows, Pieces(begin, end, stream, owner, np.full(1, number > 0)))


def _joined(cut: Segments, begin: NDArray[np.int64], some: range, sources: list[_Source]) -> Batch:
    """These segments."""
    here = slice(some.start, some.stop)
    stream, end, begin = cut.stream[here], cut.end[here], begin[here]
    moved, total = np.zeros(len(sources), np.int64), 0
    rows = np.empty(int((end - begin).sum()), EVENT)
    for number, source in enumerate(sources):
        mine = np.flatnonzero(stream == number)
        if len(mine):
            first, last = int(begin[mine[0]]), int(end[mine[-1]])
            moved[number] = total - first
            for part in source.take(last - first):
                rows[total : total + len(part)].view(_OPAQUE)[:] = part.view(_OPAQUE)
                total += len(part)
    move = moved[stream]
    goes_on = np.zeros(len(stream), np.bool_)
    return Batch(rows, Pieces(begin + move, end + move, stream, cut.owner[here], goes_on))
