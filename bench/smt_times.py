"""Seconds of SMT for a region against its unfiltered events (MICRO 2009, Figure 7b), cut search beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recorder.replay.traces import RecordingTraces
from solver.cuts.search import solve_cut
from solver.regions.problem import Problem, Solution
from solver.sifting.boundary import Forward
from solver.sifting.filters import unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions
from solver.smt.engine import solve_smt

#: Sizes at which regions are looked for, events to order.
TARGETS = (10, 25, 50, 100, 200, 350, 500, 750, 1000, 2000)


@dataclass(frozen=True)
class Solved:
    """One region given to the three engines. unfiltered: events as the paper counts them."""

    problem: Problem
    unfiltered: int
    paper: Solution
    chain: Solution
    cut: Solution


def sample(traces: RecordingTraces, targets: tuple[int, ...]) -> list[tuple[Problem, int]]:
    """For each target the region whose number of events to order is the nearest within a quarter of it,
    smallest first: the problem, its values at both ends filled in, and its unfiltered events before
    repeated reads are collapsed."""
    forward = Forward(traces.initial())
    best: dict[int, tuple[Problem, int]] = {}
    for region in iter_regions(traces):
        granules = find_granules(region)
        problem, counts = unfiltered(region, granules)
        problem, _ = forward.advance(region, granules, problem)
        for target in targets:
            off = abs(problem.n_ops - target)
            if off <= target // 4 and (target not in best or off < abs(best[target][0].n_ops - target)):
                best[target] = (problem, counts.unfiltered + counts.collapsed)
    distinct = {problem.region: (problem, events) for problem, events in best.values()}
    return sorted(distinct.values(), key=lambda found: found[0].n_ops)


def solve_sample(problems: list[tuple[Problem, int]], timeout_s: float) -> Iterator[Solved]:
    """Give each region to the three engines."""
    for problem, events in problems:
        yield Solved(
            problem,
            events,
            solve_smt(problem, timeout_s=timeout_s, encoding="paper"),
            solve_smt(problem, timeout_s=timeout_s, encoding="chain"),
            solve_cut(problem, timeout_s=timeout_s),
        )
