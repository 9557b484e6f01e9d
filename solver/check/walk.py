"""An order walked over memory, row by row, for the independent checker (`solver.check.checker`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.fingerprints import page_fingerprint
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import GETS, GIVES, GLUED, HELD, OF_HOLD, OF_WORD, READ, TAKES, UNCACHED
from solver.check.progress import STRATUM, UNFINISHED, WALKED
from solver.check.store_queue import FORWARDED, WANTS_ROOM, WANTS_ROWS, take
from solver.check.sync_walk import pass_syncs
from solver.regions.image import ensure

#: What stopped a walk: nothing; rows are wanted; a row's old bytes are others, it stands after one of a later
#: stratum, splits an indivisible access, is of another stratum than its place says, is outside of memory;
#: room is wanted; a row stands behind its place by a sync point; a core holds a page that another has alone;
#: and what `store_queue.take` says, from BUFFER on.
(
    OK, REFILL, OTHER_BYTES, EARLIER_STRATUM, SPLIT, OTHER_STRATUM, OUTSIDE, ROOM, BEHIND_SYNC,
    HELD_BY_OTHERS, BUFFER,
) = range(11)  # fmt: skip
#: Bits of `Ground.marks`: a row touched the byte; its value is not known.
TOUCHED, UNKNOWN = 1, 2
_BYTE = np.uint64(0xFF)
_ALL, _NEVER = ~np.uint64(0), ~np.uint64(0)
_ONE, _THREE, _SEVEN, _EIGHT, _TWELVE = (np.uint64(n) for n in (1, 3, 7, 8, 12))
_EVERY_TOUCHED = np.uint64(0x0101010101010101)


class Runs(NamedTuple):
    """An order as runs of one stream each. stream: int64 (n,). left: int64 (n,), rows that are not walked.
    Unless `exact`, of each only those with an instruction count (stores: a number) below until: uint64 (n,).
    """

    stream: NDArray[np.int64]
    left: NDArray[np.int64]
    until: NDArray[np.uint64]
    exact: bool


class Ground(NamedTuple):
    """The memory that an order is walked over. state, loaded, image: see `FlatMemory`. marks: uint8, one byte
    of marks per byte of memory. holders: uint64, of each page a bit for each core that holds it; alone:
    uint8, of each page one more than the core that has it alone, else 0."""

    state: NDArray[np.uint8]
    loaded: NDArray[np.uint8]
    image: NDArray[np.uint8]
    marks: NDArray[np.uint8]
    holders: NDArray[np.uint64]
    alone: NDArray[np.uint8]


class Course(NamedTuple):
    """Where a walk is. progress: counters of `solver.check.progress`. done: int64 (n_streams,), rows walked
    of each stream. strata: uint64 (n_strata, n_streams), see `Traces`."""

    progress: NDArray[np.int64]
    done: NDArray[np.int64]
    strata: NDArray[np.uint64]


@njit(cache=True)
def check_row(row, ground):  # type: ignore[no-untyped-def]
    """Compare a row's old bytes with memory and store its new ones. Returns the number of the first byte
    that differs, or -1."""
    first, size = np.int64(row.addr), np.int64(row.size)
    old, new = row.old, row.new
    state, loaded, image, marks = ground.state, ground.loaded, ground.image, ground.marks
    ensure(first >> 12, state, loaded, image)
    ensure((first + size - 1) >> 12, state, loaded, image)
    for k in range(size):
        if state[first + k] != (old & _BYTE) and (marks[first + k] & UNKNOWN) == 0:
            return k
        old >>= np.uint64(8)
    for k in range(size):
        state[first + k] = np.uint8(new & _BYTE)
        marks[first + k] = TOUCHED
        new >>= np.uint64(8)
    return -1


@njit(cache=True)
def check_page(row, ground):  # type: ignore[no-untyped-def]
    """Compare a page with a row of kind HELD. 0 if it differs, else -1, as if it had been read."""
    first = np.int64(row.addr)
    state, loaded, image, marks = ground.state, ground.loaded, ground.image, ground.marks
    ensure(first >> 12, state, loaded, image)
    page, marked = state[first : first + PAGE_BYTES], marks[first : first + PAGE_BYTES]
    if page_fingerprint(page) != row.old and not (marked & np.uint8(UNKNOWN)).any():
        return 0
    marked |= np.uint8(TOUCHED)
    return -1


@njit(cache=True)
def placed_rightly(number, place, strata, stream, stratum):  # type: ignore[no-untyped-def]
    """OK, or what is wrong with where a row of stratum `number` stands: strata run forwards
    (EARLIER_STRATUM), and its stratum is the one that its instruction count says, of a store its number
    (OTHER_STRATUM): `place`."""
    if number < stratum or number > strata.shape[0]:
        return EARLIER_STRATUM
    if number < strata.shape[0] and place >= strata[number, stream]:
        return OTHER_STRATUM
    if number > 0 and place < strata[number - 1, stream]:
        return OTHER_STRATUM
    return OK


@njit(cache=True)
def ends_here(s, until, w, q, done):  # type: ignore[no-untyped-def]
    """Whether a slice that ends at a count (of stores: a number) ends before stream s's next row."""
    if s >= q.base[0]:
        return np.uint64(done[s]) >= until
    if w.at[s] == w.fill[s]:
        return w.ended[s]
    return w.rows[s, w.at[s]].count >= until


@njit(cache=True)
def walk_one(row, s, accesses, place, course, ground):  # type: ignore[no-untyped-def]
    """Walk one row of stream s, which `accesses` memory or not. Returns (status, number of the first byte
    that differs)."""
    progress = course.progress
    if progress[UNFINISHED] >= 0 and progress[UNFINISHED] != s:
        return SPLIT, 0
    number = np.int64(row.stratum)
    wrong = placed_rightly(number, place, course.strata, s, progress[STRATUM])
    if wrong != OK:
        return wrong, 0
    progress[STRATUM] = number
    if accesses:
        held = row.kind == np.uint8(HELD)
        size, most = np.int64(row.size), np.uint64(ground.image.size)
        end = row.addr + np.uint64(PAGE_BYTES if held else size)
        if size < 1 or size > 8 or row.addr > most or end > most:
            return OUTSIDE, 0
        byte = check_page(row, ground) if held else check_row(row, ground)
        if byte >= 0:
            return OTHER_BYTES, byte
    progress[UNFINISHED] = s if row.flags & GLUED else -1
    progress[WALKED] += 1
    return OK, 0


@njit(cache=True)
def follow_hold(row, s, ground):  # type: ignore[no-untyped-def]
    """What becomes of rights to a page by a row of a hold of core s. Returns whether it may be."""
    if row.pc & np.uint64(OF_WORD):
        return True
    page, what = np.int64(row.pc >> _TWELVE), np.int64(row.pc & _THREE)
    if s >= 64 or page >= ground.holders.size:
        return False
    mine, holders, alone = _ONE << np.uint64(s), ground.holders, ground.alone
    if what in (GETS, TAKES):
        if alone[page] != 0 or (what == TAKES and holders[page] & ~mine != np.uint64(0)):
            return False
        holders[page] |= mine
        alone[page] = s + 1 if what == TAKES else 0
        return True
    if alone[page] == s + 1:
        alone[page] = 0
    if what == GIVES:
        holders[page] &= ~mine
    return True


@njit(cache=True)
def may_access(row, ground):  # type: ignore[no-untyped-def]
    """Whether no core has what an agent reads alone, nor has what it writes to at all."""
    last = row.addr + np.uint64(row.size) - _ONE
    if row.flags & UNCACHED or last >> _TWELVE >= np.uint64(ground.holders.size):
        return True
    for page in range(np.int64(row.addr >> _TWELVE), np.int64(last >> _TWELVE) + 1):
        if ground.alone[page] or (row.kind != np.uint8(READ) and ground.holders[page] != np.uint64(0)):
            return False
    return True


@njit(cache=True)
def pass_holds(rows, s, ground):  # type: ignore[no-untyped-def]
    """Rights to pages behind rows of core s that were passed over."""
    for i in range(rows.size):
        row = rows[i]
        if row.flags & np.uint8(OF_HOLD) != np.uint8(OF_HOLD) or row.pc & np.uint64(OF_WORD) or s >= 64:
            continue
        page, what = np.int64(row.pc >> _TWELVE), np.int64(row.pc & _THREE)
        if page >= ground.holders.size:
            continue
        mine = _ONE << np.uint64(s)
        if what == GIVES:
            ground.holders[page] &= ~mine
        else:
            ground.holders[page] |= mine
        if what == TAKES:
            ground.alone[page] = s + 1
        elif ground.alone[page] == s + 1:
            ground.alone[page] = 0


@njit(cache=True)
def span_bounds(s, course, syncs):  # type: ignore[no-untyped-def]
    """Places of rows of stream s, a core's without a store buffer or the agents', that are in the walk's
    stratum and wait for no sync point: (first, end), uint64."""
    strata, number = course.strata, course.progress[STRATUM]
    low, high = syncs.floor[s], syncs.bar[s]
    if number > 0:
        low = max(low, strata[number - 1, s])
    if number < strata.shape[0]:
        high = min(high, strata[number, s])
    return low, high


@njit(cache=True)
def walk_span(rows, at, end, s, until, syncs, course, ground):  # type: ignore[no-untyped-def]
    """Walk rows at..end of stream s, which has no store buffer, up to one with an instruction count of
    `until` or more. Returns (index of the first row that is not walked, status, byte).

    What nearly every row is, an access to bytes of one word of a page in use, in the same stratum as the one
    before it, is done here and not by `walk_one`: a call for each of its parts costs more than all of it.
    """
    progress = course.progress
    if at < end and progress[UNFINISHED] >= 0 and progress[UNFINISHED] != s:
        return at, SPLIT, 0
    loaded, words, marks = ground.loaded, ground.state.view(np.uint64), ground.marks.view(np.uint64)
    memory, number = np.uint64(ground.image.size), progress[STRATUM]
    low, high = span_bounds(s, course, syncs)
    walked, i, agents = 0, at, s == course.strata.shape[1] - 1
    while i < end:
        row = rows[i]
        if row.count >= until:
            break
        if row.flags & np.uint8(OF_HOLD) == np.uint8(OF_HOLD) and not follow_hold(row, s, ground):
            progress[WALKED] += walked
            return i, HELD_BY_OTHERS, 0
        if agents and not may_access(row, ground):
            progress[WALKED] += walked
            return i, HELD_BY_OTHERS, 0
        address, size = row.addr, np.uint64(row.size)
        placed = np.int64(row.stratum) == number and low <= row.count < high
        offset = address & _SEVEN
        simple = row.flags & UNCACHED == 0 and row.kind != np.uint8(HELD) and offset + size <= _EIGHT
        if placed and simple and size >= _ONE and address < memory and address + size <= memory:
            word, up = address >> _THREE, offset << _THREE
            mask = _ALL >> ((_EIGHT - size) << _THREE) << up
            held = words[word]
            if loaded[address >> _TWELVE] and (held ^ (row.old << up)) & mask == np.uint64(0):
                words[word] = (held & ~mask) | ((row.new << up) & mask)
                marks[word] = (marks[word] & ~mask) | (_EVERY_TOUCHED & mask)
                walked += 1
                i += 1
                continue
        accesses = row.flags & UNCACHED == 0
        status, byte = walk_one(row, s, accesses, row.count, course, ground)
        if status == OK and not pass_syncs(s, row.count, syncs):
            status = BEHIND_SYNC
        if status != OK:
            progress[WALKED] += walked
            return i, status, byte
        i += 1
        number = progress[STRATUM]
        low, high = span_bounds(s, course, syncs)
    progress[WALKED] += walked
    if i > at:
        progress[UNFINISHED] = s if rows[i - 1].flags & GLUED else -1
    return i, OK, 0


@njit(cache=True)
def walk(runs, run, w, q, syncs, course, ground):  # type: ignore[no-untyped-def]
    """Walk `Runs` from `run` on. w, q: `View` and `Queues`; syncs: `sync_walk.SyncWalk`. Returns (run,
    status, stream, byte): REFILL asks for rows of that stream, ROOM for that of `q`; violations name the row
    in q.taken."""
    stream, left, done = runs.stream, runs.left, course.done
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            # A core without a store buffer has its rows where they are.
            if q.n.size == 0 and w.at[s] < w.fill[s]:
                begin = w.at[s]
                end = begin + min(w.fill[s] - begin, left[run])
                until = _NEVER if runs.exact else runs.until[run]
                if w.rows[s, begin].count >= until:
                    break
                at, status, byte = walk_span(w.rows[s], begin, end, s, until, syncs, course, ground)
                w.at[s] = at
                done[s] += at - begin
                left[run] -= at - begin
                if status != OK:
                    q.taken[0] = w.rows[s, at]
                    return run, status, s, byte
                if at < end:
                    break
                continue
            if not runs.exact and ends_here(s, runs.until[run], w, q, done):
                break
            taken = take(s, w, q)
            if taken == WANTS_ROWS:
                return run, REFILL, q.wanted[0], 0
            if taken == WANTS_ROOM:
                return run, ROOM, s, 0
            if taken > FORWARDED:
                return run, BUFFER + taken, s, 0
            row = q.taken[0]
            accesses = taken != FORWARDED and row.flags & UNCACHED == 0
            place = np.uint64(done[s]) if s >= q.base[0] else row.count
            status, byte = walk_one(row, s, accesses, place, course, ground)
            source = s - q.base[0] if s >= q.base[0] else s
            if status == OK and not pass_syncs(source, row.count, syncs):
                status = BEHIND_SYNC
            if status != OK:
                return run, status, s, byte
            done[s] += 1
            left[run] -= 1
        run += 1
    return run, OK, 0, 0


@njit(cache=True)
def forget(rows, n, ground):  # type: ignore[no-untyped-def]
    """Mark the bytes of rows that were passed over as unknown."""
    state, loaded, image, marks = ground.state, ground.loaded, ground.image, ground.marks
    for i in range(n):
        row = rows[i]
        if row.flags & UNCACHED or row.addr + np.uint64(row.size) > np.uint64(image.size):
            continue
        for k in range(np.int64(row.size)):
            a = np.int64(row.addr) + k
            ensure(a >> 12, state, loaded, image)
            marks[a] = TOUCHED | UNKNOWN


@njit(cache=True)
def first_difference(state, loaded, marks, final):  # type: ignore[no-untyped-def]
    """Address of the first touched byte that is not the final image's, or -1."""
    for page in range(loaded.size):
        if loaded[page] == 0:
            continue
        for a in range(page << 12, min((page + 1) << 12, final.size)):
            if marks[a] == TOUCHED and state[a] != final[a]:
                return a
    return -1
