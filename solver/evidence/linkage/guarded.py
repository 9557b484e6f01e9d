"""Versions of what locks protect and the evidence leaves out, from the order in which each lock was taken
(ICSE 2012, section V-C).

Every write to a lock's variable is logged, with its place in the order of writes. A skipped access is placed
by the version of the lock that its stream has made last, which grows from holder to holder, and within that
by program order. That is known of a region before its other events are put beside the evidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from corebraid.base.rows.event import READ, UNCACHED, WRITE
from recorder.evidence.linkage.kernels import variable_of
from solver.evidence.linkage.log import LinkageLog
from solver.regions.region import Region

_ONE, _THREE = np.uint64(1), np.uint64(3)

#: Columns of what `find_guarded` finds.
_SLOT, _LOCK, _NUMBER, _WRITES, _COLUMNS = range(5)


@inner
def next_version(runs, key, at, used):  # type: ignore[no-untyped-def]
    """The version of the next write of a variable and stream (key: slot * streams + stream); -1 if the
    evidence has none. at, used: how far they have come, as in `Runs`; moved on."""
    k = at[key]
    if k == runs.first[key + 1]:
        return np.int64(-1)
    version = runs.version[k] + used[key]
    used[key] += 1
    if used[key] == runs.n[k]:
        at[key] += 1
        used[key] = 0
    return version


@inner
def is_private(log, stream, number, slot):  # type: ignore[no-untyped-def]
    """Whether the variable in this slot is still the stream's own by an event of this number."""
    return log.shares.owner[slot] == stream and number < log.shares.events[slot]


@inner
def is_guarded(log, stream, number, kind, slot):  # type: ignore[no-untyped-def]
    """Whether an access to the variable in this slot is skipped, by an event of this number and kind of a
    stream that has it not to itself."""
    guards = log.guards
    if guards.lock[slot] == 0:
        return False
    until = guards.reads_until if kind == READ else guards.until
    return number < until[slot * log.streams + stream]


@inner
def is_bare(log, stream, number, slot):  # type: ignore[no-untyped-def]
    """Whether a write to the variable in this slot is skipped, by an event of this number, and reads of it
    are logged: the stream has then seen what it wrote."""
    if is_private(log, stream, number, slot) or not is_guarded(log, stream, number, WRITE, slot):
        return False
    return number >= log.guards.reads_until[slot * log.streams + stream]


@inner
def _note_lock(log, stream, number, slot):  # type: ignore[no-untyped-def]
    """A write to a variable, in which there may be a lock."""
    guards = log.guards
    if slot < 0 or guards.is_lock[slot] == 0:
        return
    key = slot * log.streams + stream
    if is_private(log, stream, number, slot):
        guards.passed[slot] += 1
        guards.last[key] = guards.passed[slot]
    else:
        guards.last[key] = next_version(log.runs, key, guards.at, guards.used)


@njit(cache=True, nogil=True)
def find_guarded(rows, log, stream, out):  # type: ignore[no-untyped-def]
    """The skipped accesses among a stream's rows, into out (int64 (n, 4), room for all rows): slot, version
    of the lock, number of the event, whether it writes. Returns how many. log.guards moves on."""
    n = 0
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & UNCACHED) != 0:
            continue
        number, final = np.int64(row.seq), row.addr + np.uint64(row.size) - _ONE
        first = variable_of(log.names, row.addr)
        slot = np.int64(log.shares.slot_of[first]) - 1
        shared = slot >= 0 and not is_private(log, stream, number, slot)
        if shared and is_guarded(log, stream, number, row.kind, slot):
            lock = log.guards.lock[slot]
            # Without a slot one stream alone has ever touched the lock: its own order is the lock's.
            made = log.guards.last[(lock - 2) * log.streams + stream] if lock > 1 else 0
            at = out[n]
            at[_SLOT], at[_LOCK] = slot, made
            at[_NUMBER], at[_WRITES] = number, row.kind != READ
            n += 1
            continue
        if row.kind == READ:
            continue
        _note_lock(log, stream, number, slot)
        if final >> _THREE != row.addr >> _THREE:
            second = variable_of(log.names, final)
            if second != first:
                _note_lock(log, stream, number, np.int64(log.shares.slot_of[second]) - 1)
    return n


def guarded_versions(log: LinkageLog, region: Region) -> NDArray[np.int64]:
    """int64 (n,): of a region's skipped accesses, stream after stream, the version that each write made or
    that each read found. Regions must come in order, each once."""
    found = [np.empty((0, _COLUMNS), np.int64)]
    if log.guards.lock.any():
        for stream, rows in enumerate(region.streams):
            for piece in rows.pieces():
                room = np.empty((len(piece), _COLUMNS), np.int64)
                found.append(room[: find_guarded(piece, log, stream, room)].copy())
    table, done = np.concatenate(found), log.guards.done
    order = np.lexsort((table[:, _NUMBER], table[:, _LOCK], table[:, _SLOT]))
    slot, writes = table[order, _SLOT], table[order, _WRITES]
    total = np.cumsum(writes)
    begins = np.searchsorted(slot, slot)
    since = total - (total - writes)[begins]
    version = np.empty(len(table), np.int64)
    version[order] = done[slot] + since
    np.add.at(done, slot, writes)
    log.guards.skipped[:] -= len(table), writes.sum()
    return version
