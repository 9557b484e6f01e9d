"""Figure 2 of the MICRO 2009 paper, with the paper's own answers (sections 4.1 to 4.3)."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest
from trace_factory import by_hand, problems

from solver.cuts.search import solve_cut
from solver.regions.problem import Problem, Verdict, implied_initial
from solver.sifting.boundary import net_values
from solver.smt.engine import solve_smt
from solver.smt.paper import followers

X, Y = 0x100, 0x108
ENGINES = {
    "cut": lambda p: solve_cut(p, timeout_s=10),
    "paper": lambda p: solve_smt(p, timeout_s=10, encoding="paper"),
    "chain": lambda p: solve_smt(p, timeout_s=10, encoding="chain"),
}
#: Names of the left example's events in the order of the operations: cores {x1 y2 x3 x4}, {x5}, {y6 y7}.
LEFT = ["x1", "y2", "x3", "x4", "x5", "y6", "y7"]
#: The right example, as section 4.2 gives it: old values {2, 1, 2, 1} and final 1, new {1, 2, 1, 1}, and
#: exactly two orders, one that begins with x1 and one that begins with x4.
RIGHT = ["x1", "x2", "x3", "x4"]


def left() -> Problem:
    cores = [[(X, 2, 1), (Y, 1, 2), (X, 1, 2), (X, 2, 1)], [(X, 1, 1)], [(Y, 0, 1), (Y, 2, 3)]]
    ((problem, _),) = problems(by_hand(cores, {X: 2, Y: 0}, {X: 1, Y: 3}))
    return problem


def right() -> Problem:
    cores = [[(X, 2, 1)], [(X, 1, 1), (X, 1, 2)], [(X, 2, 1)]]
    ((problem, _),) = problems(by_hand(cores, {X: 2}, {X: 1}))
    return problem


def legal_orders(problem: Problem) -> set[tuple[int, ...]]:
    """All legal orders, by trying every permutation."""
    found = set()
    for order in permutations(range(problem.n_ops)):
        held = dict(enumerate(problem.initial.tolist()))
        at = {s: int(problem.stream_ptr[s]) for s in range(problem.n_streams)}
        for op in order:
            s, g = int(problem.op_stream[op]), int(problem.granule[op])
            if at[s] != op or held[g] != problem.old[op]:
                break
            at[s], held[g] = op + 1, int(problem.new[op])
        else:
            found.add(order)
    return found


def at_location(names: list[str], order: tuple[int, ...], location: str) -> str:
    return " ".join(names[op] for op in order if names[op][0] == location)


def test_left_has_the_papers_orders() -> None:
    orders = legal_orders(left())
    assert {at_location(LEFT, order, "x") for order in orders} == {"x1 x5 x3 x4", "x1 x3 x4 x5"}
    assert {at_location(LEFT, order, "y") for order in orders} == {"y6 y2 y7"}


def test_left_has_the_papers_fsml_sets() -> None:
    found = {
        name: ({LEFT[f] for f in fsml}, may_be_last)
        for name, (fsml, may_be_last) in zip(LEFT, followers(left()), strict=True)
    }
    assert found["x1"] == ({"x3", "x5"}, False)
    assert found["x5"] == ({"x3"}, True)
    assert found["y6"] == ({"y2"}, False)
    assert found["y7"] == (set(), True)


def test_right_has_two_orders_with_the_papers_first_events() -> None:
    orders = legal_orders(right())
    assert sorted(RIGHT[order[0]] for order in orders) == ["x1", "x4"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("example", [left, right])
def test_every_engine_finds_one_of_them(engine: str, example: object) -> None:
    problem = example()  # type: ignore[operator]
    solution = ENGINES[engine](problem)
    assert solution.verdict is Verdict.LEGAL
    assert tuple(solution.order.tolist()) in legal_orders(problem)


@pytest.mark.parametrize("example", [left, right])
def test_initial_value_of_x_is_2_in_every_order_and_without_solving(example: object) -> None:
    problem = example()  # type: ignore[operator]
    x = problem.address.tolist().index(X)
    assert int(net_values(problem).initial[x]) == 2
    for order in legal_orders(problem):
        assert int(implied_initial(problem, list(order))[x]) == 2


def test_order_of_the_left_example_passes_the_checker(tmp_path: Path) -> None:
    from solver.passes.answers import Options
    from solver.passes.order import order_recording

    cores = [[(X, 2, 1), (Y, 1, 2), (X, 1, 2), (X, 2, 1)], [(X, 1, 1)], [(Y, 0, 1), (Y, 2, 3)]]
    traces = by_hand(cores, {X: 2, Y: 0}, {X: 1, Y: 3})
    result = order_recording(traces, tmp_path / "c", bytes(16), Options(engine="smt", encoding="paper"))
    assert result.verdict is Verdict.LEGAL
    assert result.check.events == 7
