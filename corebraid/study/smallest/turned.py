"""Of a run that fails without any preemption: one preemption with which it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corebraid.study.course import Course
from corebraid.study.smallest.trials import Trials, Tried
from emu.schedule.switches import Switch

#: Schedules that are tried.
_MOST = 64


def passes(tried: Tried) -> bool:
    """Whether a run did not fail in any way."""
    return tried.way is None and not tried.run.refused


def turned(trials: Trials, found: Tried) -> Tried | None:
    """The first of some schedules with one preemption, spread over the run, that passes. Raises
    OutOfTimeError."""
    assert found.run.course is not None
    every = [with_switch(found.switches, one) for one in _preemptions(found.run.course)]
    some = every[:: max(1, len(every) // _MOST)]
    number = trials.first(some, lambda one: passes(one) and one.preemptions == 1)
    return None if number is None else trials.one(some[number])


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
