"""The runs of a hunt whose later ones depend on what earlier ones saw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from corebraid.study.attempts import Attempt, Ended, Progress, Run
from corebraid.study.covering.planning import Planner
from corebraid.study.forked_runs import ForkedRuns


def covering_hunt(forked: ForkedRuns, planner: Planner, progress: Progress) -> tuple[Run | None, Ended]:
    """The first run for which a condition holds, and how many there were, whatever the number of processes:
    what a generation does is decided before it begins. Raises as `ForkedRuns.hunt` does."""
    done = Ended()
    while generation := planner.generation():
        ended: list[Run] = []
        with closing(forked.each(_until_found(generation, ended))) as runs:
            for run in runs:
                ended.append(run)
                done.add(run)
                progress(done.runs)
        ended.sort(key=lambda run: run.attempt.number)
        for run in ended:
            if run.held or run.refused:
                return run, done
            planner.learn(run)
    return None, done


def _until_found(generation: list[Attempt], ended: list[Run]) -> Iterator[Attempt]:
    """Its runs, as long as none that has ended is what is looked for: those of lower numbers have begun."""
    for tried in generation:
        if any(run.held or run.refused for run in ended):
            return
        yield tried
