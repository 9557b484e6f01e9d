"""The accesses that decide: those at the borders of a narrowed preemption, in the run that was narrowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile, islice, product, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corebraid.base.errors import Divergence, FormatError
from corebraid.base.rows.event import FETCH, UNCACHED
from corebraid.names.inlined_calls import InlinedCalls
from corebraid.study.attempts import Attempt
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.causes.decisive import (
    OTHER_WAY,
    Decisive,
    conflict,
    in_passing,
    kind_of,
    title_of,
)
from corebraid.study.causes.novelty import OWN
from corebraid.study.course import Course
from corebraid.study.deadlocks import named_waits
from corebraid.study.shared_rows import WORD, Access
from corebraid.study.smallest.by_calls import Borders, by_calls
from corebraid.study.smallest.narrowing import Instruction, Window, course_of
from corebraid.study.smallest.scheduled_accesses import words_of_several
from corebraid.study.smallest.sections import LockCalls, Sections, is_lock
from corebraid.study.smallest.telling import Teller
from corebraid.study.smallest.trials import record_tried
from corebraid.study.smallest.two_words import crossing
from corebraid.study.stack_names import Called
from corebraid.study.stacks import Stack, stacks_at
from corebraid.study.subjects import Subject
from emu.linux.tasks.waiting import cycle
from recorder.files.reader import Recording
from recorder.replay.seek import accesses

#: Shared accesses within which a thread relies on what it has read.
_RELIES = 5_000
#: Of a thread that a signal killed, the last reads, which say of what.
_LAST_READS = 2
#: In the names of functions by which a program looks at what threads are kept apart with.
_LOOKS = "!sem_getvalue"
_CROSSED = "each of two threads comes in between what the other one does to these two"
#: Pairs of accesses under a lock that are looked at.
_MOST_PAIRS = 64


class Decided(NamedTuple):
    """steps: accesses that decide, in order. there: the one whose word they are about; other: to a second
    word. title: what they are."""

    steps: tuple[Access, ...]
    there: Access
    title: str
    other: Access | None = None


def decisive_of(
    window: Window, subject: Subject, tried: Attempt, directory: Path, *, fails: bool = True
) -> Decisive | None:
    """What decides at a preemption. tried: the run that was found; directory: where the narrowed one is
    recorded. fails: the narrowed one does, else it passes. None where the instructions at the borders have no
    two accesses that cannot be swapped. Raises CorebraidError."""
    recording, course = record_tried(window.narrow, subject, tried, directory), course_of(window.narrow)
    places = [
        None if one is None else _place(course, one) for one in (window.early, window.between, window.late)
    ]
    here = {word for place in places if place is not None for word in _words_at(recording, *place)}
    shared = subject.options.shared
    known = np.zeros(0, np.uint64) if shared is None else shared.words
    words = np.union1d(known, np.array(sorted(here), np.uint64))
    found = _told(recording, Teller(recording, course, words), window, places, fails=fails)
    if found is not None and found.of_libraries:
        # What is done under a lock may be to what no learning run has seen to be shared.
        more = np.union1d(words, words_of_several(recording, course))
        wider = _told(recording, Teller(recording, course, more), window, places, fails=fails)
        return found if wider is None or wider.of_libraries else wider
    return found


def _told(
    recording: Recording,
    teller: Teller,
    window: Window,
    places: Sequence[tuple[int, int] | None],
    *,
    fails: bool,
) -> Decisive | None:
    """The same, of the accesses of a teller. places: of the three borders."""
    early, between, late = ([] if one is None else _at(teller, *one) for one in places)
    made = [one for _, one in teller.sequence]
    pair = border(between, late, made)
    if pair is None:
        made_there = Borders(early, between, late or _following(teller, window.late.who, places[2]))
        found = by_calls(recording, teller, window, places, made_there)
        if found is not None:
            return found if fails else found.other_way()
        pair = later(between, window.late.who, made)
    if pair is None:
        return None
    calls = LockCalls(teller.program, data_decides=not cycle(named_waits(recording, teller.program)))
    decided = deciding(early, pair, made, calls, _died_of(recording, made), crossed=fails)
    steps, there, title, other = decided
    callers = _callers(recording, teller, steps)
    said = [teller.access(one, named=True) + called for one, called in zip(steps, callers, strict=True)]
    if not fails:
        title = OTHER_WAY
        said = list(in_passing(said))
    about = ", ".join(teller.word(one) for one in (there, other) if one is not None)
    looked = any(_LOOKS in (teller.program.symbols.name(one.pc) or "") for one in steps)
    code = CodeNames(teller.program)
    foreign = all(code.kind(one.pc) != OWN for one in steps if one.overlaps(there))
    return Decisive(steps, there, tuple(said), f"{about}: {title}", looked=looked, foreign=foreign)


def _died_of(recording: Recording, made: Sequence[Access]) -> frozenset[int]:
    """Where a signal killed the run: addresses of the words that its thread had read last itself."""
    end = recording.manifest.end
    if end is None or end.reason != "signal" or end.core is None:
        return frozenset()
    own = (one for one in reversed(made) if one.core == end.core and one.reads and not one.caller)
    return frozenset(one.word for one in islice(own, _LAST_READS))


def _callers(recording: Recording, teller: Teller, steps: Sequence[Access]) -> list[str]:
    """Of each access of the program's own code, or of a library's but to a lock, where what is told of it
    already was called from, in words."""
    own, told = CodeNames(teller.program), [one for one in steps if not (one.atomic and one.caller)]
    stacks = dict[tuple[int, int], Stack]()
    for core in {one.core for one in told}:
        counts = [one.retired for one in told if one.core == core]
        with suppress(FormatError, Divergence):
            found = stacks_at(recording, teller.program, core, counts)
            stacks.update(((core, count), stack) for count, stack in found.items())
    said, calls = [], InlinedCalls(teller.program.lines)
    for one in steps:
        stack = stacks.get((one.core, one.retired)) if one in told else None
        outer = [] if stack is None else list(_outer(stack, own, library=bool(one.caller)))
        known = calls.at(one.caller or one.pc)
        outer = [it for it in outer if not it.line or it.line != known]
        # Of what stands in a header its own callers there say little.
        there = next((it for it in outer if calls.stands_there(it.pc, it.line)), next(iter(outer), None))
        said.append(f", called from {there.where}" if there is not None else "")
    return said


def _outer(stack: Stack, own: CodeNames, *, library: bool) -> Iterator[Called]:
    """The program's own frames around an access, without the first one of it. library: which is none's of
    them."""
    frames: Iterator[Called] = iter(stack.first)
    if library:
        frames = dropwhile(lambda it: own.kind(it.pc) != OWN, frames)
    innermost = next(frames, None)
    outer = takewhile(lambda it: own.kind(it.pc) == OWN, frames)
    # A closure stands in the line that makes it.
    return (it for it in outer if innermost is None or not it.line or it.line != innermost.line)


def border(
    between: Sequence[Access], late: Sequence[Access], made: Sequence[Access]
) -> tuple[Access, Access] | None:
    """Two accesses that cannot be swapped, of the instructions at the borders of a preemption; where these
    have none, as the thread must go on no earlier for something that it does only later, the last one of
    another before `late` that cannot be swapped with it. made: all that are looked at, in order."""
    if (pair := next((pair for pair in product(between, late) if conflict(*pair)), None)) is not None:
        return pair
    for here in late:
        before = reversed(made[: made.index(here)])
        meanwhile = takewhile(lambda one, who=here.who: one.who != who, before)  # type: ignore[misc]
        if (there := next((one for one in meanwhile if conflict(one, here)), None)) is not None:
            return there, here
    return None


def later(between: Sequence[Access], who: int, made: Sequence[Access]) -> tuple[Access, Access] | None:
    """An access of another at a border, and what the thread that was stopped does later that cannot be
    swapped with it. who: that thread. made: all that are looked at, in order."""
    for there in between:
        first = made.index(there)
        own = (one for one in made[first : first + _RELIES] if one.who == who)
        if (here := next((one for one in own if conflict(there, one)), None)) is not None:
            return there, here
    return None


def deciding(
    early: Sequence[Access],
    pair: tuple[Access, Access],
    made: Sequence[Access],
    calls: LockCalls | None = None,
    died_of: frozenset[int] = frozenset(),
    *,
    crossed: bool = True,
) -> Decided:
    """early: accesses of the instruction that must come before; pair: at the other two borders; made: all
    that are looked at, in order. calls: how it is known what calls do with locks. died_of: addresses of
    words that come first. crossed: a second word is looked for."""
    (there, here), told, kind = _under_lock(*pair, made, calls or LockCalls(), died_of)
    begun = next((one for one in early if _counts(one, there, here, made)), None)
    # What a thread would have done before is told behind that.
    first, then = sorted((there, here), key=made.index)
    looks = crossed and not is_lock(there, here)
    second = crossing(first, then, made, died_of) if looks else None
    if second is not None and second[0].word in died_of and there.word not in died_of:
        told, kind = (there, here), None
    second = second if kind is None else None
    steps = {*pair, *told, *(() if begun is None else (begun,)), *(second or ())}
    title = title_of(there, here, kind) if second is None else _CROSSED
    other = None if second is None else second[0]
    return Decided(tuple(sorted(steps, key=made.index)), there, title, other)


def _place(course: Course, one: Instruction) -> tuple[int, int]:
    """Core and instruction count."""
    before, stays = 0, [stay for stay in course.stays if stay.who == one.who]
    for stay in stays:
        if one.own < stay.own:
            return stay.core, stay.begin + one.own - before
        before = stay.own
    return stays[-1].core, stays[-1].end + one.own - before


def _words_at(recording: Recording, core: int, count: int) -> set[int]:
    """Words that the instruction before which a core has made `count` touches, as addresses over 8."""
    words = set[int]()
    for rows in accesses(recording, core, count):
        here = rows[(rows["count"] == count) & ((rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0)]
        for address, size in zip(here["addr"].tolist(), here["size"].tolist(), strict=True):
            words.update(range(address // WORD, (address + size - 1) // WORD + 1))
        if len(rows) and int(rows["count"][-1]) > count:
            break
    return words


def _at(teller: Teller, core: int, count: int) -> list[Access]:
    return [one for _, one in teller.sequence if (one.core, one.retired) == (core, count)]


def _following(teller: Teller, who: int, place: tuple[int, int] | None) -> list[Access]:
    """The first access of a thread on a core from a place on: a signal's handler comes before what it would
    have done."""
    if place is None:
        return []
    core, count = place
    made = (one for _, one in teller.sequence)
    return list(islice((a for a in made if a.who == who and a.core == core and a.retired >= count), 1))


def _of(who: int, made: Iterable[Access]) -> Iterator[Access]:
    """What a thread does in its own code."""
    return (one for one in made if one.who == who and not one.caller)


def _with_third(there: Access, here: Access, made: Sequence[Access]) -> tuple[tuple[Access, ...], str | None]:
    """Two accesses that cannot be swapped, with what one of the two threads did there before, or does next,
    where that makes an encounter of them: (in order, its kind); else the two alone, and None."""
    if not is_lock(there, here):
        first, last = made.index(there), made.index(here)
        before = _of(here.who, reversed(made[max(first - _RELIES, 0) : first]))
        behind = _of(there.who, made[last + 1 : last + 1 + _RELIES])
        for steps in (
            *((one, there, here) for one in islice((one for one in before if one.overlaps(here)), 1)),
            *((there, here, one) for one in islice((one for one in behind if one.overlaps(there)), 1)),
        ):
            if (kind := kind_of(steps)) is not None:
                return steps, kind
    return (there, here), None


def _counts(before: Access, there: Access, here: Access, made: Sequence[Access]) -> bool:
    """Whether it says something that `before` comes first: it concerns what others do until `there`. That a
    lock must have been given back, so that others can go on, says nothing."""
    if _gives_back(before, made):
        return False
    if conflict(before, there) or (before.overlaps(here) and before.overlaps(there)):
        return True
    others = made[made.index(before) : made.index(there)]
    return any(conflict(before, one) for one in others if one.who != before.who)


def _gives_back(access: Access, made: Sequence[Access]) -> bool:
    """Whether it gives a lock back: its thread has changed the word from 0 last."""
    if not access.atomic or access.new or not access.caller:
        return False
    before = made[: made.index(access)]
    last = next((one for one in reversed(before) if one.who == access.who and is_lock(one, access)), None)
    return last is not None and last.old == 0 != last.new


def _under_lock(
    there: Access, here: Access, made: Sequence[Access], calls: LockCalls, died_of: frozenset[int]
) -> tuple[tuple[Access, Access], tuple[Access, ...], str | None]:
    """(two accesses, these with a third, of which kind that is): of two that take one lock, two in what is
    done under it; those first with which a third makes an encounter, and of these to what the run died of;
    then those to such words."""
    found = Sections(made, calls).pairs(there, here) if is_lock(there, here) else iter(())
    pairs = list(islice(found, _MOST_PAIRS)) or [(there, here)]
    told = [(pair, *_with_third(*pair, made)) for pair in pairs]
    return min(told, key=lambda one: (one[2] is None, one[0][0].word not in died_of))
