"""Timeouts that came though others could go on: who waited, and what would have ended the wait came later."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from corebraid.study.causes.decisive import Decisive
from corebraid.study.causes.waited_words import waited_words
from corebraid.study.course import Course
from corebraid.study.shared_rows import Access
from corebraid.study.smallest.calls import MadeCalls
from corebraid.study.smallest.kernel_objects import met
from corebraid.study.smallest.standing import Standing, standing_at
from corebraid.study.smallest.telling import Teller
from recorder.files.reader import Recording

_TOO_LATE = "a wait with a timeout is over before another thread does what ends it"
#: Of what others do afterwards, calls that are looked at.
_MOST_CALLS = 64


def timeouts_of(recording: Recording, teller: Teller, course: Course) -> Iterator[Decisive]:
    """Of a schedule's timeouts that came early those of which it is known what would have ended the wait: the
    next thing that another thread did to what it is about. teller, course: of the recording. Raises
    FormatError, Divergence."""
    for goes_on, stay in enumerate(course.stays):
        if stay.late is None:
            continue
        last = next((k for k in reversed(range(goes_on)) if course.stays[k].who == stay.late), None)
        if last is None:
            continue
        found = _timeout(recording, teller, course, last, goes_on)
        if found is not None:
            yield found


def _timeout(
    recording: Recording, teller: Teller, course: Course, last: int, goes_on: int
) -> Decisive | None:
    """last: the stay that ended with the wait, goes_on: the one before which time has passed."""
    waited = course.stays[last]
    places = [(waited.core, waited.end - k) for k in (0, 1)]
    standing = standing_at(recording, teller.program, places)
    calls = [standing[one] for one in places if one in standing and standing[one].name]
    if not calls:
        return None
    call, who = calls[0], waited.who
    steps = (f"{teller.who(who)} waits with a timeout in {call}, and that is over",)
    if call.name == "futex":
        ends = _ends(teller, who, call, last, goes_on)
        if ends is None:
            return None
        said = (*steps, "then " + teller.access(ends, named=True))
        title = f"{teller.at_address(call.arguments[0])}: {_TOO_LATE}"
        return Decisive((ends,), ends, said, title, (call.pc,) if call.pc else ())
    other = _meets(recording, teller, course, call, goes_on)
    if other is None:
        return None
    tid, theirs = other
    said = (*steps, f"then {teller.who(tid)} makes {theirs}")
    title = f"{met(theirs.uses, call.uses)}: {_TOO_LATE}"
    return Decisive((), None, said, title, tuple(one.pc for one in (call, theirs) if one.pc))


def _ends(teller: Teller, who: int, call: Standing, last: int, goes_on: int) -> Access | None:
    """The first access of another thread, after the timeout, to what a thread has waited at. last, goes_on:
    stays, as above."""
    mine = [one for one in teller.made_up_to(last) if one.who == who]
    words = waited_words(mine, call.arguments[0])
    after = teller.made_from(goes_on)
    return next((one for one in after if one.who != who and one.word in words), None)


def _meets(
    recording: Recording, teller: Teller, course: Course, call: Standing, goes_on: int
) -> tuple[int, Standing] | None:
    """(who, the call) of the first of others after the timeout that meets the one that waited."""
    waiter, made = course.stays[goes_on].late, MadeCalls(recording, teller.program)
    later = (stay for stay in course.stays[goes_on:] if stay.who != waiter)
    places = list(islice(((stay.who, one) for stay in later for one in made.within(stay)), _MOST_CALLS))
    found = standing_at(recording, teller.program, (one for _, one in places))
    calls = ((who, found[one]) for who, one in places if one in found)
    return next(((who, one) for who, one in calls if met(one.uses, call.uses) is not None), None)
