"""LightPlay's benchmark runs on tiny input, and its baselines are what they say."""

from __future__ import annotations

import io
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from lightplay_factory import interleavings, is_correct
from rich.console import Console
from trace_factory import Shape, make

from bench import lightplay, report
from bench.lightplay_c import c_search
from bench.lightplay_log import Sized, encode_order, encode_runs, mark_shared
from bench.true_order import in_true_order
from corebraid.base.rows.event import EVENT
from recorder.files.truth import TRUTH
from solver.evidence.lightplay.interleavings import count


@pytest.fixture(autouse=True)
def _results_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "OUT", tmp_path / "out")


@pytest.mark.soak
def test_the_benchmark_runs(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=300)
    log, seconds, search, speed = lightplay.main(
        console, ("peterson",), (2,), (1,), (("peterson", ""),), ((2, 8),), 1
    )
    assert (len(log.rows), len(seconds.rows), len(search.rows), len(speed.rows)) == (1, 1, 1, 2)
    assert all("no GPU here" in row for row in search.rows)
    assert (tmp_path / "out" / "lightplay.md").exists()


@pytest.mark.parametrize("reads", [True, False])
def test_the_c_loop_finds_what_a_plain_search_finds(reads: bool) -> None:
    problem = lightplay.random_slice(3, 9, reads=reads)
    naive = sum(is_correct(problem, order) for order in interleavings(problem.sizes))
    assert naive > 0
    with c_search() as search:
        if search is None:
            assert shutil.which("gcc") is None
            return
        assert search(problem, count(problem.sizes), np.zeros(4, np.uint64)) == naive


def test_what_the_total_order_is_a_log_of() -> None:
    """Shared accesses against a plain walk; two bytes each as long as numbers are small."""
    made = make(3, Shape(streams=3, steps=60, strata=0.0))
    truth = np.zeros(len(made.slices[0]), TRUTH)
    truth["stream"], truth["end"] = made.slices
    rows = in_true_order(made.traces, truth)
    shared = np.zeros(len(rows), np.bool_)
    mark_shared(rows, np.zeros(made.traces.memory_bytes // 8 + 1, np.uint8), shared)
    touched: dict[int, set[int]] = {}
    for row, flag in zip(rows, shared.tolist(), strict=True):
        if row["flags"] & 1:
            continue
        words = range(int(row["addr"]) >> 3, (int(row["addr"]) + int(row["size"]) - 1 >> 3) + 1)
        for word in words:
            touched.setdefault(word, set()).add(int(row["core"]))
        assert flag == any(len(touched[word]) > 1 for word in words)
    out = np.zeros(20 * len(rows), np.uint8)
    kept = rows[shared]
    assert kept.dtype == EVENT
    assert encode_order(kept, np.zeros(3, np.uint64), out) == 2 * len(kept)
    cores = kept["core"].tolist()
    turns = 1 + sum(one != other for one, other in pairwise(cores))
    assert 1 < turns < len(cores)
    assert encode_runs(kept, out) == 2 * turns
    found, position = [], 0
    while position < 2 * turns:
        found += [int(out[position])] * int(out[position + 1])
        position += 2
    assert found == cores


def test_sizes_of_a_log_in_parts() -> None:
    part = Sized.of(b"a" * 100)
    assert (part.raw, part.stored < 30) == (100, True)
    assert Sized.of(b"a" * 100, b"a" * 100) == part + part
