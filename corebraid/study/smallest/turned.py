"""Of a run that fails without any preemption: preemptions of which one is enough that it does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from corebraid.study.course import Course
from corebraid.study.smallest.trials import Trials, Tried
from emu.schedule.switches import Switch

#: Schedules that are tried.
_MOST = 96


def passes(tried: Tried) -> bool:
    """Whether a run did not fail in any way."""
    return tried.way is None and not tried.run.refused


def turned(trials: Trials, found: Tried) -> Iterator[Tried]:
    """Of each task the first that passes of some schedules in which it is stopped once, spread over what it
    does. The first task, which makes the others, comes last: it is stopped for what is between others, too.
    Raises OutOfTimeError."""
    assert found.run.course is not None
    some = spread(list(_preemptions(found.run.course)))
    tasks = sorted({one.who for one in some})
    for who in (*tasks[1:], *tasks[:1]):
        own = [with_switch(found.switches, one) for one in some if one.who == who]
        number = trials.first(own, lambda one: passes(one) and one.preemptions == 1)
        if number is not None:
            yield trials.one(own[number])


def spread(every: Sequence[Switch]) -> list[Switch]:
    """Some of these, in the same order: as many of each task, evenly; of those that have fewer all."""
    places = defaultdict[int, list[int]](list)
    for place, one in enumerate(every):
        places[one.who].append(place)
    taken, left = list[int](), _MOST
    for tasks, own in zip(range(len(places), 0, -1), sorted(places.values(), key=len), strict=True):
        many = min(len(own), max(1, left // tasks))
        taken += (own[k * len(own) // many] for k in range(many))
        left -= many
    return [every[place] for place in sorted(taken)]


def _preemptions(course: Course) -> Iterator[Switch]:
    """All places where a task could go on and another one does."""
    tasks = sorted({stay.who for stay in course.stays})
    made: dict[int, int] = {}
    for stay in course.stays:
        begun, made[stay.who] = made.get(stay.who, 0), stay.made
        for at in range(begun + 1, stay.made + 1):
            yield from (Switch(stay.who, at, to) for to in tasks if to != stay.who)


def with_switch(switches: Sequence[Switch], one: Switch) -> tuple[Switch, ...]:
    """The list with one more, before those of the same task that are due later."""
    later = [k for k, it in enumerate(switches) if it.who == one.who and it.at >= one.at]
    place = later[0] if later else len(switches)
    return (*switches[:place], one, *switches[place:])
