"""A search through all executions of a program, from the first run to what may be claimed of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from corebraid.base.errors import CorebraidError, GuestFault, UsageError, unless_short
from corebraid.base.wording import Call, Option, Phrase
from corebraid.study.attempts import Attempt, Run, judged
from corebraid.study.conditions import Condition, first_that_holds
from corebraid.study.exhaustive.bounded import BoundedExplorer
from corebraid.study.exhaustive.explorer import Explorer
from corebraid.study.exhaustive.forking import Machine, Made
from corebraid.study.exhaustive.steps import Execution, Plan
from corebraid.study.forked_runs import NothingToChooseError
from corebraid.study.subjects import Subject
from emu.linux.tasks.home_queue import CROWDED
from emu.schedule.step_file import step_text, words_to_watch
from emu.schedule.stepped import is_buffer, listed

#: Instructions of a run at most, unless somebody says otherwise; those that a run which goes round in a
#: circle is given when it is recorded, beyond what it took to see that.
_LIMIT, _AROUND = 30_000_000, 2_000
#: Instructions of a step after which its task is thought to wait for something that is not watched.
_PATIENCE = 1 << 18
#: What such a run is said to be.
FOR_EVER = "waits for ever"

#: Told how many executions were made, and how many branches are open.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Budget:
    """runs: at most; seconds: for all of them. None: any number."""

    runs: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Failing:
    """An execution for which a condition holds. tasks: whose steps make it. instructions: of all cores.
    limited: it was broken off when it had so many as a run may have. left: see `Followed`."""

    held: str
    tasks: tuple[int, ...]
    instructions: int
    limited: bool = False
    left: tuple[tuple[int, int], ...] = ()


#: How it is said that a search has made what it was to make.
_BUDGET = "the search was to"


@dataclass(frozen=True)
class Searched:
    """What a search came to. executions: different ones, none twice. runs: that were made for them, and
    further: those that turned out to be another one's equal. begun: how often the search began anew, with
    further words. words: that are shared (addresses divided by 8); threads, steps: of a run, at most.
    unfinished: why it is not over, '' if it is. fixed: choices that were not tried. splits: pcs of
    instructions that were taken as indivisible and are not. open: branches that are left. firmware: the
    threads are cores. buffered: under TSO, stores that a store buffer holds.
    """

    executions: int = 0
    runs: int = 0
    begun: int = 0
    words: tuple[int, ...] = ()
    threads: int = 0
    steps: int = 0
    preemptions: int | None = None
    failing: Failing | None = None
    unfinished: str = ""
    fixed: tuple[str, ...] = ()
    splits: tuple[int, ...] = ()
    open: int = 0
    firmware: bool = False
    buffered: int = 0

    @property
    def all_right(self) -> bool:
        """Whether all executions were made, and none fails."""
        return self.failing is None and not self.unfinished

    @property
    def ran_out(self) -> bool:
        """Whether more runs, or more time, would have made more of it."""
        return self.unfinished.startswith(_BUDGET)


@dataclass
class _Gathered:
    """What gathers while executions are made."""

    signatures: set[int] = field(default_factory=set)
    fixed: set[str] = field(default_factory=set)
    splits: set[int] = field(default_factory=set)
    runs: int = 0
    threads: int = 0
    steps: int = 0
    circles: set[tuple[int, int]] = field(default_factory=set)
    timed: set[tuple[int, int]] = field(default_factory=set)


class _AnewError(Exception):
    """Words were seen that should have been watched."""

    def __init__(self, words: tuple[int, ...]) -> None:
        super().__init__()
        self.words = words


class Search:
    """One search. preemptions: of each execution at most; None: any number."""

    def __init__(
        self, subject: Subject, conditions: tuple[Condition, ...], preemptions: int | None, budget: Budget,
        progress: Progress,
    ) -> None:  # fmt: skip
        limit = subject.options.limit or _LIMIT
        self._subject = replace(subject, options=replace(subject.options, limit=limit))
        self._conditions, self._preemptions, self._budget = conditions, preemptions, budget
        self._progress = progress
        self._until = None if budget.seconds is None else time.monotonic() + budget.seconds
        self._runs, self._begun = 0, 0
        self._patience = min(_PATIENCE, limit)

    def run(self) -> Searched:
        """Make all executions, or as many as the budget allows, or until one fails. Raises CorebraidError,
        GuestFault (a run cannot be emulated), UsageError (the program never has two threads)."""
        words: tuple[int, ...] = ()
        try:
            with closing(Machine(self._subject, self._conditions)) as machine:
                while True:
                    try:
                        return self._explore(machine, words)
                    except _AnewError as anew:
                        words = tuple(sorted({*words, *anew.words}))
                        self._begun += 1
        except NothingToChooseError:
            raise UsageError(
                "the program never has two threads: it has one execution",
                where=str(self._subject.program),
                remedy=_record(self._subject),
            ) from None

    def _explore(self, machine: Machine, words: tuple[int, ...]) -> Searched:
        gathered, made = _Gathered(), list[Made]()

        def run(plan: Plan) -> Execution:
            made[:] = [machine.run(plan, words, self._patience)]
            return made[0].followed.execution

        explorer = Explorer(run) if self._preemptions is None else BoundedExplorer(run, self._preemptions)
        why, failing = "", None
        for _, trace in explorer.explore():
            self._runs += 1
            gathered.runs += 1
            self._check(made[0], words)
            failing = self._failing(made[0])
            self._gather(gathered, made[0], trace.signature())
            why = self._stops(made[0], gathered, explorer.open)
            self._progress(len(gathered.signatures), explorer.open)
            if failing is not None or why:
                break
        if not why and not gathered.signatures:
            why = (
                "no execution comes to its end so: to switch away from a loop that waits is a preemption, too"
            )
        return Searched(
            len(gathered.signatures), self._runs, self._begun, words, gathered.threads, gathered.steps,
            self._preemptions, failing, "" if failing else why, tuple(sorted(gathered.fixed)),
            tuple(sorted(gathered.splits)), explorer.open, self._subject.spec is None,
            self._subject.options.store_buffer if self._subject.options.model == "tso" else 0,
        )  # fmt: skip

    def _check(self, made: Made, words: tuple[int, ...]) -> None:
        """Raises _AnewError: what is changed atomically first, since it may order all else."""
        followed = made.followed
        if found := followed.atomic or followed.racing:
            raise _AnewError(found)
        if followed.stalled and self._patience < self._subject.options.limit:
            # Nothing was shared: it only takes long.
            self._patience = self._subject.options.limit
            raise _AnewError(())
        if made.run is not None and made.run.refused:
            if made.run.refused.endswith(CROWDED):
                raise UsageError(CROWDED, remedy=Phrase("give it more: ", Option("cores")))
            raise GuestFault(f"run {self._runs} cannot be emulated: {made.run.refused}")

    def _failing(self, made: Made) -> Failing | None:
        held = made.run.held if made.run is not None else ""
        if made.followed.circle:
            texts = {condition.text for condition in self._conditions}
            held = FOR_EVER if texts & {"deadlock", "timeout"} else ""
        tasks = tuple(step.task for step in made.followed.execution.steps)
        end = made.run.manifest.end if made.run is not None else None
        limited = end is not None and end.reason == "limit"
        followed = made.followed
        return Failing(held, tasks, followed.instructions, limited, followed.left) if held else None

    def _gather(self, gathered: _Gathered, made: Made, signature: int) -> None:
        followed = made.followed
        gathered.fixed |= set(followed.fixed)
        gathered.splits |= set(followed.splits)
        gathered.circles |= followed.circles
        gathered.timed |= followed.timed
        if followed.spun and self._preemptions is not None:
            gathered.fixed.add(
                "switches away from loops that wait, beyond the preemptions that they count as"
            )
        steps = followed.execution.steps
        gathered.threads = max(
            gathered.threads, len({step.task for step in steps if not is_buffer(step.task)})
        )
        gathered.steps = max(gathered.steps, len(steps))
        if followed.execution.whole and not followed.spun and not followed.endless and not followed.stalled:
            gathered.signatures.add(signature)

    def _stops(self, made: Made, gathered: _Gathered, left: int) -> str:
        """Why the search ends here, '' if it does not."""
        if made.followed.doubts:
            return made.followed.doubts[0]
        if both := gathered.circles & gathered.timed:
            what = "core" if self._subject.spec is None else "thread"
            told = f"{what} {min(both)[0]} waits in a loop and is told how much it has run behind it"
            return f"{told}: how long it waits was not tried"
        end = made.run.manifest.end if made.run is not None else None
        if (
            made.followed.endless
            or made.followed.stalled
            or (end is not None and end.reason in ("limit", "time-limit"))
        ):
            return "a run was broken off: it may never end"
        if left and self._budget.runs is not None and self._runs >= self._budget.runs:
            return f"{_BUDGET} make {self._budget.runs} runs"
        if left and self._until is not None and time.monotonic() >= self._until:
            return f"{_BUDGET} take {self._budget.seconds:g} seconds"
        return ""


def _record(subject: Subject) -> Call:
    return Call("record", str(subject.program))


@contextmanager
def _kept(steps: Path) -> Iterator[None]:
    """Raises UsageError where something cannot be written; where anything fails the schedule file is not
    left."""
    try:
        yield
    except OSError as error:
        steps.unlink(missing_ok=True)
        unless_short(error)
        raise UsageError(
            f"what fails cannot be kept ({error.strerror})",
            where=str(steps.parent),
            remedy="make room there, or keep it elsewhere",
        ) from None
    except BaseException:
        steps.unlink(missing_ok=True)
        raise


def record_failing(
    subject: Subject, searched: Searched, steps: Path, directory: Path, conditions: tuple[Condition, ...]
) -> tuple[Run, int]:
    """Record an execution that fails into the new directory `directory`; the run, and the limit that it had.
    steps: its schedule file, which is written. Raises CorebraidError, also where it does not fail again."""
    from corebraid.study.recording import record_subject

    failing = searched.failing
    assert failing is not None
    with _kept(steps):
        steps.write_text(step_text(searched.words, failing.tasks, dict(failing.left)))
    options = replace(
        subject.options, schedule=str(steps), steps=listed(failing.tasks, dict(failing.left)),
        shared=words_to_watch(searched.words),
    )  # fmt: skip
    if failing.held == FOR_EVER:
        options = replace(options, limit=failing.instructions + _AROUND)
    elif failing.limited:
        options = replace(options, limit=subject.options.limit or _LIMIT)
    printed: list[tuple[bool, bytes]] = []
    with _kept(steps):
        outcome, _ = record_subject(
            subject, options, directory, lambda data: printed.append((False, data)),
            lambda data: printed.append((True, data)), lambda _: None,
        )  # fmt: skip
    run = judged(subject, Attempt(searched.runs - 1, options.seed, str(steps)), outcome, printed, conditions)
    everything = b"".join(data for _, data in printed)
    again = first_that_holds(conditions, outcome.end, everything)
    if failing.held == FOR_EVER and outcome.end.reason == "limit":
        again = FOR_EVER
    if again != failing.held:
        raise CorebraidError(
            "a run that failed did not do so again when it was recorded",
            expected=failing.held,
            found=again or "none",
            where=f"run {searched.runs}",
            remedy="please report it",
        )
    return replace(run, held=again, printed=tuple(printed)), options.limit
