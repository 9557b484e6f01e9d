"""Cut search: legality of a region decided exactly by a walk over its cuts (DESIGN 6.5).

A cut is one position per stream. Which value each granule holds at a cut does not depend on the way
taken there: it is the one unmatched value of what has run so far. So a cut from which no way leads to the
end is dead for good, and each cut needs to be explored once.

Three rules spare cuts and lose no order. An operation that changes nothing (a read, a silent store) runs
as soon as it can: the others do not notice. So does one whose granules no other stream will touch again.
And a value that is still to be read, and that nobody will write again, is not overwritten.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.problem import Problem, Solution, Verdict, no_order

DEFAULT_NODES = 2_000_000

_LEGAL, _ILLEGAL, _BUDGET, _GROW = 0, 1, 2, 3
#: Nodes explored between two looks at the clock.
_SLICE = 50_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Ops(NamedTuple):
    """The operations (`Problem`), and per part: old_value, new_value, the number of the pair (granule,
    value) (int32); own, how many accesses to the granule its stream has from here on (int32)."""

    stream_ptr: NDArray[np.int64]
    op_stream: NDArray[np.int32]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    old_value: NDArray[np.int32]
    new_value: NDArray[np.int32]
    own: NDArray[np.int32]


class Walk(NamedTuple):
    """A walk in progress. position: int32, the next operation of each stream. held: uint64, the value of
    each granule. left: int32, accesses to come per granule. reads, makers: int32 per (granule, value),
    reads to come and writes to come that leave it. path: int32, the operations run. frame_path, frame_try:
    int32, per open cut the length of its path and how many streams were tried. at: int64, [length of the
    path, open cuts, dead cuts, whether a cut is being entered, cuts explored]."""

    position: NDArray[np.int32]
    held: NDArray[np.uint64]
    left: NDArray[np.int32]
    reads: NDArray[np.int32]
    makers: NDArray[np.int32]
    path: NDArray[np.int32]
    frame_path: NDArray[np.int32]
    frame_try: NDArray[np.int32]
    at: NDArray[np.int64]


@njit(cache=True)
def enabled(op, ops, w):  # type: ignore[no-untyped-def]
    """Whether an operation's old values are what memory holds."""
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):  # noqa: SIM110
        if w.held[ops.granule[p]] != ops.old[p]:
            return False
    return True


@njit(cache=True)
def harmless(op, ops, w):  # type: ignore[no-untyped-def]
    """Whether no other stream can notice the operation: each of its accesses changes nothing, or is to a
    granule that no other stream will touch again."""
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        if ops.old[p] != ops.new[p] and w.left[ops.granule[p]] != ops.own[p]:
            return False
    return True


@njit(cache=True)
def strands(op, ops, w):  # type: ignore[no-untyped-def]
    """Whether the operation, which has just run, overwrote a value that is still to be read and that
    nobody will write again."""
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        v = ops.old_value[p]
        if ops.old[p] != ops.new[p] and w.reads[v] > 0 and w.makers[v] == 0:
            return True
    return False


@njit(cache=True)
def run(op, ops, w):  # type: ignore[no-untyped-def]
    """Run an operation and append it to the path."""
    for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
        w.held[ops.granule[p]] = ops.new[p]
        w.left[ops.granule[p]] -= 1
        if ops.old[p] == ops.new[p]:
            w.reads[ops.old_value[p]] -= 1
        else:
            w.makers[ops.new_value[p]] -= 1
    w.position[ops.op_stream[op]] = op + 1
    w.path[w.at[0]] = op
    w.at[0] += 1


@njit(cache=True)
def take_back(length, ops, w):  # type: ignore[no-untyped-def]
    """Take back the operations of the path beyond `length`."""
    while w.at[0] > length:
        w.at[0] -= 1
        op = w.path[w.at[0]]
        w.position[ops.op_stream[op]] = op
        for p in range(ops.part_ptr[op], ops.part_ptr[op + 1]):
            w.held[ops.granule[p]] = ops.old[p]
            w.left[ops.granule[p]] += 1
            if ops.old[p] == ops.new[p]:
                w.reads[ops.old_value[p]] += 1
            else:
                w.makers[ops.new_value[p]] += 1


@njit(cache=True)
def run_harmless(ops, w):  # type: ignore[no-untyped-def]
    """Run what can run and no other stream can notice, until there is nothing left of that."""
    again = True
    while again:
        again = False
        for s in range(w.position.size):
            op = w.position[s]
            while op < ops.stream_ptr[s + 1] and enabled(op, ops, w) and harmless(op, ops, w):
                run(op, ops, w)
                op += 1
                again = True


@njit(cache=True)
def cut_slot(position, keys, filled):  # type: ignore[no-untyped-def]
    """(slot, found) of a cut in the table of dead cuts, which holds whole cuts: it never errs."""
    h = np.uint64(0)
    for s in range(position.size):
        h = (h ^ np.uint64(position[s])) * _MIX
        h ^= h >> np.uint64(29)
    mask = np.uint64(filled.size - 1)
    slot = h & mask
    while filled[slot]:
        same = True
        for s in range(position.size):
            if keys[slot, s] != position[s]:
                same = False
                break
        if same:
            return np.int64(slot), True
        slot = (slot + np.uint64(1)) & mask
    return np.int64(slot), False


@njit(cache=True)
def try_streams(ops, w):  # type: ignore[no-untyped-def]
    """From the innermost open cut, run the next operation that is worth it. False if none is left."""
    n_streams, frame = w.position.size, w.at[1] - 1
    length = w.frame_path[frame]
    # The stream that ran last goes on first: real runs switch seldom.
    last = ops.op_stream[w.path[length - 1]] if length > 0 else 0
    while w.frame_try[frame] < n_streams:
        s = (last + w.frame_try[frame]) % n_streams
        w.frame_try[frame] += 1
        op = w.position[s]
        if op < ops.stream_ptr[s + 1] and enabled(op, ops, w):
            run(op, ops, w)
            if not strands(op, ops, w):
                return True
            take_back(length, ops, w)
    return False


@njit(cache=True)
def search(ops, w, keys, filled, nodes):  # type: ignore[no-untyped-def]
    """Go on with the walk for at most `nodes` cuts. Returns _LEGAL (the path is an order), _ILLEGAL,
    _BUDGET or _GROW (the table of dead cuts is too full)."""
    stop = w.at[4] + nodes
    while True:
        if w.at[3]:
            if w.at[4] >= stop:
                return _BUDGET
            if 2 * (w.at[2] + 2) > filled.size:
                return _GROW
            w.at[3] = 0
            run_harmless(ops, w)
            if w.at[0] == ops.op_stream.size:
                return _LEGAL
            if not cut_slot(w.position, keys, filled)[1]:
                w.at[4] += 1
                w.frame_path[w.at[1]] = w.at[0]
                w.frame_try[w.at[1]] = 0
                w.at[1] += 1
        if w.at[1] == 0:
            return _ILLEGAL
        take_back(w.frame_path[w.at[1] - 1], ops, w)
        if try_streams(ops, w):
            w.at[3] = 1
        else:
            slot, known = cut_slot(w.position, keys, filled)
            if not known:
                filled[slot] = 1
                keys[slot] = w.position
                w.at[2] += 1
            w.at[1] -= 1


class _DeadCuts:
    """The table of dead cuts: whole cuts (int32) in open addressing."""

    def __init__(self, n_streams: int) -> None:
        self.keys = np.zeros((1 << 10, n_streams), np.int32)
        self.filled = np.zeros(1 << 10, np.uint8)

    def grow(self) -> None:
        old = self.keys[self.filled != 0]
        n = len(self.filled) * 4
        self.keys, self.filled = np.zeros((n, old.shape[1]), np.int32), np.zeros(n, np.uint8)
        insert_cuts(old, self.keys, self.filled)


@njit(cache=True)
def insert_cuts(cuts, keys, filled):  # type: ignore[no-untyped-def]
    """Enter cuts into an empty table."""
    for i in range(cuts.shape[0]):
        slot, _ = cut_slot(cuts[i], keys, filled)
        filled[slot] = 1
        keys[slot] = cuts[i]


@njit(cache=True)
def own_accesses(ops_stream_ptr, part_ptr, granule, n_granules):  # type: ignore[no-untyped-def]
    """Per part, how many accesses to its granule its stream has from it on (int32)."""
    own = np.zeros(granule.size, np.int32)
    seen = np.zeros(n_granules, np.int32)
    for s in range(ops_stream_ptr.size - 1):
        first, end = part_ptr[ops_stream_ptr[s]], part_ptr[ops_stream_ptr[s + 1]]
        for p in range(end - 1, first - 1, -1):
            seen[granule[p]] += 1
            own[p] = seen[granule[p]]
        for p in range(first, end):
            seen[granule[p]] = 0
    return own


def _prepare(problem: Problem) -> tuple[Ops, Walk]:
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
    op_stream = np.repeat(np.arange(len(used), dtype=np.int32), np.diff(stream_ptr))
    m, n_granules = len(problem.granule), len(problem.address)
    pairs = np.empty(2 * m, [("granule", np.int32), ("value", np.uint64)])
    pairs["granule"] = np.concatenate([problem.granule, problem.granule])
    pairs["value"] = np.concatenate([problem.old, problem.new])
    distinct, inverse = np.unique(pairs, return_inverse=True)
    number: NDArray[np.int32] = inverse.astype(np.int32)
    old, new = number[:m], number[m:]
    silent = problem.old == problem.new
    own = own_accesses(stream_ptr, problem.part_ptr, problem.granule, n_granules)
    ops = Ops(
        stream_ptr, op_stream, problem.part_ptr, problem.granule, problem.old, problem.new, old, new, own
    )
    n = problem.n_ops + 1
    walk = Walk(
        position=stream_ptr[:-1].astype(np.int32),
        held=problem.initial.copy(),
        left=np.bincount(problem.granule, minlength=n_granules).astype(np.int32),
        reads=np.bincount(old[silent], minlength=len(distinct)).astype(np.int32),
        makers=np.bincount(new[~silent], minlength=len(distinct)).astype(np.int32),
        path=np.zeros(n, np.int32),
        frame_path=np.zeros(n, np.int32),
        frame_try=np.zeros(n, np.int32),
        at=np.array([0, 0, 0, 1, 0], np.int64),
    )
    return ops, walk


def solve_cut(problem: Problem, *, timeout_s: float, nodes: int = DEFAULT_NODES) -> Solution:
    """Decide a region by cut search. Undecided after `timeout_s` seconds or `nodes` cuts explored."""
    began = time.monotonic()
    ops, walk = _prepare(problem)
    dead = _DeadCuts(len(walk.position))
    reason = ""
    while True:
        explored = int(walk.at[4])
        status = search(ops, walk, dead.keys, dead.filled, min(_SLICE, nodes - explored))
        if status in (_LEGAL, _ILLEGAL):
            break
        if status == _GROW:
            dead.grow()
        elif int(walk.at[4]) >= nodes:
            reason = "budget"
            break
        if time.monotonic() - began > timeout_s:
            reason = "timeout"
            break
    verdict = {_LEGAL: Verdict.LEGAL, _ILLEGAL: Verdict.ILLEGAL}.get(status, Verdict.UNDECIDED)
    order: NDArray[np.int64] = no_order()
    if verdict is Verdict.LEGAL:
        order = walk.path[: problem.n_ops].astype(np.int64)
    return Solution(verdict, "cut", time.monotonic() - began, order, reason)
