"""A walk over the cuts of a region: which operations can run, and how to run and take back one.

A cut is one position per stream. Old and new values make memory at a cut a function of the cut alone, so
an operation is taken back by giving its granules their old values again (DESIGN 6.5). All that a walk
keeps besides is, per granule and stream, the stream's next remaining access to the granule.

Why a cut is dead is told as a *reason*: a set of granules and a set of streams. It says that every cut is
dead at which these streams stand where they stand here, and these granules hold what they hold here, with
the same next access to them in each stream. Sets are 64-bit masks in which number i has bit i modulo 64:
a reason may say more than it must, never less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.inner_kernel import inner
from solver.problem import Problem

#: Indexes of `Walk.at`: length of the path, streams on the ready stack, operations run since the start.
LENGTH, READY, WORK = 0, 1, 2
#: Indexes of `Walk.reason`: granules and streams why the last cut was found dead.
GRANULES, STREAMS = 0, 1
#: `Walk.waits` of a stream that is on the ready stack (or runs), and of one that is finished.
_AWAKE, _FINISHED = -1, -2
#: See `what_follows`.
_NEED_NOT, _MUST, FOLLOWS = 0, 1, 2
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONE, _LOW_SIX = np.uint64(1), np.uint64(63)


class Ops(NamedTuple):
    """The operations of a `Problem`, its empty streams left out.

    stream_ptr: int64 (n_streams + 1,). op_stream: int32 (n_ops,). part_ptr: int64 (n_ops + 1,). granule:
    int32, old, new: uint64 (n_parts,). next_part: int32 (n_parts,), the next part of the same stream on
    the same granule, -1 if none. slot: int32 (n_parts,): a slot is a pair of granule and stream that
    occurs; those of granule g are slot_ptr[g] to slot_ptr[g + 1] (int64), slot_stream: int32 (n_slots,).
    final: uint64 (n_granules,). before: int32 (n_ops, n_streams), or (0, n_streams) if nothing is known:
    in every legal order, the operations of stream t that are below before[o, t] precede o. source: int32
    (n_parts,), or (0,) if there are none: as long as this operation has not run, the part is not looked at
    (`Problem.source`); -1 for none. is_source: uint8 (n_ops,), or (0,).
    """

    stream_ptr: NDArray[np.int64]
    op_stream: NDArray[np.int32]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    next_part: NDArray[np.int32]
    slot: NDArray[np.int32]
    slot_ptr: NDArray[np.int64]
    slot_stream: NDArray[np.int32]
    final: NDArray[np.uint64]
    before: NDArray[np.int32]
    source: NDArray[np.int32]
    is_source: NDArray[np.uint8]


class Walk(NamedTuple):
    """Where a walk stands. position: int32 (n_streams,), the next operation of each stream. held: uint64
    (n_granules,), memory. head: int32, head_old: uint64 (n_slots,), the next remaining part of each slot
    (-1: none) and its old value. waits: int32 (n_streams,), the granule whose change a stream waits for.
    ready: int32 (n_streams,), stack of streams to look at. path: int32 (n_ops,), the operations run.
    at: int64 (3,), see LENGTH. reason: uint64 (2,), see GRANULES. values: int32 (n_parts, 2), numbers of
    the pairs (granule, old value) and (granule, new value), -1 for a part with a source, or (0, 2).
    reads, makers: int32 per such pair, accesses to come that leave the value as it is, and that bring it
    about."""

    position: NDArray[np.int32]
    held: NDArray[np.uint64]
    head: NDArray[np.int32]
    head_old: NDArray[np.uint64]
    waits: NDArray[np.int32]
    ready: NDArray[np.int32]
    path: NDArray[np.int32]
    at: NDArray[np.int64]
    reason: NDArray[np.uint64]
    values: NDArray[np.int32]
    reads: NDArray[np.int32]
    makers: NDArray[np.int32]


@njit(cache=True)
def link_parts(stream_ptr, part_ptr, granule, old, slot_ptr, next_part, slot, slot_stream, head, head_old):  # type: ignore[no-untyped-def]
    """Fill slot_ptr, next_part, slot and the slots' arrays. Returns the number of slots."""
    n_granules, n_streams = slot_ptr.size - 1, stream_ptr.size - 1
    seen = np.full(n_granules, -1, np.int32)
    for s in range(n_streams):
        for p in range(part_ptr[stream_ptr[s]], part_ptr[stream_ptr[s + 1]]):
            if seen[granule[p]] != s:
                seen[granule[p]] = s
                slot_ptr[granule[p] + 1] += 1
    for g in range(n_granules):
        slot_ptr[g + 1] += slot_ptr[g]
    end = slot_ptr[:-1].copy()
    seen[:] = -1
    for s in range(n_streams):
        for p in range(part_ptr[stream_ptr[s + 1]] - 1, part_ptr[stream_ptr[s]] - 1, -1):
            g = granule[p]
            if seen[g] != s:
                seen[g] = s
                slot_stream[end[g]] = s
                head[end[g]] = -1
                end[g] += 1
            at = end[g] - 1
            slot[p] = at
            next_part[p] = head[at]
            head[at] = p
            head_old[at] = old[p]
    return slot_ptr[n_granules]


@njit(cache=True)
def number_values(granule, old, new, keys, key_granule, values, reads, makers):  # type: ignore[no-untyped-def]
    """Number the pairs of granule and value, and count what comes of each (`Walk`). keys: int32, -1, a power
    of two more than twice the parts; key_granule: the same. Returns how many there are."""
    mask, n = np.uint64(keys.size - 1), 0
    value_of = np.empty(keys.size, np.uint64)
    for p in range(granule.size):
        for side in range(2):
            value = old[p] if side == 0 else new[p]
            slot = (((np.uint64(granule[p]) << np.uint64(40)) ^ value) * _MIX >> np.uint64(20)) & mask
            while keys[slot] >= 0 and (key_granule[slot] != granule[p] or value_of[slot] != value):
                slot = (slot + np.uint64(1)) & mask
            if keys[slot] < 0:
                keys[slot], key_granule[slot], value_of[slot] = n, granule[p], value
                n += 1
            values[p, side] = keys[slot]
        if old[p] == new[p]:
            reads[values[p, 0]] += 1
        else:
            makers[values[p, 1]] += 1
    return n


def _values(problem: Problem) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    m = len(problem.granule)
    keys = np.full(1 << (4 * m).bit_length(), -1, np.int32)
    values = np.empty((m, 2), np.int32)
    reads, makers = np.zeros(2 * m, np.int32), np.zeros(2 * m, np.int32)
    n = number_values(
        problem.granule, problem.old, problem.new, keys, np.empty_like(keys), values, reads, makers
    )
    if len(source := problem.part_source):
        np.subtract.at(reads, values[source >= 0, 0], 1)
        values[source >= 0] = -1
    return values, reads[:n], makers[:n]


def _is_source(problem: Problem) -> NDArray[np.uint8]:
    sources = problem.source[problem.source >= 0]
    is_source = np.zeros(problem.n_ops if len(sources) else 0, np.uint8)
    is_source[sources] = 1
    return is_source


def start(
    problem: Problem, before: NDArray[np.int32] | None = None, *, counted: bool = False
) -> tuple[Ops, Walk]:
    """The operations of a problem, and a walk at its first cut.

    before: int32 (n_ops, used streams), see `Ops`. counted: whether the walk counts what is to come of each
    value, which finds dead cuts sooner and costs about as much as the walk.
    """
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
    n, m, n_granules = len(used), len(problem.granule), len(problem.address)
    slot_ptr = np.zeros(n_granules + 1, np.int64)
    next_part, slot = np.empty(m, np.int32), np.empty(m, np.int32)
    slot_stream, head, head_old = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.uint64)
    n_slots = link_parts(
        stream_ptr, problem.part_ptr, problem.granule, problem.old,
        slot_ptr, next_part, slot, slot_stream, head, head_old,
    )  # fmt: skip
    ops = Ops(
        stream_ptr=stream_ptr,
        op_stream=np.repeat(np.arange(n, dtype=np.int32), np.diff(stream_ptr)),
        part_ptr=problem.part_ptr,
        granule=problem.granule,
        old=problem.old,
        new=problem.new,
        next_part=next_part,
        slot=slot,
        slot_ptr=slot_ptr,
        slot_stream=slot_stream[:n_slots],
        final=problem.final,
        before=np.empty((0, n), np.int32) if before is None else before,
        source=problem.part_source,
        is_source=_is_source(problem),
    )
    none = np.empty(0, np.int32)
    values, reads, makers = _values(problem) if counted else (np.empty((0, 2), np.int32), none, none)
    walk = Walk(
        position=stream_ptr[:-1].astype(np.int32),
        held=problem.initial.copy(),
        head=head[:n_slots],
        head_old=head_old[:n_slots],
        waits=np.full(n, _AWAKE, np.int32),
        ready=np.zeros(n, np.int32),
        path=np.empty(problem.n_ops, np.int32),
        at=np.zeros(3, np.int64),
        reason=np.zeros(2, np.uint64),
        values=values,
        reads=reads,
        makers=makers,
    )
    return ops, walk


@inner
def forwarded(p, ops, w):  # type: ignore[no-untyped-def]
    """Whether a store buffer answers this part now, so that memory does not matter."""
    if ops.source.size == 0 or ops.source[p] < 0:
        return False
    return w.position[ops.op_stream[ops.source[p]]] <= ops.source[p]


@inner
def mismatch(op, ops, w):  # type: ignore[no-untyped-def]
    """The first granule that does not hold the operation's old value, or -1: the operation is enabled."""
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        if w.held[ops.granule[p]] != ops.old[p] and not forwarded(p, ops, w):
            return ops.granule[p]
    return np.int32(-1)


@inner
def what_follows(k, g, ops, w):  # type: ignore[no-untyped-def]
    """Whether the stream of slot k can be the next to access granule g: FOLLOWS. Else, whether it still must
    access it: _MUST, or _NEED_NOT.

    A part with a source may be passed over while that is in the store buffer, so what is behind it counts
    too.
    """
    p = w.head[k]
    if p < 0:
        return _NEED_NOT
    if w.head_old[k] == w.held[g]:
        return FOLLOWS
    if ops.source.size == 0:
        return _MUST
    while p >= 0 and ops.source[p] >= 0:
        p = ops.next_part[p]
        if p >= 0 and ops.old[p] == w.held[g]:
            return FOLLOWS
    return _MUST if p >= 0 else _NEED_NOT


@inner
def bit(number):  # type: ignore[no-untyped-def]
    """The mask of a granule or stream."""
    return _ONE << (np.uint64(number) & _LOW_SIX)


@inner
def granules_of(op, ops):  # type: ignore[no-untyped-def]
    """The mask of an operation's granules."""
    mask = np.uint64(0)
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        mask |= bit(ops.granule[p])
    return mask


@inner
def too_early(op, ops, w):  # type: ignore[no-untyped-def]
    """A stream whose next operation must precede this one in every legal order, or -1."""
    if ops.before.shape[0] > 0:
        for s in range(w.position.size):
            if w.position[s] < ops.before[op, s]:
                return s
    return -1


@inner
def changes(p, op, ops):  # type: ignore[no-untyped-def]
    """Whether an operation, by its part p, does what others may notice."""
    return ops.old[p] != ops.new[p] or (ops.is_source.size > 0 and ops.is_source[op] != 0)


@inner
def rival(op, s, ops, w):  # type: ignore[no-untyped-def]
    """A granule that stream s's operation changes and another stream could be the next to access, or -1.

    What an operation leaves as it is nobody notices. A store that leaves the store buffer does change
    something, whatever its value, if a load could have been answered by it.
    """
    weak = ops.source.size > 0
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        if not changes(p, op, ops):
            continue
        g = ops.granule[p]
        for k in range(ops.slot_ptr[g], ops.slot_ptr[g + 1]):
            if ops.slot_stream[k] == s or w.head[k] < 0:
                continue
            if w.head_old[k] == w.held[g] or (weak and what_follows(k, g, ops, w) == FOLLOWS):
                return g
    return np.int32(-1)


@inner
def _count(p, sign, w):  # type: ignore[no-untyped-def]
    """Count a part as run (sign -1) or taken back (1). Returns whether the value that it overwrote is still
    to be read and nobody will bring it about again."""
    old, new = w.values[p, 0], w.values[p, 1]
    if old < 0:
        return False
    if old == new:
        w.reads[old] += sign
        return False
    w.makers[new] += sign
    return w.reads[old] > 0 and w.makers[old] == 0


@inner
def _follow(g, ops, w):  # type: ignore[no-untyped-def]
    """Wake who waits for a granule. Returns whether some stream's next access follows its value, or there
    is none left and it is final."""
    touched, followed, weak = False, False, ops.source.size > 0
    for k in range(ops.slot_ptr[g], ops.slot_ptr[g + 1]):
        if w.head[k] >= 0:
            if w.head_old[k] == w.held[g]:
                followed = True
            elif weak:
                what = what_follows(k, g, ops, w)
                touched = touched or what != _NEED_NOT
                followed = followed or what == FOLLOWS
            else:
                touched = True
            t = ops.slot_stream[k]
            if w.waits[t] == g:
                w.waits[t] = _AWAKE
                w.ready[w.at[READY]] = t
                w.at[READY] += 1
    return followed or (not touched and w.held[g] == ops.final[g])


@inner
def run(op, s, ops, w):  # type: ignore[no-untyped-def]
    """Run an operation of stream s, append it to the path and wake who waits for its granules.

    Returns False, with the reason, if the cut reached is dead at first sight: a granule holds a value that
    no stream's next access to it follows, or at the end not its final one; or a value was overwritten that
    is still to be read.
    """
    alive = True
    w.path[w.at[LENGTH]] = op
    w.at[LENGTH] += 1
    w.at[WORK] += 1
    w.position[s] = op + 1
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        g, following = ops.granule[p], ops.next_part[p]
        # An access that changes nothing need not have seen memory.
        if ops.new[p] != ops.old[p]:
            w.held[g] = ops.new[p]
        w.head[ops.slot[p]] = following
        if following >= 0:
            w.head_old[ops.slot[p]] = ops.old[following]
        stranded = w.values.shape[0] > 0 and _count(p, -1, w)
        if not _follow(g, ops, w) or stranded:
            alive = False
            w.reason[GRANULES], w.reason[STREAMS] = bit(g), np.uint64(0)
    return alive


@inner
def take_back(ops, w):  # type: ignore[no-untyped-def]
    """Take back the last operation of the path. Returns it."""
    w.at[LENGTH] -= 1
    op = w.path[w.at[LENGTH]]
    w.position[ops.op_stream[op]] = op
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        if ops.new[p] != ops.old[p]:
            w.held[ops.granule[p]] = ops.old[p]
        w.head[ops.slot[p]] = p
        w.head_old[ops.slot[p]] = ops.old[p]
        if w.values.shape[0] > 0:
            _count(p, 1, w)
    return op


@inner
def take_back_why(length, ops, w):  # type: ignore[no-untyped-def]
    """Take back the path beyond `length`, and turn the reason why the cut was dead into one why the cut at
    `length` is, had its operations no alternative. Returns whether the first of them plays a part in it."""
    matters = False
    while w.at[LENGTH] > length:
        op = take_back(ops, w)
        stream, granules = bit(ops.op_stream[op]), granules_of(op, ops)
        matters = (w.reason[STREAMS] & stream) != 0 or (w.reason[GRANULES] & granules) != 0
        if matters:
            w.reason[STREAMS] |= stream
            w.reason[GRANULES] |= granules
    return matters


@inner
def wake_all(ops, w):  # type: ignore[no-untyped-def]
    """Put every unfinished stream on the ready stack."""
    w.at[READY] = 0
    for s in range(w.position.size - 1, -1, -1):
        w.waits[s] = _AWAKE
        w.ready[w.at[READY]] = s
        w.at[READY] += 1


@inner
def wake(s, w):  # type: ignore[no-untyped-def]
    """Put a stream on the ready stack."""
    w.waits[s] = _AWAKE
    w.ready[w.at[READY]] = s
    w.at[READY] += 1


@inner
def run_forced(ops, w):  # type: ignore[no-untyped-def]
    """Run what may as well run next, until nothing is left of that: operations that change nothing, and
    those without a rival. Returns False, with the reason, if the cut turned out to be dead."""
    while w.at[READY] > 0:
        w.at[READY] -= 1
        s = w.ready[w.at[READY]]
        while True:
            op = w.position[s]
            if op == ops.stream_ptr[s + 1]:
                w.waits[s] = _FINISHED
                break
            g = mismatch(op, ops, w)
            if g < 0:
                g = rival(op, s, ops, w)
            if g >= 0:
                w.waits[s] = g
                break
            earlier = too_early(op, ops, w)
            if earlier >= 0:
                w.reason[GRANULES], w.reason[STREAMS] = granules_of(op, ops), bit(s) | bit(earlier)
                return False
            if not run(op, s, ops, w):
                return False
    return True


@inner
def begins_well(ops, w):  # type: ignore[no-untyped-def]
    """Whether every granule's initial value is followed by some stream's first access, or is final."""
    for g in range(w.held.size):
        touched, followed = False, False
        for k in range(ops.slot_ptr[g], ops.slot_ptr[g + 1]):
            what = what_follows(k, g, ops, w)
            touched = touched or what != _NEED_NOT
            followed = followed or what == FOLLOWS
        if not (followed or (not touched and w.held[g] == ops.final[g])):
            return False
    return True
