"""Cut search and deduction against a search without reductions, on operations of several granules."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from engine_suite import SOAK
from problem_factory import breaks, build, is_legal, random_problem

from corebraid.base.clock import working_time
from solver.cuts.move_order import EVENLY, GO_ON, SHAKEN
from solver.cuts.search import CutSearch
from solver.deduction.deduction import deduce
from solver.regions.problem import Problem, Solution, Verdict
from solver.smt.engine import solve_smt

CASES = 1500 * SOAK


def decided(problem: Problem, *, deduced: bool = False, counted: bool = False) -> Solution:
    search = CutSearch(problem, deduce(problem).before if deduced else None, counted=counted)
    reason = search.go_on(working_time() + 60, 10**9)
    return search.answer("cut", 0.0, reason)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damaged", [False, True])
def test_every_way_to_search_agrees_with_the_search_without_reductions(damaged: bool) -> None:
    tally = {True: 0, False: 0}
    for seed in range(CASES):
        problem = random_problem(seed, damaged=damaged)
        truth = is_legal(problem)
        tally[truth] += 1
        for deduced, counted in ((False, False), (False, True), (True, True)):
            found = decided(problem, deduced=deduced, counted=counted)
            what = f"random_problem({seed}, damaged={damaged}), deduced {deduced}, counted {counted}"
            assert found.verdict is (Verdict.LEGAL if truth else Verdict.ILLEGAL), what
            if truth:
                assert breaks(problem, found.order.tolist()) == "", what
    print(f"damaged {damaged}: {tally[True]} legal, {tally[False]} illegal, all searches agree")
    assert tally[not damaged] > CASES // 4


def test_deduction_is_never_wrong_and_proves_most_illegal_ones() -> None:
    illegal = proved = 0
    for seed in range(CASES):
        problem = random_problem(seed, damaged=seed % 2 == 1)
        answer = deduce(problem)
        truth = is_legal(problem)
        illegal += not truth
        if answer.contradiction >= 0:
            proved += 1
            assert not truth, f"random_problem({seed}, damaged={seed % 2 == 1})"
    print(f"{proved} of {illegal} illegal problems proved by deduction alone")
    assert proved > 0.9 * illegal


def orders(problem: Problem, limit: int = 3000) -> list[list[int]]:
    """Every legal order, at most `limit` of them."""
    found: list[list[int]] = []
    ends, stream = problem.stream_ptr.tolist(), problem.op_stream.tolist()

    def extend(order: list[int], position: list[int], memory: list[int]) -> None:
        if len(found) >= limit:
            return
        if len(order) == problem.n_ops:
            if memory == problem.final.tolist():
                found.append(order)
            return
        for s in range(problem.n_streams):
            op = position[s]
            if op == ends[s + 1]:
                continue
            parts = range(problem.part_ptr[op], problem.part_ptr[op + 1])
            if all(memory[problem.granule[p]] == problem.old[p] for p in parts):
                after = list(memory)
                for p in parts:
                    after[problem.granule[p]] = int(problem.new[p])
                extend([*order, op], [*position[:s], op + 1, *position[s + 1 :]], after)

    extend([], ends[:-1], problem.initial.tolist())
    assert stream == problem.op_stream.tolist()
    return found


@pytest.mark.soak
def test_what_must_precede_does_so_in_every_legal_order() -> None:
    pairs = 0
    for seed in range(50 * SOAK):
        problem = random_problem(seed, damaged=False)
        before = deduce(problem).before
        used = np.flatnonzero(np.diff(problem.stream_ptr))
        for order in orders(problem):
            rank = np.empty(problem.n_ops, np.int64)
            rank[order] = np.arange(problem.n_ops)
            for op in range(problem.n_ops):
                for column, s in enumerate(used):
                    reach = before[op, column]
                    pairs += int(reach > problem.stream_ptr[s])
                    if reach > problem.stream_ptr[s] and reach - 1 != op:
                        assert rank[reach - 1] < rank[op], f"random_problem({seed}, damaged=False)"
    assert pairs > 1500


@pytest.mark.parametrize("manner", [GO_ON, EVENLY, SHAKEN])
def test_the_manner_changes_no_answer(manner: int) -> None:
    for seed in range(300 * SOAK):
        problem = random_problem(seed, damaged=seed % 2 == 1)
        search = CutSearch(problem, counted=seed % 3 == 0)
        search._at[4] = manner
        reason = search.go_on(working_time() + 60, 10**9)
        found = search.answer("cut", 0.0, reason)
        assert (found.verdict is Verdict.LEGAL) == is_legal(problem), f"seed {seed}"


def test_beginning_again_keeps_what_is_dead_and_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.cuts.search._FIRST_PATIENCE", 1)
    monkeypatch.setattr("solver.cuts.search._MORE_PATIENCE", 1.2)
    again = 0
    for seed in range(300 * SOAK):
        problem = random_problem(seed, damaged=seed % 2 == 1)
        search = CutSearch(problem)
        reason = search.go_on(working_time() + 60, 10**9)
        again += search._tries > 1
        found = search.answer("cut", 0.0, reason)
        assert (found.verdict is Verdict.LEGAL) == is_legal(problem), f"seed {seed}"
    assert again > 3


def test_z3_agrees() -> None:
    for seed in range(60 * SOAK):
        problem = random_problem(seed, damaged=seed % 2 == 1)
        for encoding in ("paper", "chain"):
            found = solve_smt(problem, timeout_s=60, encoding=encoding)
            assert (found.verdict is Verdict.LEGAL) == is_legal(problem), f"seed {seed}, {encoding}"


def test_more_than_64_streams_share_bits_of_a_reason_and_lose_no_order() -> None:
    """70 streams pass a token round; the last two need each other's value only in the damaged one."""
    streams = [[[(0, k, k + 1)]] for k in range(70)]
    assert decided(build(streams, [0], [70])).verdict is Verdict.LEGAL
    crossed = [*streams[:68], [[(1, 0, 1)], [(0, 68, 69)]], [[(0, 69, 70)], [(1, 1, 0)]]]
    assert decided(build(crossed, [0, 0], [70, 0])).verdict is Verdict.LEGAL
    stuck = [*streams[:68], [[(1, 1, 0)], [(0, 68, 69)]], [[(0, 69, 70)], [(1, 0, 1)]]]
    for deduced in (False, True):
        assert decided(build(stuck, [0, 0], [70, 0]), deduced=deduced).verdict is Verdict.ILLEGAL


def test_an_order_of_dead_ends_is_left_for_its_reason_not_tried_through() -> None:
    """Pairs of streams that can run in either order, then two that wait for each other on other granules."""
    free = [[[(g, 0, 1)], [(g, 1, 0)]] for g in range(12)]
    streams = [[op for pair in free for op in pair] for _ in range(2)]
    stuck = [[*streams[0], [(12, 1, 0)], [(13, 0, 1)]], [*streams[1], [(13, 1, 0)], [(12, 0, 1)]]]
    problem = build(stuck, [0] * 14, [0] * 14)
    search = CutSearch(problem)
    assert search.go_on(working_time() + 60, 10**9) == ""
    assert search.answer("cut", 0.0, "").verdict is Verdict.ILLEGAL
    assert search.opened < 100
    assert all(a <= b for a, b in pairwise(problem.stream_ptr.tolist()))
