"""Which writes may be the last before a moment, over all legal orders of a region: who may have written what
is there at that moment.

A candidate is the last if some legal order has it before the moment, and every other write before it or
behind the moment. Which of the two holds for each other write is chosen one by one: an order in hand that
breaks the wish shows a write in between, and that is wished before the candidate, then behind the moment
(`Survey.decide`). The candidates before which, or behind which, the clocks of all orders put the moment, or
another write in between, need no search. What remains at the end of the budget is undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.freedom.freedom import Limits, Pair, Survey
from solver.regions.problem import Problem, Verdict

#: The candidate that stands for what was there when the region began.
BEGIN = -1
#: Orders that are looked for, for one candidate.
_MOST_SEARCHES = 400


@dataclass(frozen=True)
class Spot:
    """A moment between operations of one stream. before: the last operation of the stream that comes before
    it, None for none; after: the first that comes behind it, or is it. op: whether it is right before
    `after`; otherwise it is anywhere between the two. is_end: it is the region's end, behind all
    operations."""

    before: int | None = None
    after: int | None = None
    op: bool = False
    is_end: bool = False


@dataclass(frozen=True)
class Sources:
    """possible: the candidates for which a legal order is known; undecided: those for which none is known,
    and which are not excluded; operations, or BEGIN. verdict: of the region."""

    possible: frozenset[int]
    undecided: frozenset[int]
    verdict: Verdict


class SourceSearch:
    """Of one region. limits: of all its searches together."""

    def __init__(self, problem: Problem, limits: Limits) -> None:
        self._survey = Survey(problem, limits)
        self._stream = problem.op_stream
        self._source = problem.source

    def sources(self, writes: Sequence[int], spot: Spot) -> Sources:
        """writes: operations that write some bytes, all of them. spot: the moment; of one that is a load
        under TSO, these bytes must be what it reads."""
        survey = self._survey
        writes = sorted(set(writes) - ({spot.after} if spot.op else set()))
        if survey.verdict is Verdict.ILLEGAL:
            return Sources(frozenset(), frozenset(), survey.verdict)
        possible, undecided = set[int](), set[int]()
        for candidate in [BEGIN, *writes]:
            found = self._decide(candidate, writes, spot)
            if found is None:
                undecided.add(candidate)
            elif found:
                possible.add(candidate)
        return Sources(frozenset(possible), frozenset(undecided), survey.verdict)

    def precedes(self, wishes: tuple[Pair, ...]) -> bool | None:
        """Whether some legal order has the first of each pair before the second; None: undecided."""
        if not wishes:
            return self._survey.verdict is not Verdict.ILLEGAL
        order, decided = self._survey.decide(wishes)
        return order is not None if decided else None

    def _decide(self, candidate: int, writes: Sequence[int], spot: Spot) -> bool | None:
        own = self._own_source(spot)
        if own is not None and own in writes:
            assert spot.after is not None
            if candidate == own:
                # As long as the load's own store waits in the store buffer, it is what the load sees.
                waiting = self.precedes(((spot.after, own),))
                return waiting or self._search(candidate, writes, spot, ())
            return self._search(candidate, writes, spot, ((own, spot.after),))
        return self._search(candidate, writes, spot, ())

    def _own_source(self, spot: Spot) -> int | None:
        """Under TSO the store that may answer the load."""
        if not len(self._source) or not spot.op or spot.after is None or self._source[spot.after] < 0:
            return None
        return int(self._source[spot.after])

    def _search(
        self, candidate: int, writes: Sequence[int], spot: Spot, wishes: tuple[Pair, ...]
    ) -> bool | None:
        begins = candidate == BEGIN
        if spot.is_end and begins:
            return not writes
        if not begins and spot.after is not None:
            wishes += ((candidate, spot.after),)
        others = [one for one in writes if one != candidate]
        if begins:
            wishes += tuple((last, one) for one in others if (last := self._last(spot)) is not None)
        elif self._is_excluded(candidate, others, spot):
            return False
        if any(a == b or self._is_before(b, a) for a, b in wishes):
            return False
        searches = _Branches(self._survey, candidate, others, spot, self._last(spot))
        return searches.go(wishes)

    def _last(self, spot: Spot) -> int | None:
        """The operation right behind which the moment may be."""
        return spot.after if spot.op else spot.before

    def _is_before(self, a: int, b: int) -> bool:
        """Whether a comes before b in every legal order that the clocks know of."""
        clocks = self._survey.clocks
        assert clocks is not None
        stream = self._survey.chains.op_stream
        if stream[a] == stream[b]:
            return a < b
        return bool(clocks[0][b, stream[a]] > a)

    def _is_excluded(self, candidate: int, others: Sequence[int], spot: Spot) -> bool:
        """Whether the moment is before the candidate, or another write between the two, in every legal
        order."""
        if spot.after is not None and self._is_before(spot.after, candidate):
            return True
        return any(
            self._is_before(candidate, one)
            and (spot.is_end or (spot.after is not None and self._is_before(one, spot.after) and spot.op)
                 or (not spot.op and spot.before is not None and self._at_most(one, spot.before)))
            for one in others
        )  # fmt: skip

    def _at_most(self, one: int, before: int) -> bool:
        return one == before or self._is_before(one, before)


class _Branches:
    """The search for one candidate. last: the operation behind which the moment is, or right before which;
    None for the end, or a moment that nothing comes before."""

    def __init__(
        self, survey: Survey, candidate: int, others: Sequence[int], spot: Spot, last: int | None
    ) -> None:
        self._survey, self._candidate, self._others = survey, candidate, others
        self._spot, self._last = spot, last
        self._left = _MOST_SEARCHES

    def go(self, wishes: tuple[Pair, ...]) -> bool | None:
        """Whether there is such an order; None: undecided."""
        if not self._left or working_time() > self._survey.until:
            return None
        self._left -= 1
        order, decided = self._survey.decide(wishes)
        if order is None:
            return False if decided else None
        between = self._between(order)
        if between is None:
            return True
        choices = [] if self._candidate == BEGIN else [(between, self._candidate)]
        choices += [] if self._last is None or self._last == between else [(self._last, between)]
        found: bool | None = False
        for choice in choices:
            here = self.go((*wishes, choice))
            if here:
                return True
            found = None if here is None else found
        return found

    def _between(self, order: NDArray[np.int64]) -> int | None:
        """The last other write between the candidate and the moment, in an order; None: none is."""
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        first = -1 if self._candidate == BEGIN else int(rank[self._candidate])
        end = len(order)
        if not self._spot.is_end:
            last = -1 if self._last is None else int(rank[self._last])
            end = last if self._spot.op else max(first, last) + 1
        inside = [one for one in self._others if first < rank[one] < end]
        return max(inside, key=lambda one: int(rank[one]), default=None)
