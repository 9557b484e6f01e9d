"""`corebraid.hunt`: record under schedule after schedule until a run fails, and keep that one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.api.asked import (
    MOST_JOBS,
    MOST_LEARNT,
    MOST_PREEMPTIONS,
    check_place,
    check_seconds,
    check_whole,
    ignore,
    texts_of,
)
from corebraid.api.exhaustive import check_exhaustive, check_subject, search
from corebraid.api.record import check_guest
from corebraid.base.errors import GuestFault, UsageError
from corebraid.base.wording import Option, Phrase, Text
from corebraid.study.conditions import Condition, conditions_of, settled
from corebraid.study.subjects import Asked, Subject, learning_runs, subject_of
from recorder.capture.guest import LinuxOptions, find_program, recording_name

if TYPE_CHECKING:
    from corebraid.study.findings import Hunted
    from corebraid.study.stages import Schedules


def hunt(
    program: Path | str,
    directory: Path | str | None = None,
    *,
    arguments: Iterable[str] = (),
    runs: int | None = None,
    seed: int = 0,
    schedule: str = "mixed",
    until: Iterable[str] = (),
    exhaustive: bool = False,
    preemptions: int | None = None,
    jobs: int | None = None,
    limit: int | None = None,
    input: bytes | Callable[[], bytes] = b"",
    explain: bool = True,
    reduce: bool = True,
    reduce_time: float = 20.0,
    bisect: Path | str | None = None,
    learn: int | None = None,
    cores: int = 4,
    model: str | None = None,
    store_buffer: int | None = None,
    cache: str = "unbounded",
    strata: str = "auto",
    memory: int | None = None,
    guest: str = "auto",
    env: Iterable[str] = (),
    bind: Iterable[str] = (),
    keep_writes: Path | str | None = None,
    given: bool = True,
    system: bool = True,
    clock: str = "virtual",
    strict: bool = False,
    time_limit: float | None = None,
    progress: Callable[[int], None] = ignore,
    branches: Callable[[int], None] = ignore,
    note: Callable[[Text], None] = ignore,
) -> Hunted:
    """Record a program under schedule after schedule until a run fails; keep that recording in `directory`.

    directory: PROGRAM.rec if None. runs: at most so many, 200 if None. schedule: as of `corebraid hunt`.
    until: conditions ("exit!=0", "deadlock", ...; one of them is enough), those of `corebraid hunt` if empty.
    jobs: processes, one for each processor if None. learn: runs from which it is learnt which words are
    shared; if None one, from the 33rd run on 4, and from the 65th on 16. limit: instructions after which
    a run is taken not to end. explain: whether to look for suspicious accesses. reduce: whether to look
    for the smallest schedule that fails the same way, whose recording is `directory`.reduced then;
    reduce_time: seconds for the runs that takes. bisect: a recording of a run that passes, or "none" for
    the run without preemptions: of the schedules between that one and the failing one the two are looked
    for that differ in one switch, which makes it fail. Others: as in `corebraid.record`. progress: called
    with how many runs are over. note: told what the user should know. model: if None "sc", and of "mixed"
    some runs with "tso", where instructions that are not indivisible read shared words and write them, or
    threads each store to what the other one then loads.

    exhaustive: make every execution once (docs/exhaustive.md), with at most `preemptions` switches away from
    a thread that could go on, any number if None; `runs` and `time_limit` (seconds) are then of all of it,
    without bound if None, and `Hunted.searched` says what it came to; it is not reduced. progress: called
    with how many different executions were made; branches: with how many are yet to be tried.

    `Hunted.finding` is None if no run failed. Raises UsageError, ImageError, GuestFault (a run cannot be
    emulated).
    """
    from corebraid.study.smallest.bisected import good_manifest
    from corebraid.study.stages import Schedules

    check_place("program", program)
    arguments, env, bind = texts_of("arguments", arguments), texts_of("env", env), texts_of("bind", bind)
    until = texts_of("until", until)
    buffers = model is None and bisect in (None, "none") and not exhaustive
    model = "sc" if model is None else model
    check_guest(cores=cores, seed=seed, schedule=schedule, model=model,
                cache=cache, strata=strata, memory=memory, limit=limit, clock=clock, time_limit=time_limit,
                input=input)  # fmt: skip
    check_whole("runs", runs, 1)
    check_whole("preemptions", preemptions, 0, MOST_PREEMPTIONS)
    check_whole("jobs", jobs, 1, MOST_JOBS)
    check_whole("learn", learn, 1, MOST_LEARNT)
    check_seconds("reduce_time", reduce_time)
    kept = None if keep_writes is None else Path(keep_writes)
    # Of a search it is all runs', and no guest's.
    of_a_run = None if exhaustive else time_limit
    linux = LinuxOptions(tuple(env), tuple(bind), kept, clock, strict, of_a_run, given, system)
    wanted = conditions_of(until)
    find_program(str(program))
    tried = 200 if runs is None else runs
    _check(tried, seed, schedule, learn, linux)
    asked = Asked(
        str(program), tuple(arguments), cores=cores, seed=seed, schedule="chaos", learn=learn,
        model=model, store_buffer=store_buffer, cache=cache, strata=strata, memory=memory, limit=limit,
        input=input, guest=guest, linux=linux,
    )  # fmt: skip
    check_exhaustive(asked, schedule, preemptions, exhaustive=exhaustive)
    if exhaustive and bisect is not None:
        what = "what an exhaustive hunt finds is not bisected"
        raise UsageError(what, remedy=Phrase("leave ", Option("bisect"), " out"))
    subject = subject_of(asked)
    place = recording_name(subject.program) if directory is None else Path(directory)
    if exhaustive:
        check_subject(subject)
        limits, tell = (runs, time_limit), (progress, branches)
        found = search(asked, subject, place, settled(wanted, ends=False), preemptions, limits, tell)
        return found.explained() if explain else found
    if reduce:
        _check_reduced_place(place)
    if bisect is not None:
        good_manifest(bisect)
    schedules = Schedules(tried, seed, schedule, learn, buffers=buffers)
    found = _hunted(asked, subject, place, wanted, schedules, jobs, progress, note)
    if reduce:
        found = found.reduced(reduce_time)
        small = None if found.finding is None else found.finding.reduction
        if small is not None and small.interrupted:
            raise KeyboardInterrupt
    if bisect is not None:
        found = found.bisected(bisect, reduce_time)
    return found.explained() if explain else found


def _hunted(
    asked: Asked,
    subject: Subject,
    directory: Path,
    wanted: tuple[Condition, ...],
    schedules: Schedules,
    jobs: int | None,
    progress: Callable[[int], None],
    note: Callable[[Text], None],
) -> Hunted:
    from corebraid.study.causes.passing import Comparison
    from corebraid.study.findings import Finding, Hunted, Speed, again_of
    from corebraid.study.hunting import check_free, keep, scratch
    from corebraid.study.replays.in_processes import usable_processors
    from corebraid.study.stages import hunt_in_stages

    began, first = time.monotonic(), 0.0
    check_free(directory)

    def ended(runs: int) -> None:
        nonlocal first
        first = first or time.monotonic() - began
        progress(runs)

    with scratch(directory) as place:
        patient = partial(_check_patience, wanted=wanted, note=note)
        n_jobs = jobs or usable_processors()
        subject, run, done = hunt_in_stages(place, subject, schedules, wanted, n_jobs, ended, patient)
        if run is not None and run.held:
            keep(place, run, directory)
    speed = Speed(done.runs, time.monotonic() - began, first)
    over = Hunted(
        speed, cut=done.cut, hidden=subject.hidden, buffered=done.buffered, alone=done.alone,
        threaded=done.threaded,
    )  # fmt: skip
    if run is None:
        plain = not done.buffered and asked.model == "sc"
        return replace(over, whole=subject.split and plain, in_order=subject.overtaken and plain)
    if run.refused:
        raise GuestFault(f"run {run.attempt.number + 1} cannot be emulated: {run.refused}")
    limit, learning = subject.options.limit, subject.options.learning
    most, made = subject.options.most_calls, run.manifest.totals.get("calls")
    if most and isinstance(made, int) and made >= most:
        # A recording has no limit of calls.
        limit = sum(run.manifest.instructions)
    had = replace(asked, learn=None if learning == 1 else learning, model=subject.options.model)
    repeats = partial(again_of, had, limit=limit)
    again = repeats(directory, run)
    comparison = Comparison(subject, settled(wanted, ends=subject.ends), n_jobs, run.attempt)
    return replace(over, finding=Finding(
        directory, run, again, speed, limit=limit, learning=learning, comparison=comparison, repeats=repeats,
        buffered=asked.model != subject.options.model,
    ))  # fmt: skip


def _check_reduced_place(directory: Path) -> None:
    from corebraid.study.hunting import check_free
    from corebraid.study.smallest.kept import reduced_place

    check_free(reduced_place(directory))


def _check(runs: int, seed: int, schedule: str, learn: int | None, linux: LinuxOptions) -> None:
    from corebraid.study.attempts import COVER, MIXED
    from emu.schedule.scheduler import LATE, make_scheduler

    if schedule not in (MIXED, COVER, "random"):
        if not (schedule == "chaos" or schedule.startswith(("pct:", LATE))):
            raise UsageError(
                "a hunt has a schedule that the seed decides",
                expected="mixed, cover, chaos, pct:D, late:D or random", found=repr(schedule),
            )  # fmt: skip
        make_scheduler(schedule, 0, 1)
    if schedule == "random":
        learning_runs(schedule, learn)
    changing = [text for text in linux.binds if text.endswith(":rw")]
    if linux.keep_writes is not None or changing:
        kept: list[str | Option] = [] if linux.keep_writes is None else [Option("keep_writes")]
        parts = [part for one in [*kept, *changing] for part in (" ", one)][1:]
        raise UsageError(
            "runs of a hunt must not change what the next one finds",
            found=Phrase(*parts),
            remedy="leave it out; the command that a hunt prints may be given it",
        )
    if seed + runs > 1 << 64:
        raise UsageError(
            "seeds are below 2**64", found=f"{seed} and {runs} runs", remedy=Phrase("lower ", Option("seed"))
        )


def _check_patience(subject: Subject, wanted: tuple[Condition, ...], note: Callable[[Text], None]) -> None:
    """Raises UsageError where nothing can tell that a run takes too long, though that is looked for."""
    if subject.options.limit or subject.time_limit is not None:
        return
    limit, time_limit = Option("limit"), Option("time_limit")
    if any(condition.text == "timeout" for condition in wanted):
        raise UsageError(
            "nothing tells when a run takes too long: the first one was broken off before its end",
            remedy=Phrase("give ", limit, " or ", time_limit),
        )
    head = "the first run was broken off before its end: runs have no limit ("
    note(Phrase(head, limit, ", ", time_limit, ")"))
