"""The runs of a hunt, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corebraid.study.conditions import Condition, first_that_holds
from corebraid.study.subjects import Subject
from emu.bus.names import MESI

if TYPE_CHECKING:
    from corebraid.study.course import Course
    from corebraid.study.covering.encounters import Encounters
    from recorder.capture.options import Outcome
    from recorder.files.manifest import Manifest

#: Schedules that are no single policy's; runs of the second depend on what earlier ones saw
#: (`corebraid.study.covering`).
MIXED, COVER = "mixed", "cover"
_DEPTHS = (2, 3, 4)
#: Of 'mixed', where threads wait with timeouts: which of so many runs let these come early, and with what.
_EVERY, _LATE = 4, ("late:3", "late:5")
#: Where none was seen to: from which run on one of so many does, which is PCT as long as there is no timeout.
_LATER, _SELDOM = 32, 8

#: Which run of 'mixed' has no preemptions; the one before, where timeouts come early in this one.
_PLAIN = 7

#: Called with how many runs are over.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Attempt:
    """One run of a hunt. number: from 0. schedule_seed: see `RecordOptions`. noted: what becomes of it is to
    have its course; seeing: and its encounters."""

    number: int
    seed: int
    schedule: str
    schedule_seed: int | None = None
    noted: bool = False
    seeing: bool = False

    @property
    def named(self) -> str:
        """For people."""
        apart = "" if self.schedule_seed is None else f", schedule seed {self.schedule_seed}"
        return f"schedule {self.schedule}, seed {self.seed}{apart}"

    @property
    def bus(self) -> str | None:
        """The bus to name so that a recording has that of hunts; None: the schedule chooses it."""
        from emu.schedule.scheduler import learns

        return None if learns(self.schedule) else MESI


@dataclass(frozen=True)
class Run:
    """What became of an attempt. held: the condition that held, '' for none. printed: (whether it went to
    standard error, bytes), in order. refused: what cannot be emulated, '' if nothing stood in the way.
    course, encounters: None unless they were to be noted."""

    attempt: Attempt
    manifest: Manifest
    held: str
    printed: tuple[tuple[bool, bytes], ...]
    refused: str = ""
    course: Course | None = None
    encounters: Encounters | None = None


#: How a run ends that somebody else has ended.
_CUT = ("limit", "time-limit")


@dataclass
class Ended:
    """How many runs are over. cut: of these, at their limit; buffered: with store buffers, for which nobody
    has asked. alone: a program that has one thread with the first seed, whose runs have a seed each;
    threaded: the lowest of these with which it has several."""

    runs: int = 0
    cut: int = 0
    buffered: int = 0
    alone: bool = False
    threaded: int | None = None

    def add(self, run: Run) -> None:
        """One more."""
        self.runs += 1
        end = run.manifest.end
        self.cut += end is not None and end.reason in _CUT
        if self.alone and run.manifest.totals.get("tasks", 1) != 1:
            self.threaded = _lowest(self.threaded, run.attempt.seed)

    def __add__(self, more: Ended) -> Ended:
        counts = (self.runs + more.runs, self.cut + more.cut, self.buffered + more.buffered)
        return Ended(*counts, self.alone or more.alone, _lowest(self.threaded, more.threaded))


def _lowest(one: int | None, other: int | None) -> int | None:
    return min((seed for seed in (one, other) if seed is not None), default=None)


def attempts(
    n: int, seed: int, schedule: str, *, apart: bool = False, timed: bool = False, plain: bool = True
) -> Iterator[Attempt]:
    """The runs of a hunt. 'mixed': chaos and PCT of several depths in turn, and one without preemptions: in
    all others a thread that runs long is soon behind. apart: each has a seed of its own for its schedule
    alone. timed: threads wait with timeouts; some runs let these come early. plain: with the one without."""
    from emu.schedule.scheduler import LATE
    from emu.schedule.switches import schedule_of

    for number in range(n):
        policy = schedule
        if schedule == MIXED:
            policy = "chaos" if number % 2 == 0 else f"pct:{_DEPTHS[number // 2 % len(_DEPTHS)]}"
            if timed and number % _EVERY == _EVERY - 1:
                policy = _LATE[number // _EVERY % len(_LATE)]
            elif apart and plain and number == _PLAIN - timed:
                policy = schedule_of([])
            elif number >= _LATER and number % _SELDOM == _SELDOM - 1:
                policy = policy.replace("pct:", LATE)
        yield (
            Attempt(number, seed, policy, seed + number) if apart else Attempt(number, seed + number, policy)
        )


def judged(
    subject: Subject,
    tried: Attempt,
    outcome: Outcome,
    printed: list[tuple[bool, bytes]],
    conditions: tuple[Condition, ...],
) -> Run:
    """What became of an attempt. printed: as `Run` has it."""
    everything, refused = b"".join(data for _, data in printed), ""
    if subject.spec is not None and outcome.end.reason == "fault":
        refused = outcome.end.text
    held = "" if refused else first_that_holds(conditions, outcome.end, everything)
    return Run(tried, outcome.manifest, held, tuple(printed) if held or refused else (), refused)
