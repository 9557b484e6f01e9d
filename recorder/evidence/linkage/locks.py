"""Which words a lock protects, found as it happens (ICSE 2012, section V-C): their accesses are not logged.

**A lock** is a place inside one word of 8 bytes that an atomic instruction has changed from 0 to something
else. Who does that holds it, until it writes 0 there, or anything with another address or size that meets
it. Others may write to it meanwhile as long as it stays nonzero (a waiter's mark): memory itself keeps others
from taking it. If another stream makes it 0, or writes over a part of it, it is *broken*: no lock any more.
The first place of a word that is taken is that word's lock.

**Guarded** is a variable whose second stream touches it with a plain load or store while it holds a lock: the
one that it took last. From then on its accesses are skipped, as long as each is a plain one, of this variable
alone, by the holder of that lock.

**Loose** is one of which the lock protects the writes only. Where some writes have been skipped by then, the
first read that is not to be skipped *loosens* it: that read is logged, as are all reads that follow, whoever
holds the lock; writes are skipped on. Loose from the begin is what its second stream reads without a lock, if
the first write since then is under one. Versions are counted on, whatever is skipped, so that reads have
bounds.

The first other access *opens* a variable, for good: it is logged, as is all that follows. Whether loosened or
opened, of each stream that has touched it since it is shared it is noted how many events it had made.

Why that can be replayed: every write to a lock's variable is logged with its place in the order of writes.
Two accesses to a guarded variable by different streams have a release of the one and then an acquisition of
the other between them, which are such writes. What is a lock is therefore a guess that costs bytes where it
is wrong, not a belief that a replay rests on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.host_memory import host_memory
from corebraid.base.kernels import inner
from corebraid.base.rows.event import READ, RMW

#: A lock: the word that it is in, its address and bytes (0: an empty place), its variable; 1 + the stream
#: that holds it, or 0; whether it is broken.
LOCK = np.dtype(
    [
        ("word", "<u8"), ("address", "<u8"), ("variable", "<u8"),
        ("size", "<u4"), ("holder", "<u2"), ("broken", "<u2"),
    ]
)  # fmt: skip
#: Entries of the table of locks, as a power of two; half of them are used, further locks are plain words.
LOCK_BITS = 14
#: Locks held at once from which a stream's last is known; of more the oldest come to protect nothing new.
HELD = 4
#: Marks of a variable: a lock is in it; a lock protects it, whose place is in the bits above, or its writes
#: only; it has been shared by a read without a lock, and not written since. Then how many writes have been
#: skipped, up to ENOUGH: fewer are no reason to log reads, since the row that says so is as long as theirs.
IS_LOCK, GUARDED, LOOSE, UNWRITTEN, _ONE_WRITE, _SHIFT = 1, 2, 4, 8, 16, 6
ENOUGH = 3
#: Places of `Guards.counts`: rows of `opened` and of `loosened`, locks, accesses that were skipped, writes
#: among them.
OPENED, LOOSENED, LOCKS, SKIPPED, SKIPPED_WRITES, _COUNTS = range(6)

_U0, _U1, _U3 = np.uint64(0), np.uint64(1), np.uint64(3)


class Guards(NamedTuple):
    """What is known of locks. marks: uint32 (variables,), empty if nothing is skipped. touched: uint64
    (variables,), bit k: stream k, or one 64 above, has touched the variable since it is shared. locks:
    LOCK[2**LOCK_BITS]. held: int64 (streams, HELD), 1 + places of locks as they were taken. opened: uint64
    (rows, 2 + streams), as OPENED rows of the codec, loosened likewise. counts: int64, see OPENED. loosens:
    whether a variable can be loose; else the first read that is not to be skipped opens it."""

    marks: NDArray[np.uint32]
    touched: NDArray[np.uint64]
    locks: NDArray[np.void]
    held: NDArray[np.int64]
    opened: NDArray[np.uint64]
    loosened: NDArray[np.uint64]
    counts: NDArray[np.int64]
    loosens: bool


def new_guards(n_variables: int, n_streams: int, rows: int, *, loosens: bool = False) -> Guards:
    """Nothing is known. n_variables: 0 if nothing is to be skipped. rows: that `opened` and `loosened` have
    room for. loosens: whether a variable can be loose."""
    marks = host_memory(4 * n_variables).view(np.uint32) if n_variables else np.empty(0, np.uint32)
    touched = host_memory(8 * n_variables).view(np.uint64) if n_variables else np.empty(0, np.uint64)
    opened, loosened = (np.zeros((rows if n_variables else 1, 2 + n_streams), np.uint64) for _ in range(2))
    locks = np.zeros(1 << LOCK_BITS if n_variables else 1, LOCK)
    held, counts = np.zeros((n_streams, HELD), np.int64), np.zeros(_COUNTS, np.int64)
    return Guards(marks, touched, locks, held, opened, loosened, counts, loosens)


@inner
def _find(locks, word):  # type: ignore[no-untyped-def]
    """Where the word's lock is, or is to be: an empty place."""
    at = np.int64((word * GOLDEN) >> np.uint64(64 - LOCK_BITS))
    while locks[at].size != 0 and locks[at].word != word:
        at = (at + 1) & (locks.shape[0] - 1)
    return at


@inner
def _taken_last(held):  # type: ignore[no-untyped-def]
    """1 + the place of the lock that a stream has taken last and holds, 0 if it holds none. held: int64
    (HELD,)."""
    for k in range(HELD - 1, -1, -1):
        if held[k]:
            return held[k]
    return np.int64(0)


@inner
def begin_guard(guards, variable, event):  # type: ignore[no-untyped-def]
    """A second stream touches the variable. 1 + the variable of the lock that protects it from now on, 0 if
    none does yet. event: see `is_guarded`."""
    stream, _, kind, alone = event
    if (guards.marks[variable] & np.uint32(IS_LOCK)) != 0:
        return _U0
    place = _taken_last(guards.held[stream]) if alone and kind != RMW else np.int64(0)
    if place:
        writes = _ONE_WRITE if kind != READ else 0
        guards.marks[variable] = np.uint32((place - 1) << _SHIFT | writes | GUARDED)
        return guards.locks[place - 1].variable + _U1
    if guards.loosens and kind == READ:
        guards.marks[variable] = np.uint32(UNWRITTEN)
    return _U0


@inner
def note_touch(guards, variable, stream):  # type: ignore[no-untyped-def]
    """A stream touches a variable that is shared."""
    guards.touched[variable] |= _U1 << np.uint64(stream & 63)


@inner
def _note_events(row, touched, streams, event):  # type: ignore[no-untyped-def]
    """How many events each stream has made by this one, into a row of `opened` or of `loosened`. A stream of
    which nothing was skipped needs none."""
    stream, number, _, _ = event
    for other in range(streams.shape[0]):
        row[2 + other] = _U0
        if ((touched >> np.uint64(other & 63)) & _U1) != 0:
            row[2 + other] = number if other == stream else streams[other].reached


@inner
def _is_loose_now(guards, variable, event):  # type: ignore[no-untyped-def]
    """Whether a lock protects the first write to a variable that has been shared by a read."""
    stream, _, kind, alone = event
    place = _taken_last(guards.held[stream]) if alone and kind != RMW else np.int64(0)
    if place == 0:
        guards.marks[variable] = np.uint32(0)
        return False
    guards.marks[variable] = np.uint32((place - 1) << _SHIFT | GUARDED | LOOSE)
    n = guards.counts[LOOSENED]
    guards.loosened[n, 0], guards.loosened[n, 1] = variable, guards.locks[place - 1].variable + _U1
    guards.loosened[n, 2:] = _U0
    guards.counts[LOOSENED] = n + 1
    return True


@inner
def is_guarded(guards, streams, variable, writes, event):  # type: ignore[no-untyped-def]
    """Whether an access to a variable that is shared is to be skipped; if not, a read loosens the variable,
    another access opens it. writes: to it so far. event: (stream, number, kind, whether it is of this
    variable alone)."""
    mark = np.int64(guards.marks[variable])
    stream, _, kind, alone = event
    if (mark & UNWRITTEN) != 0 and kind != READ:
        return _is_loose_now(guards, variable, event)
    if (mark & GUARDED) == 0:
        return False
    if kind == READ and (mark & LOOSE) != 0:
        return False
    writes_skipped = (mark // _ONE_WRITE) & ENOUGH
    if alone and kind != RMW and np.int64(guards.locks[mark >> _SHIFT].holder) == stream + 1:
        if kind != READ and writes_skipped < ENOUGH:
            guards.marks[variable] += np.uint32(_ONE_WRITE)
        return True
    if guards.loosens and kind == READ and writes_skipped == ENOUGH:
        n = guards.counts[LOOSENED]
        guards.loosened[n, 0], guards.loosened[n, 1] = variable, _U0
        _note_events(guards.loosened[n], guards.touched[variable], streams, event)
        guards.counts[LOOSENED] = n + 1
        guards.marks[variable] |= np.uint32(LOOSE)
        return False
    n = guards.counts[OPENED]
    guards.opened[n, 0], guards.opened[n, 1] = variable, writes
    _note_events(guards.opened[n], guards.touched[variable], streams, event)
    guards.counts[OPENED] = n + 1
    guards.marks[variable] = np.uint32(0)
    return False


@inner
def is_loose(guards, variable):  # type: ignore[no-untyped-def]
    """Whether a lock protects the variable's writes only."""
    return (guards.marks[variable] & np.uint32(LOOSE)) != 0


@inner
def _let_go(guards, at):  # type: ignore[no-untyped-def]
    """Nobody holds the lock any more."""
    held = guards.held[np.int64(guards.locks[at].holder) - 1]
    guards.locks[at].holder = 0
    kept = 0
    for k in range(HELD):
        place = held[k]
        if place != at + 1:
            held[kept] = place
            kept += 1
    for k in range(kept, HELD):
        held[k] = 0


@inner
def _written_over(guards, at, stream, row):  # type: ignore[no-untyped-def]
    """A write that may meet a lock."""
    lock = guards.locks[at]
    if lock.size == 0 or lock.holder == 0:
        return
    begin, end = row.addr, row.addr + np.uint64(row.size)
    if end <= lock.address or lock.address + np.uint64(lock.size) <= begin:
        return
    whole = begin == lock.address and np.int64(row.size) == np.int64(lock.size)
    if whole and row.new != _U0:
        return
    if np.int64(lock.holder) != stream + 1:
        lock.broken = 1
    _let_go(guards, at)


@inner
def _take(guards, at, stream, row, variable):  # type: ignore[no-untyped-def]
    """An atomic instruction has made nonzero what was 0."""
    lock = guards.locks[at]
    if lock.size == 0:
        if guards.counts[LOCKS] >= guards.locks.shape[0] // 2:
            return
        guards.counts[LOCKS] += 1
        lock.word, lock.address, lock.variable = row.addr >> _U3, row.addr, variable
        lock.size = np.uint32(row.size)
        guards.marks[variable] |= np.uint32(IS_LOCK)
    if lock.broken or lock.address != row.addr or np.int64(lock.size) != np.int64(row.size):
        return
    if lock.holder:
        # It was 0 and yet held: something has changed it that is no access.
        lock.broken = 1
        _let_go(guards, at)
        return
    lock.holder = np.uint16(stream + 1)
    held, last = guards.held[stream], HELD
    for k in range(HELD - 1, -1, -1):
        if held[k] == 0:
            last = k
    if last == HELD:
        # The oldest still protects what it does, and nothing new.
        for k in range(HELD - 1):
            held[k] = held[k + 1]
        last = HELD - 1
    held[last] = at + 1


@inner
def follow_lock(guards, stream, row, variables, joined):  # type: ignore[no-untyped-def]
    """What a write does to locks. variables: those where it begins and ends. joined: whether it is
    indivisible with another."""
    first, second = variables
    word, last = row.addr >> _U3, (row.addr + np.uint64(row.size) - _U1) >> _U3
    if ((guards.marks[first] | guards.marks[second]) & np.uint32(IS_LOCK)) != 0:
        _written_over(guards, _find(guards.locks, word), stream, row)
        if last != word:
            _written_over(guards, _find(guards.locks, last), stream, row)
    if row.kind == RMW and not joined and word == last and row.old == _U0 and row.new != _U0:
        _take(guards, _find(guards.locks, word), stream, row, first)
