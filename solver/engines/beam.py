"""Beam search: many cuts at a time, all with equally many changes run; where they are too many, a sample.

A depth-first search gets lost where values repeat and say little: a wrong turn shows only hundreds of
operations later, and by then there are more wrong cuts than can be walked. Most of them die by themselves; a
sample of the cuts of each layer that is large enough keeps some that are right. A sample must be drawn
evenly: every rule that was tried for which cuts look better lost all the right ones sooner.

An operation that changes nothing is run as soon as it can be: it may be moved to the front of any legal way
on. So a layer holds the cuts after so many changes. Where a beam ends, it begins again some layers before,
wider. A beam from which nothing was ever left out decides exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.kernels import copy_row, inner
from solver.cuts.move_order import draw
from solver.cuts.table import cut_slot
from solver.cuts.walk import waits_for
from solver.deduction.chains import Chains, chains_of, held, no_contents, stuck, values_fit
from solver.deduction.deduction import NO_LIMIT, Deduction
from solver.regions.problem import Problem, Solution, Verdict, no_order

#: Cuts of a layer: at first, at most.
_WIDTH, _MOST_WIDTH = 1024, 1 << 15
#: Layers between two from which a beam can begin again, and how many it goes back at first.
_KEPT_EVERY, _BACK = 32, 64
#: Layers beyond the furthest after which a beam is as narrow again as at first.
_RELIEF = 256
#: Most memory for the ways back, and about how much a cut takes.
_CUT_BYTES = 6
_MOST_BYTES = 1 << 29


class Children(NamedTuple):
    """The next layer, a table of cuts in open addressing. key: int32 (size, S). stamp: int32 (size,), the
    layer that a slot belongs to. parent, move: int32 (size,), how the cut is reached. slot: int32 (size,),
    the slots in use."""

    key: NDArray[np.int32]
    stamp: NDArray[np.int32]
    parent: NDArray[np.int32]
    move: NDArray[np.int32]
    slot: NDArray[np.int32]


class Known(NamedTuple):
    """What is known of a region. clock: int32 (n_ops, S), `Deduction.before`. silent: uint8 (n_ops,), whether
    an operation changes nothing. chains: its operations."""

    clock: NDArray[np.int32]
    silent: NDArray[np.uint8]
    chains: Chains


@inner
def run_silent(s, position, known, now, contents, path, n):  # type: ignore[no-untyped-def]
    """Run what changes nothing in stream s as far as it can run; append it to `path` if that has room.
    Returns how many operations the path has, or -1: one that could run must wait, so the cut is dead."""
    clock, silent, c = known
    while position[s] < c.stream_ptr[s + 1]:
        op = position[s]
        if not silent[op] or not values_fit(op, position, now, contents, c):
            break
        if waits_for(op, position, clock, c.op_stream) >= 0:
            return -1
        if n < path.size:
            path[n] = op
            n += 1
        position[s] += 1
    return n


@inner
def meet(a, b, c):  # type: ignore[no-untyped-def]
    """Whether two operations touch the same granule."""
    for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
        for q in range(c.part_ptr[b], c.part_ptr[b + 1]):
            if c.granule[p] == c.granule[q]:
                return True
    return False


@inner
def open_layer(cuts, known, stamp, stamps, here, there, scratch, children):  # type: ignore[no-untyped-def]
    """Enter what follows the cuts (int32 (n, S)) of a layer into `children`. stamps: int64 (1,), how many are
    used of here and there, what granules hold at a cut and at one after it. scratch: int32 (S,) and (0,).
    Returns how many there are."""
    clock, silent, c = known
    n = 0
    cut, no_path = scratch
    for i in range(cuts.shape[0]):
        stamps[0] += 1
        now = stamps[0]
        for s in range(cut.size):
            op = cuts[i, s]
            if op == c.stream_ptr[s + 1] or silent[op] or not values_fit(op, cuts[i], now, here, c):
                continue
            if waits_for(op, cuts[i], clock, c.op_stream) >= 0 or stuck(op, cuts[i], s, c):
                continue
            copy_row(cuts[i], cut)
            cut[s] += 1
            stamps[0] += 1
            alive = True
            for t in range(cut.size):
                if cut[t] < c.stream_ptr[t + 1] and (t == s or meet(op, cut[t], c)):
                    alive = alive and run_silent(t, cut, known, stamps[0], there, no_path, 0) >= 0
            if not alive:
                continue
            slot, met = cut_slot(cut, children.key, children.stamp, stamp)
            if not met:
                children.stamp[slot] = stamp
                copy_row(cut, children.key[slot])
                children.parent[slot], children.move[slot] = i, s
                children.slot[n] = slot
                n += 1
    return n


@inner
def sample(n, width, state, children, cuts, parent, move):  # type: ignore[no-untyped-def]
    """Draw `width` of n children, without repetition, into cuts, parent and move (uint8)."""
    for i in range(width):
        if n > width:
            j = i + np.int64(draw(state) % np.uint64(n - i))
            children.slot[i], children.slot[j] = children.slot[j], children.slot[i]
        slot = children.slot[i]
        copy_row(children.key[slot], cuts[i])
        parent[i], move[i] = children.parent[slot], children.move[slot]


@inner
def run_moves(position, moves, known, stamp, contents, path):  # type: ignore[no-untyped-def]
    """Fill `path` with the order that runs the streams `moves` (uint8), and what changes nothing at once."""
    n = 0
    for i in range(moves.size + 1):
        for s in range(position.size):
            n = run_silent(s, position, known, stamp + i, contents, path, n)
        if i < moves.size:
            path[n] = position[moves[i]]
            position[moves[i]] += 1
            n += 1


@dataclass(frozen=True)
class _Kept:
    """A layer from which the beam can begin again. whole: whether nothing was left out up to there."""

    depth: int
    cuts: NDArray[np.int32]
    whole: bool


def _children(width: int, n_streams: int) -> Children:
    size = 1 << (2 * width * n_streams).bit_length()
    key = np.empty((size, n_streams), np.int32)
    parent, move, slot = (np.empty(size, np.int32) for _ in range(3))
    return Children(key, np.full(size, -1, np.int32), parent, move, slot)


class BeamSearch:
    """A search that can be given more time. before: `solver.deduction.deduction.Deduction.before`."""

    def __init__(self, problem: Problem, before: NDArray[np.int32]) -> None:
        self._problem, self._chains = problem, chains_of(problem)
        c = self._chains
        clock = before if len(before) else Deduction(problem, max_clocks=NO_LIMIT).before
        changing = np.bincount(problem.part_op, problem.old != problem.new, problem.n_ops) > 0
        # See `solver.cuts.stubborn`: a store that a load may be answered by is no such operation.
        changing[problem.source[problem.source >= 0]] = True
        self._known = Known(clock, (~changing).astype(np.uint8), c)
        self._layers = int(changing.sum())
        self._state = np.array([0x2545F4914F6CDD1D], np.uint64)
        self._stamps = np.zeros(1, np.int64)
        self._here, self._there = no_contents(c), no_contents(c)
        first = c.stream_ptr[:-1].astype(np.int32)
        self._scratch = (np.empty_like(first), np.empty(0, np.int32))
        self._parents: list[NDArray[np.int32]] = []
        self._moves: list[NDArray[np.uint8]] = []
        self._width, self._stamp, self._furthest, self._back = _WIDTH, 0, 0, _BACK
        self._relief = problem.n_ops
        self._table = _children(_WIDTH, len(first))
        self.order = no_order()
        self.verdict = Verdict.UNDECIDED
        ends = c.stream_ptr[1:].astype(np.int32)
        final = [held(g, ends, c) for g in range(len(problem.address))]
        dead = False
        for s in range(len(first)):
            n = run_silent(s, first, self._known, 0, self._here, self._scratch[1], 0)
            dead = dead or n < 0
        self._kept = [_Kept(0, first[np.newaxis], True)]
        dead = dead or (self._layers == 0 and not self._ended(first[np.newaxis])[0])
        if dead or (np.array(final, np.uint64) != problem.final).any():
            self.verdict = Verdict.ILLEGAL

    def go_on(self, until: float) -> str:
        """Search until the clock (working_time()) says `until`. Returns why it stopped: "" if the region is
        decided, else "timeout" or "budget"."""
        kept = self._kept[-1]
        cuts, whole = kept.cuts, kept.whole
        del self._parents[kept.depth :], self._moves[kept.depth :]
        while self.verdict is Verdict.UNDECIDED:
            if len(self._parents) == self._layers:
                self._finish(cuts)
                break
            if working_time() > until:
                return "timeout"
            cuts, left_out = self._next_layer(cuts)
            whole = whole and not left_out
            depth = len(self._parents)
            self._furthest = max(self._furthest, depth)
            if not len(cuts) and whole:
                self.verdict = Verdict.ILLEGAL
            elif not len(cuts):
                if not self._fall_back():
                    return "budget"
                cuts, whole = self._kept[-1].cuts, self._kept[-1].whole
            elif depth % _KEPT_EVERY == 0:
                self._kept.append(_Kept(depth, cuts, whole))
                if sum(len(parent) for parent in self._parents) * _CUT_BYTES > _MOST_BYTES:
                    return "budget"
        return ""

    def _next_layer(self, cuts: NDArray[np.int32]) -> tuple[NDArray[np.int32], bool]:
        """(the next layer, whether some of it was left out)."""
        if len(self._parents) > self._relief:
            self._widen(_WIDTH)
        self._stamp += 1
        n = open_layer(
            cuts, self._known, self._stamp, self._stamps, self._here, self._there, self._scratch, self._table
        )
        width = min(n, self._width)
        chosen = np.empty((width, cuts.shape[1]), np.int32)
        parent, move = np.empty(width, np.int32), np.empty(width, np.uint8)
        sample(n, width, self._state, self._table, chosen, parent, move)
        self._parents.append(parent)
        self._moves.append(move)
        if len(self._parents) == self._layers and not self._ended(chosen).any():
            chosen = chosen[:0]
        return chosen, n > width

    def _ended(self, cuts: NDArray[np.int32]) -> NDArray[np.bool_]:
        ended: NDArray[np.bool_] = (cuts == self._chains.stream_ptr[1:]).all(axis=1)
        return ended

    def _widen(self, width: int) -> None:
        self._width, self._relief, self._back = width, len(self._problem.end_row), _BACK
        self._table = _children(width, len(self._chains.stream))
        self._stamp = 0

    def _fall_back(self) -> bool:
        """Go back some layers, further each time, and be wider from there. False if that cannot help."""
        target = len(self._parents) - self._back
        back = 2 * self._back
        if self._width == _MOST_WIDTH and self._kept[-1].depth == 0:
            return False
        while len(self._kept) > 1 and self._kept[-1].depth > target:
            self._kept.pop()
        self._widen(min(2 * self._width, _MOST_WIDTH))
        self._relief, self._back = self._furthest + _RELIEF, back
        del self._parents[self._kept[-1].depth :], self._moves[self._kept[-1].depth :]
        return True

    def _finish(self, cuts: NDArray[np.int32]) -> None:
        """Read the order off the way to the end, which is among the cuts of the last layer."""
        at, moves = int(np.flatnonzero(self._ended(cuts))[0]), np.empty(self._layers, np.uint8)
        for depth in range(self._layers - 1, -1, -1):
            moves[depth] = self._moves[depth][at]
            at = int(self._parents[depth][at])
        path = np.empty(self._problem.n_ops, np.int32)
        first = self._chains.stream_ptr[:-1].astype(np.int32)
        stamp = int(self._stamps[0]) + 1
        run_moves(first, moves, self._known, stamp, self._here, path)
        self.order, self.verdict = path.astype(np.int64), Verdict.LEGAL

    def answer(self, engine: str, seconds: float, reason: str) -> Solution:
        """The solution as it stands; `reason`: what `go_on` returned last."""
        return Solution(self.verdict, engine, seconds, self.order, reason)
