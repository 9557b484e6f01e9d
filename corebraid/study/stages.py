"""Parts of a hunt: the longer nothing is found, the more runs it is learnt from which words threads share.

Words that threads share only where they meet in a seldom order are seen by few learning runs, and what is not
known to be shared no schedule stops a thread at. Most hunts end within the first part, for which one learning
run is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corebraid.study.attempts import COVER, MIXED, Attempt, Ended, Progress, Run, attempts
from corebraid.study.conditions import Condition, settled
from corebraid.study.covering.planning import Planner
from corebraid.study.hunting import Tries, hunt_in, prepare
from corebraid.study.subjects import Subject

#: From which run on it is learnt from how many.
_RISES = ((0, 1), (32, 4), (64, 16))


class Stage(NamedTuple):
    """Runs `first` to `end`, without that one. learning: runs from which is learnt what is shared."""

    first: int
    end: int
    learning: int


def stages_of(runs: int, schedule: str, learn: int | None) -> list[Stage]:
    """The parts of a hunt of so many runs. learn: learning runs, None: as nobody asked."""
    from emu.schedule.scheduler import learns

    if learn is not None or not (schedule == MIXED or learns(schedule)):
        return [Stage(0, runs, learn or 1)]
    begins = [(first, learning) for first, learning in _RISES if first < runs]
    ends = [*(first for first, _ in begins[1:]), runs]
    return [Stage(first, end, learning) for (first, learning), end in zip(begins, ends, strict=True)]


class Schedules:
    """The schedules of a hunt's runs. runs: at most; see `attempts` for the others."""

    def __init__(self, runs: int, seed: int, schedule: str, learn: int | None) -> None:
        self._runs, self._seed, self._schedule, self._learn = runs, seed, schedule, learn

    def stages(self) -> list[Stage]:
        """Its parts."""
        return stages_of(self._runs, self._schedule, self._learn)

    def of(self, stage: Stage, *, timed: bool) -> Tries | Planner:
        """Those of a part. timed: see `attempts`."""
        if self._schedule == COVER:
            return Planner(self._runs, self._seed)
        return partial(self._part, stage, timed)

    def _part(self, stage: Stage, timed: bool, *, apart: bool) -> Iterator[Attempt]:
        every = attempts(self._runs, self._seed, self._schedule, apart=apart, timed=timed)
        return islice(every, stage.first, stage.end)


def hunt_in_stages(
    place: Path,
    subject: Subject,
    schedules: Schedules,
    conditions: tuple[Condition, ...],
    jobs: int,
    progress: Progress,
    check: Callable[[Subject], None],
) -> tuple[Subject, Run | None, Ended]:
    """(the subject as the last part had it, then what `hunt_in` tells). check: called before the first run.
    Raises as `hunt_in` does."""
    run, done = None, Ended()
    for stage in schedules.stages():
        subject = with_learnt(subject, stage.learning)
        if not stage.first:
            check(subject)
        over = partial(_behind, progress, done.runs)
        asked = settled(conditions, ends=subject.ends)
        run, more = hunt_in(place, subject, schedules.of(stage, timed=subject.timed), asked, jobs, over)
        done = done + more
        if run is not None:
            break
    return subject, run, done


def _behind(progress: Progress, before: int, runs: int) -> None:
    progress(before + runs)


def with_learnt(subject: Subject, runs: int) -> Subject:
    """The same with what so many runs show to be shared; as it is where they show no more."""
    known = subject.options.shared
    found = prepare(replace(subject, options=replace(subject.options, shared=None, learning=runs)))
    now = found.options.shared
    same = known is not None and now is not None and np.array_equal(known.words, now.words)
    if not same:
        return found
    return subject if subject.timed or not found.timed else replace(subject, timed=True)
