"""Where system calls decide at a preemption: which ones, and what of the kernel's they meet at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from corebraid.study.causes.decisive import Decisive
from corebraid.study.ended import end_place
from corebraid.study.shared_rows import Access
from corebraid.study.smallest.calls import MadeCalls, Place
from corebraid.study.smallest.kernel_objects import TAKES_MEMORY, met, signal_to
from corebraid.study.smallest.narrowing import Window
from corebraid.study.smallest.standing import Standing, standing_at
from corebraid.study.smallest.telling import Teller
from emu.linux.signals.numbers import signal_name
from recorder.files.reader import Recording

#: Of a thread, calls that are looked at for one that uses the same thing.
_MOST_CALLS = 16

_TWO_OF_ONE = "a system call of another thread comes between two of one"
_WHAT_FOLLOWS = "a system call of another thread comes between one and what follows"
_TAKEN = "memory that one thread takes away before another uses it"
_BEFORE_THE_END = "a system call of one thread comes before an access that another dies of"
_BEFORE = "a system call of one thread comes before one of another"
_INTERRUPTED = "sent to a thread before it goes on"


class Borders(NamedTuple):
    """Accesses at the three borders of a narrowed preemption: of the thread before it, of others meanwhile,
    and of the thread then."""

    early: Sequence[Access]
    between: Sequence[Access]
    late: Sequence[Access]


class _Death(NamedTuple):
    """Of an access that was refused. word, where: in words; pc: the place."""

    pc: int
    word: str
    where: str


class _Step(NamedTuple):
    """What a thread does at a border: a call, or an access, or one that it dies of, at `died`."""

    who: int
    call: Standing | None
    access: Access | None
    died: _Death | None = None

    def said(self, teller: Teller) -> str:
        if self.call is not None:
            return f"{teller.who(self.who)} makes {self.call}"
        if self.died is not None:
            return f"{teller.who(self.who)} uses {self.died.word} at {self.died.where}, and dies of it"
        return teller.access(self.access, named=True)


def by_calls(
    recording: Recording,
    teller: Teller,
    window: Window,
    places: Sequence[Place | None],
    made: Borders,
) -> Decisive | None:
    """What decides where no two accesses at the borders of a preemption do. places: of the three borders, a
    core and its instruction count; made: accesses there. None where it is no system call, of another thread
    or the next one of the thread that is stopped, after an access of the latter; and no two calls of
    different threads that are known to use something of the kernel's. Raises FormatError, Divergence."""
    if places[1] is None or places[2] is None:
        return None
    standing = standing_at(recording, teller.program, (one for one in places if one is not None))
    early, between, late = _steps(window, places, made, standing)
    late = late or _death(recording, teller, window.late.who, places[2])
    if between is None or late is None:
        return None
    if late.died is not None:
        return _of_death(teller, made.early[-1] if made.early else None, between, late, late.died)
    if made.early:
        return _after_access(teller, made.early[-1], between, late)
    alone = _by_calls_alone(recording, teller, (early, between, late), places[2])
    return alone or _by_signal(teller, between, late, standing.get(places[2]))


def _steps(
    window: Window,
    places: Sequence[Place | None],
    made: Borders,
    standing: dict[Place, Standing],
) -> Iterator[_Step | None]:
    """What is done at each border, None: neither a call nor an access."""
    threads = (window.late.who, window.between.who, window.late.who)
    for who, place, own in zip(threads, places, made, strict=True):
        call = None if place is None else standing.get(place)
        call = call if call is not None and call.name else None
        yield _Step(who, call, own[0] if own else None) if call is not None or own else None


def _death(recording: Recording, teller: Teller, who: int, place: Place | None) -> _Step | None:
    """What a thread dies of there: an access that is refused. None: it does not."""
    end, at = recording.manifest.end, end_place(recording)
    if end is None or end.address is None or at is None or (at.core, at.count) != place:
        return None
    return _Step(who, None, None, _Death(at.pc, teller.at_address(end.address), teller.place(at.pc)))


def _of_death(
    teller: Teller, early: Access | None, between: _Step, late: _Step, died: _Death
) -> Decisive | None:
    """Of an access that a thread dies of, where another one's call comes before."""
    if between.call is None:
        return None
    takes = between.call.name in TAKES_MEMORY
    title = f"{died.word}: {_TAKEN if takes else _BEFORE_THE_END}"
    accesses = () if early is None else (early,)
    said = (*(teller.access(one, named=True) for one in accesses), between.said(teller), late.said(teller))
    return Decisive(accesses, None, said, title, (*_places(between), died.pc))


def _after_access(teller: Teller, early: Access, between: _Step, late: _Step) -> Decisive | None:
    """Of what a thread does after it has used a word."""
    steps = [one for one in (between, late) if one.call is None]
    accesses = (early, *(one.access for one in steps if one.access is not None))
    if len(steps) == len((between, late)):
        return None
    what = "what another thread does" if between.call is None else "a system call of another thread"
    next_one = "what follows" if late.call is None else "the thread's next system call"
    title = f"{teller.word(early)}: {what} comes between its use and {next_one}"
    said = (teller.access(early, named=True), between.said(teller), late.said(teller))
    return Decisive(accesses, early, said, title, _places(between, late))


def _by_calls_alone(
    recording: Recording, teller: Teller, steps: tuple[_Step | None, _Step, _Step], late: Place
) -> Decisive | None:
    """Of calls of different threads that are known. late: where the last of these steps is."""
    early, between, then = steps
    early = early if early is not None and early.call is not None and early.call.uses else None
    theirs = () if between.call is None else between.call.uses
    mine = [one.call.uses for one in (early, then) if one is not None and one.call is not None]
    if not theirs or not any(mine):
        return None
    thing = next((what for one in reversed(mine) if (what := met(one, theirs)) is not None), None)
    if thing is not None and (early is None or not _changes(thing, early, between)):
        # One of two that meet at it has changed it.
        changes = not _changes(thing, between)
        early = _last_use(recording, teller, then.who, late, thing, changes=changes) or early
    told = [one for one in (early, between, then) if one is not None]
    title = _BEFORE if early is None else _WHAT_FOLLOWS if then.call is None else _TWO_OF_ONE
    accesses = tuple(one.access for one in told if one.call is None and one.access is not None)
    said = tuple(one.said(teller) for one in told)
    about = f"{thing}: " if thing is not None else ""
    return Decisive(accesses, None, said, about + title, _places(*told))


def _by_signal(teller: Teller, between: _Step, late: _Step, where: Standing | None) -> Decisive | None:
    """Of a signal that a thread gets before it goes on, as one by which it is cancelled. where: it stands
    then, where that is not in own code."""
    if between.call is None:
        return None
    number = signal_to(between.call.name, between.call.arguments, late.who)
    if number is None:
        return None
    who = teller.who(late.who)
    stands = late.said(teller) if where is None else f"{who} is at {where}"
    places = _places(between) if where is None else (*_places(between), where.pc)
    accesses = () if late.access is None else (late.access,)
    title = f"{signal_name(number)}: {_INTERRUPTED}"
    return Decisive(accesses, None, (between.said(teller), stands), title, places)


def _changes(thing: str, *steps: _Step) -> bool:
    """Whether a call among them changes a thing of the kernel's."""
    used = (use for one in steps if one.call is not None for use in one.call.uses)
    return any(use.changes for use in used if use.what == thing)


def _last_use(
    recording: Recording, teller: Teller, who: int, place: Place, thing: str, *, changes: bool
) -> _Step | None:
    """The last call of a thread before a place of its core that uses a thing of the kernel's.
    changes: that changes it."""
    made = MadeCalls(recording, teller.program).before(*place)
    made = [one for one in made if teller.runs(who, *one)][-_MOST_CALLS:]
    standing = standing_at(recording, teller.program, made)
    calls = (standing[one] for one in reversed(made) if one in standing)
    wanted = (one for one in calls if any(it.what == thing and it.changes >= changes for it in one.uses))
    return next((_Step(who, one, None) for one in wanted), None)


def _places(*steps: _Step) -> tuple[int, ...]:
    """Of the calls among them, in the program."""
    return tuple(one.call.pc for one in steps if one.call is not None and one.call.pc)
