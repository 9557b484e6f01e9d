"""Chosen orders are legal, as wished, and optimal, against every legal order of small regions."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from order_oracle import directions, is_legal, small_problems, small_shape
from trace_factory import make, problems

from bench.ordering_traces import region
from corebraid.base.errors import UsageError
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.freedom import choose as choose_module
from solver.freedom.choose import Choice, choose, choose_order, count_switches
from solver.freedom.freedom import Limits
from solver.passes.answers import Options
from solver.passes.order import order_recording
from solver.regions.problem import Problem, Verdict

SOAK = int(os.environ.get("COREBRAID_SOAK", "1"))
RECORDING = bytes(range(16))


def of_op(problem: Problem, kind: str, op: int, other: int | None = None) -> Choice:
    """The choice about the event that ends an operation."""
    streams, rows = problem.op_stream, problem.end_row - 1
    if other is None:
        return Choice(kind, problem.region, int(streams[op]), int(rows[op]))
    return Choice(
        kind, problem.region, int(streams[op]), int(rows[op]), int(streams[other]), int(rows[other])
    )


def test_fewest_switches_is_optimal() -> None:
    less = 0
    for where, problem, orders in small_problems(300 * SOAK):
        chosen = choose(problem, Choice("fewest-switches"))
        if not orders:
            assert (chosen.verdict, chosen.order) == (Verdict.ILLEGAL, None), where
            continue
        assert chosen.order is not None
        assert is_legal(problem, chosen.order.tolist()), where
        every = [count_switches(problem, np.array(order)) for order in orders]
        assert (chosen.figure, chosen.proven) == (min(every), True), where
        assert count_switches(problem, chosen.order) == chosen.figure, where
        less += min(every) < max(every)
    assert less > 100


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("kind", ["earliest", "latest"])
@pytest.mark.sampled(1)
def test_an_event_stands_as_early_or_late_as_can_be(
    kind: str, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the quick way and by the graph alone."""
    if not quick:
        monkeypatch.setattr(choose_module, "_bound", lambda survey, op, *, late: None)
    moved = 0
    for where, problem, orders in small_problems(150 * SOAK):
        if not orders:
            continue
        ranks = np.array([np.argsort(order) for order in orders])
        for op in range(problem.n_ops):
            chosen = choose(problem, of_op(problem, kind, op))
            best = ranks[:, op].min() if kind == "earliest" else ranks[:, op].max()
            assert chosen.order is not None
            assert is_legal(problem, chosen.order.tolist()), where
            assert (chosen.figure, chosen.proven) == (best, True), f"{where}, operation {op}"
            assert chosen.order.tolist().index(op) == best, where
            moved += ranks[:, op].min() < ranks[:, op].max()
    assert moved > 300


@pytest.mark.soak
def test_one_event_before_another() -> None:
    refused = 0
    for where, problem, orders in small_problems(80 * SOAK):
        if not orders:
            continue
        for (a, b), seen in directions(problem, orders).items():
            for first, second, possible in ((a, b, True in seen), (b, a, False in seen)):
                choice = of_op(problem, "before", first, second)
                if possible:
                    order = choose_order(problem, choice, cuts=10_000, timeout_s=20).order.tolist()
                    assert is_legal(problem, order), where
                    assert order.index(first) < order.index(second), where
                else:
                    refused += 1
                    with pytest.raises(UsageError, match="in no legal order"):
                        choose_order(problem, choice, cuts=10_000, timeout_s=20)
    assert refused > 100


def test_chosen_orders_pass_the_checker(tmp_path: Path) -> None:
    checked = 0
    for seed in range(60 * SOAK):
        made = make(seed, small_shape(seed))
        choices = [Choice("fewest-switches")]
        for problem, _counts in problems(made.traces):
            for op in range(0, problem.n_ops, 3):
                choices += [of_op(problem, kind, op) for kind in ("earliest", "latest")]
        for choice in choices:
            result = order_recording(made.traces, tmp_path / "c", RECORDING, Options(choice=choice))
            assert result.verdict is Verdict.LEGAL, f"seed {seed}, {choice}"
            report = check_certificate(made.traces, Certificate(tmp_path / "c", RECORDING))
            assert (report.events, report.unchecked) == (result.counts.total, []), f"seed {seed}, {choice}"
            checked += 1
    assert checked > 200


def test_a_small_budget_gives_a_legal_order_and_says_that_it_is_not_proven() -> None:
    unproven = 0
    for seed in range(4):
        problem = region("mixed", cores=4, events=80, granules=8, seed=seed)
        few = choose(problem, Choice("fewest-switches"), Limits(cuts=60))
        many = choose(problem, Choice("fewest-switches"))
        assert few.order is not None
        assert many.order is not None
        assert is_legal(problem, few.order.tolist())
        assert is_legal(problem, many.order.tolist())
        assert many.figure <= few.figure
        unproven += not few.proven
    assert unproven == 4
