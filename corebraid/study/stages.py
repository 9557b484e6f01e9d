"""Parts of a hunt: the longer nothing is found, the more runs it is learnt from which words threads share;
and in some cores have store buffers.

Words that threads share only where they meet in a seldom order are seen by few learning runs, and what is not
known to be shared no schedule stops a thread at. Most hunts end within the first part, for which one learning
run is enough.

An instruction that reads memory and writes it, as `x += 1` may become, is one step of a core here; on a
processor it is two. With a store buffer others come between them. And where threads each store to what the
other one loads afterwards, both may load what was there before with store buffers alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corebraid.base.errors import CorebraidError
from corebraid.base.removal import remove_tree
from corebraid.study.attempts import COVER, MIXED, Attempt, Ended, Progress, Run, attempts
from corebraid.study.conditions import Condition, settled
from corebraid.study.covering.planning import Planner
from corebraid.study.forked_runs import Machines
from corebraid.study.hunting import Tries, hunt_in, prepare
from corebraid.study.subjects import Subject

#: From which run on it is learnt from how many.
_RISES = ((0, 1), (32, 4), (64, 16))
#: Runs in which cores have store buffers, of the first so many; behind them, every second so many.
_BUFFERED, _FIRST, _EVERY = ((8, 32), (80, 112), (160, 200)), 200, 500


class Stage(NamedTuple):
    """Runs `first` to `end`, without that one. learning: runs from which is learnt what is shared. buffered:
    cores have store buffers."""

    first: int
    end: int
    learning: int
    buffered: bool = False


def stages_of(runs: int, schedule: str, learn: int | None, *, buffers: bool = False) -> list[Stage]:
    """The parts of a hunt of so many runs. learn: learning runs, None: as nobody asked. buffers: some are to
    be with store buffers."""
    from emu.schedule.scheduler import learns

    rises = _RISES if learn is None and (schedule == MIXED or learns(schedule)) else ((0, learn or 1),)
    borders = {first for first, _ in rises} | {runs}
    if buffers:
        borders |= {border for part in _BUFFERED for border in part} | set(range(_FIRST, runs, _EVERY))
    stages = []
    for first, end in pairwise(sorted(border for border in borders if border <= runs)):
        learning = next(many for begin, many in reversed(rises) if begin <= first)
        stages.append(Stage(first, end, learning, buffers and _is_buffered(first)))
    return stages


def _is_buffered(run: int) -> bool:
    if run >= _FIRST:
        return (run - _FIRST) // _EVERY % 2 == 1
    return any(first <= run < end for first, end in _BUFFERED)


class Schedules:
    """The schedules of a hunt's runs. runs: at most; see `attempts` for the others. buffers: cores may have
    store buffers in some, since nobody has chosen a memory model."""

    def __init__(
        self, runs: int, seed: int, schedule: str, learn: int | None, *, buffers: bool = False
    ) -> None:
        self._runs, self._seed, self._schedule, self._learn = runs, seed, schedule, learn
        self._buffers = buffers and schedule == MIXED

    def stage(self, first: int, subject: Subject) -> Stage | None:
        """The part that begins with this run, None behind the last one; with store buffers in some where they
        may matter to what is known of the subject by then."""
        matter = self._buffers and (subject.split or subject.overtaken)
        parts = stages_of(self._runs, self._schedule, self._learn, buffers=matter)
        return next((one for one in parts if one.first == first), None)

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
    tried, learning, first = subject, 0, 0
    buffered = _with_buffers(subject)
    with closing(Machines(jobs)) as machines:
        while (stage := schedules.stage(first, subject)) is not None:
            if stage.learning != learning:
                subject, learning = with_learnt(subject, stage.learning), stage.learning
                buffered = _with_buffers(subject)
                if not first:
                    check(subject)
                # What was learnt may let this part end earlier.
                continue
            first = stage.end
            tried = buffered if stage.buffered else subject
            over = partial(_behind, progress, done.runs)
            asked = settled(conditions, ends=subject.ends)
            tries = schedules.of(stage, timed=subject.timed)
            run, more = hunt_in(place, tried, tries, asked, machines, over)
            done = done + replace(more, buffered=more.runs * stage.buffered)
            if run is not None:
                if stage.buffered and run.held:
                    plain, more = _without_buffers(place, subject, tries, asked, machines)
                    done = done + more
                    if plain is not None:
                        return subject, plain, done
                break
    return tried, run, done


def _with_buffers(subject: Subject) -> Subject:
    """The same, whose cores have store buffers."""
    return replace(subject, options=replace(subject.options, model="tso"))


def _without_buffers(
    place: Path,
    subject: Subject,
    tries: Tries | Planner,
    conditions: tuple[Condition, ...],
    machines: Machines,
) -> tuple[Run | None, Ended]:
    """The first of the same runs that fails without store buffers, which is simpler, its recording where
    `hunt_in` has it; None if there is none; and how many were made."""
    apart = place / "without buffers"
    apart.mkdir()
    plain, done = None, Ended()
    with suppress(CorebraidError):
        plain, done = hunt_in(apart, subject, tries, conditions, machines, _ignore)
    if plain is None or not plain.held:
        return None, done
    recording = place / str(plain.attempt.number)
    if recording.exists():
        remove_tree(recording)
    os.rename(apart / recording.name, recording)
    return plain, done


def _ignore(_: int) -> None:
    pass


def _behind(progress: Progress, before: int, runs: int) -> None:
    progress(before + runs)


def with_learnt(subject: Subject, runs: int) -> Subject:
    """The same with what so many runs show to be shared; as it is where they show no more."""
    known = subject.options.shared
    found = prepare(replace(subject, options=replace(subject.options, shared=None, learning=runs)))
    now = found.options.shared
    same = known is not None and now is not None and np.array_equal(known.words, now.words)
    # Some runs show of these what others need not.
    timed, split = subject.timed or found.timed, subject.split or found.split
    overtaken = subject.overtaken or found.overtaken
    best = replace(subject if same else found, timed=timed, split=split, overtaken=overtaken)
    return subject if best == subject else best
