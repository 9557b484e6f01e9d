"""Runs of quiet regions on their way through the passes: problems and answers without a look at rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from solver.passes.answers import Options, answer
from solver.passes.results import Answer
from solver.passes.stages import sift_region
from solver.regions.problem import Problem
from solver.regions.quiet import Quiet
from solver.regions.region import Region


def quiet_problems(quiet: Quiet) -> Iterator[tuple[Region, Problem]]:
    """Each of the regions with its problem: what sifting makes of any region without rows, but for its
    number. It has no granules, so that there are no values at its two ends to compose."""
    problem: Problem | None = None
    for region in quiet.regions():
        problem = problem or sift_region(region).problem
        yield region, replace(problem, region=region.index)


def quiet_answers(quiet: Quiet, options: Options) -> Iterator[tuple[int, Answer]]:
    """The number of each of the regions, and its answer. To an engine with evidence they are regions like
    others; any other has nothing to tell them apart by. Raises what the engine raises."""
    if options.evidence is not None:
        for region, problem in quiet_problems(quiet):
            yield region.index, answer(problem, options, region)
        return
    _, problem = next(quiet_problems(quiet))
    same = answer(problem, options)
    for index in range(quiet.first, quiet.end):
        yield index, same
