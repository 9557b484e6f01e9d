"""Who may have written last before a moment, against all legal orders of small regions."""

from __future__ import annotations

import random

import numpy as np
from order_oracle import small_problems
from tso_oracle import all_orders

from bench.tiny_runs import Run
from solver.freedom.freedom import Limits
from solver.freedom.sources import BEGIN, SourceSearch, Spot
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem, Verdict


def naive(problem: Problem, order: list[int], writes: list[int], spot: Spot) -> set[int]:
    """Who may be the last of the writes before a moment in one order."""
    rank = {op: i for i, op in enumerate(order)}
    if spot.is_end:
        moments = [len(order)]
    elif spot.op:
        assert spot.after is not None
        own = int(problem.source[spot.after]) if len(problem.source) else -1
        if own in writes and rank[own] > rank[spot.after]:
            return {own}
        moments = [rank[spot.after]]
    else:
        first = -1 if spot.before is None else rank[spot.before]
        end = len(order) if spot.after is None else rank[spot.after]
        moments = list(range(first + 1, end + 1))
    found = set()
    for moment in moments:
        before = [op for op in order[:moment] if op in writes]
        found.add(before[-1] if before else BEGIN)
    return found


def writes_of(problem: Problem, granule: int, rng: random.Random) -> list[int]:
    """Operations that change a granule, and some of those that leave it as it is: stores of what is there."""
    parts = np.flatnonzero(problem.granule == granule)
    changed = problem.old[parts] != problem.new[parts]
    kept = [bool(c) or rng.random() < 0.3 for c in changed]
    return sorted(set(problem.part_op[parts[kept]].tolist()))


def spots_of(problem: Problem, granule: int, rng: random.Random) -> list[Spot]:
    """The end, an access to the granule, any operation, and moments between two of a stream."""
    touching = problem.part_op[problem.granule == granule].tolist()
    spots = [
        Spot(is_end=True),
        Spot(after=rng.choice(touching), op=True),
        Spot(after=rng.randrange(problem.n_ops), op=True),
    ]
    stream = rng.randrange(problem.n_streams)
    first, end = problem.stream_ptr[stream : stream + 2].tolist()
    at = rng.randint(first, end)
    between = Spot(at - 1 if at > first else None, at if at < end else None)
    return [*spots, between]


def test_sources_are_those_of_all_orders() -> None:
    rng, asked, several = random.Random(0), 0, 0
    for what, problem, orders in small_problems(60, 3000):
        search = SourceSearch(problem, Limits())
        granule = rng.randrange(len(problem.address))
        if not (problem.granule == granule).any():
            continue
        writes = writes_of(problem, granule, rng)
        for spot in spots_of(problem, granule, rng):
            found = search.sources(writes, spot)
            expected = {one for order in orders for one in naive(problem, order, writes, spot)}
            assert (found.possible, found.undecided) == (expected, frozenset()), f"{what}: {writes}, {spot}"
            assert (found.verdict is Verdict.ILLEGAL) == (not orders), what
            asked, several = asked + 1, several + (len(expected) > 1)
    assert asked > 300
    assert several > 60


def test_sources_under_tso_are_those_of_all_orders() -> None:
    rng, asked, waiting = random.Random(0), 0, 0
    for seed in range(150):
        for _, problem in iter_problems(Run(seed).traces()):
            orders = all_orders(problem) if 1 < problem.n_ops < 12 else None
            if not orders:
                continue
            search = SourceSearch(problem, Limits())
            granule = rng.randrange(len(problem.address))
            writes = writes_of(problem, granule, rng)
            touching = set(problem.part_op[problem.granule == granule].tolist())
            for op in sorted(touching):
                spot = Spot(after=op, op=True)
                found = search.sources(writes, spot)
                expected = {one for order in orders for one in naive(problem, order, writes, spot)}
                assert (found.possible, found.undecided) == (expected, frozenset()), f"Run({seed}): {op}"
                own = int(problem.source[op])
                asked, waiting = asked + 1, waiting + (own in writes and own in expected)
    assert asked > 100
    assert waiting > 5


def test_what_the_budget_leaves_is_undecided() -> None:
    _, problem, _ = next(one for one in small_problems(10) if one[1].n_ops > 4 and one[2])
    search = SourceSearch(problem, Limits(seconds=1e-9))
    writes = sorted(set(problem.part_op[problem.old != problem.new].tolist()))
    found = search.sources(writes, Spot(after=problem.n_ops - 1, op=True))
    assert not found.possible & found.undecided
