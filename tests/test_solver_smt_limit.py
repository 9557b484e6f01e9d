"""The limit of one region holds, whatever z3 does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import z3

import solver.smt as smt
from bench.ordering_traces import region
from solver.problem import Problem, Verdict


@pytest.mark.parametrize("where", ["formula", "check"])
def test_who_does_not_heed_interrupts_is_not_waited_for(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    release, ended = threading.Event(), threading.Event()

    def deaf(*_: Any) -> Any:
        release.wait(60)
        ended.set()
        return z3.unknown

    def encode(problem: Problem, solver: z3.Solver, on_time: Callable[[], None]) -> list[Any]:
        return [] if where == "check" else [deaf()]

    monkeypatch.setitem(smt.ENCODINGS, "chain", (encode, smt._difference_logic))
    if where == "check":
        monkeypatch.setattr(smt, "_check", deaf)
    monkeypatch.setattr(smt, "_LATE_S", 0.1)
    solution = smt.solve_smt(region("unique", cores=2, events=20), timeout_s=0.2)
    assert not ended.is_set()
    assert (solution.verdict, solution.reason) == (Verdict.UNDECIDED, "timeout")
    release.set()
    assert ended.wait(60)
