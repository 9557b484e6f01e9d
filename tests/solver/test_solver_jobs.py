"""Several processes give what one gives, certificate or error; and what a killed one costs."""

from __future__ import annotations

import os
import random
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engine_suite import RECORDING, shape_of
from trace_factory import Shape, damage, make

from corebraid.base.errors import CorebraidError
from corebraid.base.rows.event import EVENT, GLUED, OWNED, UNCACHED
from corebraid.base.rows.packed import MOST_WORDS, ROWS, pack_rows, room, start_of_region, unpack_rows
from solver.passes import answers as answers_module
from solver.passes import schedule
from solver.passes.answers import Options, solve
from solver.passes.order import Resources, order_recording
from solver.passes.pool import Calls
from solver.passes.results import OrderResult
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.traces import MemoryTraces

LONG = Shape(steps=120, strata=0.1)


def outcome(traces: MemoryTraces, path: Path, jobs: int) -> tuple[object, ...]:
    """Everything that an ordering says, or its error."""
    try:
        result = order_recording(traces, path, RECORDING, Options(timeout_s=20), None, Resources(jobs=jobs))
    except CorebraidError as error:
        return type(error), error.line()
    return path.read_bytes(), result.counts, result.check, [replace(r, seconds=0.0) for r in result.regions]


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.sampled(1)
def test_the_result_is_that_of_one_process(jobs: int, tmp_path: Path) -> None:
    for seed in range(12):
        traces = make(seed, shape_of(seed, (60, 200)), chunk_rows=1 + seed * 7).traces
        expected = outcome(traces, tmp_path / "alone", 1)
        assert len(expected) == 4
        assert outcome(traces, tmp_path / "together", jobs) == expected, f"seed {seed}"


def test_there_are_no_more_processes_than_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task for each stream, then one for each region, whatever --jobs says."""
    asked = []

    class Counted(schedule.Pool):
        def __init__(self, n: int, calls: Calls) -> None:
            asked.append(n)
            super().__init__(min(n, 2), calls)

    monkeypatch.setattr(schedule, "Pool", Counted)
    traces = make(3, shape_of(3, (60, 200))).traces
    found = outcome(traces, tmp_path / "together", 1000)
    assert asked == [traces.n_streams + len(traces.strata) + 1]
    assert found == outcome(traces, tmp_path / "alone", 1)


@pytest.mark.soak
def test_a_damaged_recording_gives_the_same_error(tmp_path: Path) -> None:
    errors = set()
    for seed in range(30):
        bad, way = damage(make(seed, Shape(steps=80, strata=0.2)).traces, random.Random(seed))
        if seed % 4 == 0:
            bad.rows[0]["size"][len(bad.rows[0]) // 2] = 9
        expected = outcome(bad, tmp_path / "alone", 1)
        assert outcome(bad, tmp_path / "together", 2) == expected, f"seed {seed}, {way}"
        if len(expected) == 2:
            errors.add(str(expected[1]).partition(":")[0][:20] + str(expected[0]))
    assert len(errors) > 10


def dies(region: int, mark: Path, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that solves `region` is killed, the first `times` times."""

    def some(problem: Problem, options: Options) -> Solution:
        if problem.region == region:
            with mark.open("ab") as file:
                file.write(b".")
            if mark.stat().st_size <= times:
                os.kill(os.getpid(), signal.SIGKILL)
        return solve(problem, options)

    monkeypatch.setattr(answers_module, "solve", some)


def hard_region(traces: MemoryTraces, tmp_path: Path) -> tuple[int, OrderResult]:
    """A region in the middle with something to solve, and the result in one process."""
    alone = order_recording(traces, tmp_path / "alone", RECORDING)
    return [r.region for r in alone.regions if r.counts.unfiltered][2], alone


def test_a_killed_process_costs_a_second_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = make(6, LONG).traces
    region, _ = hard_region(traces, tmp_path)
    dies(region, tmp_path / "mark", 1, monkeypatch)
    result = order_recording(traces, tmp_path / "c", RECORDING, None, None, Resources(jobs=2))
    assert result.verdict is Verdict.LEGAL
    assert (tmp_path / "mark").stat().st_size == 2
    assert (tmp_path / "c").read_bytes() == (tmp_path / "alone").read_bytes()


def test_a_region_that_kills_twice_is_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = make(6, LONG).traces
    region, alone = hard_region(traces, tmp_path)
    dies(region, tmp_path / "mark", 9, monkeypatch)
    result = order_recording(traces, tmp_path / "c", RECORDING, None, None, Resources(jobs=2))
    left = [(r.region, r.reason) for r in result.regions if r.verdict is not Verdict.LEGAL]
    assert left == [(region, "worker died")]
    assert result.check.unchecked == left
    assert len(result.regions) == len(alone.regions)


def test_an_extraction_that_is_killed_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = make(3, LONG, chunk_rows=5).traces
    expected = outcome(traces, tmp_path / "alone", 1)
    mark, chunks = tmp_path / "mark", MemoryTraces.chunks

    def some(self: MemoryTraces, stream: int):  # type: ignore[no-untyped-def]
        for k, chunk in enumerate(chunks(self, stream)):
            if stream == 1 and k == 3 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield chunk

    monkeypatch.setattr(MemoryTraces, "chunks", some)
    monkeypatch.setattr("solver.passes.trace_spool._ROWS_A_MESSAGE", 1)
    assert outcome(traces, tmp_path / "together", 2) == expected
    assert mark.exists()


def test_a_full_disk_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("corebraid.base.scratch_file.os.pwrite", full)
    with pytest.raises(CorebraidError, match=r"no room for temporary files \(No space left.*TMPDIR"):
        order_recording(make(1, LONG).traces, tmp_path / "c", RECORDING, None, None, Resources(jobs=2))


def test_packed_rows_come_back() -> None:
    """Also those that do not follow closely, in pieces that end with whole indivisible accesses."""
    rng = np.random.default_rng(4)
    for case in range(60):
        n = int(rng.integers(0, 3 * ROWS))
        rows = np.zeros(n, EVENT)
        rows["seq"] = np.arange(n) + int(rng.integers(0, 99)) + (rng.random(n) < 0.1).cumsum()
        rows["count"] = np.sort(rng.integers(0, 1 << int(rng.integers(1, 63)), n))
        rows["pc"] = rng.integers(0, 1 << 63, n, np.uint64) >> rng.integers(0, 63, n).astype(np.uint64)
        rows["addr"] = rng.integers(0, 1 << 63, n, np.uint64) >> rng.integers(0, 40, n).astype(np.uint64)
        rows["old"] = rng.integers(0, 1 << 63, n, np.uint64)
        rows["new"] = np.where(rng.random(n) < 0.5, rows["old"], rng.integers(0, 1 << 63, n, np.uint64))
        rows["stratum"], rows["core"] = 7, 3
        rows["size"], rows["kind"] = rng.integers(1, 9, n), rng.integers(1, 4, n)
        rows["flags"] = rng.choice([0, 0, UNCACHED, GLUED, OWNED], n)
        rows["flags"][15::16] = rows["flags"][-1:] = 0
        packed = np.empty(n * MOST_WORDS, np.uint64)
        last, used = start_of_region(), 0
        for part in np.array_split(rows, 3):
            used += pack_rows(part, packed[used:], last)
        last, at, found, out = start_of_region(), 0, [np.empty(0, EVENT)], room()
        while at < used:
            m, at = unpack_rows(packed[:used], at, 7, 3, last, out, ROWS)
            assert not out["flags"][m - 1] & GLUED
            found.append(out[:m].copy())
        assert np.concatenate(found).tobytes() == rows.tobytes(), f"case {case}"
