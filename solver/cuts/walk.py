"""A walk over the cuts of a region: which operations can run, and how to run and take back one.

A cut is one position per stream. Old and new values make memory at a cut a function of the cut alone, so
an operation is taken back by giving its granules their old values again
(docs/architecture.md#ordering). All that a walk keeps besides is, per granule and stream, the stream's next
remaining access to the granule.

Why a cut is dead is told as a *reason*: a set of granules and a set of streams. It says that every cut is
dead at which these streams stand where they stand here, and these granules hold what they hold here, with
the same next access to them in each stream. Sets are 64-bit masks in which number i has bit i modulo 64:
a reason may say more than it must, never less.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import inner
from solver.cuts.state import AWAKE, FINISHED

#: Indexes of `Walk.at`: length of the path, streams on the ready stack, operations run since the start.
LENGTH, READY, WORK = 0, 1, 2
#: Indexes of `Walk.reason`: granules and streams why the last cut was found dead.
GRANULES, STREAMS = 0, 1
#: See `what_follows`.
_NEED_NOT, _MUST, FOLLOWS = 0, 1, 2
_ONE, _LOW_SIX = np.uint64(1), np.uint64(63)


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
                w.waits[t] = AWAKE
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
        w.waits[s] = AWAKE
        w.ready[w.at[READY]] = s
        w.at[READY] += 1


@inner
def wake(s, w):  # type: ignore[no-untyped-def]
    """Put a stream on the ready stack."""
    w.waits[s] = AWAKE
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
                w.waits[s] = FINISHED
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


@inner
def waits_for(op, position, clock, op_stream):  # type: ignore[no-untyped-def]
    """A stream that must go on before `op` can run, or -1."""
    for u in range(position.size):
        if position[u] < clock[op, u] and u != op_stream[op]:
            return u
    return -1
