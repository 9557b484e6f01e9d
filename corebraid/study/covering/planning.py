"""Which run comes next, by what the runs before it have seen.

Every second run is what `mixed` makes of it. The others take an order of two accesses that few have seen or
tried, best none, though some run has seen the opposite; they go the way of that run up to right before the
access that came first, and let the other task make its own. These are `switches:` schedules, which say all
that there is to say of a run.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from corebraid.study.attempts import MIXED, Attempt, Run, attempts
from corebraid.study.course import Course
from corebraid.study.covering.encounters import Chance, Sites
from emu.schedule.noting import switches_between
from emu.schedule.switches import Switch, schedule_of

#: Runs that are planned at once, before any of them has ended: so many processes work at most.
GENERATION = 8
#: The first generations are as small, then as large as all before together.
_FIRST = 2
#: Switches before the one that is added, at most: the command that makes the run again has them all.
_MOST_SWITCHES = 1000
#: Places to try an order that are kept, those with the fewest switches before them.
_PLACES = 8


class Base:
    """A run that others begin as. schedule_seed: of its schedule."""

    def __init__(self, course: Course, schedule_seed: int) -> None:
        self._course, self.schedule_seed = course, schedule_seed
        #: Of each task its stays, and how many events it had counted at the end of each.
        self._stays: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for k, stay in enumerate(course.stays):
            numbers, made = self._stays[stay.who]
            numbers.append(k)
            made.append(stay.made)

    def stay_of(self, chance: Chance) -> int:
        """The number of the stay in which the first access happens, or right after which."""
        numbers, made = self._stays[chance.who]
        return numbers[bisect_left(made, chance.at)]

    def turned(self, chance: Chance, *, returns: bool) -> list[Switch]:
        """Its switches up to the first access; there the other task goes on, until it has made its own
        (returns), or as long as it can."""
        stays = self._course.stays[: self.stay_of(chance) + 1]
        way = switches_between(stays, self._course.first, by_instructions=False)
        way.append(Switch(chance.who, chance.at, chance.other))
        if returns:
            way.append(Switch(chance.other, chance.past + 1, chance.who))
        return way


@dataclass(order=True)
class _Place:
    """Where an order could be tried: in the run of this number, after so many switches. guarded: see
    `Chance`."""

    guarded: bool
    switches: int
    run: int
    chance: Chance


@dataclass
class _Order:
    """An order of two sites. places: ascending. met: runs that have seen it, or were to."""

    places: list[_Place] = field(default_factory=list)
    met: int = 0


class Planner:
    """Plans `runs` runs. Their schedules are a function of the seed and of what `learn` was told of those in
    generations before, in the order of their numbers."""

    def __init__(self, runs: int, seed: int) -> None:
        self._runs, self._seed = runs, seed
        self._fresh = attempts(runs, seed, MIXED, apart=True, plain=False)
        self._random = random.Random(f"cover/{seed}")
        self._number = 0
        self.seen: set[Sites] = set()
        self._orders: defaultdict[Sites, _Order] = defaultdict(_Order)
        #: Of the places of two accesses, wherever their tasks came from, how many runs have met them so.
        self._met: defaultdict[tuple[int, int], int] = defaultdict(int)
        self._runs_made: dict[int, Base] = {}

    def generation(self) -> list[Attempt]:
        """The next runs, none when all have been made."""
        self._let_go()
        most = min(max(_FIRST, self._number), GENERATION)
        first, self._number = self._number, min(self._number + most, self._runs)
        return [self._attempt(number) for number in range(first, self._number)]

    def _let_go(self) -> None:
        """Of runs as which no other will begin."""
        named = {place.run for order in self._orders.values() for place in order.places}
        self._runs_made = {number: base for number, base in self._runs_made.items() if number in named}

    def _attempt(self, number: int) -> Attempt:
        aimed = self._aimed(number) if number % 2 else None
        if aimed is not None:
            schedule, seed = aimed
            return Attempt(number, self._seed, schedule, seed, noted=True, seeing=True)
        fresh = next(self._fresh)
        return Attempt(number, self._seed, fresh.schedule, fresh.schedule_seed, noted=True, seeing=True)

    def _aimed(self, number: int) -> tuple[str, int] | None:
        """A schedule for one of the orders that were met least, and the seed of the run that it begins as.
        The first such run has no preemptions."""
        if number == 1:
            return schedule_of([]), self._seed
        possible = [sites for sites, order in self._orders.items() if order.places]
        if not possible:
            return None
        free = [sites for sites in possible if not self._orders[sites].places[0].guarded]
        possible = free or possible
        if self._random.getrandbits(1):
            possible = _least(possible, lambda sites: self._met[places_of(sites)])
        sites = self._random.choice(_least(possible, lambda sites: self._orders[sites].met))
        self._meet(sites)
        order = self._orders[sites]
        best = order.places[0].guarded
        place = self._random.choice([one for one in order.places if one.guarded == best])
        base = self._runs_made[place.run]
        way = base.turned(place.chance, returns=bool(self._random.getrandbits(1)))
        return schedule_of(way), base.schedule_seed

    def _meet(self, sites: Sites) -> None:
        self._orders[sites].met += 1
        self._met[places_of(sites)] += 1

    def learn(self, run: Run) -> int:
        """What a run has seen. Returns how many orders were new."""
        course, met = run.course, run.encounters
        if course is None or met is None:
            return 0
        new = len(met.seen - self.seen)
        self.seen |= met.seen
        for sites in sorted(met.seen):
            self._meet(sites)
        self._runs_made[run.attempt.number] = base = Base(course, run.attempt.schedule_seed or 0)
        for sites, chances in met.chances.items():
            places = self._orders[sites].places
            for chance in chances:
                switches = base.stay_of(chance)
                if switches <= _MOST_SWITCHES:
                    insort(places, _Place(chance.guarded, switches, run.attempt.number, chance))
            del places[_PLACES:]
        return new


def places_of(sites: Sites) -> tuple[int, int]:
    """The places of the two accesses themselves."""
    return sites[1], sites[3]


def _least(some: list[Sites], key: Callable[[Sites], int]) -> list[Sites]:
    known = [key(sites) for sites in some]
    least = min(known)
    return [sites for sites, one in zip(some, known, strict=True) if one == least]
