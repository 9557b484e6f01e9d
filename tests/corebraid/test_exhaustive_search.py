"""The search over abstract programs, against one that tries all interleavings and knows of no orders."""

from __future__ import annotations

import math

import pytest
from abstract_programs import all_interleavings, order_of, random_program, run_plan

from corebraid.base.errors import CorebraidError
from corebraid.study.exhaustive.bounded import BoundedExplorer
from corebraid.study.exhaustive.explorer import Explorer, Run
from corebraid.study.exhaustive.steps import Execution, Plan

#: Interleavings of a program at most.
MOST = 500


def programs() -> list[tuple[int, tuple[tuple, ...]]]:
    found = [(seed, random_program(seed)) for seed in range(90)]
    return [(seed, program) for seed, program in found if is_small(program)]


def is_small(program: tuple[tuple, ...]) -> bool:
    left = [len(ops) for ops in program]
    many = math.factorial(sum(left))
    for one in left:
        many //= math.factorial(one)
    return many <= MOST


def runner(program: tuple[tuple, ...], ends: list[tuple]) -> Run:
    return lambda plan: run_plan(program, plan, ends)


def test_each_execution_once_and_none_missed() -> None:
    made = redundant = 0
    for seed, program in programs():
        known = list(all_interleavings(program))
        ends: list[tuple] = []
        orders, signatures = [], []
        for execution, trace in Explorer(runner(program, ends)).explore():
            redundant += not execution.whole
            if execution.whole:
                orders.append(order_of(list(execution.steps)))
                signatures.append(trace.signature())
        assert len(orders) == len(set(orders)) == len(set(signatures)), seed
        assert set(orders) == {order for order, _, _ in known}, seed
        assert set(ends) == {state for _, state, _ in known}, seed
        made += len(orders)
    assert made > 250
    assert redundant == 0


@pytest.mark.parametrize("bound", [0, 1, 2])
def test_all_executions_with_few_preemptions(bound: int) -> None:
    for seed, program in programs()[bound::3]:
        expected = {
            (order, state) for order, state, switches in all_interleavings(program) if switches <= bound
        }
        ends: list[tuple] = []
        orders = set()
        for execution, _ in BoundedExplorer(runner(program, ends), bound).explore():
            orders.add(order_of(list(execution.steps)))
        assert orders == {order for order, _ in expected}, seed
        assert set(ends) == {state for _, state in expected}, seed


def test_without_a_bound_that_matters_both_searches_agree() -> None:
    for _, program in programs()[:30]:
        counts = []
        for explorer in (
            Explorer(runner(program, [])),
            BoundedExplorer(runner(program, []), 100),
        ):
            counts.append(len({trace.signature() for _, trace in explorer.explore()}))
        assert counts[0] == counts[1]


def test_a_program_that_does_not_do_the_same_again_is_noticed() -> None:
    runs = 0

    def run(plan: Plan) -> Execution:
        nonlocal runs
        runs += 1
        other = (("w", "x" if runs < 3 else "z", 1), ("r", "y"), ("r", "x"))
        return run_plan((other, (("w", "y", 1), ("r", "x"), ("w", "x", 2))), plan, [])

    with pytest.raises(CorebraidError, match="did not do what the same schedule did before"):
        list(Explorer(run).explore())


def test_how_many_branches_are_open() -> None:
    program = ((("w", "x", 1), ("r", "y")), (("w", "y", 1), ("r", "x")))
    explorer = Explorer(lambda plan: run_plan(program, plan, []))
    left = [explorer.open for _ in explorer.explore()]
    assert len(left) == 3
    assert left[0] >= 1
    assert left[-1] == 0
