"""Encounters of a run that failed, ranked: what runs that passed do not have, or have seldom, comes first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from corebraid.study.causes.encounters import (
    ABA,
    AHEAD,
    CHANGED,
    HALF_WAY,
    LOST_UPDATE,
    OVERWRITTEN,
    SAW,
    TORN,
    Encounter,
    Key,
    Place,
    changes,
    find_encounters,
    place_of,
)
from corebraid.study.shared_rows import Access

#: What code is: the program's own; a library's; what loads and links, and begins and ends threads.
OWN, LIBRARY, GROUND = "own", "library", "ground"

#: How much each says. A pair of accesses of a thread with another's in between says more than one edge.
_WEIGHTS = {
    ABA: 95, LOST_UPDATE: 90, CHANGED: 86, OVERWRITTEN: 84, SAW: 82, AHEAD: 80, HALF_WAY: 78, TORN: 76,
}  # fmt: skip
#: A read that finds nobody's write, and one that finds the thread's own, where runs that passed find that of
#: another.
_NOBODYS, _ITS_OWN = 84, 60
#: Less where runs that passed have it too: at once, and by how many.
_KNOWN, _OFTEN = 15, 40
#: What more of them have is none.
_MOST_KNOWN = 0.7
#: Less in the C library; where threads meet by atomic accesses; where all of it is done under one lock, but
#: not in one section.
_IN_LIBRARY, _ATOMIC, _LOCKED = 25, 30, 25
#: Less where a thread has looked at one place again, and of words that threads change atomically, which are
#: mostly made for that.
_AGAIN, _MEANT = 20, 20
#: What scores less is not worth telling.
_LEAST = 40
#: Bytes of a lock, at most, from the word that is changed atomically on.
_LOCK_BYTES = 40


@dataclass(frozen=True)
class Novel:
    """An encounter that tells the run from those that passed. steps: its accesses, and what came too late.
    passed: in how many runs that passed it was too, of how many. usual: where what is read there is written
    in those, if it is not among the steps."""

    encounter: Encounter
    steps: tuple[Access, ...]
    score: float
    passed: int
    of: int
    usual: Place | None = None


class _Known:
    """What runs that passed have: in how many each encounter is, and each place; whose writes are read
    where."""

    def __init__(self, runs: Iterable[list[Access]]) -> None:
        self.encounters: Counter[Key] = Counter()
        self.places: Counter[Place] = Counter()
        self._sources: dict[Place, Counter[Place]] = defaultdict(Counter)
        for run in runs:
            keys = {found.key: found for found in find_encounters(run)}
            self.encounters.update(list(keys))
            self.places.update({place_of(access) for access in run})
            for found in keys.values():
                if found.kind == SAW and len(found.steps) > 1 and found.steps[0].who != found.steps[1].who:
                    self._sources[place_of(found.steps[1])][place_of(found.steps[0])] += 1

    def usual(self, read: Access) -> Place | None:
        """Where others mostly write what is read there."""
        found = self._sources.get(place_of(read))
        return found.most_common(1)[0][0] if found else None


def novelties(
    run: list[Access], passed: Sequence[list[Access]], kind_of: Callable[[int], str]
) -> list[Novel]:
    """The most telling first, one for each word. kind_of: what the code at a pc is."""
    hidden = _hidden_words([run, *passed], kind_of)

    def told(accesses: list[Access]) -> list[Access]:
        return [one for one in accesses if one.word not in hidden and kind_of(one.pc) != GROUND]

    sections, mine = _sections(run), told(run)
    known, words = _Known(map(told, passed)), defaultdict(list)
    for access in mine:
        words[access.word].append(access)
    firsts: dict[Key, Encounter] = {}
    for found in find_encounters(mine):
        firsts.setdefault(found.key, found)
    ranked = [
        novel
        for found in firsts.values()
        if (novel := _rated(found, known, len(passed), words, sections)) is not None
    ]
    ranked.sort(key=lambda one: (-one.score, one.encounter.steps[-1].at))
    best: dict[int, Novel] = {}
    for one in ranked:
        best.setdefault(one.encounter.steps[-1].word, one)
    triples = {
        tuple(step.at for step in found.steps[1:]): found
        for found in firsts.values()
        if found.kind in (CHANGED, OVERWRITTEN)
    }
    return [_with_begin(one, triples) for one in best.values()]


def _with_begin(one: Novel, triples: dict[tuple[int, ...], Encounter]) -> Novel:
    """The same with what the thread had done there before it saw another's write, if it relied on that."""
    whole = triples.get(tuple(step.at for step in one.encounter.steps)) if one.encounter.kind == SAW else None
    if whole is None:
        return one
    return replace(one, encounter=whole, steps=(whole.steps[0], *one.steps))


def _hidden_words(runs: Iterable[list[Access]], kind_of: Callable[[int], str]) -> set[int]:
    """Words that are the C library's: locks, and what threads and the loader are made of."""
    own, theirs = set[int](), set[int]()
    for access in (access for run in runs for access in run):
        kind = kind_of(access.pc)
        if kind == OWN:
            own.add(access.word)
        elif access.atomic:
            theirs.update(range(access.word, access.word + _LOCK_BYTES, 8))
        caller = kind_of(access.caller) if access.caller else GROUND
        if kind == GROUND or (kind == LIBRARY and caller == GROUND):
            theirs.add(access.word)
    return theirs - own


_Sections = dict[int, dict[int, int]]


def _sections(run: list[Access]) -> _Sections:
    """Of each access, by its place in the order: which locks its thread has, and the how manieth time that is
    that anybody took one."""
    held: dict[int, dict[int, int]] = defaultdict(dict)
    found, n = {}, 0
    for access in run:
        mine = held[access.who]
        if access.atomic and access.caller:
            if access.old == 0 != access.new:
                n += 1
                mine[access.word] = n
            elif access.new == 0:
                mine.pop(access.word, None)
        found[access.at] = dict(mine)
    return found


def _rated(
    found: Encounter, known: _Known, of: int, words: dict[int, list[Access]], sections: _Sections
) -> Novel | None:
    """None where it does not tell the runs apart, or little."""
    passed = known.encounters[found.key]
    last = found.steps[-1]
    # Where no run came that passed is what became of it.
    if passed > _MOST_KNOWN * of or not known.places[place_of(last)]:
        return None
    score: float = _WEIGHTS[found.kind]
    steps, usual = found.steps, None
    if found.kind == SAW:
        usual = None if passed else known.usual(last)
        remote = len(steps) > 1 and steps[0].who != last.who
        if (remote and not changes(steps[0])) or (not remote and usual is None):
            return None
        if not remote:
            score = _NOBODYS if len(steps) == 1 else _ITS_OWN
            steps = (last,)
        later = _later_write(last, words[last.word])
        steps, usual = ((*steps, later), None) if later is not None else (steps, usual)
    score -= _OFTEN * passed / of + (_KNOWN if passed else 0)
    score -= _IN_LIBRARY * sum(bool(step.caller) for step in found.steps) / len(found.steps)
    if found.kind in (LOST_UPDATE, CHANGED, OVERWRITTEN, HALF_WAY):
        score -= _LOCKED if _in_sections(*(sections[step.at] for step in found.steps)) else 0
    if found.kind == CHANGED and place_of(found.steps[0]) == place_of(last):
        score -= _AGAIN
    if found.kind != ABA and len({one.who for one in words[last.word] if one.atomic}) > 1:
        score -= _MEANT
    if found.kind != ABA and sum(step.atomic for step in steps) >= 2:
        score -= _ATOMIC
    return Novel(found, steps, score, passed, of, usual) if score >= _LEAST else None


def _in_sections(first: dict[int, int], between: dict[int, int], last: dict[int, int]) -> bool:
    """Whether all three have one lock, and who had it first gave it back meanwhile."""
    return any(lock in between and lock in last and last[lock] != n for lock, n in first.items())


def _later_write(read: Access, here: list[Access]) -> Access | None:
    """What another wrote there only afterwards."""
    return next(
        (
            one
            for one in here
            if one.at > read.at and one.who != read.who and changes(one) and one.overlaps(read)
        ),
        None,
    )
