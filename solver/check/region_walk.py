"""A region's order walked by itself, which tells what it must find in memory and what it leaves (`Seam`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.check.progress import TOUCHED, UNFINISHED, WALKED, no_progress
from solver.check.seams import Seam
from solver.check.store_queue import view_of
from solver.check.sync_walk import BEHIND, SyncWalk, pass_syncs, sync_walk
from solver.check.windows import Windows
from solver.check.words import take_words, unknown_words, walk_row, with_room
from solver.regions.region import Region
from solver.regions.violations import (
    LEFT_OUT,
    misplaced,
    name_row,
    not_as_held,
    outside_memory,
    split_access,
    too_many,
    unfinished_access,
)

#: Rows of a run that are walked where they are.
_LONG = 1 << 10
_OK, _REFILL, _ROOM, _OLD, _PLACE, _SPLIT, _RANGE, _BEHIND = range(8)
_ALL = ~np.uint64(0)
_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_NO_END = np.uint64(0xFFFFFFFFFFFFFFFF)


#: Rows of `Place.bounds`: places at a region's two ends, and those between which a stream's rows may be
#: walked now.
_BEGIN, _END, _FROM, _BELOW = range(4)


class Place(NamedTuple):
    """Where the rows of a region may stand. region: its number. bounds: uint64 (4, n_streams), the places at
    its two ends, and those until the next sync point that a stream waits for."""

    region: int
    bounds: NDArray[np.uint64]


class Runs(NamedTuple):
    """An order as runs of one stream each: stream: int64 (n,); left: int64 (n,), rows that are not walked."""

    stream: NDArray[np.int64]
    left: NDArray[np.int64]


def place_of(region: int, low: NDArray[np.uint64], high: NDArray[np.uint64], syncs: SyncWalk) -> Place:
    """The place of a region between two rows of strata, uint64 (n_streams,)."""
    bounds = np.stack([low, high, low, high])
    _narrow(bounds, syncs)
    return Place(region, bounds)


@njit(cache=True, nogil=True)
def _narrow(bounds, syncs):  # type: ignore[no-untyped-def]
    for k in range(syncs.bar.size):
        bounds[_FROM, k] = max(bounds[_BEGIN, k], syncs.floor[k])
        bounds[_BELOW, k] = min(bounds[_END, k], syncs.bar[k])


@njit(cache=True, nogil=True)
def admit(row, s, place, syncs):  # type: ignore[no-untyped-def]
    """Whether a row outside of the narrower bounds may be walked: _OK once the sync points that it waits for
    are passed, else what is wrong with its place."""
    outside = row.count < place.bounds[_BEGIN, s] or row.count >= place.bounds[_END, s]
    if np.int64(row.stratum) != place.region or outside:
        return _PLACE
    if not pass_syncs(s, row.count, syncs):
        return _BEHIND
    _narrow(place.bounds, syncs)
    return _OK


@njit(cache=True, nogil=True)
def walk_span(rows, at, end, s, place, words, progress):  # type: ignore[no-untyped-def]
    """Walk rows at..end of stream s (`Place`, `Words`, counters of `solver.check.progress`). Returns (index
    of the first row that is not walked, status, byte).

    What nearly every row is, an access to bytes of one word that are all known or all new, is done here and
    not by `walk_row`: a call costs more than all of it.
    """
    memory, value, first, known, touched = words
    region, low, high = place.region, place.bounds[_FROM, s], place.bounds[_BELOW, s]
    if at < end and progress[UNFINISHED] >= 0 and progress[UNFINISHED] != s:
        return at, _SPLIT, 0
    status, byte, done, n_touched = _OK, 0, end, progress[TOUCHED]
    for i in range(at, end):
        row = rows[i]
        if np.int64(row.stratum) != region or row.count < low or row.count >= high:
            status, done = _PLACE, i
            break
        if row.flags & UNCACHED:
            continue
        address, size = row.addr, np.uint64(row.size)
        if address > memory or address + size > memory or size < _ONE or size > _EIGHT:
            status, done = _RANGE, i
            break
        if n_touched + 2 > touched.size:
            status, done = _ROOM, i
            break
        offset = address & _SEVEN
        if offset + size <= _EIGHT:
            word, up = address >> _THREE, offset << _THREE
            bits = ((_ONE << size) - _ONE) << offset
            mask = _ALL >> ((_EIGHT - size) << _THREE) << up
            held, before = value[word], np.uint64(known[word])
            if before & bits == bits:
                if (held ^ (row.old << up)) & mask == _ZERO:
                    value[word] = (held & ~mask) | ((row.new << up) & mask)
                    continue
            elif before & bits == _ZERO:
                if before == _ZERO:
                    touched[n_touched] = np.int64(word)
                    n_touched += 1
                known[word] = np.uint8(before | bits)
                first[word] |= (row.old << up) & mask
                value[word] = (held & ~mask) | ((row.new << up) & mask)
                continue
        progress[TOUCHED] = n_touched
        byte = walk_row(row, words, progress)
        n_touched = progress[TOUCHED]
        if byte >= 0:
            status, done = _OLD, i
            break
    progress[WALKED] += done - at
    progress[TOUCHED] = n_touched
    if done > at:
        progress[UNFINISHED] = s if rows[done - 1].flags & GLUED else -1
    return done, status, byte


@njit(cache=True, nogil=True)
def walk_runs(runs, run, windows, place, syncs, words, progress):  # type: ignore[no-untyped-def]
    """Walk `Runs` from `run` on, whose next rows are in the windows (`store_queue.View`). syncs:
    `sync_walk.SyncWalk`; the others: see `walk_span`. Returns (run, status, stream, byte): _REFILL asks for
    rows of that stream, _ROOM for room for words; the violations name the row at that stream's position."""
    stream, left = runs
    at, fill = windows.at, windows.fill
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            begin = at[s]
            if begin == fill[s]:
                return run, _REFILL, s, 0
            end = min(fill[s], begin + left[run])
            at[s], status, byte = walk_span(windows.rows[s], begin, end, s, place, words, progress)
            left[run] -= at[s] - begin
            if status == _PLACE:
                status = admit(windows.rows[s, at[s]], s, place, syncs)
            if status != _OK:
                return run, status, s, byte
        run += 1
    return run, _OK, 0, 0


class RegionWalker:
    """Walks regions, one at a time, in any order. memory_bytes: of the guest. strata: see `Traces`."""

    def __init__(self, memory_bytes: int, strata: NDArray[np.uint64], n_streams: int) -> None:
        self._words = unknown_words(memory_bytes)
        edge = np.ascontiguousarray(strata, np.uint64).reshape(-1, n_streams)
        self._edges = np.concatenate(
            [np.zeros((1, n_streams), np.uint64), edge, np.full((1, n_streams), _NO_END)]
        )

    def walk(self, region: Region, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Seam:
        """Walk all rows of a region in the order that the runs (stream and rows of each, int64) say.

        Raises OrderError at the first violation, also if a row is left out or the order ends inside an
        indivisible access.
        """
        windows, index = Windows([rows.pieces() for rows in region.streams]), region.index
        progress, runs = no_progress(), Runs(stream, rows.copy())
        syncs = sync_walk(region.syncs.points, len(region.streams) - 1)
        place = place_of(index, self._edges[index], self._edges[index + 1], syncs)
        run = 0
        try:
            while run < len(stream):
                run, status, s, byte = walk_runs(
                    runs, run, view_of(windows), place, syncs, self._words, progress
                )
                if status == _REFILL and runs.left[run] >= _LONG:
                    runs.left[run] -= self._walk_long(windows, s, int(runs.left[run]), place, syncs, progress)
                elif status == _REFILL:
                    if not windows.refill(s):
                        raise too_many(f"stream {s}, region {index}")
                elif status == _ROOM:
                    self._words = with_room(self._words)
                elif status != _OK:
                    row, unfinished = windows.rows[s, windows.at[s]], int(progress[UNFINISHED])
                    raise self._violation(row, unfinished, status, s, byte)
            self._expect_end(windows, int(progress[UNFINISHED]), index)
        finally:
            seam = self._seam(index, progress)
        return seam

    def _walk_long(
        self,
        windows: Windows,
        s: int,
        most: int,
        place: Place,
        syncs: SyncWalk,
        progress: NDArray[np.int64],
    ) -> int:
        """Walk up to `most` rows that follow a window, where they are: to copy them costs as much."""
        rows = windows.rest(s)
        if not len(rows):
            raise too_many(f"stream {s}, region {place.region}")
        done, status, byte = walk_span(rows, 0, min(len(rows), most), s, place, self._words, progress)
        if status == _PLACE:
            status = admit(rows[done], s, place, syncs)
        if status == _ROOM:
            self._words = with_room(self._words)
        elif status != _OK:
            raise self._violation(rows[done], int(progress[UNFINISHED]), status, s, byte)
        windows.skip(s, done)
        return int(done)

    def _expect_end(self, windows: Windows, unfinished: int, index: int) -> None:
        for s in range(len(windows.at)):
            if windows.at[s] < windows.fill[s] or windows.refill(s):
                raise OrderError(LEFT_OUT, where=name_row(s, windows.rows[s, windows.at[s]]))
        if unfinished >= 0:
            raise unfinished_access(f"stream {unfinished}, region {index}")

    def _violation(self, row: np.void, unfinished: int, status: int, s: int, byte: int) -> OrderError:
        where = name_row(s, row)
        if status == _PLACE:
            return misplaced(where)
        if status == _BEHIND:
            return OrderError(BEHIND, where=where)
        if status == _SPLIT:
            return split_access(unfinished, where)
        if status == _RANGE:
            return outside_memory(where)
        return not_as_held(row, byte, self.held(int(row["addr"]) + byte), where)

    def held(self, address: int) -> int:
        """What the walk so far left at an address that it touched."""
        return (int(self._words.value[address // 8]) >> (8 * (address % 8))) & 0xFF

    def _seam(self, index: int, progress: NDArray[np.int64]) -> Seam:
        """Read the touched words out and forget them."""
        touched = self._words.touched[: progress[TOUCHED]]
        bits = np.empty(len(touched), np.uint8)
        first, last = np.empty(len(touched), np.uint64), np.empty(len(touched), np.uint64)
        take_words(touched, self._words, bits, first, last)
        return Seam(index, int(progress[WALKED]), touched.astype(np.uint64), bits, first, last)
