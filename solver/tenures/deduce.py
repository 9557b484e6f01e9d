"""What the tenures of a region prove of its order, whatever the values of single accesses allow.

Rules, each sound by itself, over one set of clocks, to a fixed point or until that takes too long: nobody
writes within another's tenure (`foreign`), what a tenure found somebody must have left (`contents`), a miss
was caused by somebody's write
(`misses`, where the recorder promises that), and what sync points say (`syncs`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.regions.problem import LOSSES, NOTHING, TENURES
from solver.tenures.clocks import CHANGED, CYCLE, Clocks, Places, close, make_clocks
from solver.tenures.contents import apply_contents, make_contents
from solver.tenures.foreign import apply_foreign
from solver.tenures.holds import Spans
from solver.tenures.lines import Tenures, Writes
from solver.tenures.losses import apply_alone, apply_losses
from solver.tenures.misses import apply_misses, earlier_tenures
from solver.tenures.onward import Rules, Stations, go_onward, make_stations
from solver.tenures.spans import Losses, make_losses, no_spans
from solver.tenures.syncs import learn_syncs

if TYPE_CHECKING:
    from solver.tenures.buffered_lines import Ties


#: Sweeps of the rule of contents after which what is left is taken for chains, in which each thing that is
#: learned is what the next one follows from: most regions need no more.
_SWEEPS = 3
#: Rounds that there are at least, and at how many tenures, times streams, they look in all after that: where
#: chains go back through many cores each round finds one step, and a search needs few of them.
_MOST, _OFTEN = 1 << 22, 8


@dataclass(frozen=True)
class Deduced:
    """What was deduced: the clocks of the nodes. tenures: how many there are on hot lines. rounds: how often
    the rules were applied. dropped: what contradicted the rows or itself, and is not in the clocks
    (`Problem.dropped`). ties: of each core under TSO what is known of its two streams without the rules."""

    clocks: Clocks
    tenures: int
    rounds: int
    dropped: int
    ties: Sequence[Ties] = ()

    @property
    def contradiction(self) -> bool:
        """Whether something was dropped."""
        return self.dropped > 0


def take_too_long(rounds: int, n_tenures: int, clocks: Clocks) -> bool:
    """Whether so many rounds over tenures are enough, though they may not have found all that follows: what
    was found is true of every order."""
    return (rounds - _OFTEN) * n_tenures * clocks.clock.shape[1] > _MOST


def deduce(
    tenures: Tenures,
    writes: Writes,
    n_rows: list[int],
    n_lines: int,
    syncs: NDArray[np.int64],
    by_writes: bool = False,
    spans: tuple[Spans, Spans, Spans] | None = None,
) -> Deduced:
    """Apply the rules, to a fixed point or until that takes too long. n_rows: of cores and, the last, agents.
    syncs: `Region.places`. by_writes: whether a miss proves a foreign write. spans: of `holds.find_spans`,
    where the cores have noted their losses. Without those, if they contradict the rows; and without anything,
    if tenures alone do."""
    clocks, places, numbers = make_clocks(tenures, writes, n_rows, n_lines, spans or ())
    losses = make_losses(spans, numbers, n_lines) if spans else None
    rules = _Rules(tenures, places, n_lines, by_writes, losses)
    learn_syncs(syncs, len(n_rows) - 1, clocks)
    close(clocks)
    if not rules.apply(clocks):
        return Deduced(clocks, len(tenures.line), rules.rounds, NOTHING)
    if spans:
        found = deduce(tenures, writes, n_rows, n_lines, syncs, by_writes)
        return replace(found, dropped=max(found.dropped, LOSSES))
    clocks.clock[:] = 0
    return Deduced(clocks, len(tenures.line), rules.rounds, TENURES)


class _Rules:
    """All rules on the tenures of one region. by_writes, losses: see `deduce`."""

    def __init__(
        self, tenures: Tenures, places: Places, n_lines: int, by_writes: bool, losses: Losses | None
    ) -> None:
        self._tenures, self._places, self._losses = tenures, places, losses
        self._contents = make_contents(tenures, places, n_lines)
        self._spans = (losses.alone, losses.holds) if losses else (no_spans(), no_spans())
        self._by_writes = by_writes
        self._earlier = earlier_tenures(tenures) if by_writes else np.empty(0, np.int64)
        self._stations: Stations | None = None
        self.rounds = 0

    def apply(self, clocks: Clocks) -> bool:
        """Apply them to a fixed point, or until that takes too long. Returns whether they contradict the rows
        or one another."""
        cheap = self._foreign, self._by_misses, self._alone, self._by_losses
        for sweeps in count(1):
            # What the others find first, the rule that looks at all candidates need not.
            if self._to_the_end(clocks, cheap):
                return True
            if self._takes_too_long(clocks):
                break
            clocks.state[CHANGED] = 0
            if self._by_contents(clocks) if sweeps <= _SWEEPS else self._along_chains(clocks):
                return True
            close(clocks)
            if clocks.state[CYCLE] or not clocks.state[CHANGED]:
                break
        return bool(clocks.state[CYCLE])

    def _to_the_end(self, clocks: Clocks, rules: Sequence[Callable[[Clocks], bool]]) -> bool:
        clocks.state[CHANGED] = 1
        while clocks.state[CHANGED] and not self._takes_too_long(clocks):
            self.rounds += 1
            clocks.state[CHANGED] = 0
            if self._once(clocks, rules):
                return True
        return False

    def _takes_too_long(self, clocks: Clocks) -> bool:
        return take_too_long(self.rounds, len(self._tenures.line), clocks)

    @staticmethod
    def _once(clocks: Clocks, rules: Sequence[Callable[[Clocks], bool]]) -> bool:
        for rule in rules:
            if rule(clocks):
                return True
            close(clocks)
        return bool(clocks.state[CYCLE])

    def _foreign(self, clocks: Clocks) -> bool:
        apply_foreign(self._tenures, self._places, clocks)
        return False

    def _by_contents(self, clocks: Clocks) -> bool:
        return bool(apply_contents(self._tenures, self._places, clocks, self._contents, no_spans()) >= 0)

    def _along_chains(self, clocks: Clocks) -> bool:
        """What `_by_contents` would take many sweeps for: back from the end, and onward from the begin."""
        alone, holds = self._spans
        if apply_contents(self._tenures, self._places, clocks, self._contents, alone) >= 0:
            return True
        rules = Rules(self._tenures, self._places, clocks, self._contents, alone, holds)
        if self._stations is None:
            self._stations = make_stations(rules)
        return bool(go_onward(rules, self._stations))

    def _by_misses(self, clocks: Clocks) -> bool:
        if not self._by_writes:
            return False
        return bool(apply_misses(self._tenures, self._places, clocks, self._earlier) >= 0)

    def _alone(self, clocks: Clocks) -> bool:
        losses = self._losses
        return losses is not None and bool(apply_alone(losses.alone, losses.holds, clocks) >= 0)

    def _by_losses(self, clocks: Clocks) -> bool:
        losses = self._losses
        return losses is not None and self._by_writes and apply_losses(losses, clocks)
