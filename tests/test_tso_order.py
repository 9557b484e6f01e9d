"""Ordering under TSO against a search over all orders of the rows: every engine, regions, certificate,
checker."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_solver_engines import SOAK
from tso_factory import Run, damage, is_tso

from isa.errors import OrderError
from solver.certificate import Certificate
from solver.checker import check_certificate
from solver.order import Options, order_recording
from solver.problem import Verdict
from solver.traces import MemoryTraces

CASES = 400 * SOAK
ENGINES = (Options("auto"), Options("cut"), Options("smt", encoding="chain"))


def verdict(traces: MemoryTraces, path: Path, options: Options) -> bool:
    """Whether an engine finds an order, which the checker then accepts."""
    try:
        result = order_recording(traces, path, bytes(16), options)
    except OrderError as error:
        if "defect" in str(error):
            raise
        return False
    assert result.verdict is not Verdict.UNDECIDED
    report = check_certificate(traces, Certificate(path, bytes(16)))
    if result.verdict is Verdict.LEGAL:
        assert report.events == sum(len(rows) for rows in traces.rows)
    return result.verdict is Verdict.LEGAL


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("options", ENGINES, ids=lambda options: options.engine)
def test_every_engine_agrees_with_the_search_over_all_orders(
    tmp_path: Path, options: Options, damaged: bool
) -> None:
    tally = {True: 0, False: 0}
    for seed in range(CASES if options.engine != "smt" else CASES // 4):
        run = Run(seed)
        rows = damage(run.rows(), seed) if damaged else run.rows()
        traces = run.traces(rows)
        truth = is_tso(traces)
        tally[truth] += 1
        what = f"Run({seed}), damaged {damaged}, {options.engine}"
        assert verdict(traces, tmp_path / "order.cert", options) == truth, what
    print(f"{options.engine}, damaged {damaged}: {tally[True]} legal, {tally[False]} not")
    assert min(tally.values()) > 20 if damaged else not tally[False]
