"""The number of legal orders, against all of them and against a slow exact count."""

from __future__ import annotations

import math
import os
from functools import cache

import numpy as np
import pytest
from order_oracle import small_problems
from trace_factory import by_hand, problems

from bench.ordering_traces import CLASSES, region
from solver.deduction.chains import chains_of, held
from solver.freedom import count as count_module
from solver.freedom.count import Count, add_limbs, components, count_orders, shorten
from solver.freedom.freedom import Limits
from solver.regions.problem import Problem

SOAK = int(os.environ.get("COREBRAID_SOAK", "1"))


def slow_count(problem: Problem) -> int:
    """Recursion over cuts in Python integers; nothing is reduced."""
    parts = [
        [
            (int(problem.granule[p]), int(problem.old[p]), int(problem.new[p]))
            for p in range(problem.part_ptr[op], problem.part_ptr[op + 1])
        ]
        for op in range(problem.n_ops)
    ]
    ends = tuple(problem.stream_ptr[1:].tolist())
    final = tuple(problem.final.tolist())

    @cache
    def ways(position: tuple[int, ...], memory: tuple[int, ...]) -> int:
        if position == ends:
            return int(memory == final)
        total = 0
        for s, op in enumerate(position):
            if op < ends[s] and all(memory[g] == old for g, old, _ in parts[op]):
                after = list(memory)
                for g, _, new in parts[op]:
                    after[g] = new
                total += ways((*position[:s], op + 1, *position[s + 1 :]), tuple(after))
        return total

    return ways(tuple(problem.stream_ptr[:-1].tolist()), tuple(problem.initial.tolist()))


def test_counts_are_those_of_all_orders() -> None:
    zero = one = many = 0
    for where, problem, orders in small_problems(500 * SOAK):
        count = count_orders(problem)
        assert (count.orders, count.exact) == (len(orders), True), where
        zero += not orders
        one += len(orders) == 1
        many += len(orders) > 1
    print(f"{zero} regions without an order, {one} with one, {many} with more")
    assert min(zero, one, many) > 25


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(("cores", "events", "granules"), [(2, 60, 6), (3, 30, 6), (3, 60, 3), (4, 40, 3)])
def test_medium_regions_equal_a_slow_count(kind: str, cores: int, events: int, granules: int) -> None:
    for seed in range(2):
        problem = region(kind, cores=cores, events=events, granules=granules, seed=seed)
        count = count_orders(problem)
        assert (count.orders, count.exact) == (slow_count(problem), True), f"{kind}, seed {seed}"
        assert count.orders > 0


def test_streams_that_share_nothing_interleave_freely() -> None:
    """Two pairs of cores on a granule each: binomial times the product."""
    traces = by_hand(
        [
            [(0x100, k, k + 1) for k in range(0, 80, 2)],
            [(0x100, k, k + 1) for k in range(1, 80, 2)],
            [(0x200, k, k + 1) for k in range(0, 80, 2)],
            [(0x200, k, k + 1) for k in range(1, 80, 2)],
        ],
        {},
        {0x100: 80, 0x200: 80},
    )
    ((problem, _counts),) = problems(traces)
    assert len(components(problem)) == 2
    count = count_orders(problem)
    assert (count.orders, count.exact, count.cuts) == (math.comb(160, 80), True, 162)


def test_counts_need_no_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past 64, 128, 192 bits over one graph: two cores that share nothing, taken as one piece."""
    monkeypatch.setattr(count_module, "components", lambda problem: [problem])
    n = 150
    n = 150
    flat = region("unique", cores=2, events=2 * n, granules=1, seed=1)
    alone = Problem(
        0, flat.rows, flat.stream_ptr, flat.end_row, flat.part_ptr,
        np.arange(2 * n, dtype=np.int32), np.zeros(2 * n, np.uint64), np.ones(2 * n, np.uint64),
        np.arange(2 * n, dtype=np.uint64) * 8, np.full(2 * n, 8, np.uint8), np.zeros(2 * n, np.uint64),
        np.ones(2 * n, np.uint64),
    )  # fmt: skip
    count = count_orders(alone)
    left = int(flat.stream_ptr[1])
    assert count.orders == math.comb(2 * n, left)
    assert count.orders > 1 << 192


def test_over_the_budget_the_answer_is_a_bound() -> None:
    bounds = []
    for seed in range(4):
        problem = region("mixed", cores=3, events=60, granules=6, seed=seed)
        exact = count_orders(problem)
        few = count_orders(problem, Limits(cuts=40))
        assert exact.exact
        assert 1 <= few.orders <= exact.orders
        assert few.exact == (few.orders == exact.orders and few.exact)
        bounds.append(few.exact)
    assert not all(bounds)


def test_the_words() -> None:
    assert Count(0, True, 1, 9).words == "no legal order: the recording is damaged"
    assert Count(1, True, 1, 9).words == "exactly this order is possible"
    assert Count(1234, True, 1, 9).words == "1,234 orders of the unfiltered events fit the evidence"
    assert Count(8, False, 9, 9).words.startswith("more than 7 orders fit the evidence (budget of 9 cuts")
    assert Count(0, False, 9, 9).words.startswith("not known whether")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (10**15 - 1, "999,999,999,999,999"),
        (10**15, "about 1.00e15"),
        (12345 * 10**400, "about 1.23e404"),
        (10**1000 - 1, "about 9.99e999"),
    ],
)
def test_long_numbers_are_shortened(number: int, text: str) -> None:
    assert shorten(number) == text


def whole(words: np.ndarray) -> int:  # type: ignore[type-arg]
    return sum(int(word) << (64 * k) for k, word in enumerate(words))


def test_addition_carries() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        a = rng.integers(0, 1 << 64, 4, dtype=np.uint64, endpoint=False)
        b = rng.integers(0, 1 << 64, 4, dtype=np.uint64, endpoint=False)
        a[rng.integers(0, 4)] = np.uint64((1 << 64) - 1)
        b[rng.integers(0, 4)] = np.uint64(int(rng.integers(0, 2)) * ((1 << 64) - 1))
        a[3] = b[3] = np.uint64(1)
        expected = whole(a) + whole(b)
        add_limbs(a, b)
        assert whole(a) == expected


def test_held_is_what_memory_holds() -> None:
    for _where, problem, orders in small_problems(100):
        for order in orders[:3]:
            chains = chains_of(problem)
            memory, position = problem.initial.copy(), chains.stream_ptr[:-1].astype(np.int32)
            for op in order:
                assert [held(g, position, chains) for g in range(len(memory))] == memory.tolist()
                for p in range(problem.part_ptr[op], problem.part_ptr[op + 1]):
                    memory[problem.granule[p]] = problem.new[p]
                position[chains.op_stream[op]] += 1
