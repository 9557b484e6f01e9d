"""Strata regions: the streams cut at the strata, in lock step (MICRO 2009, section 4.2)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isa.errors import FormatError
from recorder.event import EVENT, GLUED, UNCACHED
from solver.sync_order import (
    RegionSyncs,
    Segments,
    SyncsOfRegions,
    in_segments,
    no_syncs,
    places,
    segments,
)
from solver.tenures.buffered_deduce import BufferedTenures
from solver.tenures.region import RegionTenures, TenuresOfRegions
from solver.traces import Events, Traces

#: A stream's rows of one region go to a temporary file above this many, so that a recording without
#: strata does not need memory for all its events.
SPILL_ROWS = 1 << 17

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


class RowSource(Protocol):
    """One stream's rows of one region in program order."""

    def __len__(self) -> int:
        """How many."""

    def pieces(self) -> Iterator[Events]:
        """The rows from the first to the last, as EVENT arrays; none ends inside an indivisible access."""


class Rows:
    """One stream's rows of one region in program order, to be read as often as needed, piece by piece.

    They are held in memory, or in a temporary file once there are many. No piece ends inside an
    indivisible access.
    """

    def __init__(self) -> None:
        self._parts: list[Events] = []
        self._held = self._spilled = 0
        self._carry: Events = np.empty(0, EVENT)
        self._file: IO[bytes] | None = None
        self._ends: list[int] = []
        self._last_number = 0

    def append(self, rows: Events) -> None:
        """Add the rows that come next. The last of all must not be GLUED."""
        if len(self._carry):
            rows = np.concatenate([self._carry, rows])
        whole = len(rows)
        while whole and rows["flags"][whole - 1] & GLUED:
            whole -= 1
        self._carry = rows[whole:]
        if whole:
            self._last_number = int(rows["seq"][whole - 1])
            self._parts.append(rows[:whole])
            self._held += whole
        if self._held > SPILL_ROWS:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="corebraid-region-")  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        for part in self._parts:
            self._file.write(np.ascontiguousarray(part).view(np.uint8).data)
            self._spilled += len(part)
            self._ends.append(self._spilled)
        self._parts, self._held = [], 0

    def __len__(self) -> int:
        return self._spilled + self._held

    @property
    def last_number(self) -> int:
        """`seq` of the last row, 0 if there is none."""
        return self._last_number

    def pieces(self) -> Iterator[Events]:
        """The rows from the first to the last, as EVENT arrays."""
        first = 0
        for end in self._ends:
            assert self._file is not None
            self._file.seek(first * EVENT.itemsize)
            yield np.frombuffer(bytearray(self._file.read((end - first) * EVENT.itemsize)), EVENT)
            first = end
        yield from self._parts


@dataclass(frozen=True)
class Region:
    """The events between two successive strata. streams: the rows of each stream. tails: under TSO, for each
    core its stores (EVENT) that precede a row of this region in program order and commit in a later one.
    syncs: where agents met cores. tenures: of the cores, None if they are not to be used. breaks: of each
    stream rows (int64 (n,), ascending) that begin an operation of their own."""

    index: int
    streams: Sequence[RowSource]
    tails: Sequence[Events] = ()
    syncs: RegionSyncs = field(default_factory=no_syncs)
    tenures: RegionTenures | BufferedTenures | None = None
    breaks: Sequence[NDArray[np.int64]] = ()

    @property
    def events(self) -> int:
        """Number of event rows."""
        return sum(len(rows) for rows in self.streams)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where the sync points stand: `sync_order.places`."""
        return places(self.syncs, [rows.pieces() for rows in self.streams])

    def with_breaks(self, breaks: Sequence[NDArray[np.int64]]) -> Region:
        """This region with other `breaks`."""
        region = replace(self, breaks=breaks)
        region.__dict__["places"] = self.places
        return region

    def in_order(self) -> Iterator[tuple[int, int, Events]]:
        """All rows, in an order that the sync points allow: (stream, owner, EVENT (n,)); a piece lies between
        two sync points of its stream. Under SC."""
        if not len(self.syncs.points):
            for stream, rows in enumerate(self.streams):
                for piece in rows.pieces():
                    yield stream, stream, piece
            return
        yield from in_segments(self._segments, [rows.pieces() for rows in self.streams])

    @cached_property
    def _segments(self) -> Segments:
        return segments(self.syncs, self.places, [len(rows) for rows in self.streams])


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


def iter_regions(traces: Traces) -> Iterator[Region]:
    """Every region from the first to the last, n_strata + 1 of them, empty ones included.

    Raises FormatError as `Cursor` does.
    """
    cursors = [Cursor(traces, stream, chunks) for stream, chunks in enumerate(traces.streams())]
    first = traces.n_streams - traces.buffered
    syncs, tenures = SyncsOfRegions(traces), TenuresOfRegions.of(traces)
    for index in range(len(traces.strata) + 1):
        streams = [cursor.rows(index) for cursor in cursors]
        tails = [cursors[first + core].upcoming(streams[core].last_number) for core in range(traces.buffered)]
        yield Region(
            index, streams, tails, syncs.of(index), tenures.of_region(index, streams) if tenures else None
        )
