"""`python -m bench figure6`: small runs, and that nothing is left out of its figures."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from trace_factory import Shape, make

from bench import figure6, report
from bench.figure6 import ALL_EVENTS, Given, Measured, Spent, given
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.smt.engine import solve_smt


@pytest.fixture(autouse=True)
def _results_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")


def regions(seeds: range) -> list[Given]:
    shape = Shape(streams=3, steps=14, domain=3, hot=16, aligned=True, sizes=(8,), glued=0, spin=0.4)
    return [one for seed in seeds for one in given(make(seed, shape).traces)]


def test_uncollapsed_regions_have_all_unfiltered_events_and_the_same_answer() -> None:
    more = 0
    for one in regions(range(20)):
        assert one.collapsed.n_ops == one.counts.unfiltered
        assert one.every.n_ops == one.counts.unfiltered + one.counts.collapsed
        if one.every.n_ops:
            more += one.counts.collapsed
            assert solve_smt(one.every, timeout_s=60, encoding="paper").verdict is Verdict.LEGAL
            wrong = replace(one.every, final=one.every.final + 1)
            assert solve_smt(wrong, timeout_s=60, encoding="paper").verdict is Verdict.ILLEGAL
    assert more > 20


@pytest.mark.soak
def test_it_runs_on_a_small_program() -> None:
    console = Console(file=io.StringIO(), width=200)
    rate, collapsing = figure6.main(console, programs=("fig2",), bounds=("cycles:250",), timeout_s=30)
    ((program, bound, thousands, n_regions, asked, largest, *rates),) = rate.rows
    assert (program, bound, len(rates)) == ("fig2", "cycles:250", 4)
    assert 0 < thousands < 100  # type: ignore[operator]
    assert 0 < asked <= n_regions  # type: ignore[operator]
    assert largest
    assert collapsing.rows[0][2] >= collapsing.rows[0][3] > 0  # type: ignore[operator]
    assert json.loads((report.OUT / "figure6.json").read_text())["figure6"]["rows"] == rate.rows


@pytest.mark.soak
def test_a_region_that_is_not_decided_counts_and_is_told() -> None:
    measured = Measured("program", "bound", accesses=2_000_000)
    problem = regions(range(1))[0].collapsed
    for name, late in (("paper", 1), ("cut", 0)):
        measured.spent[name] = Spent()
        for verdict in [Verdict.LEGAL, Verdict.UNDECIDED][: 1 + late]:
            measured.spent[name].add(problem, Solution(verdict, name, 9.0, no_order()), 3.0)
    assert measured.rate("paper") == ">3.0 (1 late)"
    assert measured.rate("cut") == 1.5


def test_a_recorded_region_without_an_order_is_an_error() -> None:
    problem = regions(range(1))[0].collapsed
    with pytest.raises(AssertionError, match="region 0: paper"):
        Spent().add(problem, Solution(Verdict.ILLEGAL, "paper", 0.0, no_order()), 0.0)


def test_every_engine_is_given_every_region(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def solve(problem: Problem, _: float) -> Solution:
        asked.append(("", problem.n_ops))
        return Solution(Verdict.UNDECIDED, "none", 0.0, no_order())

    engines = tuple(replace(engine, solve=solve) for engine in figure6.ENGINES)
    monkeypatch.setattr(figure6, "ENGINES", engines)
    some = regions(range(6))
    measured = figure6.measure(Measured("program", "bound", 1000), some, 1.0)
    to_order = [one for one in some if one.collapsed.n_ops]
    assert (measured.regions, measured.asked) == (len(some), len(to_order))
    assert {spent.late for spent in measured.spent.values()} == {len(to_order)}
    assert measured.spent[ALL_EVENTS].operations == sum(one.every.n_ops for one in to_order)
    assert measured.spent["chain"].operations == sum(one.collapsed.n_ops for one in to_order)
    assert measured.both == [0.0, 0.0]
