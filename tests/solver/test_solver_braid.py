"""The braid is all events, in the certificate's order, in chunks of bounded size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, shape_of
from trace_factory import Shape, copy, make

from corebraid.base.errors import OrderError
from solver.check import braid as braid_module
from solver.check.braid import braid
from solver.check.certificate import Certificate
from solver.passes import answers as answers_module
from solver.passes.answers import Options, solve
from solver.passes.order import order_recording
from solver.regions.problem import Problem, Solution, Verdict, no_order


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(braid_module, "_WINDOW_ROWS", 5)
    monkeypatch.setattr(braid_module, "_OUT_ROWS", 11)


def test_the_braid_runs_on_memory_from_the_first_event_to_the_last(tmp_path: Path) -> None:
    for seed in range(40):
        made = make(seed, shape_of(seed, (60,)))
        order_recording(made.traces, tmp_path / "c", RECORDING)
        chunks = list(braid(made.traces, Certificate(tmp_path / "c", RECORDING)))
        assert all(ordered and 0 < len(rows) <= 11 for rows, ordered in chunks)
        rows = np.concatenate([rows for rows, _ in chunks])
        memory = made.traces.before.copy()
        for row in rows:
            if row["flags"] & 1:
                continue
            a, size = int(row["addr"]), int(row["size"])
            assert memory[a : a + size].tobytes() == int(row["old"]).to_bytes(8, "little")[:size]
            memory[a : a + size] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:size], np.uint8)
        assert (memory == made.traces.after).all()
        assert (np.diff(rows["stratum"].astype(int)) >= 0).all()
        for s, mine in enumerate(made.traces.rows):
            assert rows[rows["core"] == s].tolist() == mine.tolist()


def test_a_region_without_an_order_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(5, Shape(steps=200, strata=0.03))

    def some(problem: Problem, options: Options) -> Solution:
        if problem.region == 1:
            return Solution(Verdict.UNDECIDED, "cut", 0.0, no_order(), "budget")
        return solve(problem, options)

    monkeypatch.setattr(answers_module, "solve", some)
    order_recording(made.traces, tmp_path / "c", RECORDING)
    chunks = list(braid(made.traces, Certificate(tmp_path / "c", RECORDING)))
    for rows, ordered in chunks:
        assert ((rows["stratum"] != 1) == ordered).all()
    assert {ordered for _, ordered in chunks} == {True, False}
    assert sum(len(rows) for rows, _ in chunks) == sum(len(rows) for rows in made.traces.rows)


def test_a_certificate_for_longer_traces_is_refused(tmp_path: Path) -> None:
    made = make(5, Shape(steps=100))
    order_recording(made.traces, tmp_path / "c", RECORDING)
    short = copy(made.traces)
    short.rows[1] = short.rows[1][:-1]
    with pytest.raises(OrderError, match="more events of a stream than its trace"):
        list(braid(short, Certificate(tmp_path / "c", RECORDING)))
