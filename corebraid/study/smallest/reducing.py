"""From the course of a run that failed to the fewest preemptions that fail the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, islice

from corebraid.study.attempts import Run
from corebraid.study.course import Course
from corebraid.study.smallest.minimum import fewest, lower
from corebraid.study.smallest.regrouping import regrouped
from corebraid.study.smallest.trials import OutOfTimeError, Trials, Tried
from corebraid.study.smallest.ways import Way
from emu.schedule.noting import switches_between
from emu.schedule.switches import Switch

#: Rounds of reducing preemptions and other switches in turn, at most.
_ROUNDS = 5
#: A list of so many switches at most is short.
_FEW = 6
#: Of more stays it takes too many runs to try which can be one.
_MOST_STAYS = 60
#: Schedules with fewer preemptions that are tried before the time is looked at.
_TOGETHER = 12
#: Seconds that a run takes at least.
_QUICK = 0.002
#: Of so many times as many schedules as there is time for those that are tried are spread.
_SPREAD = 16
#: Of the time that is left, the part that may be spent on schedules with fewer preemptions.
_SHARE = 0.5


class Claim(Enum):
    """What is known of a number of preemptions, and how it is said."""

    NONE = "it fails without any preemption"
    FEWEST = (
        "none of the {others} schedules with fewer preemptions, and at most one other switch more, fails so"
    )
    MINIMAL = (
        "1-minimal: without any one of them it does not fail so, and of those with fewer preemptions none of "
        "{others} that were tried does"
    )
    UNKNOWN = "not tried to the end: fewer may be enough"


@dataclass(frozen=True)
class Smallest:
    """What is left of a run. before: preemptions that it had. found: the schedule with which it fails the
    same way. claim: what is known of their number; others: schedules with fewer that were run for it.
    without: for each preemption, in order, what becomes of the run without it; those that were not run for
    want of time are missing at the end. runs, seconds: of all."""

    before: int
    found: Tried
    claim: Claim
    others: int
    without: tuple[Run, ...]
    runs: int = 0
    seconds: float = 0.0

    @property
    def switches(self) -> tuple[Switch, ...]:
        """The schedule."""
        return self.found.switches

    @property
    def preempting(self) -> tuple[Switch, ...]:
        """Those of the switches that are preemptions, in the order in which they take place."""
        assert self.found.run.course is not None
        return tuple(self.switches[one.number] for one in self.found.run.course.preempting)

    @property
    def all_matter(self) -> bool:
        """Whether it is known of each preemption that the run does not fail so without it."""
        return len(self.without) == len(self.preempting)

    def claimed(self) -> str:
        """What is known of the number of preemptions, in words."""
        return self.claim.value.format(others=self.others)


class Reducing:
    """Reduces the run with this course, which failed in this way. `best` is there as soon as a list of
    switches fails the same way: what is known by then can be asked for when the time is over, or the user
    has had enough."""

    def __init__(self, trials: Trials, course: Course, way: Way) -> None:
        self._trials, self._course, self._way = trials, course, way
        self.best: Tried | None = None
        self._claim, self._others = Claim.UNKNOWN, 0
        self._without: list[Run] = []

    def result(self) -> Smallest | None:
        """As far as it has come; None: no list of switches fails the same way."""
        if self.best is None:
            return None
        before, runs = self._course.preemptions, self._trials.runs
        return Smallest(before, self.best, self._claim, self._others, tuple(self._without), runs)

    def run(self) -> None:
        """Reduce, until that is done or the time is over."""
        try:
            self._reduce()
        except OutOfTimeError:
            return

    def _reduce(self) -> None:
        if self._take([()]) is not None:
            self._claim = Claim.NONE
            return
        if self._take(self._wholes()) is None:
            return
        self._take(self._bare())
        for _ in range(_ROUNDS):
            before = self._best.switches
            self._fewer(preempting=True)
            self._fewer(preempting=False)
            self._join()
            self._regroup()
            if self._best.switches == before:
                break
        self._subsets()
        # That each matters is worth more than that there are none with fewer, which can take all the time.
        self._settle()
        if not self._best.preemptions:
            self._claim = Claim.NONE
            return
        before = self._best.switches
        complete = self._search()
        if self._best.switches != before:
            self._settle()
        self._claim = Claim.FEWEST if complete else Claim.MINIMAL

    def _settle(self) -> None:
        self._lower_places()
        self._by_events()
        self._matter()

    @property
    def _best(self) -> Tried:
        assert self.best is not None
        return self.best

    def _wholes(self) -> list[tuple[Switch, ...]]:
        """Lists that should make the run: by events, which still mean something when others are left out; or
        by instructions, where memory is shared that is not watched, or a task stood before a system call."""
        ways = ((False, False), (True, True), (True, False))
        return [tuple(self._course.switches(by_instructions=by, able=able)) for by, able in ways]

    def _bare(self) -> list[list[Switch]]:
        """The preemptions alone; and all but where a thread that yields goes on itself. Of threads that
        wait by yielding there are thousands of others, and each run with them takes its time."""
        best = self._best
        preempting = {one.number for one in best.run.course.preempting} if best.run.course else set[int]()
        alone = [one for k, one in enumerate(best.switches) if k in preempting]
        return [alone, [one for one in best.switches if one.who != one.to]]

    def _fails(self, tried: Tried) -> bool:
        return tried.way == self._way

    def _no_worse(self, tried: Tried) -> bool:
        return self._fails(tried) and (self.best is None or tried.preemptions <= self.best.preemptions)

    def _better(self, tried: Tried) -> bool:
        return self._fails(tried) and tried.preemptions < self._best.preemptions

    def _take(
        self, schedules: Sequence[Sequence[Switch]], wanted: Callable[[Tried], bool] | None = None
    ) -> int | None:
        """The place of the first of these that is wanted, by default one that is no worse than the best. It
        is the best then, without what it does not need."""
        number = self._trials.first(schedules, wanted or self._no_worse)
        if number is None:
            return None
        self.best = tried = self._trials.one(schedules[number])
        if tried.needed != tried.switches and self._no_worse(again := self._trials.one(tried.needed)):
            self.best = again
        return number

    def _fewer(self, *, preempting: bool) -> None:
        """Leave out preemptions, or other switches, as many as may be."""

        def looked_at() -> list[int]:
            """Places in the best, as it is."""
            assert self._best.run.course is not None
            return [one.number for one in self._best.run.course.fired if one.preempting is preempting]

        def first(candidates: Sequence[Sequence[int]]) -> tuple[int, list[int]] | None:
            every = set(looked_at())
            switches = list(enumerate(self._best.switches))
            lists = [[one for k, one in switches if k not in every or k in some] for some in candidates]
            number = self._take(lists)
            return None if number is None else (number, sorted(looked_at()))

        fewest(sorted(looked_at()), first)

    def _join(self) -> None:
        """Let two switches that follow each other be one, past the task that runs between them."""
        number = 0
        while number + 1 < len(self._best.switches):
            switches = self._best.switches
            one, other = switches[number], switches[number + 1]
            joined = [one._replace(to=other.to)] if one.who != other.to else []
            if self._take([(*switches[:number], *joined, *switches[number + 2 :])]) is None:
                number += 1

    def _regroup(self) -> None:
        """Let tasks take fewer turns, as long as that leaves fewer preemptions, or as many and fewer
        switches."""
        while (course := self._best.run.course) is not None and len(course.stays) <= _MOST_STAYS:
            if course.impatient:
                return
            switches = [
                switches_between(stays, course.first, by_instructions=False)
                for stays in regrouped(course.stays)
            ]
            if self._take(switches, self._simpler) is None:
                return

    def _simpler(self, tried: Tried) -> bool:
        best = self._best
        size, least = (tried.preemptions, len(tried.needed)), (best.preemptions, len(best.needed))
        return self._fails(tried) and size < least

    def _subsets(self) -> None:
        """Of a short list try all parts: some switches can only be left out together."""
        switches = self._best.switches
        if len(switches) <= _FEW:
            sizes = range(1, len(switches) - 1)
            parts = [part for size in sizes for part in combinations(switches, size)]
            if self._take(parts) is not None:
                self._subsets()

    def _search(self) -> bool:
        """Try schedules with fewer preemptions, those first that switch between the same tasks as the best,
        for a part of the time that is left. Returns whether all were tried."""
        level: list[tuple[Switch, ...]] = [()]
        self._others, least = 1, self._trials.left * (1 - _SHARE)
        for depth in range(self._best.preemptions):
            most = int((self._trials.left - least) / max(self._trials.seconds_of_one, _QUICK))
            every = (one for base in level for one in self._one_more(base, depth))
            # There may be millions of them.
            following = list(islice(every, _SPREAD * max(most, 1)))
            whole = next(every, None) is None
            # Those first that are spread evenly: there may not be time for all.
            apart = -(-len(following) // max(most, 1))
            following = [one for begin in range(apart) for one in following[begin::apart]]
            between = {(one.who, one.to) for one in self._best.switches}
            between |= {(to, who) for who, to in between}
            following.sort(key=lambda one: (one[-1].who, one[-1].to) not in between)
            for begin in range(0, len(following), _TOGETHER):
                if self._trials.left < least:
                    return False
                if self._take(following[begin : begin + _TOGETHER], self._better) is not None:
                    return self._search()
                self._others += len(following[begin : begin + _TOGETHER])
            if not whole:
                return False
            level = following
        return True

    def _one_more(self, base: tuple[Switch, ...], preemptions: int) -> Iterator[tuple[Switch, ...]]:
        """All schedules with a switch more behind the last one of `base` that have fewer preemptions than the
        best. preemptions: of `base`, at most."""
        course = self._trials.one(base).run.course
        assert course is not None
        tasks = sorted({stay.who for stay in course.stays})
        last = course.fired[-1] if course.fired else None
        made: dict[int, int] = {}
        for stay in course.stays:
            begun, made[stay.who] = made.get(stay.who, 0), stay.made
            if last is not None:
                last = None if (stay.core, stay.end) == (last.core, last.retired) else last
                continue
            # Where it stops by itself another one's going on is no preemption.
            first = begun + 1 if preemptions + 1 < self._best.preemptions else stay.made + 1
            for at in range(first, stay.made + (2 if not stay.able else 1)):
                yield from ((*base, Switch(stay.who, at, to)) for to in tasks if to != stay.who)

    def _lower_places(self) -> None:
        """Let each preemption come as early as may be."""
        for one in range(len(self._best.switches)):
            if one < len(self._best.switches):
                self._lower(one)

    def _lower(self, number: int) -> None:
        switches = self._best.switches

        def first(places: Sequence[int]) -> int | None:
            if len(self._best.switches) != len(switches):
                return None
            one = switches[number]
            return self._take(
                [(*switches[:number], one._replace(at=at), *switches[number + 1 :]) for at in places]
            )

        lower(switches[number].at, first)

    def _by_events(self) -> None:
        """Say by events what is said by instructions, where that fails as well."""
        switches = list(self._best.switches)
        course = self._best.run.course
        assert course is not None
        for fired in course.fired:
            if not switches[fired.number].by_instructions:
                continue
            ended = (stay for stay in course.stays if (stay.core, stay.end) == (fired.core, fired.retired))
            # None ends there where nothing had run since the switch before.
            if (stay := next(ended, None)) is None:
                continue
            made = stay.made + (not stay.before)
            switches[fired.number] = switches[fired.number]._replace(at=max(1, made), by_instructions=False)
        if tuple(switches) != self._best.switches:
            self._take([switches])

    def _matter(self) -> None:
        """Run the schedule without each of its preemptions. Where that fails all the same begin anew."""
        course = self._best.run.course
        assert course is not None
        self._without = []
        for fired in course.preempting:
            less = [one for k, one in enumerate(self._best.switches) if k != fired.number]
            if self._take([less]) is not None:
                self._matter()
                return
            self._without.append(self._trials.one(less).run)


def reduced(trials: Trials, course: Course, way: Way) -> Smallest | None:
    """The smallest schedule; None: no list of switches makes a run that fails this way."""
    reducing = Reducing(trials, course, way)
    reducing.run()
    return reducing.result()
