"""`corebraid order` on events that have no legal order: the answer is no, with the events that clash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import record, run

from corebraid.base.errors import OrderError
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.engines.decide import solve_auto
from solver.passes.unfiltered import iter_problems, rows_of_ops
from solver.regions.problem import Verdict

_TRADED = ("pc", "addr", "old", "new", "size", "kind", "flags")


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "rec"
    assert record(path, "peterson", "--bus", "mesi", "--cores", 2, "--strata", "none").code == 0
    return path


def traded(first: int, second: int, stream: int, plain: Any) -> Any:
    """`RecordingTraces.chunks` with two events of a stream, given by their seq, in each other's place."""

    def chunks(self: RecordingTraces, wanted: int) -> Iterator[np.ndarray[Any, Any]]:
        rows = list(plain(self, wanted))
        if wanted == stream:
            whole = np.concatenate(rows)
            a, b = (int(np.flatnonzero(whole["seq"] == seq)[0]) for seq in (first, second))
            for name in _TRADED:
                whole[name][[a, b]] = whole[name][[b, a]]
            rows = [whole]
        yield from rows

    return chunks


@pytest.fixture
def clash(rec: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The recording's trace with two events in each other's place, so that no order is legal. Gives their
    addresses."""
    plain = RecordingTraces.chunks
    ((region, problem),) = iter_problems(RecordingTraces(Recording.open(rec)))
    rows, _ = rows_of_ops(region, problem)
    for op in range(int(problem.stream_ptr[1]) - 6):
        first, second = rows[op], rows[op + 6]
        if first["addr"] == second["addr"] or first["size"] != second["size"]:
            continue
        with monkeypatch.context() as patch:
            chunks = traded(int(first["seq"]), int(second["seq"]), 0, plain)
            patch.setattr(RecordingTraces, "chunks", chunks)
            try:
                ((_, changed),) = iter_problems(RecordingTraces(Recording.open(rec)))
            except OrderError:
                continue
            answer = solve_auto(changed, timeout_s=30, nodes=10**9)
        if answer.verdict is Verdict.ILLEGAL:
            monkeypatch.setattr(RecordingTraces, "chunks", chunks)
            return {f"{int(first['addr']):#x}", f"{int(second['addr']):#x}"}
    pytest.fail("no exchange of two events makes this recording illegal")


def test_no_comes_with_the_events_that_clash(rec: Path, clash: set[str]) -> None:
    ran = run("order", rec)
    assert ran.code == 1, ran.err
    assert "no legal order: region 0" in ran.err
    assert "cannot be ordered together" in ran.out or "cannot stand anywhere" in ran.out
    listed = [line for line in ran.out.splitlines() if line.startswith("  ") and "0x" in line]
    assert listed
    assert any(address in line for line in listed for address in clash)


def test_the_explanation_is_in_the_json(rec: Path, clash: set[str]) -> None:
    ran = run("order", rec, "--json")
    assert ran.code == 1, ran.err
    facts = json.loads(ran.out)
    ((explanation),) = facts["explanations"]
    assert (explanation["region"], explanation["found"], explanation["smallest"]) == (0, True, True)
    assert 1 <= len(explanation["events"]) < 20
    assert {event["addr"] for event in explanation["events"]} & clash
    for event in explanation["events"]:
        assert {"core", "count", "pc", "symbol", "kind", "old", "new"} <= set(event)
