"""The one switch, and the one order of two accesses, that makes a run fail which another does not have."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap

from corebraid.base.errors import CorebraidError, UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.study.attempts import Attempt, Run
from corebraid.study.causes.passing import Comparison
from corebraid.study.conditions import first_that_holds
from corebraid.study.forked_runs import NothingToChooseError, can_fork
from corebraid.study.hunting import scratch
from corebraid.study.shared_rows import Access
from corebraid.study.smallest.bisecting import Border, Halving
from corebraid.study.smallest.telling import Teller, Told
from corebraid.study.smallest.trials import OutOfTimeError, Trials, Tried, noted, record_tried
from corebraid.study.smallest.ways import Way, ended_how
from corebraid.study.subjects import Subject
from emu.schedule.switches import PREFIX, schedule_of
from recorder.files.manifest import Manifest
from recorder.files.reader import Recording

#: In place of a recording: the run without any preemption.
NONE = "none"
#: Accesses behind a switch that are held against the other run.
_LOOKED_AT = 400


@dataclass(frozen=True)
class Bisection:
    """border: None if there is none, and `remark` says why. told: its switch. passes, fails: how the runs on
    both sides of it end. order: (the two accesses in the passing run, in the failing run), in words, each in
    its order; () where no two are known that changed places."""

    remark: str = ""
    border: Border | None = None
    told: Told | None = None
    passes: str = ""
    fails: str = ""
    order: tuple[tuple[str, str], ...] = ()
    runs: int = 0
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """For people."""
        border = self.border
        if border is None:
            return [f"not bisected: {self.remark}"]
        lines = [
            f"bisected ({self.runs} runs, {self.seconds:.1f} s): one switch turns a run that passes into one "
            "that fails",
            f"  the first {border.kept} of {border.of} switches, then as the passing run: {self.passes}",
            f"  one switch more: {self.fails}",
        ]
        if self.told is not None:
            head, *more = self.told.lines()
            lines += [f"  {head}", *(f"  {line}" for line in more)]
        for name, (one, other) in zip(("passes", "fails"), self.order, strict=False):
            lines.append(f"  it {name} with")
            lines += [f"    {line}" for line in (*_hanging("first", one), *_hanging("then", other))]
        return [*lines, *([f"  {self.remark}"] if self.remark else [])]

    def facts(self) -> dict[str, object]:
        """As JSON."""
        border = self.border
        if border is None:
            return {"bisected": False, "remark": self.remark}
        return {
            "bisected": True,
            "kept": border.kept,
            "of": border.of,
            "switch": str(border.switch),
            "passing_schedule": schedule_of(border.passes.switches),
            "failing_schedule": schedule_of(border.fails.switches),
            "passes": self.passes,
            "fails": self.fails,
            "told": None if self.told is None else self.told.facts(),
            "order": [list(pair) for pair in self.order],
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            **({"remark": self.remark} if self.remark else {}),
        }


def _hanging(word: str, said: str) -> list[str]:
    return wrap(said, 100, initial_indent=f"{word:<6}", subsequent_indent=" " * 6, break_on_hyphens=False)


def good_manifest(good: Path | str, comparison: Comparison | None = None) -> Manifest | None:
    """Of a recording of a run that passes, None for `NONE`. comparison: whose conditions must not hold for
    it, as far as its manifest tells, and whose guest it must have. Raises FormatError, UsageError."""
    if str(good) == NONE:
        return None
    manifest = Recording.open(Path(good)).manifest
    if manifest.linux and "schedule_seed" not in manifest.options and not _listed(manifest):
        raise UsageError(
            "a run whose schedule cannot be told apart from its guest",
            found=str(good),
            remedy=Phrase("record it with ", Option("schedule_seed", 0)),
        )
    if manifest.schedule == "file":
        raise UsageError("a run whose schedule is a file's, which is not kept", found=str(good))
    if comparison is not None:
        conditions = [one for one in comparison.conditions if one.output is None]
        if manifest.end is not None and (held := first_that_holds(conditions, manifest.end, b"")):
            raise UsageError("the run that should pass fails too", found=f"{good}: {held}")
    return manifest


def _listed(manifest: Manifest) -> bool:
    return manifest.schedule.startswith(PREFIX)


def check_same(good: Path | str, manifest: Manifest, found: Manifest) -> None:
    """Raises UsageError unless both runs have one program and, but for schedules, the same options."""
    different = [
        f"{name} {theirs!s:.40} and {ours!s:.40}"
        for name, theirs, ours in (
            ("program", manifest.program.sha256, found.program.sha256),
            ("cores", manifest.n_cores, found.n_cores),
            ("model", manifest.model, found.model),
            ("cache", manifest.cache, found.cache),
            ("memory", manifest.memory, found.memory),
            *((("seed", manifest.seed, found.seed),) if found.linux else ()),
            *(
                (name, manifest.options.get(name), found.options.get(name))
                for name in ("input", "store_buffer", "clock")
            ),
        )
        if theirs != ours
    ]
    if different:
        raise UsageError(
            "another program, or other options, than those of the hunt",
            expected="a run that differs by its schedule alone",
            found=", ".join(different),
            where=str(good),
        )


def bisection_of(
    good: Path | str, found: Run, comparison: Comparison, seconds: float, progress: Callable[[int], None],
    beside: Path,
) -> Bisection:  # fmt: skip
    """Bisect between a run that passes (see `good_manifest`) and one that fails. seconds: for runs, at most.
    progress: called with how many there were. beside: where recordings are made that nobody keeps. Raises
    CorebraidError."""
    subject = comparison.subject
    if (subject.spec is not None and not can_fork(subject)) or subject.time_limit is not None:
        return Bisection("the host's time decides how its runs go on (clock, time limit)")
    manifest = good_manifest(good, comparison)
    if manifest is not None:
        check_same(good, manifest, found.manifest)
    began = time.monotonic()
    try:
        bad, passing = (noted(subject, comparison.conditions, one) for one in (
            found.attempt, _attempt(manifest, found.attempt),
        ))  # fmt: skip
    except NothingToChooseError:
        return Bisection("it fails without any preemption: there is never a second thread")
    way = Way.of(bad)
    assert way is not None
    assert bad.course is not None
    assert passing.course is not None
    if passing.held:
        raise UsageError("the run that should pass fails too", found=f"{good}: {ended_how(passing)}")
    trials = Trials(subject, comparison.conditions, found.attempt, comparison.jobs, seconds, progress)
    with closing(trials):
        try:
            border = Halving(trials, passing.course, bad.course, way).find()
        except OutOfTimeError:
            return Bisection("the time was over")
        if border is None:
            return Bisection("the two runs cannot be told as lists of switches")
    told, order, remark = _told(border, subject, found.attempt, beside)
    passes, fails = ended_how(border.passes.run), f"{ended_how(border.fails.run)} ({way.condition})"
    return Bisection(remark, border, told, passes, fails, order, trials.runs + 2, time.monotonic() - began)


def _attempt(manifest: Manifest | None, found: Attempt) -> Attempt:
    """The passing run, with the guest of the failing one."""
    if manifest is None:
        return replace(found, schedule=schedule_of([]))
    seed = manifest.options.get("schedule_seed")
    return replace(
        found, schedule=manifest.schedule, seed=manifest.seed,
        schedule_seed=None if seed is None or found.schedule_seed is None else int(seed),
    )  # fmt: skip


def _told(
    border: Border, subject: Subject, tried: Attempt, beside: Path
) -> tuple[Told | None, tuple[tuple[str, str], ...], str]:
    """The switch, the accesses that changed places, and why something of that cannot be told."""
    try:
        with scratch(beside, "the recording is kept") as place:
            fails = _teller(border.fails, subject, tried, place / "fails")
            passes = _teller(border.passes, subject, tried, place / "passes")
            switches = fails.told(border.fails.switches, ())
    except CorebraidError as error:
        return None, (), error.line()
    course = border.fails.run.course
    assert course is not None
    at = next((one for one in course.fired if one.number == border.kept), None)
    if at is None:
        return None, (), ""
    told = switches[course.fired.index(at)]
    swapped = _swapped(fails, passes, fails.stay(at.core, at.retired))
    if not swapped:
        return told, (), ""
    tellers = zip((passes, fails), swapped, strict=True)
    pairs = [tuple(teller.access(one, named=True) for one in pair) for teller, pair in tellers]
    return told, tuple((one, other) for one, other in pairs), ""


def _teller(side: Tried, subject: Subject, tried: Attempt, directory: Path) -> Teller:
    recording, shared = record_tried(side, subject, tried, directory), subject.options.shared
    assert side.run.course is not None
    assert shared is not None
    return Teller(recording, side.run.course, shared.words)


def _swapped(fails: Teller, passes: Teller, stay: int) -> tuple[tuple[Access, Access], ...]:
    """((first, then) in the passing run, (first, then) in the failing one): two accesses to one word, one of
    them a write, that have changed places behind this stay of the failing run; () where there are none."""
    places = {named: (place, one) for place, (named, one) in enumerate(passes.sequence)}
    behind = [(named, one) for named, one in fails.sequence if one.at > stay][:_LOOKED_AT]
    both = [(places[named], one) for named, one in behind if named in places]
    for k, ((place, twin), one) in enumerate(both):
        late = [
            (there, twins, other) for (there, twins), other in both[:k]
            if there > place and other.who != one.who and other.overlaps(one) and (other.writes or one.writes)
        ]  # fmt: skip
        if late:
            # The one that follows most closely where it passes.
            _, other_twin, other = min(late, key=lambda row: row[0])
            return (twin, other_twin), (other, one)
    return ()
