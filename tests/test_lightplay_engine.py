"""The engine `slices` on random runs whose order is known: every order it gives passes the checker."""

from __future__ import annotations

from pathlib import Path

import pytest
from slice_factory import collect
from trace_factory import Shape, make

from recorder.slice_codec import iter_regions_of
from solver.lightplay.engine import SlicesEngine
from solver.order import Options, order_recording
from solver.problem import Verdict

SHAPES = [
    Shape(streams=2, steps=60, domain=3),
    Shape(streams=3, steps=120, domain=2, sizes=(8,), aligned=True),
    Shape(streams=4, steps=100, domain=0),
    Shape(streams=3, steps=150, domain=3, hot=64, switch=0.1, strata=0.02),
]


@pytest.mark.parametrize("number", range(len(SHAPES)))
@pytest.mark.parametrize("seed", range(8))
def test_orders_of_random_runs_are_legal(number: int, seed: int, tmp_path: Path) -> None:
    shape = SHAPES[number]
    made = make(seed, shape)
    kept = collect(made.traces, made.slices, accesses=(4, 8, 16, 40)[seed % 4], seed=seed)
    engine = SlicesEngine(iter_regions_of(kept.tables(shape.streams)), shape.streams)
    result = order_recording(
        made.traces, tmp_path / "order.cert", bytes(16), Options(engine="slices", evidence=engine)
    )
    assert result.verdict is Verdict.LEGAL, [r for r in result.regions if r.verdict is not Verdict.LEGAL]
