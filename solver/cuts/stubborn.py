"""Stubborn sets: from a cut, few moves that are enough to try (Valmari 1989, for this transition system).

At a cut, let e(c) be the next operation of stream c, current(y) what granule y holds, and C(y) the streams
whose next remaining access to y has current(y) as its old value. A non-empty set S of streams with work
left is *closed* if for each c in S: where all granules of e(c) hold its old values, C(y) is in S for each
granule y that e(c) changes; where not, C(y) is in S for one granule y of e(c) that does not. Claim: if
the cut is alive, some legal way on begins with an enabled e(c), c in S. Hence it is enough to try those;
if there is none, the cut is dead.

Proof. Take a legal way on. It runs all that is left, so it has a first operation of a stream in S: e(c)
for some c in S, since before it no stream in S has moved. Let y be any granule of e(c), and x the first
operation of the whole way that accesses y; e(c) itself accesses y, so x exists and is not after e(c). x
reads what y holds now, so x's access has current(y) as old value, and being the first of all it is the
next remaining access to y of its stream d: d is in C(y). If C(y) is in S, no operation of d stands before
e(c), so x is e(c). Were there a granule that does not hold e(c)'s old value, this would hold for one such
y: but x reads what y holds now, and e(c) does not. So e(c) is enabled at the cut. And it holds for each
granule that e(c) changes: nothing before e(c) accesses any of those. What e(c) only reads it finds now as
well as then, whatever happens to it in between. So e(c) may be moved to the front. QED

The proof uses the ways that are legal, so moves known to be in none (`too_early`) may be left out, and
from C(y) those streams whose access to y is known to come after another remaining access to y.
Two cases need no set: an enabled operation that changes nothing can be moved to the front of any way, and
one without a rival is a closed set by itself.

Under TSO a load may have a source, a store of the other stream of its core (`Problem.source`): as long as
that has not run, the load can run whatever memory holds; otherwise it is like any other. Call the load's
parts weak. C(y) then holds the streams of whose remaining accesses to y one has current(y) as old value,
such that all those before it are weak. The proof stays: let x be the first operation of the way that
accesses y and does not pass y over as a weak part. All before it of its stream d that access y are weak,
and x reads what y holds now, so d is in C(y). If e(c) is the load of a weak part y itself, and nothing
that changes y stands before it, then if it passes y over in the way, its source has not run there nor at
the cut; else y holds now what it holds then. What stands before e(c) and e(c) changes something of: only
weak parts that were passed over. Moved behind e(c), such a load passes over as before, unless e(c) is its
source. Then it sees what e(c) wrote, which is what it reads, since nothing else has changed that
meanwhile. So a load that can run may be moved to the front of any way; but a store that changes nothing
and is a source may not, since others might have changed y before a load that it answers.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import copy_row, inner
from solver.cuts.walk import (
    FOLLOWS,
    GRANULES,
    STREAMS,
    bit,
    changes,
    granules_of,
    mismatch,
    too_early,
    what_follows,
)


@inner
def _after_another(k, g, ops, w):  # type: ignore[no-untyped-def]
    """Whether the next access of slot k to granule g is known to come after another slot's."""
    if ops.before.shape[0] == 0:
        return False
    op = np.searchsorted(ops.part_ptr, w.head[k], side="right") - 1
    for other in range(ops.slot_ptr[g], ops.slot_ptr[g + 1]):
        if other != k and w.head[other] >= 0:
            first = np.searchsorted(ops.part_ptr, w.head[other], side="right") - 1
            if ops.before[op, ops.slot_stream[other]] > first:
                return True
    return False


@inner
def _close(c, enabled, least, ops, w, member, todo):  # type: ignore[no-untyped-def]
    """The smallest closed set with stream c, into member. Returns its number of enabled moves, or
    `least` as soon as it is seen not to be below that."""
    for s in range(member.size):
        member[s] = 0
    member[c] = 1
    todo[0], n, moves = c, 1, 0
    while n > 0:
        n -= 1
        s = todo[n]
        moves += enabled[s]
        if moves >= least:
            return least
        op = w.position[s]
        waits = mismatch(op, ops, w)
        for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
            g = ops.granule[p]
            if (waits >= 0 and g != waits) or (waits < 0 and not changes(p, op, ops)):
                continue
            for k in range(ops.slot_ptr[g], ops.slot_ptr[g + 1]):
                t = ops.slot_stream[k]
                follows = member[t] == 0 and what_follows(k, g, ops, w) == FOLLOWS
                if follows and not _after_another(k, g, ops, w):
                    member[t] = 1
                    todo[n] = t
                    n += 1
    return moves


@inner
def _explain(member, ops, w):  # type: ignore[no-untyped-def]
    """Put into the walk's reason what makes the set closed and its other moves impossible: where its streams
    stand, and the granules of their next operations."""
    w.reason[GRANULES], w.reason[STREAMS] = np.uint64(0), np.uint64(0)
    for s in range(member.size):
        if member[s]:
            op = w.position[s]
            w.reason[STREAMS] |= bit(s)
            w.reason[GRANULES] |= granules_of(op, ops)
            if ops.source.size > 0:
                for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
                    if ops.source[p] >= 0:
                        w.reason[STREAMS] |= bit(ops.op_stream[ops.source[p]])
            earlier = too_early(op, ops, w)
            if earlier >= 0:
                w.reason[STREAMS] |= bit(earlier)


@inner
def moves_to_try(ops, w, chosen, enabled, member, best, todo):  # type: ignore[no-untyped-def]
    """The enabled moves of a closed set that has the fewest, into `chosen` (int32, streams), ascending.
    Returns how many; 0: the cut is dead. Leaves in the walk's reason why no other move is needed.

    enabled, member, best: uint8, todo: int32 (n_streams,), scratch.
    """
    n_streams = w.position.size
    for s in range(n_streams):
        op = w.position[s]
        enabled[s] = 0
        if op < ops.stream_ptr[s + 1] and mismatch(op, ops, w) < 0 and too_early(op, ops, w) < 0:
            enabled[s] = 1
    least = n_streams + 1
    for c in range(n_streams):
        if w.position[c] == ops.stream_ptr[c + 1]:
            continue
        moves = _close(c, enabled, least, ops, w, member, todo)
        if moves < least:
            least = moves
            copy_row(member, best)
            if least <= 1:
                break
    n = 0
    for s in range(n_streams):
        if best[s] and enabled[s]:
            chosen[n] = s
            n += 1
    _explain(best, ops, w)
    return n
