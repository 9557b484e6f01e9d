"""Runs of a hunt's program that do not fail, for the one that does to be held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import CorebraidError, ShortageError
from corebraid.base.removal import remove_tree
from corebraid.study.attempts import Attempt
from corebraid.study.causes.ordered_words import ordered_accesses
from corebraid.study.conditions import Condition, first_that_holds
from corebraid.study.hunting import record_attempt, scratch
from corebraid.study.replays.in_processes import in_processes
from corebraid.study.shared_rows import Access
from corebraid.study.subjects import Subject
from recorder.files.reader import Recording

#: Schedules that are tried, with their longest slice: some switch often, some starve threads, some neither.
_WAYS = (("random", 30), ("chaos", 10_000), ("random", 300), ("pct:2", 10_000), ("random", 100),
         ("chaos", 10_000), ("random", 3000), ("pct:3", 10_000))  # fmt: skip
#: How often; how often where it was tried what decides; instructions that all of them have, at most.
COMPARED, COMPARED_BESIDES, _MOST_INSTRUCTIONS = 16, 6, 60_000_000
#: A run that takes so many times as long as the one that failed, and at least so many instructions, is broken
#: off, and tells nothing.
_PATIENCE, _PATIENCE_LEAST = 10, 1_000_000
#: Ends of runs that neither failed nor passed: something is not emulated, or they were broken off.
_TELL_NOTHING = ("fault", "limit", "time-limit")
#: Seeds are far from those of the hunt.
_SEED = 1 << 62


class Passed(NamedTuple):
    """A run that passed. words: which several threads used, and one changed: uint64[n], addresses over 8."""

    accesses: list[Access]
    words: NDArray[np.uint64]


@dataclass(frozen=True)
class Comparison:
    """How to make such runs. conditions: of which none holds for them. jobs: processes. found: the run that
    failed, whose guest they have if only its schedule had a seed of its own."""

    subject: Subject
    conditions: tuple[Condition, ...]
    jobs: int
    found: Attempt

    def runs(self, recording: Path, done: Callable[[int], None], *, besides: bool = False) -> list[Passed]:
        """The runs that passed, of a number of runs that the length of this one decides. done: called with
        how many are over. besides: it is known what decides. Nothing of them is kept. Raises
        CorebraidError."""
        instructions = max(sum(Recording.open(recording).manifest.instructions), 1)
        most = min(COMPARED, COMPARED_BESIDES) if besides else COMPARED
        numbers = range(min(most, _MOST_INSTRUCTIONS // instructions))
        with scratch(recording, "the recording is kept") as place:
            work = partial(_run, self._patient(instructions), self.conditions, self.found, place)
            if self.jobs <= 1:
                found = []
                for number in numbers:
                    found.append(work(number))
                    done(number + 1)
            else:
                found = [(-1, None)] * len(numbers)
                with in_processes(work, numbers, self.jobs) as source:
                    for over, one in enumerate(source, 1):
                        found[one[0]] = one
                        done(over)
        return [run for _, run in found if run is not None]

    def _patient(self, instructions: int) -> Subject:
        """The subject with a limit. instructions: of the run that failed."""
        options, limit = self.subject.options, max(_PATIENCE * instructions, _PATIENCE_LEAST)
        return replace(self.subject, options=replace(options, limit=min(options.limit or limit, limit)))


def _run(
    subject: Subject, conditions: tuple[Condition, ...], failed: Attempt, place: Path, number: int
) -> tuple[int, Passed | None]:
    """(number, the run), None for the latter if it failed or could not be looked at."""
    policy, longest = _WAYS[number % len(_WAYS)]
    subject = replace(subject, options=replace(subject.options, longest_slice=longest))
    tried = Attempt(number, _SEED + number, policy)
    if failed.schedule_seed is not None:
        tried = Attempt(number, failed.seed, policy, _SEED + number)
    printed: list[tuple[bool, bytes]] = []
    directory = place / str(number)
    try:
        outcome = record_attempt(subject, tried, directory, printed)
        everything = b"".join(data for _, data in printed)
        if outcome.end.reason in _TELL_NOTHING or first_that_holds(conditions, outcome.end, everything):
            return number, None
        return number, Passed(*ordered_accesses(directory))
    except ShortageError:
        raise
    except CorebraidError:
        return number, None
    finally:
        if directory.exists():
            remove_tree(directory)
