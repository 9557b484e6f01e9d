"""Explanations of an illegal region: what they name cannot be ordered, and nothing in them is idle."""

from __future__ import annotations

import pytest
from engine_suite import SOAK
from problem_factory import build, is_legal, operations_of, random_problem

from solver.deduction.deduction import deduce
from solver.freedom.explain import explain
from solver.regions.problem import Problem


def can_be_ordered(problem: Problem, kept: list[int], finals: list[int]) -> bool:
    """Whether an order serves `kept` and `finals`, the other operations being mere stores: a walk over every
    cut and memory that can be reached."""
    operations, ends = operations_of(problem), problem.stream_ptr.tolist()
    todo, seen = [(tuple(ends[:-1]), tuple(problem.initial.tolist()))], set()
    while todo:
        cut = todo.pop()
        if cut in seen:
            continue
        seen.add(cut)
        position, memory = cut
        if list(position) == ends[1:] and all(memory[g] == problem.final[g] for g in finals):
            return True
        for s, op in enumerate(position):
            if op == ends[s + 1]:
                continue
            if op in kept and any(memory[g] != old for g, old, _ in operations[op]):
                continue
            after = list(memory)
            for g, old, new in operations[op]:
                if old != new:
                    after[g] = new
            todo.append(((*position[:s], op + 1, *position[s + 1 :]), tuple(after)))
    return False


@pytest.mark.soak
def test_no_explanation_can_be_ordered_and_nearly_all_are_smallest() -> None:
    explained = smallest = 0
    for seed in range(500 * SOAK):
        problem = random_problem(seed, damaged=True)
        found = explain(problem, timeout_s=60)
        if is_legal(problem):
            assert found is None, f"random_problem({seed}, damaged=True)"
            continue
        if found is None:
            continue
        explained += 1
        kept, finals = found.operations.tolist(), found.finals.tolist()
        assert found.smallest
        assert not can_be_ordered(problem, kept, finals), f"random_problem({seed}, damaged=True)"
        fewer = [([x for x in kept if x != left], finals) for left in kept]
        fewer += [(kept, [x for x in finals if x != left]) for left in finals]
        smallest += all(can_be_ordered(problem, *rest) for rest in fewer)
    print(f"{explained} explained, {smallest} of them truly smallest")
    assert explained > 250 * SOAK
    assert smallest > 0.9 * explained


def test_an_explanation_names_the_events_that_clash_and_no_bystander() -> None:
    """Two cores each read what the other writes only afterwards, among much that is in order."""
    busy = [[(2, 0, 1)], [(2, 1, 0)]] * 20
    problem = build(
        [[*busy, [(0, 1, 1)], [(1, 0, 1)], *busy], [*busy, [(1, 1, 1)], [(0, 0, 1)], *busy]],
        [0, 0, 0],
        [1, 1, 0],
    )
    found = explain(problem, timeout_s=60)
    assert found is not None
    assert found.operations.tolist() == [40, 122]
    assert found.finals.tolist() == []


def test_a_final_value_can_be_the_reason() -> None:
    problem = build([[[(0, 0, 1)], [(1, 0, 1)]], [[(1, 1, 1)], [(0, 1, 2)]]], [0, 0], [1, 1])
    found = explain(problem, timeout_s=60)
    assert found is not None
    assert found.finals.tolist() == [0]


def test_out_of_time_says_that_it_may_not_be_the_smallest() -> None:
    problem = random_problem(1, damaged=True)
    assert deduce(problem).contradiction >= 0, "pick another seed"
    found = explain(problem, timeout_s=0)
    assert found is not None
    assert not found.smallest
    assert not can_be_ordered(problem, found.operations.tolist(), found.finals.tolist())


@pytest.mark.parametrize("seed", range(4))
def test_a_legal_region_has_no_explanation(seed: int) -> None:
    assert explain(random_problem(seed, damaged=False), timeout_s=60) is None
