"""`solver.seams.RegionWalker` for regions under TSO, with the checkers' own store buffers
(`solver.store_queue`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isa.errors import OrderError
from recorder.event import EVENT, GLUED, UNCACHED, put_rows
from solver.checker import name_row
from solver.regions import Region
from solver.seams import RegionWalker, Seam, differs, take_words, walk_row
from solver.store_queue import (
    FORWARDED,
    MISSING,
    VIOLATIONS,
    WANTS_ROOM,
    WANTS_ROWS,
    Windows,
    make_queues,
    take,
    with_room,
)
from solver.traces import Events

_WINDOW_ROWS = 1 << 10
_OK, _OLD, _PLACE, _SPLIT, _RANGE = 0, 16, 17, 18, 19


@njit(cache=True)
def walk_buffered(  # type: ignore[no-untyped-def]
    stream, left, run, region, low, high, memory, w, q, done, value, first, known, touched, now
):
    """As `solver.seams.walk_runs`. done: int64, rows walked of each stream. Returns (run, status, stream,
    byte): what `take` wants or found wrong, or one of the statuses here, of the row in q.taken."""
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            status = take(s, w, q)
            if status > FORWARDED:
                return run, status, q.wanted[0] if status == WANTS_ROWS else s, 0
            row = q.taken[0]
            if now[0] >= 0 and now[0] != s:
                return run, _SPLIT, s, 0
            place = low[s] + np.uint64(done[s]) if s >= q.base[0] else row.count
            if np.int64(row.stratum) != region or place < low[s] or place >= high[s]:
                return run, _PLACE, s, 0
            if status != FORWARDED and row.flags & UNCACHED == 0:
                size = np.uint64(row.size)
                if row.addr > memory or row.addr + size > memory or size < 1 or size > 8:
                    return run, _RANGE, s, 0
                byte = walk_row(row, value, first, known, touched, now)
                if byte >= 0:
                    return run, _OLD, s, byte
            now[0] = s if row.flags & GLUED else -1
            done[s] += 1
            now[1] += 1
            left[run] -= 1
        run += 1
    return run, _OK, 0, 0


def cut_pieces(pieces: Iterable[Events], n: int) -> Iterator[Events]:
    """The pieces in pieces of at most n rows."""
    for piece in pieces:
        for start in range(0, len(piece), n):
            yield piece[start : start + n]


class BufferedWalker(RegionWalker):
    """Walks regions under TSO, one at a time, in any order."""

    def walk(self, region: Region, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Seam:
        """See `RegionWalker.walk`. The stores in the region's tails are issued and do not commit."""
        n, index = len(region.streams), region.index
        w = Windows(
            np.zeros((n, _WINDOW_ROWS), EVENT),
            np.zeros(n, np.int64),
            np.zeros(n, np.int64),
            np.zeros(n, bool),
        )
        q, done = make_queues(n, len(region.tails)), np.zeros(n, np.int64)
        first_store = n - len(region.tails)
        pieces = [
            cut_pieces(
                chain(rows.pieces(), region.tails[s - first_store : s - first_store + 1]), _WINDOW_ROWS
            )
            if s >= first_store
            else cut_pieces(rows.pieces(), _WINDOW_ROWS)
            for s, rows in enumerate(region.streams)
        ]
        touched = np.empty(2 * region.events + 2, np.int64)
        now, left = np.array([-1, 0, 0], np.int64), rows.copy()
        low, high = self._edges[index], self._edges[index + 1]
        run = 0
        try:
            while run < len(stream):
                run, status, s, byte = walk_buffered(
                    stream, left, run, index, low, high, self._memory, w, q, done,
                    self._value, self._first, self._known, touched, now,
                )  # fmt: skip
                if status == WANTS_ROOM:
                    q = with_room(q)
                elif status == WANTS_ROWS:
                    piece = next(pieces[s], None)
                    if piece is None:
                        w.ended[s] = True
                    else:
                        put_rows(w.rows[s], piece)
                        w.at[s], w.fill[s] = 0, len(piece)
                elif status != _OK:
                    raise self._refusal(q.taken[0], int(now[0]), status, s, byte)
            for s, events in enumerate(region.streams):
                if done[s] != len(events):
                    raise OrderError(
                        "events that the order leaves out" if done[s] < len(events) else VIOLATIONS[MISSING],
                        expected=f"{len(events)} events",
                        found=f"{int(done[s])}",
                        where=f"stream {s}, region {index}",
                    )
            if now[0] >= 0:
                raise OrderError(
                    "the order ends inside an indivisible access", where=f"stream {now[0]}, region {index}"
                )
        finally:
            word = touched[: now[2]]
            bits = np.empty(len(word), np.uint8)
            first, last = np.empty(len(word), np.uint64), np.empty(len(word), np.uint64)
            take_words(word, self._value, self._first, self._known, bits, first, last)
        return Seam(index, int(now[1]), word.astype(np.uint64), bits, first, last)

    def _refusal(self, row: np.void, unfinished: int, status: int, s: int, byte: int) -> OrderError:
        where = name_row(s, row)
        if status in VIOLATIONS:
            return OrderError(VIOLATIONS[status], where=where)
        if status == _PLACE:
            return OrderError("an event's stratum is not what its place says", where=where)
        if status == _SPLIT:
            return OrderError(
                "an event stands inside an indivisible access",
                found=f"one of stream {unfinished} is unfinished",
                where=where,
            )
        if status == _RANGE:
            return OrderError("an event outside memory", where=where)
        address = int(row["addr"]) + byte
        held = (int(self._value[address // 8]) >> (8 * (address % 8))) & 0xFF
        return differs(address, held, (int(row["old"]) >> (8 * byte)) & 0xFF, where)
