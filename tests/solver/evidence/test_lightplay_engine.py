"""The engine `slices` on random runs whose order is known: every order it gives passes the checker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE
from evidence_factory import record_with
from slice_factory import collect
from trace_factory import Shape, make

from corebraid.base.errors import FormatError
from isa.x86_64.registers import X86_64
from recorder.capture import base as capture_module
from recorder.capture.firmware import RecordOptions, record
from recorder.capture.strata_policy import StrataPolicy
from recorder.evidence.slices import codec
from recorder.evidence.slices.codec import iter_regions_of
from recorder.evidence.slices.log import iter_slices
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.lightplay import search_cpu
from solver.evidence.lightplay.decide import APART, FIXED, FOUND, RELAXED, Decided, Settings
from solver.evidence.lightplay.engine import SlicesEngine
from solver.passes.answers import EvidenceEngine, Options
from solver.passes.crosscheck import Contender, CrossCheck, crosscheck
from solver.passes.order import order_recording
from solver.regions.problem import Verdict

SHAPES = [
    Shape(streams=2, steps=60, domain=3),
    Shape(streams=3, steps=120, domain=2, sizes=(8,), aligned=True),
    Shape(streams=4, steps=100, domain=0),
    Shape(streams=3, steps=150, domain=3, hot=64, switch=0.1, strata=0.02),
]


@pytest.mark.sampled(12)
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


def test_fixing_is_timed_apart_where_there_was_any(tmp_path: Path) -> None:
    kept: list[Decided] = []
    for seed in range(4):
        made = make(seed, SHAPES[1])
        tables = collect(made.traces, made.slices, accesses=8, seed=seed).tables(SHAPES[1].streams)
        engine = SlicesEngine(
            iter_regions_of(tables), SHAPES[1].streams, on_slice=lambda one, _: kept.append(one)
        )
        order_recording(
            made.traces, tmp_path / f"{seed}.cert", bytes(16), Options(engine="slices", evidence=engine)
        )
    ways = {one.how for one in kept}
    assert FOUND in ways
    assert ways & {FIXED, RELAXED, APART}
    for one in kept:
        assert (one.fixing_seconds > 0) == (one.how in (FIXED, RELAXED, APART))
        assert one.search_seconds + one.fixing_seconds <= one.seconds


def test_slices_of_a_region_are_counted_before_they_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    made = make(1, SHAPES[1])
    kept = collect(made.traces, made.slices, accesses=8, seed=1)
    entries = sum(len(table) for table in kept.tables(SHAPES[1].streams))
    monkeypatch.setattr(codec, "_MOST_HELD", entries)
    assert sum(len(table) for table in iter_regions_of(kept.tables(SHAPES[1].streams))) == entries
    monkeypatch.setattr(codec, "_MOST_HELD", 0)
    with pytest.raises(
        FormatError, match=r"^here: more slices in a region than can be held: expected at most 0"
    ):
        list(iter_regions_of(kept.tables(SHAPES[1].streams), "here"))


@pytest.fixture(scope="module")
def racy(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A recording of several regions with races."""
    return record_with(
        FIRMWARE / "bug_lost_update.elf",
        tmp_path_factory.mktemp("slices") / "rec",
        cores=3,
        seed=6,
        longest_slice=40,
        evidence=("slices",),
        strata=StrataPolicy(cycles=3000),
    )


def against_auto(recording: Recording, engine: EvidenceEngine) -> CrossCheck:
    """The engine against the pipeline."""
    contenders = [Contender("auto", Options()), Contender("slices", Options("slices", evidence=engine))]
    return crosscheck(RecordingTraces(recording), contenders)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["auto", "cpu", "cut"])
def test_the_engine_agrees_with_the_pipeline(racy: Recording, backend: str) -> None:
    found = against_auto(racy, SlicesEngine.of(racy, Settings(backend=backend)))
    assert found.disagreements == []
    ours = [row for row in found.rows if row.engine == "slices"]
    assert len(ours) > 3
    assert all(row.checked and row.verdict is Verdict.LEGAL for row in ours)
    assert {row.agrees for row in ours} <= {"identical", "equivalent"}


def named(found: CrossCheck) -> bool:
    return any("slice" in line and "region" in line for line in found.disagreements)


def test_a_wrong_unrank_is_caught(racy: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the order of the next rank."""
    real = search_cpu.orders_of
    monkeypatch.setattr(
        search_cpu,
        "orders_of",
        lambda ranks, ways, instance: real((ranks + np.uint64(1)) % np.uint64(ways), ways, instance),
    )
    found = against_auto(racy, SlicesEngine.of(racy, Settings(backend="cpu")))
    assert named(found)
    assert "lists an order that is not correct" in found.disagreements[0]


@pytest.mark.parametrize("what", ["before", "after", "updated"])
def test_wrong_evidence_is_caught(racy: Recording, what: str) -> None:
    """Planted: a checkpoint, or a value at the end of a slice, that was never there."""
    tables = list(iter_slices(racy))
    column = tables[0].updated if what == "updated" else tables[0].accesses[what]
    used = np.flatnonzero(column != 0)
    column[used[len(used) // 2]] ^= np.uint64(0x55)
    found = against_auto(racy, SlicesEngine(iter_regions_of(iter(tables)), racy.manifest.n_streams))
    assert named(found)
    assert "explains its checkpoints" in found.disagreements[0]


def test_a_killed_recording_is_ordered_as_far_as_its_evidence_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was flushed is used; a region that the evidence does not reach has none."""
    monkeypatch.setattr(capture_module, "FLUSH_EVERY", 6000)

    class Killed(Exception):
        pass

    def kill(instructions: int) -> None:
        if instructions > 15_000:
            raise Killed

    options = RecordOptions(
        cores=3, seed=2, longest_slice=100, evidence=("slices",), strata=StrataPolicy(cycles=2000)
    )
    with pytest.raises(Killed):
        record(FIRMWARE / "bug_lost_update.elf", tmp_path / "rec", X86_64, options, lambda _: None, kill)
    recording = Recording.open(tmp_path / "rec")
    assert recording.killed
    for end in (None, -7):
        log = tmp_path / "rec" / "evidence-slices.log"
        log.write_bytes(log.read_bytes()[:end])
        engine = SlicesEngine.of(recording)
        result = order_recording(
            RecordingTraces(recording),
            tmp_path / "order.cert",
            recording.manifest.id,
            Options(engine="slices", evidence=engine),
        )
        verdicts = [(region.verdict, region.reason) for region in result.regions]
        assert set(verdicts) <= {(Verdict.LEGAL, ""), (Verdict.UNDECIDED, "no evidence")}
        legal = [verdict is Verdict.LEGAL for verdict, _ in verdicts]
        assert legal == sorted(legal, reverse=True)
        assert sum(legal) >= 1
        assert end is None or not all(legal)
