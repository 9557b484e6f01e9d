"""Cut search: legality of a region decided exactly by a walk over its cuts (DESIGN 6.5).

A cut is one position per stream. Which value each granule holds at a cut does not depend on the way
taken there: it is the one unmatched value of what has run so far. So a cut from which no way leads to the
end is dead for good, and each cut needs to be explored once.
"""

from __future__ import annotations

import time

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.problem import Problem, Solution, Verdict, no_order

DEFAULT_NODES = 2_000_000

_LEGAL, _ILLEGAL, _BUDGET, _GROW = 0, 1, 2, 3
#: Nodes explored between two looks at the clock.
_SLICE = 50_000
_MIX = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True)
def enabled(op, part_ptr, granule, old, held):  # type: ignore[no-untyped-def]
    """Whether an operation's old values are what memory holds."""
    for p in range(part_ptr[op], part_ptr[op + 1]):  # noqa: SIM110
        if held[granule[p]] != old[p]:
            return False
    return True


@njit(cache=True)
def silent_ops(part_ptr, old, new):  # type: ignore[no-untyped-def]
    """Per operation, whether it leaves memory as it is (a read, or a store of what was there)."""
    out = np.ones(part_ptr.size - 1, np.bool_)
    for op in range(out.size):
        for p in range(part_ptr[op], part_ptr[op + 1]):
            if old[p] != new[p]:
                out[op] = False
    return out


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
def run_silent(stream_ptr, part_ptr, granule, old, silent, position, held, path, length):  # type: ignore[no-untyped-def]
    """Run every enabled silent operation: under sequential consistency one that can run now may as well,
    since it changes nothing for the others. Returns the new length of the path."""
    again = True
    while again:
        again = False
        for s in range(position.size):
            op = position[s]
            while op < stream_ptr[s + 1] and silent[op] and enabled(op, part_ptr, granule, old, held):
                path[length] = op
                length += 1
                op += 1
                again = True
            position[s] = op
    return length


@njit(cache=True)
def undo(to, length, op_stream, part_ptr, granule, old, position, held, path):  # type: ignore[no-untyped-def]
    """Take back the operations of the path beyond `to`."""
    while length > to:
        length -= 1
        op = path[length]
        position[op_stream[op]] = op
        for p in range(part_ptr[op], part_ptr[op + 1]):
            held[granule[p]] = old[p]


@njit(cache=True)
def search(  # type: ignore[no-untyped-def]
    stream_ptr,
    op_stream,
    part_ptr,
    granule,
    old,
    new,
    silent,
    position,
    held,
    path,
    frame_path,
    frame_try,
    keys,
    filled,
    at,
    nodes,
):
    """Go on with the walk for at most `nodes` cuts. at = [path length, frames, dead cuts, entering,
    cuts explored]. Returns _LEGAL (the path is an order), _ILLEGAL, _BUDGET or _GROW (table too full)."""
    n_streams, n_ops = position.size, op_stream.size
    length, frames, dead, entering, explored = at[0], at[1], at[2], at[3], at[4]
    stop = explored + nodes
    status = -1
    while status < 0:
        if entering:
            if explored >= stop:
                status = _BUDGET
                break
            if 2 * (dead + 2) > filled.size:
                status = _GROW
                break
            entering = 0
            length = run_silent(stream_ptr, part_ptr, granule, old, silent, position, held, path, length)
            if length == n_ops:
                status = _LEGAL
                break
            known = cut_slot(position, keys, filled)[1]
            if not known:
                explored += 1
                frame_path[frames] = length
                frame_try[frames] = 0
                frames += 1
        if frames == 0:
            status = _ILLEGAL
            break
        undo(frame_path[frames - 1], length, op_stream, part_ptr, granule, old, position, held, path)
        length = frame_path[frames - 1]
        # The stream that ran last goes on first: real runs switch seldom.
        last = op_stream[path[length - 1]] if length > 0 else 0
        while frame_try[frames - 1] < n_streams and not entering:
            s = (last + frame_try[frames - 1]) % n_streams
            frame_try[frames - 1] += 1
            op = position[s]
            if op < stream_ptr[s + 1] and enabled(op, part_ptr, granule, old, held):
                for p in range(part_ptr[op], part_ptr[op + 1]):
                    held[granule[p]] = new[p]
                path[length] = op
                length += 1
                position[s] = op + 1
                entering = 1
        if not entering:
            slot, known = cut_slot(position, keys, filled)
            if not known:
                filled[slot] = 1
                for s in range(n_streams):
                    keys[slot, s] = position[s]
                dead += 1
            frames -= 1
    at[0], at[1], at[2], at[3], at[4] = length, frames, dead, entering, explored
    return status


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
        for s in range(cuts.shape[1]):
            keys[slot, s] = cuts[i, s]


def solve_cut(problem: Problem, *, timeout_s: float, nodes: int = DEFAULT_NODES) -> Solution:
    """Decide a region by cut search. Undecided after `timeout_s` seconds or `nodes` cuts explored."""
    began = time.monotonic()
    n = problem.n_ops
    position, held = problem.stream_ptr[:-1].astype(np.int32), problem.initial.copy()
    path, frame_path = np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32)
    frame_try, at = np.zeros(n + 1, np.int32), np.zeros(5, np.int64)
    at[3] = 1
    dead = _DeadCuts(problem.n_streams)
    op_stream = problem.op_stream.astype(np.int32)
    silent = silent_ops(problem.part_ptr, problem.old, problem.new)
    reason = ""
    while True:
        allowance = min(_SLICE, nodes - int(at[4]))
        status = search(
            problem.stream_ptr, op_stream, problem.part_ptr, problem.granule, problem.old, problem.new,
            silent, position, held, path, frame_path, frame_try, dead.keys, dead.filled, at, allowance,
        )  # fmt: skip
        if status in (_LEGAL, _ILLEGAL):
            break
        if status == _GROW:
            dead.grow()
        elif int(at[4]) >= nodes:
            reason = "budget"
            break
        if time.monotonic() - began > timeout_s:
            reason = "timeout"
            break
    verdict = {_LEGAL: Verdict.LEGAL, _ILLEGAL: Verdict.ILLEGAL}.get(status, Verdict.UNDECIDED)
    order: NDArray[np.int64] = path[:n].astype(np.int64) if verdict is Verdict.LEGAL else no_order()
    return Solution(verdict, "cut", time.monotonic() - began, order, reason)
