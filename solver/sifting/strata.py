"""Strata regions: the streams cut at the strata, in lock step (MICRO 2009, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.rows.event import EVENT, GLUED, UNCACHED
from solver.regions.quiet import Quiet, Stretch
from solver.regions.region import Region, Rows
from solver.regions.sync_order import SyncsOfRegions
from solver.regions.traces import Events, Traces
from solver.tenures.region import TenuresOfRegions

#: Most rows of one indivisible access; the longest that exist are two.
MAX_GLUED = 16

_BAD_SIZE, _BAD_ADDRESS, _BAD_STRATUM, _CUT_OFF, _TOO_LONG = 1, 2, 3, 4, 5
_REMEDY = "extract the trace again; if it persists the recording is damaged"
_BAD = {
    _BAD_SIZE: "an event of no possible size",
    _BAD_ADDRESS: "an event outside memory",
    _BAD_STRATUM: "strata numbers that run backwards or past the last stratum",
    _CUT_OFF: "an event where the rest of an indivisible access should be",
    _TOO_LONG: f"an indivisible access of more than {MAX_GLUED} events",
}


@njit(cache=True, nogil=True)
def first_bad_row(rows, last, n_strata, memory_bytes):  # type: ignore[no-untyped-def]
    """(index, reason) of the first row that no trace may hold, or (-1, 0). last (uint64): stratum,
    instruction count of the row before, and how many GLUED rows end with it; updated."""
    for i in range(rows.size):
        row = rows[i]
        stratum = np.int64(last[0])
        size = np.int64(row.size)
        if size < 1 or size > 8:
            return i, _BAD_SIZE
        outside = row.addr > np.uint64(memory_bytes) or row.addr + np.uint64(size) > np.uint64(memory_bytes)
        if outside and (row.flags & UNCACHED) == 0:
            return i, _BAD_ADDRESS
        if np.int64(row.stratum) < stratum or np.int64(row.stratum) > n_strata:
            return i, _BAD_STRATUM
        if last[2] and (row.count != last[1] or np.int64(row.stratum) != stratum):
            return i, _CUT_OFF
        glued = last[2] + np.uint64(1) if row.flags & GLUED else np.uint64(0)
        if glued >= MAX_GLUED:
            return i, _TOO_LONG
        last[0], last[1], last[2] = row.stratum, row.count, glued
    return -1, 0


@njit(cache=True)
def rows_up_to(rows, region):  # type: ignore[no-untyped-def]
    """How many of the rows, which are in order of strata, are of this region or an earlier one."""
    low, high = 0, rows.size
    while low < high:
        middle = (low + high) // 2
        if np.int64(rows[middle].stratum) > region:
            high = middle
        else:
            low = middle + 1
    return low


class Cursor:
    """One stream: what was read of it and not yet handed out. chunks: `traces.chunks(stream)` or the same
    from `traces.streams()`.

    Raises FormatError for a row that no trace may hold (size, address, order of strata).
    """

    def __init__(self, traces: Traces, stream: int, chunks: Iterator[Events] | None = None) -> None:
        self._traces, self._stream = traces, stream
        self._chunks = iter(traces.chunks(stream) if chunks is None else chunks)
        self._rest: Events = np.empty(0, EVENT)
        self._last = np.zeros(3, np.uint64)

    def _refill(self) -> bool:
        """Read on, behind what is there. False at the end."""
        for chunk in self._chunks:
            if len(chunk):
                rows = np.asarray(chunk, EVENT)
                self._validate(rows)
                self._rest = np.concatenate([self._rest, rows]) if len(self._rest) else rows
                return True
        if self._last[2]:
            raise FormatError(
                "the trace ends inside an indivisible access",
                where=f"stream {self._stream}, instruction count {int(self._last[1])}",
                remedy=_REMEDY,
            )
        return False

    def _validate(self, rows: Events) -> None:
        n_strata = len(self._traces.strata)
        bad, why = first_bad_row(rows, self._last, n_strata, self._traces.memory_bytes)
        if bad >= 0:
            row = rows[bad]
            raise FormatError(
                _BAD[why],
                found=f"address {int(row['addr']):#x}, size {row['size']}, stratum {row['stratum']}",
                where=f"stream {self._stream}, event {row['seq']}, instruction count {row['count']}",
                remedy=_REMEDY,
            )

    def take(self, region: int) -> Iterator[Events]:
        """The stream's rows of a region, piece by piece; regions must come in order."""
        while len(self._rest) or self._refill():
            n = rows_up_to(self._rest, region)
            piece, self._rest = self._rest[:n], self._rest[n:]
            if n:
                yield piece
            if len(self._rest):
                return

    @property
    def next_region(self) -> int | None:
        """The region of the next row, once those of the regions before it are taken; None at the end."""
        return int(self._rest["stratum"][0]) if len(self._rest) else None

    def upcoming(self, seq: int) -> Events:
        """The rows not handed out yet whose number is below `seq`."""
        while not len(self._rest) or self._rest["seq"][-1] < seq:
            if not self._refill():
                break
        return self._rest[: int(np.searchsorted(self._rest["seq"], seq))].copy()

    def rows(self, region: int) -> Rows:
        """`take`, put together."""
        rows = Rows()
        for piece in self.take(region):
            rows.append(piece)
        return rows


class _Regions:
    """All streams of traces, cut at the strata side by side. n: how many regions there are."""

    def __init__(self, traces: Traces) -> None:
        self.n = len(traces.strata) + 1
        self._cursors = [Cursor(traces, stream, chunks) for stream, chunks in enumerate(traces.streams())]
        self._n_streams, self._buffered = traces.n_streams, traces.buffered
        self._syncs, self._tenures = SyncsOfRegions(traces), TenuresOfRegions.of(traces)

    def take(self, index: int) -> Region:
        """A region; they must come in order."""
        first = self._n_streams - self._buffered
        streams = [cursor.rows(index) for cursor in self._cursors]
        tails = [
            self._cursors[first + core].upcoming(streams[core].last_number) for core in range(self._buffered)
        ]
        tenures = self._tenures.of_region(index, streams) if self._tenures else None
        return Region(index, streams, tails, self._syncs.of(index), tenures)

    def quiet_from(self, index: int) -> Quiet:
        """The run of quiet regions, perhaps none, that begins with this one, those before having been taken;
        they count as taken."""
        ahead = [cursor.next_region for cursor in self._cursors]
        ahead += [self._syncs.next_region(index), self._tenures.next_loss if self._tenures else None]
        end = min((region for region in ahead if region is not None), default=self.n)
        quiet = Quiet(index, max(index, min(end, self.n)), self._n_streams, self._buffered)
        if self._tenures:
            self._tenures.pass_over(quiet.end - quiet.first)
        return quiet


def iter_regions(traces: Traces) -> Iterator[Region]:
    """Every region from the first to the last, n_strata + 1 of them, empty ones included.

    Raises FormatError as `Cursor` does.
    """
    regions = _Regions(traces)
    for index in range(regions.n):
        yield regions.take(index)


def iter_stretches(traces: Traces) -> Iterator[Stretch]:
    """The same, but runs of quiet regions as one. Raises what `iter_regions` does, where it does."""
    regions, index = _Regions(traces), 0
    while index < regions.n:
        yield regions.take(index)
        quiet = regions.quiet_from(index + 1)
        if quiet.first < quiet.end:
            yield quiet
        index = quiet.end
