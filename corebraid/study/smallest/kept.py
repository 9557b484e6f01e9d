"""What a hunt has found, made smaller and kept: the reduced recording beside the found one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

from corebraid.base.errors import CorebraidError
from corebraid.base.wording import Text, Wording, said
from corebraid.study.attempts import Attempt, Run
from corebraid.study.causes.decisive import Decisive
from corebraid.study.causes.passing import Comparison
from corebraid.study.conditions import how_it_ended
from corebraid.study.forked_runs import NothingToChooseError, can_fork
from corebraid.study.hunting import attempt, check_free, scratch
from corebraid.study.smallest.deciding import decisive_of
from corebraid.study.smallest.narrowing import Narrowing, Window
from corebraid.study.smallest.reducing import Reducing, Smallest
from corebraid.study.smallest.telling import Teller, Told
from corebraid.study.smallest.timeouts import timeouts_of
from corebraid.study.smallest.trials import OutOfTimeError, Trials, noted
from corebraid.study.smallest.turned import passes, turned
from corebraid.study.smallest.ways import Way, ended_how
from emu.schedule.switches import schedule_of
from recorder.files.manifest import MOST_SCHEDULE
from recorder.files.reader import Recording

#: Of the time for runs, the part in which it is tried which accesses decide; preemptions of which that is
#: tried, and told.
_FOR_BORDERS, _MOST_TRIED, _MOST_DECIDED = 0.4, 8, 3
#: Switches that are no preemptions, at the begin and the end of many, that people are shown.
_SHOWN = 3


def reduced_place(recording: Path) -> Path:
    """Where the reduced recording of one that was found is."""
    return recording.with_name(f"{recording.name}.reduced")


@dataclass(frozen=True)
class Reduction:
    """recording: the reduced one; None: there is none, and `remark` says why. again: what records it once
    more. told: its switches. interrupted: the user had had enough."""

    remark: str = ""
    recording: Path | None = None
    run: Run | None = None
    smallest: Smallest | None = None
    again: Text = ""
    told: tuple[Told, ...] = ()
    interrupted: bool = False
    decided: tuple[Decisive, ...] = ()

    @property
    def decisive(self) -> list[Decisive]:
        """Preemptions without which the run does not fail so; those first of which it was tried which
        accesses decide."""
        around = [one.decides for one in self.told if one.preempting and one.without and one.decides]
        return [*self.decided, *around]

    @property
    def tried(self) -> Attempt:
        """How the reduced recording was made."""
        assert self.run is not None
        return self.run.attempt

    def lines(self, wording: Wording | None = None) -> list[str]:
        """For people."""
        if self.smallest is None or self.run is None:
            return [f"not reduced: {self.remark}"]
        one, end = self.smallest, self.run.manifest.end
        assert end is not None
        preemptions = one.found.preemptions
        lines = [
            f"reduced to {_times(preemptions, 'preemption')} of {one.before} "
            f"({one.runs} runs, {one.seconds:.1f} s): {how_it_ended(end).partition(';')[0]}",
            f"  {self.remark or one.claimed()}",
        ]
        lines += _switch_lines(self.told)
        assert one.found.run.course is not None
        if spun := one.found.run.course.impatient:
            lines.append(
                f"  {_times(spun, 'time')} a thread ran so long that it was taken to spin: others did"
            )
        return [
            *lines,
            f"  recording: {self.recording}",
            f"  once more: {said(self.again, wording)}",
        ]

    def facts(self, wording: Wording | None = None) -> dict[str, object]:
        """As JSON."""
        if self.smallest is None or self.run is None:
            return {"reduced": False, "remark": self.remark}
        one, end = self.smallest, self.run.manifest.end
        assert one.found.run.course is not None
        return {
            "reduced": True,
            "preemptions": one.found.preemptions,
            "before": one.before,
            "claim": one.claim.name.lower(),
            "others": one.others,
            "schedule": self.tried.schedule,
            "switches": [told.facts() for told in self.told],
            "decides": [one.facts() for one in self.decided],
            "spun": one.found.run.course.impatient,
            "runs": one.runs,
            "seconds": round(one.seconds, 3),
            "interrupted": self.interrupted,
            "end": None if end is None else end.facts(),
            "recording": str(self.recording),
            "again": said(self.again, wording),
            **({"remark": self.remark} if self.remark else {}),
        }


def _switch_lines(switches: Sequence[Told]) -> list[str]:
    """For people: all preemptions; of others, where many follow each other, the first and the last ones."""
    lines = list[str]()
    for preempting, some in groupby(enumerate(switches, 1), key=lambda one: one[1].preempting):
        group = list(some)
        left = len(group) - 2 * _SHOWN
        cut = not preempting and left > 1
        for place, (number, told) in enumerate(group):
            if cut and place == _SHOWN:
                lines.append(f"  ... {left:,} more where one could not go on")
            if not cut or not _SHOWN <= place < len(group) - _SHOWN:
                head, *more = told.lines()
                lines += [f"  {number}. {head}", *(f"     {line}" for line in more)]
    return lines


def _times(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


#: Of a reduction: makes what records a run once more, in a directory beside this one.
Again = Callable[[Path, Run], Text]


def reduction_of(
    recording: Path, run: Run, comparison: Comparison, seconds: float, again: Again,
    progress: Callable[[int], None],
) -> Reduction:  # fmt: skip
    """Reduce the run that was found, whose recording this is. seconds: for runs, at most. progress: called
    with how many there were. Raises CorebraidError."""
    subject = comparison.subject
    if (subject.spec is not None and not can_fork(subject)) or subject.time_limit is not None:
        return Reduction("the host's time decides how its runs go on (clock, time limit)")
    began = time.monotonic()
    try:
        whole = noted(subject, comparison.conditions, run.attempt)
    except NothingToChooseError:
        return Reduction("it fails without any preemption: there is never a second thread")
    way, course = Way.of(whole), whole.course
    if way is None or course is None:
        return Reduction("the run did not fail again")
    reduce, borders = seconds * (1 - _FOR_BORDERS), seconds * _FOR_BORDERS
    trials = Trials(subject, comparison.conditions, run.attempt, comparison.jobs, reduce, progress)
    interrupted = False
    with closing(trials):
        reducing = Reducing(trials, course, way)
        try:
            reducing.run()
        except KeyboardInterrupt:
            interrupted = True
        smallest = reducing.result()
        if smallest is None:
            spent = "no time is left" if interrupted or trials.left <= 0 else "no list of switches"
            return Reduction(f"{spent} that makes it fail this way again", interrupted=interrupted)
        smallest = replace(smallest, seconds=time.monotonic() - began)
        if len(schedule_of(smallest.switches)) > MOST_SCHEDULE:
            many = f"the list of its {len(smallest.switches):,} switches is too long for a recording"
            return Reduction(many, interrupted=interrupted)
        kept, decided = _kept(recording, comparison, smallest, again)
        if not smallest.all_matter or interrupted:
            return replace(kept, interrupted=interrupted)
        timeouts = len(decided)
        trials.give(borders)
        try:
            # Those that are there stay where the user has had enough.
            for one in _decided(recording, comparison, trials, smallest, way):
                decided.append(one)
        except KeyboardInterrupt:
            interrupted = True
    # That one thread takes a lock before another says little where something of the program's own decides;
    # that a timeout came says less than what was not ready for it.
    decided = [*decided[timeouts:], *decided[:timeouts]]
    decided.sort(key=lambda one: one.of_libraries)
    return replace(kept, interrupted=interrupted, decided=tuple(decided[:_MOST_DECIDED]))


def _windows(trials: Trials, smallest: Smallest, way: Way) -> Iterator[Iterator[Window]]:
    """Preemptions with which it fails, narrowed, each in the ways that there are; where it fails without any,
    those with which it passes."""
    if smallest.preempting:
        yield from Narrowing(trials, smallest.found, lambda one: one.way == way).windows()
        return
    with suppress(OutOfTimeError):
        for other in turned(trials, smallest.found):
            yield from Narrowing(trials, other, passes).windows()


def _decided(
    recording: Path, comparison: Comparison, trials: Trials, smallest: Smallest, way: Way
) -> Iterator[Decisive]:
    """What decides at its preemptions, one by one, as far as there is time and it can be told; of each
    something of the program's own, if there is anything."""
    subject, tried, fails = comparison.subject, smallest.found.run.attempt, bool(smallest.preempting)
    known = set[tuple[int, ...]]()
    own = 0
    for windows in islice(_windows(trials, smallest, way), _MOST_TRIED):
        found = list[Decisive]()
        for window in windows:
            one = None
            with scratch(recording, "the recording is kept") as folder, suppress(CorebraidError):
                one = decisive_of(window, subject, tried, folder / "narrow", fails=fails)
            if one is not None:
                found.append(one)
                if not one.of_libraries:
                    break
        one = min(found, key=lambda it: it.of_libraries, default=None)
        # The same places of a loop may decide more than once.
        if one is not None and one.places not in known:
            known.add(one.places)
            yield one
            own += not one.of_libraries
        if own == (_MOST_DECIDED if fails else 1):
            return


def _kept(
    recording: Path, comparison: Comparison, smallest: Smallest, again: Again
) -> tuple[Reduction, list[Decisive]]:
    """Record it; and timeouts that came early, without which it does not fail so."""
    place = reduced_place(recording)
    check_free(place)
    schedule = schedule_of(smallest.switches)
    tried = replace(smallest.found.run.attempt, number=0, schedule=schedule, noted=False)
    with scratch(place, "the recording is kept") as folder:
        run = attempt(comparison.subject, tried, folder / "0", comparison.conditions)
        wanted, end = smallest.found.way, run.manifest.end
        assert wanted is not None
        if end is None or (run.held, end.reason, end.exit_code) != wanted[:3]:
            raise CorebraidError(
                "a run that failed did not do so again when it was recorded",
                expected=wanted.condition, found=run.held or "none", where=tried.schedule,
                remedy="please report it",
            )  # fmt: skip
        os.rename(folder / "0", place)
    told, timeouts, remark = _told(place, comparison, smallest)
    return Reduction(remark, place, run, smallest, again(place, run), told), timeouts


def _told(
    place: Path, comparison: Comparison, smallest: Smallest
) -> tuple[tuple[Told, ...], list[Decisive], str]:
    """The switches in words, and timeouts; or why they cannot be told."""
    course, shared = smallest.found.run.course, comparison.subject.options.shared
    assert course is not None
    assert shared is not None
    without = [ended_how(run) for run in smallest.without]
    try:
        recording = Recording.open(place)
        teller = Teller(recording, course, shared.words)
        told = tuple(teller.told(smallest.switches, without))
        return told, list(timeouts_of(recording, teller, course)) if smallest.all_matter else [], ""
    except CorebraidError as error:
        return (), [], error.line()
