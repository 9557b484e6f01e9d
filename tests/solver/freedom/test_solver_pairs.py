"""Must and may against every legal order of small regions; witnesses; the ways that large regions take."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from order_oracle import directions, is_legal, small_problems

from bench.ordering_traces import CLASSES, region
from solver.deduction.chains import chains_of
from solver.deduction.deduction import Clocks, Deduction
from solver.freedom import freedom as freedom_module
from solver.freedom.freedom import Freedom, Limits, Survey, freedom_of, path_through
from solver.freedom.graph import build_graph
from solver.freedom.pairs import Order, iter_pairs, tally
from solver.regions.problem import Problem, Verdict

SOAK = int(os.environ.get("COREBRAID_SOAK", "1"))


def deduced_clocks(problem: Problem, most: int) -> Clocks | None:
    deduction = Deduction(problem).go_on(most)
    return None if deduction.contradiction >= 0 else deduction.clocks


def listed(freedom: Freedom) -> dict[tuple[int, int], Order]:
    found: dict[tuple[int, int], Order] = {}
    for pairs in iter_pairs(freedom):
        for a, b, order in zip(
            pairs.first.tolist(), pairs.second.tolist(), pairs.order.tolist(), strict=True
        ):
            assert (a, b) not in found
            assert (b, a) not in found
            found[a, b] = Order(order)
    counts = tally(freedom)
    assert all(counts[order] == list(found.values()).count(order) for order in Order)
    return found


def expected_pairs(problem: Problem, orders: list[list[int]]) -> dict[tuple[int, int], Order]:
    found = {}
    for (a, b), seen in directions(problem, orders).items():
        if seen == {True, False}:
            found[a, b] = Order.MAY
        elif seen:
            found[(a, b) if seen == {True} else (b, a)] = Order.MUST
    return found


def test_pairs_are_those_of_all_orders() -> None:
    seen = dict.fromkeys(Order, 0)
    illegal = cases = 0
    for where, problem, orders in small_problems(350 * SOAK):
        freedom = freedom_of(problem)
        assert (freedom.verdict is Verdict.LEGAL) == bool(orders), where
        assert listed(freedom) == expected_pairs(problem, orders), where
        assert freedom.exact, where
        for order, n in tally(freedom).items():
            seen[order] += n
        illegal += not orders
        cases += 1
    print(f"{cases} regions, {illegal} without an order: {seen}")
    assert seen[Order.MUST] > 500
    assert seen[Order.MAY] > 250
    assert illegal > 25


@pytest.mark.soak
def test_the_reduced_graph_alone_decides_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without deduction and searches: stubborn sets lose no class of orders."""
    may = 0
    for where, problem, orders in small_problems(250 * SOAK):
        chains = chains_of(problem)
        for clocks in (Deduction(problem).clocks, deduced_clocks(problem, 10_000)):
            if clocks is None:
                assert not orders, where
                continue
            graph = build_graph(chains, clocks, reduced=True)
            assert graph.legal == bool(orders), where
            low = np.full((problem.n_ops, len(chains.stream)), 1 << 30, np.int32)
            freedom_module.lower(graph.position, graph.alive, low, chains.stream_ptr)
            if orders:
                found = listed(
                    Freedom(
                        chains,
                        Verdict.LEGAL,
                        np.maximum(low, clocks[0]),
                        low,
                        None,
                        True,
                        len(problem.address),
                    )
                )
                assert found == expected_pairs(problem, orders), where
                may += list(found.values()).count(Order.MAY)
    assert may > 500


@pytest.mark.soak
def test_deduction_is_sound_for_every_order() -> None:
    deduced = 0
    for where, problem, orders in small_problems(200 * SOAK):
        chains = chains_of(problem)
        for most in (0, 10_000):
            clocks = deduced_clocks(problem, most)
            if clocks is None:
                assert not orders, where
                continue
            for order in orders[:50]:
                rank = np.empty(problem.n_ops, np.int64)
                rank[order] = np.arange(problem.n_ops)
                for b in range(problem.n_ops):
                    for u, (first, end) in enumerate(zip(chains.stream_ptr, clocks[0][b], strict=False)):
                        before = np.arange(first, min(end, b) if u == chains.op_stream[b] else end)
                        assert (rank[before] < rank[b]).all(), where
                        deduced += u != chains.op_stream[b] and len(before) > 0
    assert deduced > 5000


def test_what_follows_from_a_supposed_pair_holds_in_every_order_with_it() -> None:
    """And it is closed: no operation knows less than those that must precede it."""
    deduced = refuted = 0
    for where, problem, orders in small_problems(75 * SOAK):
        known, chains = Deduction(problem).go_on(10_000), chains_of(problem)
        streams = chains.op_stream
        if known.contradiction >= 0:
            continue
        for (a, b), seen in directions(problem, orders).items():
            for first, second, possible in ((a, b, True in seen), (b, a, False in seen)):
                supposed = known.supposing((first, second))
                clock, after = supposed.clocks
                closed = supposed.contradiction < 0
                if supposed.go_on(10_000).contradiction >= 0:
                    assert not possible, where
                    refuted += 1
                    continue
                assert clock[second, streams[first]] > first, where
                for x in range(problem.n_ops):
                    for u, reach in enumerate(clock[x].tolist()):
                        y = reach - 1
                        if closed and u != streams[x] and problem.n_ops > y >= chains.stream_ptr[u]:
                            assert (np.delete(clock[x] - clock[y], streams[y]) >= 0).all(), where
                            assert after[y, streams[x]] <= x, where
                for order in (o for o in orders[:20] if o.index(first) < o.index(second)):
                    rank = np.argsort(order)
                    for x in range(problem.n_ops):
                        for u, reach in enumerate(supposed.before[x].tolist()):
                            if u != streams[x]:
                                before = np.arange(chains.stream_ptr[u], reach)
                                assert (rank[before] < rank[x]).all(), where
                                deduced += len(before)
    assert deduced > 5000
    assert refuted > 300


@pytest.mark.soak
def test_every_direction_of_a_may_has_a_witness() -> None:
    checked = impossible = 0
    for where, problem, orders in small_problems(75 * SOAK):
        if not orders:
            continue
        for (a, b), seen in directions(problem, orders).items():
            for first, second, possible in ((a, b, True in seen), (b, a, False in seen)):
                order, decided = Survey(problem, Limits()).witness(first, second)
                assert decided, where
                assert (order is not None) == possible, where
                if order is None:
                    impossible += 1
                    continue
                witness = order.tolist()
                assert is_legal(problem, witness), where
                assert witness.index(first) < witness.index(second), where
                checked += 1
    assert checked > 500
    assert impossible > 300


@pytest.mark.parametrize("kind", CLASSES)
def test_the_ways_agree_on_larger_regions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deduction with searches, and the whole reduced graph without them."""
    for seed in range(3):
        problem = region(kind, cores=4, events=80, granules=9, seed=seed)
        one = freedom_of(problem)
        survey = Survey(problem, Limits())
        must = survey._whole()
        assert survey.graph is not None
        assert survey.graph.complete
        other = Freedom(
            survey.chains, survey.verdict, must, survey.low, survey.order, True, len(problem.address)
        )
        assert listed(one) == listed(other), f"{kind}, seed {seed}"
        for node in np.flatnonzero(survey.graph.alive)[::97].tolist():
            assert is_legal(problem, path_through(survey.graph, node).tolist())


def test_a_small_budget_leaves_pairs_undecided_but_none_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no searches and a graph of few cuts, must and may stay sound."""
    monkeypatch.setattr(Survey, "_targeted", lambda self, *, hard: None)
    monkeypatch.setattr(freedom_module, "_FIRST_WIDTH", 1)
    undecided = 0
    for seed in range(4):
        problem = region("locks", cores=4, events=80, granules=6, seed=seed)
        small = freedom_of(problem, Limits(cuts=20))
        exact = listed(freedom_of(problem, Limits()))
        for (a, b), order in listed(small).items():
            if order is Order.UNDECIDED:
                undecided += 1
            else:
                assert exact[a, b] is order
    assert undecided > 10


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks one too high claim what is not so."""
    wrong = 0
    for _where, problem, orders in small_problems(60):
        freedom = freedom_of(problem)
        if orders and freedom.verdict is Verdict.LEGAL:
            broken = replace(freedom, must=freedom.must + 1)
            wrong += listed(broken) != expected_pairs(problem, orders)
    assert wrong > 20


def test_a_region_without_events_or_pairs() -> None:
    problem = region("unique", cores=2, events=1, granules=1)
    freedom = freedom_of(problem)
    assert (freedom.verdict, freedom.exact, listed(freedom)) == (Verdict.LEGAL, True, {})
