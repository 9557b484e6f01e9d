"""The ordering pass: what it reports, what it leaves undecided, what it writes."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, shape_of
from trace_factory import Shape, by_hand, copy, make, problems

from corebraid.base.errors import OrderError, UsageError
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.cuts.search import solve_cut
from solver.deduction.deduction import deduce
from solver.passes import answers as answers_module
from solver.passes.answers import Options, solve
from solver.passes.order import order_recording
from solver.passes.spool import Spool
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.smt.engine import solve_smt

#: Few values and many writes: the paper's encoding needs far longer than the tests give it.
HARD = Shape(streams=4, steps=400, domain=2, strata=0, hot=64, aligned=True, sizes=(8,), private=0)


def hard() -> Problem:
    ((problem, _counts),) = problems(make(11, HARD, 1000).traces)
    assert problem.n_ops > 300
    return problem


@pytest.mark.parametrize("encoding", ["paper", "chain"])
@pytest.mark.parametrize("timeout_s", [0.02, 1.0])
def test_smt_gives_up_in_time(encoding: str, timeout_s: float) -> None:
    problem = hard()
    began = time.monotonic()
    solution = solve_smt(problem, timeout_s=timeout_s, encoding=encoding)
    took = time.monotonic() - began
    assert took < timeout_s + 3, f"asked for {timeout_s} s, took {took:.2f} s"
    if encoding == "paper":
        assert (solution.verdict, solution.reason) == (Verdict.UNDECIDED, "timeout")


def test_cut_search_stops_at_its_budget_and_goes_on_where_it_stopped() -> None:
    illegal = refutable()
    assert solve_cut(illegal, timeout_s=30).verdict is Verdict.ILLEGAL
    few = solve_cut(illegal, timeout_s=30, nodes=3)
    assert (few.verdict, few.reason) == (Verdict.UNDECIDED, "budget")


def test_cut_search_stops_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.cuts.search._SLICE", 1)
    solution = solve_cut(refutable(), timeout_s=0.0)
    assert (solution.verdict, solution.reason) == (Verdict.UNDECIDED, "timeout")


def refutable() -> Problem:
    """Two cores that each read what the other writes only afterwards, behind a start that can run in many
    ways: no order, but values that chain up everywhere."""
    x, y, start = 0x100, 0x108, []
    for k in range(12):
        start += [(0x200 + 8 * (k % 3), 0, 1), (0x200 + 8 * (k % 3), 1, 0)]
    cores = [[*start, (y, 1, 1), (x, 0, 1)], [*start, (x, 1, 1), (y, 0, 1)]]
    ((problem, _counts),) = problems(by_hand(cores, {}, {x: 1, y: 1}))
    return problem


def test_larger_regions_cut_and_chain_agree() -> None:
    found = dict.fromkeys(Verdict, 0)
    rng = random.Random(7)
    shape = Shape(streams=3, steps=100, domain=3, strata=0, hot=48, aligned=True, sizes=(8,), glued=0)
    for seed in range(60):
        bad = copy(make(seed, replace(shape, uncached=0)).traces)
        rows = bad.rows[rng.randrange(3)]
        i = rng.randrange(len(rows) - 1)
        j = rng.randrange(i, min(i + 6, len(rows)))
        for name in ("addr", "old", "new", "kind"):
            rows[name][[i, j]] = rows[name][[j, i]]
        try:
            ((problem, _counts),) = problems(bad)
        except OrderError:
            continue
        cut = solve_cut(problem, timeout_s=20)
        chain = solve_smt(problem, timeout_s=20)
        assert cut.verdict is chain.verdict, f"seed {seed}"
        found[cut.verdict] += 1
    print(f"cut and chain agree: {found}")
    assert min(found[Verdict.LEGAL], found[Verdict.ILLEGAL]) > 3


def undecided_at(region: int, monkeypatch: pytest.MonkeyPatch, verdict: Verdict = Verdict.UNDECIDED) -> None:
    def some(problem: Problem, options: Options) -> Solution:
        if problem.region == region:
            reason = "timeout" if verdict is Verdict.UNDECIDED else ""
            return Solution(verdict, "cut", 0.0, no_order(), reason)
        return solve(problem, options)

    monkeypatch.setattr(answers_module, "solve", some)


def test_one_undecided_region_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(5, Shape(steps=120, strata=0.1))
    n = len(made.traces.strata) + 1
    for region in range(n):
        undecided_at(region, monkeypatch)
        result = order_recording(made.traces, tmp_path / "c", RECORDING)
        assert result.verdict is Verdict.UNDECIDED
        assert [r.region for r in result.regions if r.verdict is not Verdict.LEGAL] == [region]
        assert result.check.unchecked == [(region, "timeout")]
        assert result.check.unchecked_events == result.regions[region].counts.total
        report = check_certificate(made.traces, Certificate(tmp_path / "c", RECORDING))
        assert report.unchecked == [(region, "timeout")]
    assert n > 5


def test_an_illegal_region_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(5, Shape(steps=120, strata=0.1))
    undecided_at(2, monkeypatch, Verdict.ILLEGAL)
    result = order_recording(made.traces, tmp_path / "c", RECORDING)
    assert result.verdict is Verdict.ILLEGAL
    assert result.check.unchecked == [(2, "illegal")]


def test_regions_are_solved_one_after_the_other_and_progress_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(6, Shape(steps=120, strata=0.1))
    seen: list[int] = []

    def watched(problem: Problem, options: Options) -> Solution:
        seen.append(problem.region)
        return solve(problem, options)

    monkeypatch.setattr(answers_module, "solve", watched)
    told: list[tuple[int, int]] = []
    order_recording(made.traces, tmp_path / "c", RECORDING, None, lambda k, n: told.append((k, n)))
    n = len(made.traces.strata) + 1
    assert seen == list(range(n))
    assert told == [(k + 1, n) for k in range(n)]


def test_a_certificate_is_replaced_only_by_a_checked_one(tmp_path: Path) -> None:
    made = make(6, shape_of(6, (30,)))
    order_recording(made.traces, tmp_path / "c", RECORDING)
    first = (tmp_path / "c").read_bytes()
    order_recording(made.traces, tmp_path / "c", RECORDING)
    assert (tmp_path / "c").read_bytes() == first
    bad = copy(made.traces)
    longest = max(bad.rows, key=len)
    longest["old"][-1] ^= np.uint64(1)
    with pytest.raises(OrderError):
        order_recording(bad, tmp_path / "c", RECORDING)
    assert (tmp_path / "c").read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_auto_asks_the_deduction_when_the_cut_search_has_no_budget_left() -> None:
    solution = solve(refutable(), Options(engine="auto", nodes=3))
    assert (solution.engine, solution.verdict) == ("deduction", Verdict.ILLEGAL)


def test_auto_goes_to_smt_when_deduction_says_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = refutable()
    nothing = deduce(problem, max_clocks=0)
    assert (nothing.contradiction, nothing.complete, nothing.before.shape) == (-1, False, (0, 2))
    monkeypatch.setattr("solver.engines.decide.deduce", lambda _: nothing)
    solution = solve(problem, Options(engine="auto", nodes=3))
    assert (solution.engine, solution.verdict) == ("smt-chain", Verdict.ILLEGAL)


@pytest.mark.parametrize(
    ("engine", "blamed"), [("wrong", "a defect of corebraid"), ("slices", "the recording is damaged")]
)
def test_a_wrong_initial_value_of_an_engine_is_caught(
    engine: str, blamed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evidence may be damaged, or values that it is of."""

    def wrong(problem: Problem, options: Options) -> Solution:
        return Solution(Verdict.LEGAL, engine, 0.0, np.array([1, 0]))

    monkeypatch.setattr(answers_module, "solve", wrong)
    traces = by_hand([[(0x100, 5, 6)], [(0x100, 6, 7)]], {0x100: 5}, {0x100: 7})
    with pytest.raises(OrderError, match="implies another initial value") as caught:
        order_recording(traces, tmp_path / "c", RECORDING)
    assert blamed in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        Options(engine="yices"),
        Options(encoding="none"),
        Options(timeout_s=0),
        Options(timeout_s=float("nan")),
        Options(nodes=0),
    ],
)
def test_wrong_options_are_refused(options: Options, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        order_recording(make(1, Shape()).traces, tmp_path / "c", RECORDING, options)


@pytest.mark.parametrize("held", [0, 20, 1 << 20])
def test_what_is_put_aside_comes_back(held: int) -> None:
    spool = Spool(held)
    groups = {k: [np.arange(k, dtype=np.uint64), np.ones(3 * k, np.uint8)] for k in (5, 0, 2, 1)}
    for k, arrays in groups.items():
        spool.put(k, list(arrays))
    for _ in range(2):
        for k, arrays in groups.items():
            for found, expected in zip(spool.get(k), arrays, strict=True):
                assert found.dtype == expected.dtype
                assert found.tolist() == expected.tolist()
                found += 1
    assert 5 in spool
    assert 1 in spool
    assert 3 not in spool
    with pytest.raises(KeyError):
        spool.get(3)
    spool.close()


def test_a_recording_that_lost_its_end_is_ordered_forwards(tmp_path: Path) -> None:
    """A killed recorder leaves no final image: what precedes the last stratum is ordered without it."""
    for seed in range(20):
        made = make(seed, Shape(steps=120, strata=0.1))
        cut = made.traces.strata[-1]
        rows = [r[r["count"] < cut[s]] for s, r in enumerate(made.traces.rows)]
        killed = replace(made.traces, rows=rows, after=np.full(1, 0xEE, np.uint8), has_final=False)
        result = order_recording(killed, tmp_path / "c", RECORDING)
        assert result.verdict is Verdict.LEGAL
        assert result.check.events == sum(len(r) for r in rows)
