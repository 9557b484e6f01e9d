"""Unfiltered events: what is left after local and read-only accesses (MICRO 2009, section 4.3) and
repeated reads are dropped.

Filtered accesses follow from one another: those of a local granule are one stream's program order, those of a
read-only one all see the same. `granules.py` followed the words that have nothing else; this pass follows the
filtered bytes of the others, and those that did not follow, to name the event.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import UNCACHED
from solver.regions.batches import Batch
from solver.regions.problem import Problem
from solver.regions.region import Region
from solver.sifting.granules import Granules
from solver.sifting.operations import (
    AT,
    CONTRADICTS,
    DONE,
    FULL,
    HOT,
    KEPT,
    MOST_PARTS,
    READ_ONLY,
    Operations,
    Parts,
    sift_pieces,
)
from solver.sifting.sync_edges import edges_of
from solver.sifting.words import LEFT_OUT, WordTable, list_chains

_DAMAGED = "the recording is damaged: record again, or run 'corebraid verify' to see where"


@dataclass(frozen=True)
class Counts:
    """Event rows of a region by what became of them. total is the sum of the others.

    uncached: left out entirely. local: every granule touched by one stream only. read_only: the other
    filtered ones. collapsed: repeats of an identical read. unfiltered: rows left to order.
    """

    total: int
    uncached: int
    local: int
    read_only: int
    collapsed: int
    unfiltered: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.uncached + other.uncached,
            self.local + other.local,
            self.read_only + other.read_only,
            self.collapsed + other.collapsed,
            self.unfiltered + other.unfiltered,
        )


class Chains(NamedTuple):
    """What a region's filtered accesses say of its two ends, for every 8-byte word that it touches.

    word: uint64 (n,), address / 8. known, written: uint8 (n,), bit b set if byte b is filtered; if an
    event of the region wrote it. first, last: uint64 (n,), values at the two ends of the known bytes.
    """

    word: NDArray[np.uint64]
    known: NDArray[np.uint8]
    written: NDArray[np.uint8]
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


class Gathered:
    """A region's unfiltered operations, of all streams in the order in which they are sifted, in arrays that
    grow. breaks: rows of each stream (int64 (n,), ascending) that begin an operation of their own. room:
    operations that the arrays have room for at first."""

    def __init__(self, breaks: Sequence[NDArray[np.int64]], room: int = 256) -> None:
        self._tallies = np.zeros((len(breaks), AT), np.int64)
        begin = np.cumsum([0] + [len(rows) for rows in breaks], dtype=np.int64)
        self._breaks = begin, np.concatenate([np.empty(0, np.int64), *breaks])
        parts = 2 * max(room, MOST_PARTS)
        self._parts = Parts(np.empty(parts, np.int32), np.empty(parts, np.uint64), np.empty(parts, np.uint64))
        self._operations = Operations(np.zeros(room + 1, np.int64), np.empty(room, np.int64))
        self._ops = self._n_parts = 0
        self._streams: list[NDArray[np.int64]] = []
        self._behind: list[NDArray[np.int64]] = []

    @property
    def tally(self) -> NDArray[np.int64]:
        """How many rows became what, of all streams: int64 (AT,). OPS, PARTS and ENDED say nothing."""
        return np.asarray(self._tallies.sum(axis=0))

    def sift(self, batch: Batch, table: WordTable) -> tuple[int, int, int, int]:
        """Sift a batch. Returns (status, piece, row of it, byte) of `sift_rows`, never FULL."""
        behind = np.zeros(len(batch.pieces.end), np.int64)
        at = np.array([0, 0, self._ops, self._n_parts], np.int64)
        status, byte = FULL, 0
        while status == FULL:
            status, byte = sift_pieces(
                batch.rows, at, batch.pieces, self._breaks, table.entries,
                (self._parts, self._operations, behind), self._tallies,
            )  # fmt: skip
            if status == FULL:
                self._grow()
        piece, row, self._ops, self._n_parts = at.tolist()
        self._streams.append(batch.pieces.stream)
        self._behind.append(behind)
        return status, piece, row, byte

    def _grow(self) -> None:
        self._parts = Parts(*(_doubled(column) for column in self._parts))
        self._operations = Operations(*(_doubled(column) for column in self._operations))

    def by_stream(self) -> list[tuple[Parts, Operations]]:
        """The operations of each stream."""
        behind = np.concatenate([np.zeros(1, np.int64), *self._behind])
        stream = np.repeat(np.concatenate([np.empty(0, np.int64), *self._streams]), np.diff(behind))
        n = len(stream)
        begin, end_row = self._operations.part_ptr[: n + 1], self._operations.end_row[:n]
        order = np.argsort(stream, kind="stable")
        lengths = np.diff(begin)[order]
        part_ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        moved = np.repeat(begin[:-1][order] - part_ptr[:-1], lengths) + np.arange(part_ptr[-1])
        parts = [column[moved] for column in self._parts]
        edges = np.searchsorted(stream[order], np.arange(len(self._tallies) + 1))
        return [
            (
                Parts(*(column[part_ptr[low] : part_ptr[high]] for column in parts)),
                Operations(part_ptr[low : high + 1] - part_ptr[low], end_row[order[low:high]]),
            )
            for low, high in pairwise(edges.tolist())
        ]


def _doubled(column: NDArray[Any]) -> NDArray[Any]:
    longer = np.empty(2 * len(column), column.dtype)
    longer[: len(column)] = column
    return longer


def _refuse(region: Region, stream: int, bad: np.void, status: int, byte: int) -> OrderError:
    if status == CONTRADICTS:
        return OrderError(
            "an indivisible access that contradicts itself",
            where=f"region {region.index}, stream {stream}, event {bad['seq']}",
            remedy="the recording is damaged",
        )
    address = int(bad["addr"]) + byte
    held = _value_before(region, stream, int(bad["seq"]), address)
    return broken_chain(region.index, stream, bad, byte, held)


def _value_before(region: Region, stream: int, seq: int, address: int) -> int:
    """What a filtered byte holds before an event: the new value of the last earlier access."""
    held = 0
    for number, rows in enumerate(region.streams[: stream + 1]):
        for piece in rows.pieces():
            inside = (piece["addr"] <= address) & (address - piece["addr"] < piece["size"])
            inside &= (piece["flags"] & UNCACHED) == 0
            if number == stream:
                inside &= piece["seq"] < seq
            for row in piece[inside][-1:]:
                held = (int(row["new"]) >> (8 * (address - int(row["addr"])))) & 0xFF
    return held


def broken_chain(region: int, stream: int, row: np.void, byte: int, held: int) -> OrderError:
    """The error for an event whose old value at `byte` is not what memory holds there."""
    return OrderError(
        "an event does not follow from memory",
        expected=f"{(int(row['old']) >> (8 * byte)) & 0xFF:#04x}",
        found=f"{held:#04x}",
        where=f"region {region}, address {int(row['addr']) + byte:#x}, 1 bytes, stream {stream}, "
        f"event {row['seq']}, instruction count {row['count']}, pc {int(row['pc']):#x}",
        remedy=_DAMAGED,
    )


def sift(region: Region, g: Granules) -> tuple[Problem, Counts, Chains]:
    """The region's unfiltered events as a `Problem` (its boundary values still zero), the counts, and what
    the filtered ones say. The granules are used up: each table serves once.

    Raises OrderError if rows of one indivisible access contradict each other, or if a filtered access does
    not see what the one before it left.
    """
    breaks = region.breaks or [np.empty(0, np.int64)] * len(region.streams)
    gathered = Gathered(breaks)
    if not g.plain:
        _sift_rows(region, g, gathered)
    hot, kept, read_only = (int(gathered.tally[k]) for k in (HOT, KEPT, READ_ONLY))
    total, uncached = region.events, int(g.table.used[LEFT_OUT])
    counts = Counts(total, uncached, total - uncached - read_only - hot, read_only, hot - kept, kept)
    problem = problem_of(region, g, gathered.by_stream())
    edges = edges_of(region.places, problem.stream_ptr, problem.end_row, len(region.streams) - 1)
    return replace(problem, edges=edges), counts, chains_of(g)


def _sift_rows(region: Region, g: Granules, gathered: Gathered) -> None:
    """Sift all rows, in the order in which `granules` followed them."""
    for batch in region.in_order():
        status, piece, row, byte = gathered.sift(batch, g.table)
        if status != DONE:
            bad = batch.rows[batch.pieces.begin[piece] + row]
            raise _refuse(region, int(batch.pieces.stream[piece]), bad, status, byte)


def problem_of(region: Region, g: Granules, streams: Sequence[tuple[Parts, Operations]]) -> Problem:
    """A region's operations, stream after stream, as a problem without edges; its boundary values are
    zero."""
    part_base = np.cumsum([0] + [len(parts.granule) for parts, _ in streams])
    empty = np.zeros(len(g.address), np.uint64)
    return Problem(
        region=region.index,
        rows=np.array([len(rows) for rows in region.streams], np.int64),
        stream_ptr=np.cumsum([0] + [len(ops.end_row) for _, ops in streams]).astype(np.int64),
        end_row=np.concatenate([ops.end_row for _, ops in streams]),
        part_ptr=np.concatenate(
            [np.zeros(1, np.int64)] + [ops.part_ptr[1:] + part_base[s] for s, (_, ops) in enumerate(streams)]
        ),
        granule=np.concatenate([parts.granule for parts, _ in streams]),
        old=np.concatenate([parts.old for parts, _ in streams]),
        new=np.concatenate([parts.new for parts, _ in streams]),
        address=g.address,
        size=g.size,
        initial=empty,
        final=empty,
        syncs=region.places,
    )


def chains_of(g: Granules) -> Chains:
    """What the filtered accesses of a region that was sifted say."""
    word = g.touched.copy()
    known, written = np.empty(len(word), np.uint8), np.empty(len(word), np.uint8)
    first, last = np.empty(len(word), np.uint64), np.empty(len(word), np.uint64)
    list_chains(word, g.table.entries, known, written, first, last)
    return Chains(word, known, written, first, last)


def unfiltered(region: Region, g: Granules) -> tuple[Problem, Counts]:
    """The first two of `sift`."""
    problem, counts, _ = sift(region, g)
    return problem, counts
