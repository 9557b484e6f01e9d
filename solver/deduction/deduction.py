"""Deduction: what must precede what in every legal order, to a fixed point.

before[o, t] says how far stream t must have come when operation o runs. Five rules make it grow, the first
four each on the problem and on its mirror image (streams backwards, old and new values exchanged), until
nothing does:

- program order, and what precedes what precedes o, precedes o;
- o reads old value v of granule g, so one of those that leave v there is the last to change g before o.
  Candidates that must follow o, or that must be followed by another change of g before o, are out. What
  precedes every candidate, or is one of them for every one (elementwise minimum), precedes o;
- if a single candidate w is left, nothing changes g between w and o: a change that precedes o precedes w,
  and one that w precedes, o precedes;
- if only the initial value is left, o precedes every change of g;
- where it is asked for, what precedes what on every path of a granule's own graph
(`solver.deduction.projection`).

With unique values this finds everything; it is the closure of Gibbons and Korach ("Testing shared
memories", 1997) and more, because candidates need not be unique to say something.

An operation without a candidate, or that must precede itself, proves that there is no legal order. That
some order keeps to `before` proves nothing: the search has the last word.

For explanations some operations may be *doubted*: what a doubted operation read is not used. If it changes
something it counts as a store of its new values over whatever was there; else it is left out. Likewise a
final value may be doubted. Whatever is proved so holds of the rest, whoever doubts them.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.deduction.chains import Chains, chains_of
from solver.deduction.facts import Doubt, Facts, both_sides
from solver.deduction.news import CHANGES, TIME, News, all_is_news
from solver.deduction.projection import project, raise_from_projection
from solver.deduction.rules import CONTRADICTION, NO_ROOM, TOO_MUCH, mirror_clocks, precede, settle
from solver.regions.problem import Problem

#: Most entries of `before` that deduction takes on, and how often in all it applies the rule about a part.
MAX_CLOCKS, MAX_STEPS = 1 << 24, 10_000_000
#: A granule whose own graph has more nodes is left to the other rules.
MAX_PROJECTED = 20_000
NO_LIMIT = sys.maxsize
#: (clock, after), see `Deduction.clocks`.
Clocks = tuple[NDArray[np.int32], NDArray[np.int32]]


@dataclass
class Side:
    """The problem, or its mirror image. clocks: int32 (n_ops, n_streams), `before` as seen from there."""

    facts: Facts
    clocks: NDArray[np.int32]
    news: News

    def copy(self) -> Side:
        """One that can learn more by itself."""
        return Side(self.facts, self.clocks.copy(), self.news.copy())

    @property
    def changes(self) -> int:
        """How many changes of clocks there were."""
        return int(self.news.now[CHANGES])

    def twin(self, op: int) -> int:
        """The number of an operation on the other side."""
        ends, s = self.facts.stream_ptr, self.facts.op_stream[op]
        return int(ends[s] + ends[s + 1] - 1 - op)


class Deduction:
    """What must precede what in every legal order of a region, as far as it is deduced.

    before: int32 (n_ops, n_streams), see `solver.cuts.state.Ops`; streams without operations left out.
    contradiction: an operation that cannot stand anywhere, or -1: there is no legal order. complete: whether
    the fixed point was reached within the limits.

    doubt: what is not to be used; with it, no projections. max_clocks, max_steps: beyond them nothing more is
    deduced, and with too many clocks nothing at all.
    """

    def __init__(
        self,
        problem: Problem,
        doubt: Doubt | None = None,
        *,
        chains: Chains | None = None,
        max_clocks: int = MAX_CLOCKS,
        max_steps: int = MAX_STEPS,
    ) -> None:
        used = np.flatnonzero(np.diff(problem.stream_ptr))
        self._problem, self._chains, self._doubt = problem, chains, doubt
        self.contradiction, self.complete = -1, False
        self._steps, self._max_steps, self._projected = 0, max_steps, 0
        self._weak = np.zeros(len(problem.address), np.bool_)
        if len(source := problem.part_source):
            self._weak[problem.granule[source >= 0]] = True
        self._sides: tuple[Side, ...] = ()
        self._nothing = np.empty((0, len(used)), np.int32)
        if problem.n_ops * len(used) <= max_clocks:
            stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
            sides = both_sides(problem, stream_ptr, doubt)
            self._sides = tuple(Side(facts, _first_clocks(facts), all_is_news(facts)) for facts in sides)

    @property
    def before(self) -> NDArray[np.int32]:
        """See the class."""
        return self._sides[0].clocks if self._sides else self._nothing

    @property
    def clocks(self) -> Clocks:
        """(clock, after), int32 (n_ops, n_streams). clock[b, u]: stream u has run up to, not including, this
        operation before b runs, in every legal order; `before`. after[b, u]: the first operation of stream u
        that must come after b, u's end if there is none; for b's own stream it is b + 1."""
        here, there = self._sides
        ends, op_stream = here.facts.stream_ptr, here.facts.op_stream
        twins = ends[op_stream] + ends[op_stream + 1] - 1 - np.arange(len(op_stream))
        return here.clocks.copy(), (ends[:-1] + ends[1:] - there.clocks[twins]).astype(np.int32)

    def go_on(self, most: int = 0) -> Deduction:
        """Deduce to the fixed point. most: nodes of a granule's own graph at most, 0 for no projections."""
        self._steps = 0
        while self._sides and self.contradiction < 0:
            self._apply_rules()
            if self.contradiction >= 0 or not self.complete or not (most and self._project(most)):
                break
        return self

    def supposing(self, *pairs: tuple[int, int]) -> Deduction:
        """A copy for the orders in which the first operation of each pair comes before the second, closed
        under transitivity alone; `go_on` for more."""
        other = copy.copy(self)
        other._sides = tuple(side.copy() for side in self._sides)
        here, there = other._sides
        for a, b in pairs:
            possible = precede(a, b, here.facts, here.clocks, here.news)
            if not possible:
                other.contradiction = b
                break
            precede(here.twin(b), here.twin(a), there.facts, there.clocks, there.news)
        for side in other._sides:
            side.news.forget_untold()
        return other

    def _apply_rules(self) -> None:
        """All rules but projections, on both sides in turn until neither says more."""
        side, quiet = 0, 0
        self.complete = False
        while quiet < 2:
            here, there = self._sides[side], self._sides[1 - side]
            changes = here.changes
            found, op, self._steps = settle(here.facts, here.clocks, here.news, self._steps, self._max_steps)
            if found == NO_ROOM:
                here.news = here.news.roomier()
                continue
            if found == CONTRADICTION:
                self.contradiction = int(op) if side == 0 else here.twin(op)
                self.complete = True
                return
            told = self._tell(here, there)
            if found == TOO_MUCH:
                break
            quiet = 0 if here.changes > changes or told else quiet + 1
            side = 1 - side
        self.complete = quiet == 2
        self._tell(self._sides[1], self._sides[0])

    @staticmethod
    def _tell(here: Side, there: Side) -> bool:
        """Let the other side know what is new. Returns whether it had not found that out by itself."""
        changes = there.changes
        mirror_clocks(here.clocks, here.facts, here.news, there.clocks, there.facts, there.news)
        return there.changes > changes

    def _project(self, most: int) -> bool:
        """Look at the own graphs of the granules where something changed. Returns whether they say more."""
        if self._chains is None:
            self._chains = chains_of(self._problem)
        chains = self._chains
        here = self._sides[0]
        changes, stirred = here.changes, here.news.stirred > self._projected
        self._projected = int(here.news.now[TIME])
        # Of a granule that a store buffer may answer for, the own graph says nothing.
        stirred[self._weak] = False
        for g in np.flatnonzero(stirred | ((self._projected == 0) & ~self._weak)).tolist():
            rank, alive, whole = project(g, here.clocks, most, chains)
            if whole and not alive[0]:
                self.contradiction = int(chains.access_op[chains.access_ptr[chains.segment_ptr[g]]])
                return False
            if whole:
                raise_from_projection(g, rank, alive, here.clocks, here.facts, here.news, chains)
        return here.changes > changes


def deduce(
    problem: Problem,
    doubt: Doubt | None = None,
    *,
    max_clocks: int = MAX_CLOCKS,
    max_steps: int = MAX_STEPS,
) -> Deduction:
    """What must precede what in every legal order of a region, without projections."""
    return Deduction(problem, doubt, max_clocks=max_clocks, max_steps=max_steps).go_on()


def _first_clocks(facts: Facts) -> NDArray[np.int32]:
    """Clocks that know program order alone."""
    n = len(facts.op_stream)
    clocks = np.tile(facts.stream_ptr[:-1].astype(np.int32), (n, 1))
    clocks[np.arange(n), facts.op_stream] = np.arange(n)
    return clocks
