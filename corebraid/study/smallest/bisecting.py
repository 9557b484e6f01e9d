"""From a run that passes to one that fails, switch by switch: the first that matters.

Between the two lie schedules that begin with the first k switches of the failing one and go on with those of
the passing one that still lie ahead. With none it passes, with all of them it fails, so there are two that
follow each other of which one fails and one does not: halving finds them (Zeller, "Isolating cause-effect
chains from computer programs", FSE 2002, does so for states).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corebraid.study.course import Course
from corebraid.study.smallest.trials import Trials, Tried
from corebraid.study.smallest.ways import Way
from emu.schedule.switches import Switch


@dataclass(frozen=True)
class Border:
    """Two schedules. kept: switches of the failing run that both begin with; of: that it has. switch: the
    next one, which only `fails` has. passes: does not fail so."""

    kept: int
    of: int
    switch: Switch
    passes: Tried
    fails: Tried


class Halving:
    """good, bad: courses of the two runs, the one passing and the other failing in this way."""

    def __init__(self, trials: Trials, good: Course, bad: Course, way: Way) -> None:
        self._trials, self._bad, self._way = trials, bad, way
        self._goods = (good.switches(by_instructions=False), good.switches(by_instructions=True))
        self._switches: list[Switch] = []
        self._good: list[Switch] = []

    def find(self) -> Border | None:
        """The border; None: the two runs cannot be told as lists of switches, or the good one's list fails.
        Raises OutOfTimeError."""
        for by_instructions in (False, True):
            self._switches = self._bad.switches(by_instructions=by_instructions)
            self._good = self._goods[by_instructions]
            last = len(self._switches)
            if last and self._fails(last) and not self._fails(0):
                break
        else:
            return None
        low, high = 0, last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fails(middle) else (middle, high)
        passes, fails = self._tried(low), self._tried(high)
        return Border(low, last, self._switches[low], passes, fails)

    def _fails(self, kept: int) -> bool:
        return self._tried(kept).way == self._way

    def _tried(self, kept: int) -> Tried:
        return self._trials.one(self.schedule(kept))

    def schedule(self, kept: int) -> list[Switch]:
        """The first `kept` switches of the failing run, and those of the passing one that lie ahead then."""
        if kept == len(self._switches):
            return list(self._switches)
        stands = _stands(self._bad, self._switches, kept)
        ahead = [one for one in self._good if one.at > stands.get(one.who, -1)]
        return [*self._switches[:kept], *ahead]


def _stands(course: Course, switches: Sequence[Switch], kept: int) -> dict[int, int]:
    """How many events, or instructions, each task that has run has made when so many of the course's own
    switches have taken place."""
    stands: dict[int, int] = {}
    if not kept:
        return stands
    by_instructions, seen, last = switches[0].by_instructions, 0, course.first
    for stay in course.stays:
        seen += stay.who != last
        if seen >= kept and stay.who != last:
            break
        stands[stay.who] = stay.own if by_instructions else stay.made
        last = stay.who
    return stands
