"""Runs of a generation end in any order, and what is made of them does not depend on it."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from corebraid.study.attempts import Attempt, Run
from corebraid.study.covering import generations
from corebraid.study.covering.planning import Planner


class Forked:
    """Processes that end their runs in a random order. failing: numbers of runs that fail."""

    def __init__(self, seed: int, jobs: int, failing: set[int]) -> None:
        self._draw, self._jobs, self._failing = random.Random(seed), jobs, failing
        self.begun: list[int] = []

    def each(self, tries: Iterator[Attempt]) -> Generator[Run, None, None]:
        """See `ForkedRuns`."""
        busy: list[Attempt] = []
        while True:
            while len(busy) < self._jobs and (tried := next(tries, None)) is not None:
                self.begun.append(tried.number)
                busy.append(tried)
            if not busy:
                return
            one = busy.pop(self._draw.randrange(len(busy)))
            manifest: Any = SimpleNamespace(end=SimpleNamespace(reason="limit" if one.number % 2 else "exit"))
            yield Run(one, manifest, "exit!=0" if one.number in self._failing else "", ())


class Listening(Planner):
    """Keeps what it is told."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs, 0)
        self.told: list[int] = []

    def learn(self, run: Run) -> int:
        """See `Planner`."""
        self.told.append(run.attempt.number)
        return super().learn(run)


def hunted(seed: int, jobs: int, failing: set[int], runs: int = 60) -> tuple[int | None, Forked, Listening]:
    forked: Any = Forked(seed, jobs, failing)
    planner = Listening(runs)
    run, done = generations.covering_hunt(forked, planner, lambda _: None)
    assert (done.runs, done.cut) == (len(forked.begun), sum(number % 2 for number in forked.begun))
    return None if run is None else run.attempt.number, forked, planner


@pytest.mark.parametrize("jobs", [1, 2, 5, 20])
def test_the_lowest_that_fails_is_found_and_others_are_told_in_turn(jobs: int) -> None:
    for seed in range(10):
        found, forked, planner = hunted(seed, jobs, {21, 22, 30, 40})
        assert found == 21
        assert planner.told == list(range(21))
        # Nothing of the generation behind is begun, nor all of this one if few run together.
        assert max(forked.begun) < 24
        if jobs == 1:
            assert max(forked.begun) == 21


def test_where_none_fails_all_are_made() -> None:
    found, forked, planner = hunted(1, 3, set())
    assert found is None
    assert forked.begun == planner.told == list(range(60))
