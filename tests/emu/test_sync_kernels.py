"""Sync points in the kernels, each against a naive twin: closure of the edges, segments, runs, checkers; and
counts, pairs, choices and explanations of tiny runs against all orders of their operations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from engine_suite import SOAK
from tso_oracle import all_orders

from bench.order_campaign import can_be_ordered
from bench.tiny_orders import must_precede
from bench.tiny_runs import Run, displace
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import EVENT
from emu.bus.sync_points import ENTER
from solver.check.sync_walk import pass_syncs, sync_walk
from solver.cuts.search import solve_cut
from solver.freedom.choose import Choice, choose, count_switches
from solver.freedom.count import count_orders
from solver.freedom.explain import explain
from solver.freedom.freedom import freedom_of
from solver.freedom.pairs import Order, iter_pairs
from solver.passes.unfiltered import iter_problems
from solver.regions.links import with_links
from solver.regions.problem import Problem, Verdict
from solver.regions.program_order import whole
from solver.regions.region import Region
from solver.regions.sync_order import segments
from solver.regions.traces import MemoryTraces
from solver.sifting.buffered_runs import buffered_runs_of
from solver.sifting.sync_runs import synced_runs_of

MODELS = ("sc", "tso")


def runs(model: str, n: int) -> Iterator[tuple[str, MemoryTraces]]:
    """(how to reproduce it, traces)."""
    for seed in range(n):
        made = Run(seed, model, agents=True).traces()
        if seed % 2:
            yield f"displace(Run({seed}, {model!r}, agents=True).traces(), {seed})", displace(made, seed)
        else:
            yield f"Run({seed}, {model!r}, agents=True).traces()", made


def problems_of(traces: MemoryTraces) -> Iterator[tuple[Region, Problem]]:
    """Its regions, up to the first that contradicts itself."""
    found = iter_problems(traces)
    while True:
        try:
            yield next(found)
        except (StopIteration, OrderError):
            return


def rows_of(region: Region) -> list[list[tuple[int, ...]]]:
    return [[row for piece in rows.pieces() for row in piece.tolist()] for rows in region.streams]


def closure(n: int, pairs: set[tuple[int, int]]) -> np.ndarray:
    """Whether a comes before b, bool (n, n), by whatever way."""
    before = np.zeros((n, n), bool)
    for a, b in pairs:
        before[a, b] = True
    for k in range(n):
        before |= before[:, [k]] & before[[k], :]
    return before


def in_streams(lengths: list[int]) -> set[tuple[int, int]]:
    firsts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    return {(a, a + 1) for s in range(len(lengths)) for a in range(firsts[s], firsts[s + 1] - 1)}


def row_pairs(region: Region, n_cores: int) -> tuple[list[int], set[tuple[int, int]]]:
    """(where each stream's rows begin among all; what must precede what, by streams and sync points)."""
    rows = rows_of(region)
    lengths = [len(stream) for stream in rows]
    firsts = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    points = region.syncs.points
    pairs = in_streams(lengths)
    for t, needs in enumerate(must_precede(rows, points, n_cores)):
        for i, need in enumerate(needs):
            pairs |= {(firsts[s] + n - 1, firsts[t] + i) for s, n in enumerate(need) if n and s != t}
    return firsts, pairs


@pytest.mark.parametrize("model", MODELS)
def test_edges_say_what_all_pairs_of_sync_points_say(model: str) -> None:
    """The closure of `walk_syncs`' edges and streams, against every pair of sync points and every row."""
    waiting = fewer = 0
    for what, traces in runs(model, 120 * SOAK):
        n_cores = traces.n_streams - traces.buffered - 1
        for region, problem in problems_of(traces):
            firsts, pairs = row_pairs(region, n_cores)
            rows = closure(firsts[-1], pairs)
            at = [firsts[s] + end - 1 for s, end in zip(problem.op_stream, problem.end_row, strict=True)]
            expected = rows[np.ix_(at, at)]
            edges = {(int(a), int(b)) for a, b in problem.edges}
            of_streams = in_streams(np.diff(problem.stream_ptr).tolist())
            found = closure(problem.n_ops, of_streams | edges)
            if model == "sc":
                assert (found == expected).all(), f"{what}, region {problem.region}"
            else:
                # There are edges of program order too (test_tso_sure.py).
                assert not (expected & ~found).any(), f"{what}, region {problem.region}"
            waiting += len(edges)
            fewer += int(expected.sum()) > len(edges) + len(of_streams)
    assert waiting > 150
    assert fewer > 30


def test_segments_are_an_order_and_owners_are_chains() -> None:
    shared = 0
    for what, traces in runs("sc", 400 * SOAK):
        n_cores = traces.n_streams - 1
        for region, _ in problems_of(traces):
            firsts, pairs = row_pairs(region, n_cores)
            cut = segments(region.syncs, region.places, [len(rows) for rows in region.streams])
            placed, order, owners = [0] * (n_cores + 1), [], []
            for s, end, owner in zip(cut.stream.tolist(), cut.end.tolist(), cut.owner.tolist(), strict=True):
                order += range(firsts[s] + placed[s], firsts[s] + end)
                owners += [owner] * (end - placed[s])
                placed[s] = end
            assert sorted(order) == list(range(firsts[-1])), what
            rank = {row: i for i, row in enumerate(order)}
            assert all(rank[a] < rank[b] for a, b in pairs), what
            before = closure(firsts[-1], pairs)
            for owner in set(owners):
                mine = [row for row, one in zip(order, owners, strict=True) if one == owner]
                assert all(before[a, b] for a, b in itertools.pairwise(mine)), f"{what}, {owner}"
                shared += (
                    len({next(s for s in range(n_cores + 1) if row < firsts[s + 1]) for row in mine}) > 1
                )
    assert shared > 25


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", MODELS)
def test_runs_keep_sync_points_and_the_order_of_operations(model: str) -> None:
    made = 0
    for what, traces in runs(model, 300 * SOAK):
        n_cores = traces.n_streams - traces.buffered - 1
        for region, problem in problems_of(traces):
            solution = solve_cut(with_links(problem), timeout_s=60)
            if solution.verdict is not Verdict.LEGAL or not len(problem.syncs):
                continue
            if traces.buffered:
                stream, run = buffered_runs_of(problem, solution.order)
            else:
                stream, run = synced_runs_of(
                    solution.order, problem.op_stream, problem.end_row, problem.rows, problem.syncs
                )
            firsts, pairs = row_pairs(region, n_cores)
            placed, rank = [0] * traces.n_streams, {}
            for s, n in zip(stream.tolist(), run.tolist(), strict=True):
                for row in range(placed[s], placed[s] + n):
                    rank[firsts[s] + row] = len(rank)
                placed[s] += n
            assert placed == problem.rows.tolist(), what
            assert all(rank[a] < rank[b] for a, b in pairs), what
            ends = [firsts[problem.op_stream[op]] + problem.end_row[op] - 1 for op in solution.order]
            ranks = [rank[end] for end in ends]
            assert ranks == sorted(ranks), what
            made += 1
    assert made > 150


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", MODELS)
def test_checkers_accept_exactly_the_orders_that_sync_points_allow(model: str) -> None:
    """`pass_syncs`, over random orders of rows that keep the streams."""
    answers = {True: 0, False: 0}
    for seed, (what, traces) in enumerate(runs(model, 300 * SOAK)):
        n_cores = traces.n_streams - traces.buffered - 1
        rng = random.Random(seed)
        for region, _ in problems_of(traces):
            for _ in range(2):
                accepted, allowed = _accepts(rows_of(region), region, n_cores, rng)
                assert accepted == allowed, f"{what}, region {region.index}"
                answers[allowed] += 1
    assert answers[True] > 200
    assert answers[False] > 30


def _accepts(
    rows: list[list[tuple[int, ...]]], region: Region, n_cores: int, rng: random.Random
) -> tuple[bool, bool]:
    """Of one random order: (whether every row is accepted, whether all that must precede it does)."""
    needs = must_precede(rows, region.syncs.points, n_cores)
    at, walk = [0] * len(rows), sync_walk(region.syncs.points, n_cores)
    accepted = allowed = True
    while left := [s for s in range(len(rows)) if at[s] < len(rows[s])]:
        # Mostly one that may stand here, so that some orders are allowed.
        fit = [s for s in left if all(h >= n for h, n in zip(at, needs[s][at[s]], strict=True))]
        s = rng.choice(fit) if fit and rng.random() < 0.95 else rng.choice(left)
        allowed &= s in fit
        source = s if s <= n_cores else s - n_cores - 1
        accepted &= bool(pass_syncs(source, np.uint64(rows[s][at[s]][1]), walk))
        at[s] += 1
    return accepted, allowed


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sampled(1)
def test_counts_pairs_and_choices_keep_sync_points(model: str) -> None:
    regions = edges = pairs = 0
    for what, traces in runs(model, 125 * SOAK):
        for _, problem in problems_of(traces):
            plain = problem if len(problem.source) else replace(problem, source=np.full(problem.n_ops, -1))
            if not 1 < problem.n_ops < 10 or (orders := all_orders(plain)) is None:
                continue
            where = f"{what}, region {problem.region}"
            count = count_orders(problem)
            assert (count.orders, count.exact) == (len(orders), True), where
            if not orders:
                explanation = explain(problem, timeout_s=60)
                assert explanation is None or not can_be_ordered(problem, explanation), where
                continue
            regions += 1
            edges += len(problem.edges)
            fewest = choose(problem, Choice("fewest-switches"))
            assert fewest.figure == min(count_switches(problem, np.array(o)) for o in orders), where
            rank = np.array([np.argsort(order) for order in orders])
            for op in range(problem.n_ops):
                stream, row = int(problem.op_stream[op]), int(problem.end_row[op]) - 1
                for kind, best in (("earliest", rank[:, op].min()), ("latest", rank[:, op].max())):
                    chosen = choose(problem, Choice(kind, problem.region, stream, row))
                    assert (chosen.figure, chosen.proven) == (best, True), f"{where}, {kind} {op}"
                    assert chosen.order is not None
                    assert chosen.order.tolist() in orders, where
            for found in iter_pairs(freedom_of(problem)):
                for a, b, order in zip(found.first, found.second, found.order, strict=True):
                    pairs += 1
                    before = rank[:, a] < rank[:, b]
                    assert order == (Order.MUST if before.all() else Order.MAY), f"{where}: {a}, {b}"
                    assert before.any(), f"{where}: {a}, {b}"
    assert regions > 75
    assert edges > 40
    assert pairs > 250


def test_rows_are_put_together_from_pieces_that_reuse_their_room() -> None:
    """As those of many rows in the spool of several processes do."""
    room = np.zeros(3, EVENT)

    def pieces() -> Iterator[np.ndarray]:
        for first, n in ((0, 3), (3, 3), (6, 2), (8, 3), (11, 1)):
            room["seq"][:n] = np.arange(first, first + n)
            yield room[:n]

    assert whole(pieces())["seq"].tolist() == list(range(12))
    assert len(whole(iter(()))) == 0


def test_points_meet_threads_in_these_runs() -> None:
    """That the runs have what is tested above: threads that move, kernels that work for them, strata."""
    moved = entered = 0
    for seed in range(100):
        points = Run(seed, agents=True).traces().syncs
        cores: dict[int, set[int]] = {}
        for point in points:
            cores.setdefault(int(point["who"]), set()).add(int(point["core"]))
        moved += any(who and len(on) > 1 for who, on in cores.items())
        entered += int((points["way"] & ENTER != 0).any())
    assert moved > 15
    assert entered > 80
