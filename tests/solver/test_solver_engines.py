"""All engines against each other, the checker, and a brute-force oracle, on random traces."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from engine_suite import ENGINES, RECORDING, SOAK, shape_of, verdict_of
from trace_factory import Made, Shape, damage, make, oracle

from corebraid.base.errors import OrderError
from solver.check.certificate import Certificate
from solver.check.checker import check_certificate, check_slices
from solver.passes.order import order_recording
from solver.regions.problem import Verdict
from solver.regions.traces import MemoryTraces


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sampled(1)
def test_random_runs_are_legal_and_their_certificates_pass(engine: str, tmp_path: Path) -> None:
    cases = events = unfiltered = 0
    for seed in range(120 * SOAK):
        made = make(seed, shape_of(seed, (10, 30, 60)))
        result = order_recording(made.traces, tmp_path / "c", RECORDING, ENGINES[engine])
        assert result.verdict is Verdict.LEGAL, f"seed {seed}"
        report = check_certificate(made.traces, Certificate(tmp_path / "c", RECORDING))
        assert report.events == result.counts.total == sum(len(rows) for rows in made.traces.rows)
        assert not report.unchecked
        cases += 1
        events += result.counts.total
        unfiltered += result.counts.unfiltered
    print(f"{engine}: {cases} random runs, {events} events, {unfiltered} unfiltered, all legal and certified")


def test_the_interleaving_that_ran_is_legal() -> None:
    for seed in range(300 * SOAK):
        made = make(seed, shape_of(seed, (10, 40, 200)), chunk_rows=1 + seed % 50)
        report = check_slices(made.traces, [made.slices])
        assert report.events == sum(len(rows) for rows in made.traces.rows), f"seed {seed}"


@pytest.mark.soak
def test_engines_agree_with_the_oracle_on_damaged_traces(tmp_path: Path) -> None:
    legal, illegal = 0, 0
    for seed in range(200 * SOAK):
        made = make(seed, shape_of(seed, (4, 8, 14)))
        bad, way = damage(made.traces, random.Random(seed))
        expected = Verdict.LEGAL if oracle(bad) else Verdict.ILLEGAL
        for engine, options in ENGINES.items():
            found = verdict_of(bad, tmp_path / "c", options)
            assert found is expected, f"seed {seed}, {way}, {engine}: {found}, oracle {expected}"
        legal += expected is Verdict.LEGAL
        illegal += expected is Verdict.ILLEGAL
    print(f"damaged traces: {legal} still legal, {illegal} illegal; every engine agrees with the oracle")
    assert legal > 10 * SOAK
    assert illegal > 50 * SOAK


def shuffled(made: Made, seed: int) -> MemoryTraces:
    """Events of one core permuted within small windows: the values still chain up, so that it takes an
    engine, and not the boundary values, to refute it."""
    rng = random.Random(seed)
    for _ in range(20):
        bad, way = damage(made.traces, rng)
        if way in ("swap", "exchange"):
            return bad
    return made.traces


def test_engines_agree_with_the_oracle_where_only_an_engine_can_tell(tmp_path: Path) -> None:
    refuted = dict.fromkeys(ENGINES, 0)
    for seed in range(150 * SOAK):
        shape = Shape(
            streams=2 + seed % 2, steps=12, domain=2 + seed % 3, hot=16, aligned=True, sizes=(8,), strata=0,
            glued=0, private=0, uncached=0,
        )  # fmt: skip
        bad = shuffled(make(10_000 + seed, shape), seed)
        expected = Verdict.LEGAL if oracle(bad) else Verdict.ILLEGAL
        for engine, options in ENGINES.items():
            try:
                found = order_recording(bad, tmp_path / "c", RECORDING, options).verdict
                refuted[engine] += found is Verdict.ILLEGAL
            except OrderError:
                found = Verdict.ILLEGAL
            assert found is expected, f"seed {seed}, {engine}: {found}, oracle {expected}"
    print(f"refuted by the engines themselves: {refuted}")
    assert min(refuted.values()) > 10 * SOAK
