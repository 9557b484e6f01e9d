"""One legal order with a wish: a depth-first walk over cuts, in stubborn sets, close to an order in hand.

Clocks that know the wish (`solver.deduction.deduction.Deduction.supposing`) keep the walk to orders that
fulfil it; cuts from which it failed are remembered whole. The walk prefers what comes first in `rank`, so
that an order found differs little from the one the ranks are of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.kernels import copy_row, inner
from solver.cuts.table import cut_slot
from solver.deduction.chains import Chains, Contents, content, no_contents, stuck
from solver.deduction.deduction import Clocks
from solver.freedom.stubborn import Cut, Rules, Scratch, can_run, choose_streams, fill_danger, scratch_of

DEFAULT_STEPS = 20_000
#: How far preferences are shifted by chance: standard deviations, in shares of all operations.
_SHIFTS = (0.2, 0.4, 0.05)
_FOUND, _NONE, _BUDGET = 0, 1, 2


class Memory(NamedTuple):
    """Cuts that failed, in open addressing. key: int32 (n, S). stamp: int32 (n,), the search that a slot
    belongs to; slots of older searches count as empty."""

    key: NDArray[np.int32]
    stamp: NDArray[np.int32]


class Places(NamedTuple):
    """Where a walk works. choice: uint8 (more than a path has operations, S), moves still to try. memory:
    what failed."""

    choice: NDArray[np.uint8]
    contents: Contents
    scratch: Scratch
    memory: Memory


@inner
def best_of(choice, position, rank):  # type: ignore[no-untyped-def]
    """The marked stream whose next operation has the least rank; -1 if none is marked."""
    best = -1
    for s in range(position.size):
        if choice[s] and (best < 0 or rank[position[s]] < rank[position[best]]):
            best = s
    return best


@inner
def step(op, sign, position, contents, c):  # type: ignore[no-untyped-def]
    """Run an operation (sign 1), or take it back (-1)."""
    position[c.op_stream[op]] += sign
    for p in range(c.part_ptr[op], c.part_ptr[op + 1]):
        if c.new[p] != c.old[p]:
            contents.value[c.granule[p]] = c.new[p] if sign > 0 else c.old[p]


@inner
def walk(position, end, rules, rank, steps, search, places, path):  # type: ignore[no-untyped-def]
    """Fill `path` (int32) with a legal way from the cut `position` to the cut `end` (int32 (S,)), through no
    cut beyond. Returns _FOUND, _NONE or _BUDGET."""
    n_streams, length = position.size, path.size
    choice, contents, scratch, memory = places
    able, chosen, _, _ = scratch
    clock, c = rules.clock, rules.chains
    for g in range(c.initial.size):
        content(g, position, search, contents, c)
    depth, entering = 0, True
    while True:
        if depth == length:
            return _FOUND
        if entering:
            entering = False
            for s in range(n_streams):
                choice[depth, s] = 0
            if not cut_slot(position, memory.key, memory.stamp, search)[1]:
                if steps == 0:
                    return _BUDGET
                steps -= 1
                count = can_run(position, end, clock, search, contents, c, able)
                for s in range(n_streams):
                    chosen[s] = 1 if able[s] == 1 else 0
                if count > 1:
                    choose_streams(Cut(position, search, contents), rules, scratch)
                copy_row(chosen, choice[depth])
        s = best_of(choice[depth], position, rank)
        if s >= 0:
            choice[depth, s] = 0
            if stuck(position[s], position, s, c):
                continue
            path[depth] = position[s]
            step(position[s], 1, position, contents, c)
            depth += 1
            entering = True
            continue
        slot, known = cut_slot(position, memory.key, memory.stamp, search)
        if not known:
            memory.stamp[slot] = search
            copy_row(position, memory.key[slot])
        if depth == 0:
            return _NONE
        depth -= 1
        step(path[depth], -1, position, contents, c)


@dataclass
class PathFinder:
    """Searches over one region. rank: int32 (n_ops,), what comes first is preferred.

    clocks: what is known of all legal orders. steps: cuts that one search may enter.
    """

    chains: Chains
    clocks: Clocks
    steps: int = DEFAULT_STEPS

    def __post_init__(self) -> None:
        n_streams, n_ops = len(self.chains.stream), len(self.chains.op_stream)
        self._danger = np.zeros_like(self.clocks[0])
        fill_danger(self._danger, self.clocks[1], self.chains)
        room = 1 << (2 * self.steps + 1).bit_length()
        memory = Memory(np.zeros((room, n_streams), np.int32), np.zeros(room, np.int32))
        choice = np.zeros((n_ops + 1, n_streams), np.uint8)
        self._places = Places(choice, no_contents(self.chains), scratch_of(n_streams), memory)
        self._searches = 0
        local = np.arange(n_ops) - self.chains.stream_ptr[self.chains.op_stream]
        self.rank: NDArray[np.int32] = local.astype(np.int32)

    def find(
        self, clocks: Clocks | None = None, steps: int | None = None, soon: int | None = None
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """(a legal order that `clocks` allow, int64 (n_ops,), True), (None, True) if there is none,
        (None, False) if the budget ended. steps: at most, or the finder's. soon: prefer
        what must come before this operation."""
        clocks = clocks or self.clocks
        rank = self.rank
        if soon is not None:
            streams = self.chains.op_stream
            early = clocks[0][soon, streams] > np.arange(len(rank))
            rank = rank + np.where(early, 0, len(rank)).astype(np.int32)
        ends = self.chains.stream_ptr
        return self._walk(ends[:-1].astype(np.int32), ends[1:].astype(np.int32), clocks, rank, steps)

    def shaken(
        self, clocks: Clocks, steps: int, tries: int, until: float
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """As `find`, again and again, each time with other preferences: operations, or whole streams, sooner
        or later by chance. until: working_time() after which no more is tried."""
        rng, ends = np.random.default_rng(0), self.chains.stream_ptr
        first, end = ends[:-1].astype(np.int32), ends[1:].astype(np.int32)
        for number in range(tries):
            if working_time() > until:
                break
            size = len(self.chains.stream) if number % 2 else len(self.rank)
            chance = rng.normal(0, _SHIFTS[number // 2 % len(_SHIFTS)] * len(self.rank), size)
            rank = (self.rank + (chance[self.chains.op_stream] if number % 2 else chance)).astype(np.int32)
            order, decided = self._walk(first, end, clocks, rank, steps)
            if decided:
                return order, True
        return None, False

    def between(
        self, first: NDArray[np.int32], end: NDArray[np.int32], clocks: Clocks, steps: int
    ) -> tuple[NDArray[np.int64] | None, bool]:
        """As `find`, a way from one cut of a legal order (int32 (S,)) to a later one."""
        return self._walk(first, end, clocks, self.rank, steps)

    def _walk(
        self, first: NDArray[np.int32], end: NDArray[np.int32], clocks: Clocks, rank: NDArray[np.int32],
        steps: int | None,
    ) -> tuple[NDArray[np.int64] | None, bool]:  # fmt: skip
        self._searches += 1
        path = np.zeros(int((end - first).sum()), np.int32)
        status = walk(
            first.copy(), end, Rules(*clocks, self._danger, self.chains), rank,
            min(steps or self.steps, self.steps), self._searches, self._places, path,
        )  # fmt: skip
        if status == _FOUND:
            return path.astype(np.int64), True
        return None, status == _NONE

    def stay_close(self, order: NDArray[np.int64]) -> None:
        """Prefer from now on what comes first in `order`."""
        self.rank = np.empty(len(order), np.int32)
        self.rank[order] = np.arange(len(order), dtype=np.int32)
