"""`corebraid.hunt(exhaustive=True)`: all executions of a program, or one that fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.study.conditions import Condition
from corebraid.study.subjects import Asked, Subject

if TYPE_CHECKING:
    from corebraid.study.findings import Hunted


def check_exhaustive(asked: Asked, schedule: str, preemptions: int | None, *, exhaustive: bool) -> None:
    """Raises UsageError for what does not go with an exhaustive search."""
    way = Option("exhaustive", True)
    if not exhaustive:
        if preemptions is not None:
            raise UsageError(Phrase(Option("preemptions"), " goes with ", way))
        return
    against = [
        (schedule != "mixed", Option("schedule", schedule), ("every schedule is tried",)),
        (
            asked.model != "sc" and preemptions is not None,
            Option("model", asked.model),
            ("commits are no preemptions, and not bounded by ", Option("preemptions", preemptions)),
        ),
        (
            asked.cache != "unbounded",
            Option("cache", asked.cache),
            ("misses follow the schedule",),
        ),
        (
            asked.learn is not None,
            Option("learn", asked.learn),
            ("words that are newly seen to be shared begin it anew",),
        ),
        (
            asked.linux.clock != "virtual",
            Option("clock", asked.linux.clock),
            ("runs would differ by themselves",),
        ),
    ]
    for wrong, option, why in against:
        if wrong:
            raise UsageError(
                Phrase(option, " does not go with ", way, ": ", *why), remedy="leave one of them out"
            )


def check_subject(subject: Subject) -> None:
    """Raises UsageError for a program that cannot be searched."""
    if subject.spec is None and subject.options.cores < 2:
        raise UsageError(
            "one core has one execution",
            where=str(subject.program),
            remedy=Phrase("give it more: ", Option("cores")),
        )


def search(
    asked: Asked,
    subject: Subject,
    directory: Path,
    wanted: tuple[Condition, ...],
    preemptions: int | None,
    limits: tuple[int | None, float | None],
    tell: tuple[Callable[[int], None], Callable[[int], None]],
) -> Hunted:
    """Search, and record an execution that fails into `directory`. limits: runs, seconds. tell: called with
    how many executions were made, and how many branches are open. Raises UsageError, GuestFault."""
    from dataclasses import replace

    from corebraid.study.attempts import Attempt
    from corebraid.study.causes.passing import Comparison
    from corebraid.study.exhaustive.search import Budget, Search, record_failing
    from corebraid.study.findings import Finding, Hunted, Speed, again_of
    from corebraid.study.hunting import check_free, keep, scratch
    from corebraid.study.replays.in_processes import usable_processors
    from emu.schedule.step_file import words_to_watch

    began = time.monotonic()
    steps = directory.with_name(f"{directory.name}.steps")
    check_free(directory)
    check_free(steps)
    progress, branches = tell

    def show(executions: int, left: int) -> None:
        progress(executions)
        branches(left)

    with scratch(directory) as place:
        searched = Search(subject, wanted, preemptions, Budget(*limits), show).run()
        speed = Speed(searched.runs, time.monotonic() - began)
        if searched.failing is None:
            return Hunted(speed, searched=searched)
        number = searched.runs - 1
        run, limit = record_failing(subject, searched, steps, place / str(number), wanted)
        keep(place, run, directory)
    options = replace(subject.options, shared=words_to_watch(searched.words))
    comparison = Comparison(
        replace(subject, options=options), wanted, usable_processors(),
        Attempt(number, options.seed, "random", schedule_seed=0),
    )  # fmt: skip
    again = again_of(asked, directory, run, limit)
    finding = Finding(directory, run, again, speed, limit=limit, comparison=comparison)
    return Hunted(speed, finding, searched)
