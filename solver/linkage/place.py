"""Which version each write made and each read may have seen at most: the events of a region, one stream after
the other, side by side with the evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recorder.event import GLUED, READ, UNCACHED
from recorder.linkage_kernels import variable_of
from solver.linkage.log import LinkageLog
from solver.problem import Problem
from solver.regions import Region

#: Kinds of a part: not met yet; a read; a write, or a read and a write at once.
MISSING, READS, WRITES = 0, 1, 2

#: Why the evidence of a stream does not go with its events.
_FITS, NO_BOUND, NO_WRITE = 0, 1, 2

_ONE, _THREE = np.uint64(1), np.uint64(3)


@dataclass(frozen=True)
class Placed:
    """The parts of a problem as the evidence places them. kind: uint8 (n_parts,). version: int64 (n_parts,),
    of a write its version, of a read the bound. slot: int64 (n_parts,), the variable. reads: how many reads
    of shared variables the region has, filtered ones included."""

    kind: NDArray[np.uint8]
    version: NDArray[np.int64]
    slot: NDArray[np.int64]
    reads: int


@dataclass(frozen=True)
class Misfit:
    """The evidence has nothing for an event, or nothing more."""

    stream: int
    seq: int
    what: str


@njit(cache=True)
def _next_write(log, slot, stream, seq):  # type: ignore[no-untyped-def]
    """The version of the stream's next write to the variable; -1 if the evidence has none."""
    shares, runs = log.shares, log.runs
    if shares.owner[slot] == stream and seq < shares.events[slot]:
        shares.private[slot] += 1
        return shares.private[slot]
    key = slot * log.streams + stream
    at = runs.at[key]
    if at == runs.first[key + 1]:
        return -1
    version = runs.version[at] + runs.used[key]
    runs.used[key] += 1
    if runs.used[key] == runs.n[at]:
        runs.at[key] += 1
        runs.used[key] = 0
    return version


@njit(cache=True)
def _next_bound(log, slot, stream, seq):  # type: ignore[no-untyped-def]
    """The bound of the stream's next read, which is of this variable; -1 if the evidence has none."""
    shares, bounds = log.shares, log.bounds
    if shares.owner[slot] == stream and seq < shares.events[slot]:
        return shares.private[slot]
    at = bounds.at[stream]
    if at == bounds.first[stream + 1]:
        return -1
    version = bounds.version[at]
    bounds.used[stream] += 1
    if bounds.used[stream] == bounds.n[at]:
        bounds.at[stream] += 1
        bounds.used[stream] = 0
    return version


@njit(cache=True)
def _take(log, slot, stream, row):  # type: ignore[no-untyped-def]
    if slot < 0:
        return np.int64(0)
    seq = np.int64(row.seq)
    if row.kind == READ:
        return _next_bound(log, slot, stream, seq)
    return _next_write(log, slot, stream, seq)


@njit(cache=True)
def _slot_of(log, address):  # type: ignore[no-untyped-def]
    return np.int64(log.shares.slot_of[variable_of(log.names, address)]) - 1


@njit(cache=True)
def _tell_parts(row, op, part_ptr, granule, address, size, halves, kind, version, slot):  # type: ignore[no-untyped-def]
    """Give the parts of an operation that the row touches their versions. halves: of the word where the row
    begins and the one where it ends, slot and version. Whether there was one."""
    found = False
    for p in range(part_ptr[op], part_ptr[op + 1]):
        begin = address[granule[p]]
        if begin >= row.addr + np.uint64(row.size) or row.addr >= begin + np.uint64(size[granule[p]]):
            continue
        found = True
        half = 0 if begin >> _THREE == row.addr >> _THREE else 1
        this = READS if row.kind == READ else WRITES
        if this >= kind[p]:
            kind[p], slot[p], version[p] = this, halves[half, 0], halves[half, 1]
    return found


@njit(cache=True, nogil=True)
def place_rows(  # type: ignore[no-untyped-def]
    rows, before, ops, last, log, stream, end_row, part_ptr, granule, address, size, kind, version, slot
):
    """Place a piece of a stream's rows. before: rows of the stream in the region before it. ops: int64[3],
    the operation that rows have come to, whether its rows have been met, reads of shared variables so far;
    updated. last: the stream's operations end here. Returns (why not, row)."""
    halves = np.zeros((2, 2), np.int64)
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & UNCACHED) != 0:
            continue
        final = row.addr + np.uint64(row.size) - _ONE
        first, second = _slot_of(log, row.addr), np.int64(-1)
        halves[0, 0], halves[0, 1] = first, _take(log, first, stream, row)
        halves[1] = halves[0]
        if final >> _THREE != row.addr >> _THREE:
            second = _slot_of(log, final)
            if variable_of(log.names, final) != variable_of(log.names, row.addr):
                halves[1, 0], halves[1, 1] = second, _take(log, second, stream, row)
        if halves[0, 1] < 0 or halves[1, 1] < 0:
            return (NO_BOUND if row.kind == READ else NO_WRITE), i
        if row.kind == READ and (first >= 0 or second >= 0):
            ops[2] += 1
        while ops[0] < last and end_row[ops[0]] <= before + i:
            ops[0] += 1
            ops[1] = 0
        if ops[0] < last and ops[1] == 0:
            met = _tell_parts(row, ops[0], part_ptr, granule, address, size, halves, kind, version, slot)
            if met and (row.flags & GLUED) == 0:
                ops[1] = 1
    return _FITS, 0


def place(log: LinkageLog, region: Region, problem: Problem) -> Placed | Misfit:
    """Place a region's parts; regions must come in order, each once."""
    n = len(problem.granule)
    kind, version, slot = np.zeros(n, np.uint8), np.zeros(n, np.int64), np.full(n, -1, np.int64)
    reads = 0
    for stream, rows in enumerate(region.streams):
        ops = np.array([problem.stream_ptr[stream], 0, 0], np.int64)
        before = 0
        for piece in rows.pieces():
            why, at = place_rows(
                piece, before, ops, int(problem.stream_ptr[stream + 1]), log, stream, problem.end_row,
                problem.part_ptr, problem.granule, problem.address, problem.size, kind, version, slot,
            )  # fmt: skip
            if why:
                what = "bound for this read" if why == NO_BOUND else "write of this core to this variable"
                return Misfit(stream, int(piece["seq"][at]), f"the evidence has no further {what}")
            before += len(piece)
        reads += int(ops[2])
    return Placed(kind, version, slot, reads)
