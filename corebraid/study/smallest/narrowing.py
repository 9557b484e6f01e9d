"""Of a preemption without which a run passes: as late as the thread may be stopped, as early as it may go on
and as little as it must have done before, each to the instruction.

At each of the three borders one access decides: on one side of it the run fails, on the other it does not.
After Choi and Zeller, "Isolating failure-inducing thread schedules" (ISSTA 2002), who halve the difference
of two schedules; what is halved here is the time for which one thread is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from corebraid.study.course import Course
from corebraid.study.smallest.trials import OutOfTimeError, Trials, Tried
from emu.schedule.noting import Stay
from emu.schedule.switches import Fired, Switch

#: Shared events behind a border at which it is tried to stop the thread even later: where it has a lock
#: others wait, and the run passes though what matters is still to come.
_LATER = (*range(8), 11, 15, 23)
#: No border is more than two to this power of instructions away.
_FAR = 40
#: Of a number the schedule with which it is tried.
Schedules = Callable[[int], Sequence[Switch]]


class Instruction(NamedTuple):
    """A task's instruction, by how many of its own came before it, from where there were two tasks."""

    who: int
    own: int


@dataclass(frozen=True)
class Window:
    """number: of the preemption in the schedule that was narrowed. narrow: a schedule of which the same
    holds, in which the thread is stopped late and goes on early. between: the last instruction of another
    that must have come before `late`, the thread's own; early: the last one of the thread that must have
    come before what is between, None where it need not have done anything."""

    number: int
    narrow: Tried
    between: Instruction
    late: Instruction
    early: Instruction | None


class Narrowing:
    """Narrows the preemptions of a schedule. so: what holds for its run, as that it fails in one way; below,
    that is said to be so."""

    def __init__(self, trials: Trials, found: Tried, so: Callable[[Tried], bool]) -> None:
        self._trials, self._found, self._so = trials, found, so

    def windows(self) -> Iterator[Iterator[Window]]:
        """Of its preemptions, the last one first, until the time is over: of each those that there are, the
        one whose thread is stopped latest first. What comes before the last one mostly brings threads to
        where that matters."""
        for fired in reversed(course_of(self._found).preempting):
            yield self._each(fired)

    def _each(self, fired: Fired) -> Iterator[Window]:
        number, switches = fired.number, self._found.switches
        stay = _ended_by(course_of(self._found), fired)
        own = 0 if stay is None else stay.own
        with suppress(OutOfTimeError):
            if not self._holds(_stopped(switches, number, own)):
                return
            for late in self._latest(number, own):
                if (window := self._window(number, late)) is not None:
                    yield window

    def _window(self, number: int, late: int) -> Window | None:
        """late: instructions of its own after which the thread is stopped."""
        switches = self._found.switches
        found = self._trials.one(_stopped(switches, number, late))
        back = self._return(found, number)
        if back is None:
            return None
        place, goes_on = back
        narrow = [*found.switches[:place], goes_on, *found.switches[place:]]
        between, last = Instruction(goes_on.who, goes_on.at - 1), Instruction(switches[number].who, late)
        early = self._early(narrow, number, last)
        return Window(number, self._trials.one(narrow), between, last, early)

    def _early(self, narrow: Sequence[Switch], number: int, late: Instruction) -> Instruction | None:
        """The last one that must have come before; None also where the time is over."""
        try:
            early = self._furthest(late.own, lambda own: _stopped(narrow, number, own), -1)
        except OutOfTimeError:
            return None
        return late._replace(own=early - 1) if early else None

    def _holds(self, switches: Sequence[Switch]) -> bool:
        return self._so(self._trials.one(switches))

    def _furthest(self, inside: int, schedule: Schedules, way: int = 1) -> int:
        """A number, not below 0, from `inside` on upwards, or downwards (way: -1), that is the last before
        one with which it is not so. It is taken to be so with `inside`."""
        steps = [way * ((1 << k) - 1) for k in range(1, _FAR)]
        numbers = [inside + step for step in steps if inside + step >= 0]
        passes = self._trials.first([schedule(number) for number in numbers], lambda one: not self._so(one))
        if passes is None:
            last = numbers[-1] if numbers else inside
            return self._border(last, -1, schedule) if way < 0 else last
        return self._border(numbers[passes - 1] if passes else inside, numbers[passes], schedule)

    def _border(self, inside: int, outside: int, schedule: Schedules) -> int:
        """The last number before one with which it is not so, from `inside`, with which it is, towards
        `outside`, with which it is not or which is none."""
        while abs(outside - inside) > 1:
            # Two at once, for two processes.
            third = (outside - inside) // 3 or (1 if outside > inside else -1)
            points = [inside + third, inside + 2 * third]
            points = [point for point in points if min(inside, outside) < point < max(inside, outside)]
            passes = self._trials.first([schedule(one) for one in points], lambda one: not self._so(one))
            if passes is None:
                inside = points[-1]
            else:
                inside, outside = points[passes - 1] if passes else inside, points[passes]
        return inside

    def _latest(self, number: int, own: int) -> Iterator[int]:
        """The most instructions of its own after which a thread may be stopped, further on and then next to
        where it is stopped. own: it may after these."""
        switches = self._found.switches

        def stopped(own: int) -> list[Switch]:
            return _stopped(switches, number, own)

        late = self._furthest(own, stopped)
        stay = _stopped_in(self._trials.one(stopped(late)), number)
        first = stay.made + (not stay.before) + 1 if stay is not None else 0
        listed = [_stopped(switches, number, first + more, by_instructions=False) for more in _LATER]
        stops = [_stopped_in(tried, number) for tried in self._trials.each(listed) if self._so(tried)]
        for stay in reversed(stops):
            if stay is not None and stay.own > late and self._holds(stopped(stay.own)):
                yield self._furthest(stay.own, stopped)
                break
        yield late

    def _return(self, found: Tried, number: int) -> tuple[int, Switch] | None:
        """The switch that lets the thread that is stopped by switch `number` go on as early as may be, and
        its place in the list; None: nobody else runs, or it must not go on."""
        pieces = _meanwhile(found, number)

        def at(position: int) -> tuple[int, Switch]:
            """After so many instructions of others."""
            stay, begin, before = next(one for one in reversed(pieces) if position > one[2])
            goes_on = Switch(stay.who, begin + position - before, found.switches[number].who, True)
            return _place(found, stay, number), goes_on

        def returned(position: int) -> list[Switch]:
            place, goes_on = at(position)
            return [*found.switches[:place], goes_on, *found.switches[place:]]

        every = sum(stay.own - begin for stay, begin, _ in pieces)
        if not every or not self._holds(returned(every)):
            return None
        return at(self._border(every, 0, returned))


def course_of(tried: Tried) -> Course:
    """Of a run whose course was noted."""
    assert tried.run.course is not None
    return tried.run.course


def _stopped(
    switches: Sequence[Switch], number: int, at: int, *, by_instructions: bool = True
) -> list[Switch]:
    """The list with switch `number` elsewhere."""
    moved = switches[number]._replace(at=at, by_instructions=by_instructions)
    return [*switches[:number], moved, *switches[number + 1 :]]


def _ended_by(course: Course, fired: Fired) -> Stay | None:
    """The stay that a switch ended; None: nothing had run before it."""
    ends = (stay for stay in course.stays if (stay.core, stay.end) == (fired.core, fired.retired))
    return next(ends, None)


def _stopped_in(tried: Tried, number: int) -> Stay | None:
    """The stay that switch `number` ended, though the thread could have gone on; None: it did not."""
    course = course_of(tried)
    fired = next((one for one in course.preempting if one.number == number), None)
    return None if fired is None else _ended_by(course, fired)


def _meanwhile(found: Tried, number: int) -> list[tuple[Stay, int, int]]:
    """What others did while a thread was stopped by switch `number`: stays, with what their task had done
    before each, and what all of them had, in instructions."""
    stays, stopped = course_of(found).stays, _stopped_in(found, number)
    if stopped is None:
        return []
    first = stays.index(stopped) + 1
    begins = {stay.who: stay.own for stay in stays[:first]}
    pieces, before = list[tuple[Stay, int, int]](), 0
    for stay in takewhile(lambda stay: stay.who != stopped.who, stays[first:]):
        begin = begins.get(stay.who, 0)
        begins[stay.who] = stay.own
        if stay.own > begin:
            pieces.append((stay, begin, before))
            before += stay.own - begin
    return pieces


def _place(found: Tried, stay: Stay, number: int) -> int:
    """Where in the list a switch belongs that takes place during a stay behind switch `number`: behind those
    that its task has had by then."""
    course = course_of(found)
    ends = {(one.core, one.end): place for place, one in enumerate(course.stays)}
    until = course.stays.index(stay)
    had = [
        one.number
        for one in course.fired
        if found.switches[one.number].who == stay.who and ends.get((one.core, one.retired), -1) < until
    ]
    return max([number, *had]) + 1
