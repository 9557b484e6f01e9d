"""Strata regions: the streams cut at the strata, in lock step (MICRO 2009, section 4.2)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numba import njit

from isa.errors import FormatError
from recorder.event import EVENT, GLUED, UNCACHED
from solver.traces import Events, Traces

#: A stream's rows of one region go to a temporary file above this many, so that a recording without
#: strata does not need memory for all its events.
SPILL_ROWS = 1 << 20

_BAD_SIZE, _BAD_ADDRESS, _BAD_STRATUM, _CUT_OFF = 1, 2, 3, 4
_REMEDY = "extract the trace again; if it persists the recording is damaged"
_BAD = {
    _BAD_SIZE: "an event of no possible size",
    _BAD_ADDRESS: "an event outside memory",
    _BAD_STRATUM: "strata numbers that run backwards or past the last stratum",
    _CUT_OFF: "an event where the rest of an indivisible access should be",
}


@dataclass(frozen=True)
class Region:
    """The events between two successive strata. rows: one EVENT array a stream, in program order."""

    index: int
    rows: list[Events]

    @property
    def events(self) -> int:
        """Number of event rows."""
        return sum(len(rows) for rows in self.rows)


@njit(cache=True)
def first_bad_row(rows, last, n_strata, memory_bytes):  # type: ignore[no-untyped-def]
    """(index, reason) of the first row that no trace may hold, or (-1, 0). last (uint64): stratum,
    instruction count and GLUED flag of the row before; updated."""
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
        last[0], last[1], last[2] = row.stratum, row.count, row.flags & GLUED
    return -1, 0


class _Cursor:
    """One stream: what was read of it and not yet handed out."""

    def __init__(self, traces: Traces, stream: int) -> None:
        self._traces, self._stream = traces, stream
        self._chunks = iter(traces.chunks(stream))
        self._rest: Events = np.empty(0, EVENT)
        self._last = np.zeros(3, np.uint64)

    def _refill(self) -> bool:
        for chunk in self._chunks:
            if len(chunk):
                self._rest = np.array(chunk, EVENT)
                self._validate(self._rest)
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

    def take(self, region: int) -> Events:
        """The stream's rows of a region."""
        rows = _Rows()
        while len(self._rest) or self._refill():
            n = int(np.searchsorted(self._rest["stratum"], region, side="right"))
            rows.append(self._rest[:n])
            self._rest = self._rest[n:]
            if len(self._rest):
                break
        return rows.finish()


class _Rows:
    """Rows gathered in memory, or in a temporary file once there are many."""

    def __init__(self) -> None:
        self._parts: list[Events] = []
        self._held = 0
        self._file: IO[bytes] | None = None

    def append(self, rows: Events) -> None:
        self._parts.append(rows)
        self._held += len(rows)
        if self._held > SPILL_ROWS:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="corebraid-region-")  # noqa: SIM115
        for part in self._parts:
            self._file.write(np.ascontiguousarray(part).view(np.uint8).data)
        self._parts, self._held = [], 0

    def finish(self) -> Events:
        if self._file is None:
            if len(self._parts) == 1:
                return self._parts[0]
            return np.concatenate(self._parts) if self._parts else np.empty(0, EVENT)
        self._spill()
        self._file.flush()
        return np.asarray(np.memmap(self._file, EVENT, "r+"))


def iter_regions(traces: Traces) -> Iterator[Region]:
    """Every region from the first to the last, n_strata + 1 of them, empty ones included.

    Raises FormatError for a row that no trace may hold (size, address, order of strata).
    """
    cursors = [_Cursor(traces, stream) for stream in range(traces.n_streams)]
    for index in range(len(traces.strata) + 1):
        yield Region(index, [cursor.take(index) for cursor in cursors])
