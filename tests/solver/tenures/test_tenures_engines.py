"""Engines that obey tenures: the same verdicts as without, legal orders in which all that was deduced
holds."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_suite import ENGINES, RECORDING, SOAK, verdict_of
from tenure_factory import Run

from bench.tiny_orders import is_legal
from bench.tiny_runs import damage
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate
from solver.passes import stages as stages_module
from solver.passes.answers import Options, solve
from solver.passes.order import order_recording
from solver.passes.stages import sift_region
from solver.regions.problem import Problem, Verdict
from solver.regions.region import Region
from solver.regions.traces import MemoryTraces
from solver.sifting.boundary import Forward
from solver.sifting.strata import iter_regions
from solver.tenures.deduce import Deduced


def without(traces: MemoryTraces) -> MemoryTraces:
    """The same traces, by values alone."""
    return replace(traces, line_bytes=0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled(1)
def test_random_runs_are_legal_by_tenures(engine: str, tmp_path: Path) -> None:
    edges = 0
    for seed in range(60 * SOAK):
        traces = Run(seed).traces()
        result = order_recording(traces, tmp_path / "c", RECORDING, ENGINES[engine])
        assert result.verdict is Verdict.LEGAL, f"Run({seed})"
        certificate = Certificate(tmp_path / "c", RECORDING)
        assert certificate.head.constraints == "tenures"
        assert not check_certificate(traces, certificate).unchecked
        edges += sum(problem.deduced for _, problem, _ in problems(traces))
    print(f"{engine}: {edges} edges between operations")
    assert edges > 300


def problems(traces: MemoryTraces) -> list[tuple[Region, Problem, list[int]]]:
    """Regions as engines get them, with the rows that each stream has before them."""
    forward, base, found = Forward(traces.initial()), [0] * traces.n_streams, []
    for region in iter_regions(traces):
        sifted = sift_region(region)
        problem, _ = forward.compose(region, sifted.problem, sifted.chains, sifted.net)
        found.append((region, problem, list(base)))
        base = [first + len(rows) for first, rows in zip(base, region.streams, strict=True)]
    return found


def test_every_edge_holds_in_the_run_and_in_the_order_found() -> None:
    seen: Counter[str] = Counter()
    for seed in range(150 * SOAK):
        run = Run(seed)
        ranks = run.ranks()
        for _, problem, base in problems(run.traces()):
            if not problem.n_ops:
                continue
            order = solve(problem, Options("auto")).order
            place = np.empty(problem.n_ops, np.int64)
            place[order] = np.arange(problem.n_ops)
            streams = problem.op_stream
            for a, b in problem.edges.tolist():
                first, then = (int(base[streams[op]] + problem.end_row[op] - 1) for op in (a, b))
                assert ranks[streams[a]][first] < ranks[streams[b]][then], f"Run({seed}), {a} before {b}"
                assert place[a] < place[b], f"Run({seed}), {a} before {b}"
                seen["edges"] += 1
    print(dict(seen))
    assert seen["edges"] > 600


def test_damaged_runs_get_the_verdict_that_values_give(tmp_path: Path) -> None:
    seen: Counter[Verdict] = Counter()
    for seed in range(120 * SOAK):
        traces = Run(seed).traces()
        traces.rows = damage(traces.rows, seed)
        verdicts = {verdict_of(one, tmp_path / "c", Options()) for one in (traces, without(traces))}
        assert len(verdicts) == 1, f"Run({seed})"
        seen.update(verdicts)
    print(dict(seen))
    assert min(seen[Verdict.LEGAL], seen[Verdict.ILLEGAL]) > 5


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled(1)
def test_losses_leave_verdicts_as_they_are(engine: str, tmp_path: Path) -> None:
    """Of runs and damaged ones: what values alone say, and what a search over all orders says."""
    seen: Counter[Verdict] = Counter()
    for seed in range(60 * SOAK):
        traces = Run(seed, steps=14, stops=seed % 3 == 0).traces(losses=True)
        if seed % 2:
            traces.rows = damage(traces.rows, seed)
        expected = Verdict.LEGAL if is_legal(traces) else Verdict.ILLEGAL
        for one in (traces, without(traces)):
            assert verdict_of(one, tmp_path / "c", ENGINES[engine]) is expected, f"Run({seed})"
        seen[expected] += 1
    assert min(seen[Verdict.LEGAL], seen[Verdict.ILLEGAL]) > 3


def test_orders_obey_what_losses_prove() -> None:
    edges = 0
    for seed in range(60 * SOAK):
        run = Run(seed, stops=False)
        ranks = run.ranks()
        for _, problem, base in problems(run.traces(losses=True)):
            order = solve(problem, Options("auto")).order.tolist() if problem.n_ops else []
            for a, b in problem.edges.tolist():
                s, t = problem.op_stream[a], problem.op_stream[b]
                first, then = (int(base[u] + problem.end_row[op] - 1) for u, op in ((s, a), (t, b)))
                assert ranks[s][first] < ranks[t][then], f"Run({seed})"
                assert order.index(a) < order.index(b), f"Run({seed})"
                edges += 1
    assert edges > 250


def test_wrong_edges_never_make_a_region_illegal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edges that no legal order keeps: the region is ordered by values alone."""
    rng, seen = random.Random(1), Counter[Verdict]()

    def wrong(problem: Problem, deduced: Deduced) -> Problem:
        pairs = [(a, b) for a in range(problem.n_ops) for b in range(problem.n_ops)]
        pairs = [(a, b) for a, b in pairs if problem.op_stream[a] != problem.op_stream[b]]
        chosen = rng.sample(pairs, min(len(pairs), 12))
        return replace(problem, edges=np.array(chosen, np.int64).reshape(-1, 2), deduced=len(chosen))

    monkeypatch.setattr(stages_module, "with_deduced", wrong)
    for seed in range(30):
        seen[order_recording(Run(seed).traces(), tmp_path / "c", RECORDING).verdict] += 1
    assert seen == {Verdict.LEGAL: 30}
