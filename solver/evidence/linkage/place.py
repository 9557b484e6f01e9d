"""Which version each write made and each read may have seen at most: the events of a region, one stream after
the other, side by side with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import copy_row, inner
from corebraid.base.rows.event import GLUED, READ, UNCACHED
from recorder.evidence.linkage.kernels import note_seen, variable_of
from recorder.evidence.linkage.kernels import slot as hashed
from solver.evidence.linkage.guarded import (
    guarded_versions,
    is_bare,
    is_guarded,
    is_private,
    next_version,
)
from solver.evidence.linkage.log import LinkageLog
from solver.evidence.linkage.values import follow_values
from solver.regions.problem import Problem
from solver.regions.region import Region

#: Kinds of a part: not met yet; a read; a write, or a read and a write at once.
MISSING, READS, WRITES = 0, 1, 2

#: Why the evidence of a stream does not go with its events.
_FITS, NO_BOUND, NO_WRITE, OTHER_VALUE = 0, 1, 2, 3
_WHAT = {
    NO_BOUND: "the evidence has no further bound for this read",
    NO_WRITE: "the evidence has no further write of this core to this variable",
    OTHER_VALUE: "the evidence has another value for this read",
}

_ONE, _THREE = np.uint64(1), np.uint64(3)


class Placed(NamedTuple):
    """The parts of a problem as the evidence places them. kind: uint8 (n_parts,). version: int64 (n_parts,),
    of a write its version, of a read the bound. slot: int64 (n_parts,), the variable. exact: uint8
    (n_parts,), whether a read's bound is what it read. skipped: int64 (n,), see `guarded_versions`. reads:
    how many reads of shared variables the region has, filtered ones included."""

    kind: NDArray[np.uint8]
    version: NDArray[np.int64]
    slot: NDArray[np.int64]
    exact: NDArray[np.uint8]
    skipped: NDArray[np.int64]
    reads: int


@dataclass(frozen=True)
class Misfit:
    """The evidence has nothing for an event, or nothing more."""

    stream: int
    seq: int
    what: str


#: What rows have come to: an operation, whether its rows have been met, reads of shared variables so far,
#: accesses of the region so far that a lock protects.
_OPERATION, _MET, _READS, _GUARDED = range(4)
#: What is known of the variable where an event begins, and of the one where it ends: its slot, the version
#: that a write made or that a read may have seen at most, whether it is recorded, whether the read's value
#: need not be, whether the access is skipped, so that the lock's order says its version, and whether it is a
#: write whose stream has then seen that version.
SLOT, VERSION, RECORDED, KNOWN, GUARDED, BARE, FIELDS = range(7)


@inner
def next_bound(bounds, stream, variable, seen):  # type: ignore[no-untyped-def]
    """What the stream saw after its next read, which is of this variable; -1 if the evidence has none. seen:
    the variable's entry in the table of last versions."""
    at = bounds.at[stream]
    if at == bounds.first[stream + 1]:
        return -1
    if bounds.follow and bounds.used[stream] < bounds.n[at]:
        bounds.used[stream] += 1
        return np.int64(seen[1]) if seen[0] == variable + _ONE else -1
    version = bounds.version[at]
    bounds.used[stream] += 1
    if bounds.follow or bounds.used[stream] == bounds.n[at]:
        bounds.at[stream] += 1
        bounds.used[stream] = 0
    return version


@inner
def meet(log, stream, event, variable, met):  # type: ignore[no-untyped-def]
    """Put one variable of an event beside the evidence. event: (its number, its kind). met: int64 (FIELDS,),
    filled in. False if the evidence has nothing for it."""
    number, kind = event
    slot = np.int64(log.shares.slot_of[variable]) - 1
    met[SLOT], met[VERSION], met[RECORDED], met[KNOWN], met[GUARDED], met[BARE] = slot, 0, 0, 1, 0, 0
    if slot < 0:
        return True
    shares, bounds = log.shares, log.bounds
    if is_private(log, stream, number, slot):
        if kind != READ:
            shares.private[slot] += 1
        met[VERSION] = shares.private[slot]
        return True
    if is_guarded(log, stream, number, kind, slot):
        met[GUARDED] = 1
        met[BARE] = kind != READ and is_bare(log, stream, number, slot)
        return True
    met[RECORDED] = 1
    seen = bounds.seen[stream, hashed(variable, bounds.seen_bits)]
    if kind != READ:
        version = next_version(log.runs, slot * log.streams + stream, log.runs.at, log.runs.used)
        note_seen(seen, variable, np.uint64(version << bounds.double))
        met[VERSION] = version
        return version >= 0
    version = next_bound(bounds, stream, variable, seen)
    same = note_seen(seen, variable, np.uint64(version))
    met[KNOWN] = bounds.double and same and (version & 1) == 0
    # A write that is under way may have happened.
    met[VERSION] = (version + bounds.double) >> bounds.double
    return version >= 0


@inner
def note_bare(log, stream, address, new, version):  # type: ignore[no-untyped-def]
    """A stream has made a version by a write that is skipped, of a variable whose reads are logged."""
    bounds, values, variable = log.bounds, log.values, variable_of(log.names, address)
    note_seen(
        bounds.seen[stream, hashed(variable, bounds.seen_bits)], variable, np.uint64(version << bounds.double)
    )
    if values.first.size:
        values.last[stream, hashed(address, values.shadow_bits)] = new


@inner
def _tell_parts(row, op, problem, met, placed):  # type: ignore[no-untyped-def]
    """Give the parts of an operation that the row touches their versions. met: of the word where the row
    begins and of the one where it ends. Whether there was one."""
    kind, found = placed.kind, False
    for p in range(problem.part_ptr[op], problem.part_ptr[op + 1]):
        g = problem.granule[p]
        begin = problem.address[g]
        if begin >= row.addr + np.uint64(row.size) or row.addr >= begin + np.uint64(problem.size[g]):
            continue
        found = True
        half = 0 if begin >> _THREE == row.addr >> _THREE else 1
        this = READS if row.kind == READ else WRITES
        if this >= kind[p]:
            kind[p] = this
            placed.slot[p], placed.version[p] = met[half, SLOT], met[half, VERSION]
            placed.exact[p] = this == READS and met[half, GUARDED] != 0
    return found


@njit(cache=True, nogil=True)
def place_rows(rows, before, come_to, last, log, stream, problem, placed):  # type: ignore[no-untyped-def]
    """Place a piece of a stream's rows. before: rows of the stream in the region before it. come_to: int64
    (4,), see _OPERATION; updated. last: the stream's operations end here. Returns (why not, row)."""
    met = np.zeros((2, FIELDS), np.int64)
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & UNCACHED) != 0:
            continue
        final = row.addr + np.uint64(row.size) - _ONE
        first = variable_of(log.names, row.addr)
        event = (np.int64(row.seq), row.kind)
        there = meet(log, stream, event, first, met[0])
        copy_row(met[0], met[1])
        if final >> _THREE != row.addr >> _THREE:
            second = variable_of(log.names, final)
            if second != first:
                there = there and meet(log, stream, event, second, met[1])
        if met[0, GUARDED] != 0:
            version = placed.skipped[come_to[_GUARDED]]
            met[0, VERSION], met[1, VERSION] = version, version
            come_to[_GUARDED] += 1
            if met[0, BARE] != 0:
                note_bare(log, stream, row.addr, row.new, version)
        if not there:
            return (NO_BOUND if row.kind == READ else NO_WRITE), i
        recorded = (met[0, RECORDED] | met[1, RECORDED]) != 0
        if recorded and log.values.first.size:
            known = (met[0, KNOWN] & met[1, KNOWN]) != 0
            if not follow_values(log.values, stream, row, known):
                return OTHER_VALUE, i
        if row.kind == READ and (met[0, SLOT] >= 0 or met[1, SLOT] >= 0):
            come_to[_READS] += 1
        while come_to[_OPERATION] < last and problem.end_row[come_to[_OPERATION]] <= before + i:
            come_to[_OPERATION] += 1
            come_to[_MET] = 0
        if come_to[_OPERATION] < last and come_to[_MET] == 0:
            told = _tell_parts(row, come_to[_OPERATION], problem, met, placed)
            if told and (row.flags & GLUED) == 0:
                come_to[_MET] = 1
    return _FITS, 0


def place(log: LinkageLog, region: Region, problem: Problem) -> Placed | Misfit:
    """Place a region's parts; regions must come in order, each once."""
    n = len(problem.granule)
    exact, version, skipped = np.zeros(n, np.uint8), np.zeros(n, np.int64), guarded_versions(log, region)
    placed = Placed(np.zeros(n, np.uint8), version, np.full(n, -1, np.int64), exact, skipped, 0)
    reads, view, n_guarded = 0, problem.view, 0
    for stream, rows in enumerate(region.streams):
        come_to = np.array([problem.stream_ptr[stream], 0, 0, n_guarded], np.int64)
        before = 0
        for piece in rows.pieces():
            last = int(problem.stream_ptr[stream + 1])
            why, at = place_rows(piece, before, come_to, last, log, stream, view, placed)
            if why:
                return Misfit(stream, int(piece["seq"][at]), _WHAT[int(why)])
            before += len(piece)
        n_guarded = int(come_to[_GUARDED])
        reads += int(come_to[_READS])
    return placed._replace(reads=reads)
