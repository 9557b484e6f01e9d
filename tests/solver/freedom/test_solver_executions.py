"""How many different executions there are, against all legal orders one by one."""

from __future__ import annotations

import math
import os

import pytest
from order_oracle import small_problems
from trace_factory import by_hand, problems

from bench.ordering_traces import CLASSES, region
from solver.deduction.chains import chains_of
from solver.deduction.deduction import NO_LIMIT, Deduction
from solver.freedom import count as count_module
from solver.freedom.count import Executions, components, count_orders
from solver.freedom.executions import classes
from solver.freedom.freedom import Limits
from solver.freedom.graph import build_graph
from solver.regions.problem import Problem

SOAK = int(os.environ.get("COREBRAID_SOAK", "1"))


def sources(problem: Problem, order: list[int]) -> tuple[int, ...]:
    """For every part, which operation changed its granule last: what a read reads from, and which write a
    write follows."""
    last, found = [-1] * len(problem.address), [-1] * len(problem.granule)
    for op in order:
        parts = range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
        for p in parts:
            found[p] = last[problem.granule[p]]
        for p in parts:
            if problem.old[p] != problem.new[p]:
                last[problem.granule[p]] = op
    return tuple(found)


@pytest.mark.soak
def test_executions_are_those_of_all_orders() -> None:
    one = fewer = same = 0
    for where, problem, orders in small_problems(400 * SOAK):
        expected = len({sources(problem, order) for order in orders})
        count = count_orders(problem)
        assert count.executions == Executions(expected, expected), where
        one += expected == 1 < len(orders)
        fewer += 1 < expected < len(orders)
        same += 1 < expected == len(orders)
    print(f"{one} regions with one execution of several orders, {fewer} with several, {same} with one each")
    assert min(one, fewer, same) > 10


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(count_module, "classes", lambda graph, chains: count_module.paths(graph))
    with pytest.raises(AssertionError):
        test_executions_are_those_of_all_orders()


@pytest.mark.parametrize("kind", CLASSES)
def test_parts_multiply_to_the_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without cutting the region up, in space or in time."""
    for seed in range(3):
        problem = region(kind, cores=3, events=30, granules=5, seed=seed)
        apart = count_orders(problem).executions
        chains = chains_of(problem)
        clocks = Deduction(problem, chains=chains, max_clocks=NO_LIMIT).clocks
        graph = build_graph(chains, clocks, reduced=False, cuts=2_000_000)
        assert graph.complete
        whole = classes(graph, chains)
        assert whole is not None
        assert apart == Executions(whole, whole), f"{kind}, seed {seed}"


def test_three_parts_that_share_nothing() -> None:
    """Orders interleave, executions do not: three pairs of cores, each on a granule of its own."""
    lengths = (2, 4, 6)
    streams = []
    for number, n in enumerate(lengths):
        address = 0x100 * (number + 1)
        # The first core changes the value once in the middle of the second one's reads of two values.
        streams.append([(address, 0, 1)])
        streams.append([(address, 0, 0)] * (n // 2) + [(address, 1, 1)] * (n // 2))
    ends = {0x100 * (number + 1): 1 for number in range(len(lengths))}
    # Repeats of a read are one event: write other granules between them.
    traces = by_hand(streams, {}, ends)
    ((problem, _),) = problems(traces)
    parts = components(problem)
    assert len(parts) == 3
    sizes = [part.n_ops for part in parts]
    ways = math.factorial(sum(sizes)) // math.prod(math.factorial(size) for size in sizes)
    count = count_orders(problem)
    assert (count.orders, count.exact) == (ways, True)
    assert count.executions == Executions(1, 1)


def test_over_the_budget_the_answer_is_a_bound() -> None:
    problem = region("domain:2", cores=4, events=120, granules=8, seed=1)
    exact, few = count_orders(problem), count_orders(problem, Limits(2000))
    assert few.executions.most is None
    assert 1 <= few.executions.least <= exact.executions.least


def test_bounds_in_words() -> None:
    assert Executions(1, 1).words == "one execution"
    assert Executions(0, 0).words == "no execution"
    assert Executions(1234, 1234).words == "1,234 different executions"
    assert Executions(2, None).words == "at least 2 executions"
    assert Executions(1, 7).words == "1 to 7 executions"
    assert Executions(3, 3) * Executions(2, None) == Executions(6, None)
    assert Executions(3, 3) * Executions(0, 0) == Executions(0, 0)
