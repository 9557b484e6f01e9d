"""Unfiltered events: what is left after local and read-only accesses (MICRO 2009, section 4.3) and
repeated reads (DESIGN 6.3) are dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isa.errors import OrderError
from recorder.event import GLUED, UNCACHED
from solver.granules import SHARED, Granules, find_slot
from solver.problem import Problem
from solver.regions import Region

_LOCAL, _READ_ONLY, _HOT = 0, 1, 2


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


@njit(cache=True)
def row_class(row, keys, owner, hot):  # type: ignore[no-untyped-def]
    """(class, number of unfiltered granules) of one row."""
    parts, local = 0, True
    for i in range(np.int64(row.size)):
        a = row.addr + np.uint64(i)
        slot = find_slot(a >> np.uint64(3), keys)
        b = np.int64(a & np.uint64(7))
        if hot[slot] & (1 << b):
            parts += 1
        if owner[slot, b] == SHARED:
            local = False
    if parts > 0:
        return _HOT, parts
    return (_LOCAL if local else _READ_ONLY), 0


@njit(cache=True)
def count_rows(rows, keys, owner, hot):  # type: ignore[no-untyped-def]
    """(uncached, local, read-only, unfiltered rows, unfiltered parts) before repeats are dropped."""
    counts = np.zeros(5, np.int64)
    for i in range(rows.size):
        if rows[i].flags & UNCACHED:
            counts[0] += 1
            continue
        kind, parts = row_class(rows[i], keys, owner, hot)
        counts[1 + kind] += 1
        counts[4] += parts
    return counts


@njit(cache=True)
def row_parts(row, keys, hot, hot_bytes, base, first, at, granule, old, new):  # type: ignore[no-untyped-def]
    """Append a row's unfiltered parts to those of its operation, which start at `first`.

    Returns the new end, or -1 if the operation contradicts itself (a granule touched twice whose second
    old value is not the first new one).
    """
    shift, p = np.uint64(0), at
    for i in range(np.int64(row.size)):
        a = row.addr + np.uint64(i)
        slot = find_slot(a >> np.uint64(3), keys)
        b = np.int64(a & np.uint64(7))
        if hot[slot] & (1 << b):
            number = base[slot]
            for lower in range(b):
                number += (hot[slot] >> lower) & 1
            granule[p], old[p], new[p], shift = number, np.uint64(0), np.uint64(0), np.uint64(0)
            p += 1
        if hot_bytes[slot] & (1 << b):
            old[p - 1] |= ((row.old >> np.uint64(8 * i)) & np.uint64(0xFF)) << shift
            new[p - 1] |= ((row.new >> np.uint64(8 * i)) & np.uint64(0xFF)) << shift
            shift += np.uint64(8)
    end = at
    for q in range(at, p):
        twin = -1
        for r in range(first, at):
            if granule[r] == granule[q]:
                twin = r
        if twin < 0:
            granule[end], old[end], new[end] = granule[q], old[q], new[q]
            end += 1
        elif new[twin] != old[q]:
            return -1
        else:
            new[twin] = new[q]
    return end


@njit(cache=True)
def repeats(first, middle, end, granule, old, new):  # type: ignore[no-untyped-def]
    """Whether the parts middle..end are the same pure reads as the parts first..middle."""
    if middle - first != end - middle:
        return False
    for i in range(end - middle):
        p, q = first + i, middle + i
        if granule[p] != granule[q] or old[p] != old[q] or new[p] != old[p] or new[q] != old[q]:
            return False
    return True


@njit(cache=True)
def select_rows(rows, keys, hot, hot_bytes, base, granule, old, new, part_ptr, end_row, at):  # type: ignore[no-untyped-def]
    """Append the unfiltered operations of a piece of a stream. at = [operations, unfiltered rows, rows before
    the piece]; updated. Returns the number of a row that contradicts its operation, or -1."""
    ops, kept = at[0], at[1]
    part, i = part_ptr[ops], 0
    while i < rows.size:
        first, op_rows = part, 0
        while True:
            glued = (rows[i].flags & GLUED) != 0
            if (rows[i].flags & UNCACHED) == 0:
                end = row_parts(rows[i], keys, hot, hot_bytes, base, first, part, granule, old, new)
                if end < 0:
                    return i
                op_rows += 1 if end > part else 0
                part = end
            i += 1
            if not glued or i == rows.size:
                break
        if part == first:
            continue
        if ops > 0 and repeats(part_ptr[ops - 1], first, part, granule, old, new):
            part = first
        else:
            ops += 1
            part_ptr[ops] = part
            kept += op_rows
        end_row[ops - 1] = at[2] + i
    at[0], at[1] = ops, kept
    at[2] += rows.size
    return -1


@dataclass
class _Gathered:
    """One stream's unfiltered operations."""

    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    part_ptr: NDArray[np.int64]
    end_row: NDArray[np.int64]
    kept: int


def _gather(region: Region, stream: int, g: Granules, tally: NDArray[np.int64]) -> _Gathered:
    n_rows, n_parts = int(tally[3]), int(tally[4])
    granule, old, new = (
        np.zeros(n_parts, np.int32),
        np.zeros(n_parts, np.uint64),
        np.zeros(n_parts, np.uint64),
    )
    part_ptr, end_row = np.zeros(n_rows + 1, np.int64), np.zeros(n_rows, np.int64)
    at = np.zeros(3, np.int64)
    for piece in region.streams[stream].pieces():
        bad = select_rows(piece, g.keys, g.hot, g.hot_bytes, g.base, granule, old, new, part_ptr, end_row, at)
        if bad >= 0:
            raise OrderError(
                "an indivisible access that contradicts itself",
                where=f"region {region.index}, stream {stream}, event {piece[bad]['seq']}",
                remedy="the recording is damaged",
            )
    ops, parts = int(at[0]), int(part_ptr[at[0]])
    return _Gathered(
        granule[:parts], old[:parts], new[:parts], part_ptr[: ops + 1], end_row[:ops], int(at[1])
    )


def unfiltered(region: Region, g: Granules) -> tuple[Problem, Counts]:
    """The region's unfiltered events as a `Problem` (its boundary values still zero), and the counts.

    Raises OrderError if rows of one indivisible access contradict each other.
    """
    gathered, sums = [], np.zeros(5, np.int64)
    for stream, rows in enumerate(region.streams):
        tally = np.zeros(5, np.int64)
        for piece in rows.pieces():
            tally += count_rows(piece, g.keys, g.owner, g.hot)
        sums += tally
        gathered.append(_gather(region, stream, g, tally))
    kept = sum(got.kept for got in gathered)
    stream_ptr = np.cumsum([0] + [len(got.end_row) for got in gathered]).astype(np.int64)
    part_base = np.cumsum([0] + [len(got.granule) for got in gathered])
    part_ptr = np.concatenate(
        [np.zeros(1, np.int64)] + [got.part_ptr[1:] + part_base[s] for s, got in enumerate(gathered)]
    )
    empty = np.zeros(len(g.address), np.uint64)
    problem = Problem(
        region=region.index,
        rows=np.array([len(rows) for rows in region.streams], np.int64),
        stream_ptr=stream_ptr,
        end_row=np.concatenate([got.end_row for got in gathered]),
        part_ptr=part_ptr,
        granule=np.concatenate([got.granule for got in gathered]),
        old=np.concatenate([got.old for got in gathered]),
        new=np.concatenate([got.new for got in gathered]),
        address=g.address,
        size=g.size,
        initial=empty,
        final=empty,
    )
    uncached, local, read_only, hot = (int(x) for x in sums[:4])
    return problem, Counts(region.events, uncached, local, read_only, hot - kept, kept)
