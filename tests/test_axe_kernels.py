"""Kernels are compiled before the time of a trace runs."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from cli_factory import run
from numba.core.dispatcher import Dispatcher

from bench.axe_traces import Shape, random_ops, to_text
from corebraid.cli import console
from solver.axe import kernels
from solver.axe.decide import decide
from solver.axe.kernels import compile_kernels
from solver.axe.text import read_traces


def _compiled() -> dict[str, int]:
    """How many kernels of `solver.axe` there are compiled, by name."""
    kernels = (
        (f"{module.__name__}.{name}", one)
        for module in [*sys.modules.values()]
        if module.__name__.startswith("solver.axe.")
        for name, one in vars(module).items()
    )
    return {name: len(one.signatures) for name, one in kernels if isinstance(one, Dispatcher)}


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_what_was_compiled_beforehand_is_all_that_traces_need(model: str, tmp_path: Path) -> None:
    compile_kernels(model)
    before = _compiled()
    assert sum(before.values()) > 8
    rng = random.Random(7)
    path = tmp_path / "traces"
    for _ in range(30):
        shape = Shape(threads=3, ops=40, addresses=2, values=2, tso=model == "tso")
        path.write_text(to_text(*random_ops(shape, rng)))
        for trace in read_traces(path):
            decide(trace, model, engine="search", timeout_s=5)
    assert _compiled() == before


def test_compilation_counts_against_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(console, "announce_compilation", lambda _: True)
    monkeypatch.setattr(kernels, "compile_kernels", called.append)
    (tmp_path / "t").write_text("0: M[1] := 1\n")
    assert run("check", tmp_path / "t", "--model", "TSO").code == 0
    assert called == ["tso"]
