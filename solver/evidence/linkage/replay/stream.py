"""One access of a stream, held against the evidence before it happens (ICSE 2012, section II and Figure 3).

A write makes the next version of its variable when it is its turn in the order of writes; a read waits until
the version that bounds it exists, and then finds the newest write, that one or an older, of the value in the
read log. A read whose version is exact has no value there: it finds what that version left (section V-B).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import copy_row, inner
from corebraid.base.rows.event import READ, RMW, UNCACHED, WRITE
from recorder.evidence.linkage.kernels import slot as hashed
from recorder.evidence.linkage.kernels import variable_of
from solver.evidence.linkage.guarded import is_bare, is_guarded, is_private
from solver.evidence.linkage.log import LinkageLog
from solver.evidence.linkage.place import (
    FIELDS,
    GUARDED,
    KNOWN,
    RECORDED,
    SLOT,
    VERSION,
    meet,
    note_bare,
)
from solver.evidence.linkage.replay.memory import (
    SharedMemory,
    entry_as_of,
    mask_part,
    part_in,
    read_part,
    write_part,
)
from solver.evidence.linkage.replay.turns import (
    FAILED,
    FITS,
    NO_BOUND,
    NO_MATCH,
    NO_WRITE,
    OTHER_VALUE,
    STUCK,
    TOO_MANY,
    Turns,
    fail,
    hold,
)
from solver.evidence.linkage.values import LEFT_OUT, next_value

#: Columns of `Replay.own`: events that have been met, and events that wrote; two slots (one more than each)
#: whose next version an atomic access has come to and not made; reads held against memory, comparisons.
MET, WROTE, OPEN, OPEN_TOO, LINKED, COMPARED, OWN_FIELDS = range(7)

_ONE, _THREE = np.uint64(1), np.uint64(3)


class Replay(NamedTuple):
    """All that streams share. log: the evidence, and how far each stream is in it. own: int64[streams, 6],
    see MET. met: int64[streams, 2, FIELDS], of the variables where an access begins and ends."""

    log: LinkageLog
    memory: SharedMemory
    turns: Turns
    own: NDArray[np.int64]
    met: NDArray[np.int64]


def new_replay(log: LinkageLog, memory: SharedMemory, turns: Turns) -> Replay:
    """Nothing has been done."""
    own = np.zeros((log.streams, OWN_FIELDS), np.int64)
    return Replay(log, memory, turns, own, np.zeros((log.streams, 2, FIELDS), np.int64))


class Done(NamedTuple):
    """An access as a stream makes it. number: of the event. kind: READ, WRITE, or RMW, of which the read
    comes first. old: what the stream's own memory holds there."""

    number: np.int64
    kind: np.int64
    address: np.uint64
    size: np.int64
    old: np.uint64


@inner
def is_shared(log, address, size):  # type: ignore[no-untyped-def]
    """Whether anything of the access is ever shared."""
    slot_of = log.shares.slot_of
    if slot_of[variable_of(log.names, address)]:
        return True
    final = address + np.uint64(size) - _ONE
    return final >> _THREE != address >> _THREE and slot_of[variable_of(log.names, final)] != 0


@inner
def _meet_both(replay, stream, done):  # type: ignore[no-untyped-def]
    """Put the access beside the evidence. Returns (why not, whether it is of two variables)."""
    log, met = replay.log, replay.met[stream]
    event = (done.number, done.kind)
    first = variable_of(log.names, done.address)
    there, two = meet(log, stream, event, first, met[0]), False
    copy_row(met[0], met[1])
    final = done.address + np.uint64(done.size) - _ONE
    if there and final >> _THREE != done.address >> _THREE:
        second = variable_of(log.names, final)
        if second != first:
            two = True
            there = meet(log, stream, event, second, met[1])
    if there:
        return FITS, two
    return (NO_BOUND if done.kind == READ else NO_WRITE), two


@inner
def _hold_variable(replay, stream, half, kind):  # type: ignore[no-untyped-def]
    """Wait for one variable of an access. False if it cannot be had."""
    met, own = replay.met[stream, half], replay.own[stream]
    if met[GUARDED] != 0:
        # Others have it not now: who takes its lock has waited for their releases. What is left is what its
        # first stream did alone, and not to see what is written to it when it is open.
        slot, made = met[SLOT], replay.memory.made
        held = hold(replay.turns, made, stream, slot, replay.log.shares.writes[slot])
        met[VERSION] = min(made[slot], replay.log.guards.written[slot])
        return held
    if met[RECORDED] == 0:
        return True
    needed = met[VERSION]
    if kind != READ:
        # What this very instruction is about to make of it comes before.
        needed -= 1 + (own[OPEN] == met[SLOT] + 1) + (own[OPEN_TOO] == met[SLOT] + 1)
    return hold(replay.turns, replay.memory.made, stream, met[SLOT], needed)


@inner
def begin_access(replay, stream, done):  # type: ignore[no-untyped-def]
    """Wait until the access can happen. Returns (why not, whether it is of two variables)."""
    why, two = _meet_both(replay, stream, done)
    if why == FITS and not _hold_variable(replay, stream, 0, done.kind):
        why = STUCK
    if why == FITS and two and not _hold_variable(replay, stream, 1, done.kind):
        why = STUCK
    if why == FITS and replay.turns.state[FAILED] != 0:
        why = STUCK
    return why, two


@inner
def _found_at(replay, stream, done, half, limit):  # type: ignore[no-untyped-def]
    """Of an access, what of it is in one word as its variable was at version `limit`: (entry, those bytes).
    The entry is -1 where the stream's own memory says it."""
    met = replay.met[stream, half]
    if met[RECORDED] == 0 and met[GUARDED] == 0:
        return np.int64(-1), done.old & mask_part(done.address, done.size, half)
    word, _, n, _ = part_in(done.address, done.size, half)
    if n <= 0:
        return np.int64(-1), np.uint64(0)
    entry = entry_as_of(replay.memory, word, limit)
    return entry, read_part(replay.memory, done.address, done.size, half, entry)


@inner
def exact_value(replay, stream, done):  # type: ignore[no-untyped-def]
    """What the access finds at the versions that `begin_access` waited for."""
    less = 0 if done.kind == READ else 1
    met = replay.met[stream]
    _, low = _found_at(replay, stream, done, 0, met[0, VERSION] - less)
    _, high = _found_at(replay, stream, done, 1, met[1, VERSION] - less)
    return low | high


@inner
def search_for_match(replay, stream, done, two, value):  # type: ignore[no-untyped-def]
    """SearchForMatch of Algorithm 1: go back from the bounds to the newest writes of `value`. Returns how
    many times was compared, or -1."""
    met, own = replay.met[stream], replay.own[stream]
    limit, other, tries = met[0, VERSION], met[1, VERSION], 0
    entries = replay.memory.entries
    while True:
        tries += 1
        entry, found = _found_at(replay, stream, done, 0, limit)
        if found != value & mask_part(done.address, done.size, 0):
            if entry <= 0:
                return -1
            limit = entries[entry].version - 1
            # Words of one variable are read at one moment.
            other = other if two else min(other, limit)
            continue
        entry, found = _found_at(replay, stream, done, 1, other)
        if found == value & mask_part(done.address, done.size, 1):
            break
        if entry <= 0:
            return -1
        other = entries[entry].version - 1
        limit = limit if two else min(limit, other)
    own[LINKED] += 1
    own[COMPARED] += tries
    return tries


@inner
def read_value(replay, stream, done, two):  # type: ignore[no-untyped-def]
    """What the access reads, once it can happen: (why not, value)."""
    values, met = replay.log.values, replay.met[stream]
    if met[0, GUARDED] != 0:
        met[1, VERSION] = met[0, VERSION]
        return FITS, exact_value(replay, stream, done)
    if met[0, RECORDED] == 0 and met[1, RECORDED] == 0:
        return FITS, done.old
    place = hashed(done.address, values.shadow_bits)
    if done.kind == RMW:
        value = exact_value(replay, stream, done)
        if replay.log.bounds.double:
            values.tally[LEFT_OUT] += 1
        elif next_value(values, stream, place) != value:
            return OTHER_VALUE, value
        return FITS, value
    if met[0, KNOWN] != 0 and met[1, KNOWN] != 0:
        values.tally[LEFT_OUT] += 1
        return FITS, exact_value(replay, stream, done)
    value = next_value(values, stream, place)
    if search_for_match(replay, stream, done, two, value) < 0:
        return NO_MATCH, value
    return FITS, value


@inner
def _make(replay, stream, done, half, slot, new):  # type: ignore[no-untyped-def]
    memory, own = replay.memory, replay.own[stream]
    if slot < 0:
        return
    version = memory.made[slot] + 1
    write_part(memory, done.address, done.size, new, half, version)
    if own[OPEN] == slot + 1:
        own[OPEN] = 0
    elif own[OPEN_TOO] == slot + 1:
        own[OPEN_TOO] = 0


@inner
def make_version(replay, stream, done, new):  # type: ignore[no-untyped-def]
    """The write happens: its variables get their next versions. Returns why not."""
    log, memory = replay.log, replay.memory
    if memory.used[0] + 2 > memory.entries.size:
        return TOO_MANY
    first = np.int64(log.shares.slot_of[variable_of(log.names, done.address)]) - 1
    second, final = first, done.address + np.uint64(done.size) - _ONE
    crosses = final >> _THREE != done.address >> _THREE
    if crosses:
        second = np.int64(log.shares.slot_of[variable_of(log.names, final)]) - 1
    _make(replay, stream, done, 0, first, new)
    if second != first and first >= 0:
        memory.made[first] += 1
    if crosses:
        _make(replay, stream, done, 1, second, new)
    if second >= 0:
        memory.made[second] += 1
    number = done.number
    if is_logged(log, stream, number, WRITE, first) or is_logged(log, stream, number, WRITE, second):
        log.values.last[stream, hashed(done.address, log.values.shadow_bits)] = new
    elif first >= 0 and is_bare(log, stream, number, first):
        note_bare(log, stream, done.address, new, memory.made[first])
    replay.own[stream, WROTE] = done.number + 1
    return FITS


@inner
def is_logged(log, stream, number, kind, slot):  # type: ignore[no-untyped-def]
    """Whether accesses to the variable in this slot (-1: none) are in the log, by an event of this number and
    kind."""
    if slot < 0 or is_private(log, stream, number, slot):
        return False
    return not is_guarded(log, stream, number, kind, slot)


@inner
def keep_open(replay, stream, two):  # type: ignore[no-untyped-def]
    """An atomic access has read, and is about to write: its versions are its own."""
    met, own = replay.met[stream], replay.own[stream]
    for half in range(2 if two else 1):
        if met[half, SLOT] >= 0 and met[half, RECORDED] != 0:
            if own[OPEN] == 0:
                own[OPEN] = met[half, SLOT] + 1
            else:
                own[OPEN_TOO] = met[half, SLOT] + 1


@njit(cache=True, nogil=True)
def do_rows(replay, stream, rows, memory):  # type: ignore[no-untyped-def]
    """Make the accesses of a stream that is no core's: rows, EVENT[n], with what each read and wrote. memory:
    uint8[bytes], its own, where it keeps what nobody else accesses. False if it could not."""
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        if not is_shared(replay.log, row.addr, row.size):
            for k in range(row.size if row.kind != READ else 0):
                memory[np.int64(row.addr) + k] = np.uint8((row.new >> np.uint64(8 * k)) & np.uint64(0xFF))
            continue
        done = Done(np.int64(row.seq), np.int64(row.kind), row.addr, np.int64(row.size), row.old)
        why, two = begin_access(replay, stream, done)
        if why == FITS and done.kind != WRITE:
            why, value = read_value(replay, stream, done, two)
            if why == FITS and value != row.old:
                why = OTHER_VALUE
        if why == FITS and done.kind != READ:
            why = make_version(replay, stream, done, row.new)
        if why != FITS:
            fail(replay.turns, why, stream, done.number, done.address)
            return False
    return True
