"""`solver.check.region_walk.RegionWalker` for regions under TSO, with the checkers' own store buffers
(`solver.check.store_queue`)."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.check.progress import UNFINISHED, WALKED, no_progress
from solver.check.region_walk import RegionWalker, Runs
from solver.check.seams import Seam
from solver.check.store_queue import (
    FORWARDED,
    VIOLATIONS,
    WANTS_ROOM,
    WANTS_ROWS,
    make_queues,
    take,
    view_of,
    with_room,
)
from solver.check.sync_walk import BEHIND, SyncWalk, pass_syncs, sync_walk
from solver.check.windows import Windows
from solver.check.words import walk_row
from solver.regions.region import Region
from solver.regions.traces import Events
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

_OK, _OLD, _PLACE, _SPLIT, _RANGE, _BEHIND = 0, 16, 17, 18, 19, 20


class Stand(NamedTuple):
    """Where a region's rows may stand, and how far its streams are. region: its number. low, high: uint64
    (n_streams,), the places at its two ends. syncs: its sync points. done: int64 (n_streams,), rows
    walked."""

    region: int
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    syncs: SyncWalk
    done: NDArray[np.int64]


@njit(cache=True)
def walk_buffered(runs, run, stand, w, q, words, progress):  # type: ignore[no-untyped-def]
    """As `solver.check.region_walk.walk_runs`. Returns (run, status, stream, byte): what `take` wants or
    found wrong, or one of the statuses here, of the row in q.taken."""
    stream, left = runs
    low, high, done = stand.low, stand.high, stand.done
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            status = take(s, w, q)
            if status > FORWARDED:
                return run, status, q.wanted[0] if status == WANTS_ROWS else s, 0
            row = q.taken[0]
            if progress[UNFINISHED] >= 0 and progress[UNFINISHED] != s:
                return run, _SPLIT, s, 0
            place = low[s] + np.uint64(done[s]) if s >= q.base[0] else row.count
            if np.int64(row.stratum) != stand.region or place < low[s] or place >= high[s]:
                return run, _PLACE, s, 0
            if not pass_syncs(s - q.base[0] if s >= q.base[0] else s, row.count, stand.syncs):
                return run, _BEHIND, s, 0
            if status != FORWARDED and row.flags & UNCACHED == 0:
                size, memory = np.uint64(row.size), words.memory
                if row.addr > memory or row.addr + size > memory or size < 1 or size > 8:
                    return run, _RANGE, s, 0
                byte = walk_row(row, words, progress)
                if byte >= 0:
                    return run, _OLD, s, byte
            progress[UNFINISHED] = s if row.flags & GLUED else -1
            done[s] += 1
            progress[WALKED] += 1
            left[run] -= 1
        run += 1
    return run, _OK, 0, 0


class BufferedWalker(RegionWalker):
    """Walks regions under TSO, one at a time, in any order."""

    def walk(self, region: Region, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Seam:
        """See `RegionWalker.walk`. The stores in the region's tails are issued and do not commit."""
        n, index = len(region.streams), region.index
        tails: list[list[Events]] = [[]] * (n - len(region.tails)) + [[tail] for tail in region.tails]
        streams = zip(region.streams, tails, strict=True)
        windows = Windows([chain(rows.pieces(), tail) for rows, tail in streams])
        view, q, runs = view_of(windows), make_queues(n, len(region.tails)), Runs(stream, rows.copy())
        self._words = self._words._replace(touched=np.empty(2 * region.events + 2, np.int64))
        syncs, progress = sync_walk(region.syncs.points, len(region.tails)), no_progress()
        stand = Stand(index, self._edges[index], self._edges[index + 1], syncs, np.zeros(n, np.int64))
        run = 0
        try:
            while run < len(stream):
                run, status, s, byte = walk_buffered(runs, run, stand, view, q, self._words, progress)
                if status == WANTS_ROOM:
                    q = with_room(q)
                elif status == WANTS_ROWS:
                    windows.refill(s)
                elif status != _OK:
                    raise self._refusal(q.taken[0], int(progress[UNFINISHED]), status, s, byte)
            self._expect_all(region, stand.done, int(progress[UNFINISHED]))
        finally:
            seam = self._seam(index, progress)
        return seam

    @staticmethod
    def _expect_all(region: Region, done: NDArray[np.int64], unfinished: int) -> None:
        for s, events in enumerate(region.streams):
            where = f"stream {s}, region {region.index}: {int(done[s])} of {len(events)} events"
            if done[s] > len(events):
                raise too_many(where)
            if done[s] < len(events):
                raise OrderError(LEFT_OUT, where=where)
        if unfinished >= 0:
            raise unfinished_access(f"stream {unfinished}, region {region.index}")

    def _refusal(self, row: np.void, unfinished: int, status: int, s: int, byte: int) -> OrderError:
        where = name_row(s, row)
        if status in VIOLATIONS:
            return OrderError(VIOLATIONS[status], where=where)
        if status == _PLACE:
            return misplaced(where)
        if status == _BEHIND:
            return OrderError(BEHIND, where=where)
        if status == _SPLIT:
            return split_access(unfinished, where)
        if status == _RANGE:
            return outside_memory(where)
        return not_as_held(row, byte, self.held(int(row["addr"]) + byte), where)
