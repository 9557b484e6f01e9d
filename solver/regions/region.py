"""A strata region: the rows of every stream between two successive strata (MICRO 2009, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, GLUED
from corebraid.base.scratch_file import ScratchFile
from solver.regions.batches import Batch, batches, stream_by_stream
from solver.regions.hold_rows import HoldRows
from solver.regions.sync_order import RegionSyncs, Segments, no_syncs, places, segments
from solver.regions.traces import Events

#: A stream's rows of one region go to a temporary file above this many, so that a recording without
#: strata does not need memory for all its events.
SPILL_ROWS = 1 << 17


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
        self._file: ScratchFile | None = None
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
            self._file = ScratchFile()
        for part in self._parts:
            at = self._spilled * EVENT.itemsize
            self._file.write(at, np.ascontiguousarray(part).view(np.uint8).data)
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
            data = self._file.read(first * EVENT.itemsize, (end - first) * EVENT.itemsize)
            yield np.frombuffer(data, EVENT)
            first = end
        yield from self._parts


class Tenures(Protocol):
    """What is known of the tenures of a region (`solver.tenures.region`)."""

    def deduced(self, region: Region, holds: HoldRows | None = None) -> Any:
        """What they prove of the region's rows: `solver.tenures.deduce.Deduced`. holds: rows of it. None:
        nothing that the values of those do not tell."""


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
    tenures: Tenures | None = None
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

    def in_order(self) -> Iterator[Batch]:
        """All rows, in an order that the sync points allow; a piece lies between two sync points of its
        stream. Under SC."""
        streams = [rows.pieces() for rows in self.streams]
        return batches(self._segments, streams) if len(self.syncs.points) else stream_by_stream(streams)

    @cached_property
    def _segments(self) -> Segments:
        return segments(self.syncs, self.places, [len(rows) for rows in self.streams])
