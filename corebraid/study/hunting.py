"""Recording under schedule after schedule until a run fails, on several processes.

Which run is found does not depend on how many there are: the failing run with the lowest number is.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Protocol

from corebraid.base.errors import CorebraidError, UsageError, unless_short
from corebraid.base.interrupts import interrupting
from corebraid.base.removal import remove_tree
from corebraid.base.wording import Option, Phrase, another
from corebraid.study.attempts import MIXED, Attempt, Ended, Progress, Run, judged
from corebraid.study.conditions import Condition
from corebraid.study.covering.generations import covering_hunt
from corebraid.study.covering.planning import Planner
from corebraid.study.forked_runs import Machines, NothingToChooseError, can_fork
from corebraid.study.subjects import Subject
from solver.passes.pool import begin_worker, end_workers, interrupts_held

if TYPE_CHECKING:
    from recorder.capture.options import Outcome

_ELSEWHERE = another("directory")
#: A run that takes so many times the instructions of the first one is taken not to end, and at least so many.
_PATIENCE, _PATIENCE_LEAST = 50, 30_000_000
#: The same of its system calls, which take far longer: threads that wait by sched_yield alone.
_CALLS_LEAST = 50_000


class Tries(Protocol):
    """The runs of a hunt."""

    def __call__(self, *, apart: bool) -> Iterator[Attempt]:
        """See `attempts`."""


def prepare(subject: Subject) -> Subject:
    """Learn which words are shared, which paths of the host are asked for in vain, and how long a run takes
    if nobody has set a limit."""
    from emu.board.elf import isa_of
    from isa.registry import linux_abi_of
    from recorder.capture.firmware import learn
    from recorder.capture.linux import learn_linux

    options = subject.options
    if subject.spec is None:
        learnt = learn(subject.program, isa_of(subject.program), options)
    else:
        learnt = learn_linux(subject.spec, subject.spec.isa, linux_abi_of(subject.spec.isa), options)
    if not options.limit and learnt.whole:
        limit = max(_PATIENCE_LEAST, _PATIENCE * learnt.instructions)
        calls = max(_CALLS_LEAST, _PATIENCE * learnt.calls) if subject.spec is not None else 0
        options = replace(options, limit=limit, most_calls=calls)
    options, timed = replace(options, shared=learnt.shared), learnt.timed or _may_time_out(subject)
    return replace(
        subject, options=options, hidden=learnt.hidden, ends=learnt.ends, timed=timed,
        split=len(learnt.split) > 0, overtaken=len(learnt.overtaken) > 0,
    )  # fmt: skip


def _may_time_out(subject: Subject) -> bool:
    """Whether a Linux program calls what waits for a time; also where nobody had to wait yet."""
    from corebraid.names.imports import may_time_out

    return subject.spec is not None and may_time_out(subject.program.read_bytes())


def attempt(subject: Subject, tried: Attempt, directory: Path, conditions: tuple[Condition, ...]) -> Run:
    """Record one run into the new directory `directory`, which is gone again unless a condition holds."""
    printed: list[tuple[bool, bytes]] = []
    try:
        outcome = record_attempt(subject, tried, directory, printed)
        run = judged(subject, tried, outcome, printed, conditions)
    except BaseException:
        remove_tree(directory)
        raise
    if not run.held:
        remove_tree(directory)
    # A machine is many large mappings in a cycle of objects.
    gc.collect()
    return run


def record_attempt(
    subject: Subject, tried: Attempt, directory: Path, printed: list[tuple[bool, bytes]]
) -> Outcome:
    """Record one run into the new directory `directory`. printed: gets what it prints, as `Run` has it.
    Raises CorebraidError."""
    from corebraid.study.recording import record_subject

    options = replace(
        subject.options, seed=tried.seed, schedule=tried.schedule, schedule_seed=tried.schedule_seed
    )

    def output(data: bytes) -> None:
        printed.append((False, data))

    def error(data: bytes) -> None:
        printed.append((True, data))

    try:
        outcome, _ = record_subject(subject, options, directory, output, error, lambda _: None)
        return outcome
    except OSError as failure:
        unless_short(failure)
        raise UsageError(
            f"the recording cannot be written ({failure.strerror})",
            where=str(directory),
            remedy="check the disk",
        ) from None


def check_free(directory: Path) -> None:
    """Raises UsageError where something is in the place of a recording."""
    if directory.exists() or directory.is_symlink():
        raise UsageError("there is already something here", where=str(directory), remedy=_ELSEWHERE)


@contextmanager
def scratch(directory: Path, left: str = "nothing is left") -> Iterator[Path]:
    """A place beside `directory` for recordings that are not kept; gone afterwards, also on Ctrl-C. left:
    what is said when the hunt is ended meanwhile."""
    try:
        place = Path(mkdtemp(prefix=f".{directory.name}.hunt-", dir=directory.parent))
    except OSError as error:
        unless_short(error)
        raise UsageError(
            f"the recording cannot be written ({error.strerror})",
            where=str(directory.parent),
            remedy=_ELSEWHERE,
        ) from None

    before = signal.signal(signal.SIGTERM, interrupting(f"ended; {left}"))
    try:
        yield place
    finally:
        signal.signal(signal.SIGTERM, before)
        remove_tree(place)


def hunt_in(
    place: Path,
    subject: Subject,
    tries: Tries | Planner,
    conditions: tuple[Condition, ...],
    machines: Machines,
    progress: Progress,
) -> tuple[Run | None, Ended]:
    """The first run for which a condition holds, and how many runs there were. Its recording is `place`/N, N
    the run's number; other failing ones may be there as well. None: there was none. tries: see `attempts`.
    machines: that runs are forked from where they can be, and how many processes there are to be anyhow.
    Raises CorebraidError.
    """
    if isinstance(tries, Planner):
        with suppress(NothingToChooseError):
            if can_fork(subject):
                return _hunt_forked(subject, tries, conditions, place, machines, progress)
        raise UsageError(
            "these schedules need runs that see each other's",
            expected="a Linux program with several threads, whose time is its own",
            found="one thread" if can_fork(subject) else "another guest, or the host's time",
            remedy=Phrase("choose ", Option("schedule", MIXED)),
        )
    if can_fork(subject):
        with suppress(NothingToChooseError):
            return _hunt_forked(subject, tries(apart=True), conditions, place, machines, progress)
    whole, alone = tries(apart=False), can_fork(subject)
    if alone:
        # With its own seed a run may have threads, and then it is looked into as others are.
        whole = (replace(tried, schedule_seed=tried.seed) for tried in whole)
    done = Ended(alone=alone)
    return _hunt_whole(subject, whole, conditions, place, machines.jobs, progress, done), done


def _hunt_forked(
    subject: Subject,
    tries: Iterator[Attempt] | Planner,
    conditions: tuple[Condition, ...],
    place: Path,
    machines: Machines,
    progress: Progress,
) -> tuple[Run | None, Ended]:
    """Runs that are forked from one machine; the one that is found is recorded."""
    forked = machines.of(subject, conditions)
    if isinstance(tries, Planner):
        run, done = covering_hunt(forked, tries, progress)
    else:
        run, done = forked.hunt(tries, progress)
    if run is None or run.refused:
        return run, done
    recorded = attempt(subject, run.attempt, place / str(run.attempt.number), conditions)
    if (recorded.held, recorded.printed) != (run.held, run.printed):
        raise CorebraidError(
            "a run that failed did not do so again when it was recorded",
            expected=run.held,
            found=recorded.held or "none",
            where=f"run {run.attempt.number + 1}",
            remedy="please report it",
        )
    return recorded, done


def _hunt_whole(
    subject: Subject,
    tries: Iterator[Attempt],
    conditions: tuple[Condition, ...],
    place: Path,
    jobs: int,
    progress: Progress,
    done: Ended,
) -> Run | None:
    """Runs that are recorded from the beginning, each; `done` is told."""
    if jobs <= 1:
        for tried in tries:
            run = attempt(subject, tried, place / str(tried.number), conditions)
            done.add(run)
            progress(done.runs)
            if run.held or run.refused:
                return run
        return None
    return _hunt_together(subject, tries, conditions, place, jobs, progress, done)


def _hunt_together(
    subject: Subject,
    tries: Iterator[Attempt],
    conditions: tuple[Condition, ...],
    place: Path,
    jobs: int,
    progress: Progress,
    done: Ended,
) -> Run | None:
    context = multiprocessing.get_context("fork")
    found: Run | None = None
    with ProcessPoolExecutor(jobs, context, initializer=begin_worker, initargs=(os.getpid(),)) as pool:
        pending: set[Future[Run]] = set()
        try:
            while True:
                while len(pending) < jobs and found is None:
                    tried = next(tries, None)
                    if tried is None:
                        break
                    where = place / str(tried.number)
                    with interrupts_held():
                        pending.add(pool.submit(attempt, subject, tried, where, conditions))
                if not pending:
                    return found
                over, pending = wait(pending, return_when=FIRST_COMPLETED)
                for run in (future.result() for future in over):
                    done.add(run)
                    first = found is None or run.attempt.number < found.attempt.number
                    if (run.held or run.refused) and first:
                        found = run
                progress(done.runs)
        except BrokenProcessPool:
            raise CorebraidError(
                "a recording process was killed",
                remedy=Phrase("try again with ", Option("jobs", 1), ", or with more memory"),
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_workers(multiprocessing.active_children())
            raise


def keep(place: Path, run: Run, directory: Path) -> None:
    """The found run's recording becomes `directory`."""
    os.rename(place / str(run.attempt.number), directory)
