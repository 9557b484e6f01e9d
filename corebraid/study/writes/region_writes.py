"""Writes of a region to some bytes, and where an event is in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import FETCH
from corebraid.names.event_names import EventName, EventNumbers
from corebraid.names.selection import AddressRange
from corebraid.study.writes.rows import Rows, are_writes, of_memory
from solver.regions.program_order import core_rows
from solver.regions.region import Region


@dataclass(frozen=True)
class Candidate:
    """One write: an EVENT, and the number by which its event is called."""

    row: np.void
    number: int

    @property
    def key(self) -> tuple[int, int, int, int]:
        """As `Access.key`."""
        return int(self.row["core"]), int(self.row["count"]), self.number, int(self.row["addr"])


@dataclass(frozen=True)
class Touch:
    """A write among the rows of a region. index: of its stream."""

    stream: int
    index: int
    candidate: Candidate


@dataclass(frozen=True)
class At:
    """The moment in its region. index: of the first row of its stream that comes behind it, or is it. row:
    that row, if it is the event."""

    stream: int
    index: int
    row: np.void | None


def breaks_of(region: Region, writes: list[Touch], at: At | None) -> list[NDArray[np.int64]]:
    """Of each stream the rows that must not be joined to others: a store of what is there already would
    be."""
    found: list[set[int]] = [set() for _ in region.streams]
    for one in writes:
        found[one.stream].add(one.index)
    if at is not None:
        found[at.stream].update((at.index, at.index + 1))
    return [np.array(sorted(one), np.int64) for one in found]


def writes_of(region: Region, stream: int, span: AddressRange) -> Iterator[Touch]:
    """The writes of a stream of a region to some bytes."""
    for first, rows, numbers in _numbered(region, stream):
        for k in np.flatnonzero(of_memory(rows, span) & are_writes(rows)).tolist():
            yield Touch(stream, first + k, Candidate(rows[k].copy(), int(numbers[k])))


def _numbered(
    region: Region, stream: int, every: bool = False
) -> Iterator[tuple[int, Rows, NDArray[np.int64]]]:
    """(index of the first, EVENT[n], int64[n] by which number each event is called), piece by piece."""
    numbers, at = EventNumbers(every=every), 0
    core = _core_of(region, stream)
    known = None
    if region.tails and core < len(region.tails):
        whole = core_rows(region, core).rows
        known = dict(zip(whole["seq"].tolist(), numbers.of(whole).tolist(), strict=True))
    for rows in region.streams[stream].pieces():
        if known is None:
            yield at, rows, numbers.of(rows)
        else:
            found = [known.get(seq, 0) for seq in rows["seq"].tolist()]
            yield at, rows, np.array(found, np.int64)
        at += len(rows)


def _core_of(region: Region, stream: int) -> int:
    """The core of a stream; under TSO its stores are one of their own."""
    threads = len(region.streams) - len(region.tails)
    return stream if stream < threads else stream - threads


def find_event(region: Region, event: EventName) -> At:
    """Where an event is in its region."""
    streams = [event.stream]
    if event.stream < len(region.tails):
        streams.append(len(region.streams) - len(region.tails) + event.stream)
    for stream in streams:
        for first, rows, numbers in _numbered(region, stream, event.number is not None):
            mine = np.flatnonzero((rows["count"] == np.uint64(event.count)) & _is_asked(rows, numbers, event))
            if len(mine):
                return At(stream, first + int(mine[0]), rows[int(mine[0])].copy())
    before = 0
    for rows in region.streams[event.stream].pieces():
        before += int((rows["count"] < np.uint64(event.count)).sum())
    return At(event.stream, before, None)


def _is_asked(rows: Rows, numbers: NDArray[np.int64], event: EventName) -> NDArray[np.bool_]:
    """Which rows have the number that an event says: the first access that is no fetch, or that one."""
    fetched = (rows["flags"] & np.uint8(FETCH)) != 0
    if event.number is None:
        return ~fetched & (numbers == 0)
    found: NDArray[np.bool_] = numbers == event.number
    return found
