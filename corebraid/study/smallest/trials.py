"""Runs of one program under explicit schedules, within a time, of which nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from corebraid.study.attempts import Attempt, Run, judged
from corebraid.study.conditions import Condition
from corebraid.study.course import OnLooker
from corebraid.study.forked_runs import ForkedRuns
from corebraid.study.hunting import record_attempt
from corebraid.study.smallest.ways import Way
from corebraid.study.subjects import Subject
from emu.schedule.policy import Scheduler
from emu.schedule.switches import Switch, Switches, schedule_of
from recorder.files.reader import Recording

#: Schedules that are asked for together, for each process.
_TOGETHER = 3


class OutOfTimeError(Exception):
    """There is no time for another run."""


@dataclass(frozen=True)
class Tried:
    """A schedule, and what became of its run. way: how it failed, None: it did not."""

    switches: tuple[Switch, ...]
    run: Run
    way: Way | None

    @property
    def needed(self) -> tuple[Switch, ...]:
        """The switches that took place, as they did: the run is the same without the others."""
        assert self.run.course is not None
        went_on = {one.number: one.to for one in self.run.course.fired}
        numbers = sorted(went_on)
        return tuple(self.switches[number]._replace(to=went_on[number]) for number in numbers)

    @property
    def preemptions(self) -> int:
        """How many of them are preemptions."""
        assert self.run.course is not None
        return len(self.run.course.preempting)


class Trials:
    """Runs that have the guest of `found`. They are the same whatever `jobs`, processes, as is which of them
    is found. seconds: for all of them. progress: called with how many there were. Raises OutOfTimeError from
    what would run."""

    def __init__(
        self, subject: Subject, conditions: tuple[Condition, ...], found: Attempt, jobs: int, seconds: float,
        progress: Callable[[int], None],
    ) -> None:  # fmt: skip
        self._subject, self._conditions, self._found = subject, conditions, found
        self._progress, self._until = progress, time.monotonic() + seconds
        self._jobs = 1 if subject.spec is None else jobs
        self._forked = ForkedRuns(subject, conditions, jobs) if subject.spec is not None else None
        self._known: dict[tuple[Switch, ...], Tried] = {}
        self.runs = 0
        self._first_ended = 0.0

    def close(self) -> None:
        """End the processes."""
        if self._forked is not None:
            self._forked.close()

    def give(self, seconds: float) -> None:
        """So many seconds from now on for further runs."""
        self._until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds for further runs."""
        return self._until - time.monotonic()

    @property
    def seconds_of_one(self) -> float:
        """That a run takes, the processes taken together."""
        return (time.monotonic() - self._first_ended) / max(1, self.runs - 1)

    def one(self, switches: Sequence[Switch]) -> Tried:
        """What becomes of one schedule."""
        return next(self.each([switches]))

    def first(self, schedules: Sequence[Sequence[Switch]], wanted: Callable[[Tried], bool]) -> int | None:
        """The place of the first schedule that is wanted; None: none is. What became of those up to there is
        known (`one`) without another run."""
        with closing(self.each(schedules)) as source:
            return next((number for number, one in enumerate(source) if wanted(one)), None)

    def each(self, schedules: Sequence[Sequence[Switch]]) -> Generator[Tried, None, None]:
        """What becomes of these, in their order, a few more than are taken being run."""
        most = _TOGETHER * self._jobs if self._jobs > 1 else 1
        for begin in range(0, len(schedules), most):
            some = [tuple(one) for one in schedules[begin : begin + most]]
            self._run([one for one in dict.fromkeys(some) if one not in self._known])
            for one in some:
                if one not in self._known:
                    raise OutOfTimeError
                yield self._known[one]

    def _run(self, schedules: list[tuple[Switch, ...]]) -> None:
        with closing(self._made(schedules)) as source:
            for run in source:
                switches = schedules[run.attempt.number]
                self._known[switches] = Tried(switches, run, Way.of(run))
                self._first_ended = self._first_ended or time.monotonic()
                self.runs += 1
                self._progress(self.runs)

    def _made(self, schedules: list[tuple[Switch, ...]]) -> Generator[Run, None, None]:
        tries = (self._attempt(*one) for one in enumerate(schedules) if self.left > 0)
        if self._forked is not None:
            yield from self._forked.each(tries)
            return
        for tried in tries:
            yield firmware_run(self._subject, tried, self._conditions)

    def _attempt(self, number: int, switches: tuple[Switch, ...]) -> Attempt:
        return replace(self._found, number=number, schedule=schedule_of(switches), noted=True)


def noted(subject: Subject, conditions: tuple[Condition, ...], tried: Attempt) -> Run:
    """A run with its course. Raises CorebraidError, NothingToChooseError."""
    tried = replace(tried, noted=True)
    if subject.spec is None:
        return firmware_run(subject, tried, conditions)
    # Which tasks get which cores is decided otherwise where a schedule has no ranks.
    with closing(ForkedRuns(subject, conditions, 1)) as forked, closing(forked.each(iter([tried]))) as runs:
        return next(runs)


def firmware_run(subject: Subject, tried: Attempt, conditions: tuple[Condition, ...]) -> Run:
    """A run of an image, of which nothing is written. Raises CorebraidError."""
    from corebraid.study.recording import record_subject

    printed: list[tuple[bool, bytes]] = []
    looking = OnLooker()
    options = replace(
        subject.options, seed=tried.seed, schedule=tried.schedule, schedule_seed=tried.schedule_seed,
        unwritten=True, checkpoint=None, evidence=(), evidence_options={}, around=looking,
    )  # fmt: skip

    def output(data: bytes) -> None:
        printed.append((False, data))

    outcome, _ = record_subject(subject, options, Path(), output, output, lambda _: None)
    run = judged(subject, tried, outcome, printed, conditions)
    return replace(run, course=looking.course(outcome.fault.pc if outcome.fault else None))


def record_tried(side: Tried, subject: Subject, tried: Attempt, directory: Path) -> Recording:
    """Record a run with the guest of `tried`. Its list may be too long to be named, so that it goes by
    another name. Raises CorebraidError."""

    def listed(_: Scheduler) -> Scheduler:
        return Switches(side.switches)

    named = replace(tried, schedule=schedule_of([]), noted=False)
    record_attempt(replace(subject, options=replace(subject.options, around=listed)), named, directory, [])
    return Recording.open(directory)
