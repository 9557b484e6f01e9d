"""Beam search, wide and too narrow, against a search without reductions; and where depth-first fails."""

from __future__ import annotations

import pytest
from engine_suite import SOAK
from problem_factory import breaks, build, is_legal, random_problem

from bench.ordering_traces import region
from corebraid.base.clock import working_time
from solver.deduction.deduction import deduce
from solver.engines import beam as beam_module
from solver.engines.beam import BeamSearch
from solver.regions.problem import Problem, Verdict

CASES = 800 * SOAK


def searched(problem: Problem, *, deduced: bool = True) -> BeamSearch:
    beam = BeamSearch(problem, deduce(problem, max_clocks=1 << 24 if deduced else 0).before)
    beam.go_on(working_time() + 60)
    return beam


@pytest.mark.parametrize("width", [1, 1024])
@pytest.mark.sampled(1)
def test_a_beam_is_exact_or_says_that_it_is_not(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too narrow a beam falls back and grows; it never claims what is not so."""
    monkeypatch.setattr(beam_module, "_WIDTH", width)
    monkeypatch.setattr(beam_module, "_BACK", 4)
    monkeypatch.setattr(beam_module, "_KEPT_EVERY", 2)
    tally = {True: 0, False: 0}
    for seed in range(CASES):
        damaged = seed % 2 == 1
        problem = random_problem(seed, damaged=damaged)
        truth = is_legal(problem)
        for deduced in (False, True):
            if deduced and deduce(problem).contradiction >= 0:
                continue
            beam = searched(problem, deduced=deduced)
            what = f"random_problem({seed}, damaged={damaged}), width {width}, deduced {deduced}"
            assert beam.verdict is (Verdict.LEGAL if truth else Verdict.ILLEGAL), what
            if truth:
                assert breaks(problem, beam.order.tolist()) == "", what
            tally[truth] += 1
    print(f"width {width}: {tally[True]} legal, {tally[False]} illegal")
    assert tally[True] > CASES
    assert tally[False] > CASES // 8


def test_a_beam_orders_what_repeats_few_values() -> None:
    for kind in ("domain:4", "domain:2"):
        problem = region(kind, cores=8, events=2000, granules=64, seed=1)
        beam = searched(problem)
        assert beam.verdict is Verdict.LEGAL, kind
        assert breaks(problem, beam.order.tolist()) == ""


def test_time_is_up_and_the_search_goes_on_later() -> None:
    problem = region("domain:2", cores=8, events=1000, granules=64, seed=3)
    beam = BeamSearch(problem, deduce(problem).before)
    assert beam.go_on(working_time() - 1) == "timeout"
    assert beam.answer("beam", 1.0, "timeout").verdict is Verdict.UNDECIDED
    assert beam.go_on(working_time() + 60) == ""
    assert breaks(problem, beam.order.tolist()) == ""


def test_regions_without_a_change() -> None:
    legal = build([[[(0, 5, 5)]], [[(0, 5, 5)]]], [5], [5])
    assert searched(legal).verdict is Verdict.LEGAL
    for wrong in (build([[[(0, 5, 5)]]], [4], [4]), build([[[(0, 5, 5)]]], [5], [4])):
        assert searched(wrong).verdict is Verdict.ILLEGAL
