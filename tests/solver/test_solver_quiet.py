"""Runs of quiet regions, as they are cut from traces and as they pass the ledger."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from empty_strata import with_empty_strata
from evidence_factory import record_with
from quiet_guest import quiet_elf
from trace_factory import Shape, by_hand, make, rows_of

from corebraid.base.errors import FormatError
from corebraid.base.rows.record import RECORD
from emu.bus.losses import LOSS
from emu.bus.sync_points import LEAVE, SYNC_POINT
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.constraints import LOSSES, TENURES, VALUES
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes import ahead, unfiltered
from solver.passes.answers import Options
from solver.passes.order import Resources, order_recording
from solver.passes.unfiltered import iter_problems
from solver.regions.quiet import Quiet
from solver.regions.region import Region
from solver.regions.traces import MemoryTraces, Traces
from solver.sifting.strata import iter_regions, iter_stretches

#: Three streams that do something in most regions; strata stand in clusters.
SHAPE = Shape(steps=80, strata=0.2)


def clustered(seed: int) -> MemoryTraces:
    """Random traces in which every third stratum is there several times."""
    traces = make(seed, SHAPE).traces
    n = len(traces.strata)
    repeat = np.where(np.arange(n) % 3 == seed % 3, 1 + seed % 5, 1)
    region = np.concatenate([[0], np.cumsum(repeat)]).astype(np.uint32)
    for rows in traces.rows:
        rows["stratum"] = region[rows["stratum"]]
    traces.strata = np.repeat(traces.strata, repeat, axis=0)
    return traces


def flat(traces: Traces) -> list[Region]:
    """The regions of all stretches."""
    found: list[Region] = []
    for stretch in iter_stretches(traces):
        found += stretch.regions() if isinstance(stretch, Quiet) else [stretch]
    return found


def content(region: Region) -> tuple[Any, ...]:
    rows = [rows_of(region, s).tobytes() for s in range(len(region.streams))]
    return region.index, rows, [tail.tobytes() for tail in region.tails], region.syncs.points.tobytes()


def longest(traces: Traces) -> int:
    return max((s.end - s.first for s in iter_stretches(traces) if isinstance(s, Quiet)), default=0)


def test_stretches_have_all_regions_in_order() -> None:
    for seed in range(30):
        traces = clustered(seed)
        assert list(map(content, flat(traces))) == list(map(content, iter_regions(traces))), f"seed {seed}"
        assert longest(traces) >= seed % 5, f"seed {seed}"


def seen_before_an_error(traces: Traces, stretches: bool) -> tuple[int, str]:
    """How many regions come, and the error that ends them."""
    seen = 0
    try:
        for one in iter_stretches(traces) if stretches else iter_regions(traces):
            seen = one.end if isinstance(one, Quiet) else one.index + 1
    except FormatError as error:
        return seen, error.line()
    raise AssertionError("no error")


def test_an_error_comes_where_it_comes_to_regions_one_by_one() -> None:
    for seed in range(20):
        traces = clustered(seed)
        rng = random.Random(seed)
        traces.rows[1]["size"][rng.randrange(len(traces.rows[1]))] = 9
        assert seen_before_an_error(traces, True) == seen_before_an_error(traces, False), f"seed {seed}"


def runs_of(traces: Traces) -> list[tuple[int, int]]:
    return [(s.first, s.end) for s in iter_stretches(traces) if isinstance(s, Quiet)]


def test_a_region_with_a_row_a_sync_point_or_a_loss_is_not_quiet() -> None:
    """Three streams, two of them cores, and twelve regions: in 0 and 5 are rows, in 2 a core loses a line."""
    traces = by_hand([[(64, 0, 1), (64, 1, 2)], [(128, 0, 3)], []], {}, {64: 2, 128: 3})
    traces.strata = np.zeros((11, 3), np.uint64)
    traces.strata[:, 0], traces.strata[:5, 1] = np.where(np.arange(11) < 5, 1, 2), 0
    traces.strata[5:, 1] = 1
    traces.rows[0]["stratum"], traces.rows[1]["stratum"] = [0, 5], 5
    assert runs_of(traces) == [(1, 5), (6, 12)]
    traces.syncs = np.zeros(1, SYNC_POINT)
    traces.syncs["stratum"], traces.syncs["count"], traces.syncs["way"] = 8, 2, LEAVE
    assert runs_of(traces) == [(1, 5), (6, 8), (9, 12)]
    traces.line_bytes = 64
    traces.logs = [(np.zeros(0, RECORD), np.zeros(0, np.uint8))] * 2
    traces.lost = [np.zeros(0, LOSS), np.zeros(1, LOSS)]
    traces.lost[1]["stratum"] = 2
    assert runs_of(traces) == [(1, 2), (3, 5), (6, 8), (9, 12)]


def problems(traces: Traces) -> list[tuple[Any, ...]]:
    found = []
    for region, problem in iter_problems(traces):
        values = [np.asarray(getattr(problem, field.name)) for field in fields(problem)]
        found.append((region.index, [(v.dtype.str, v.shape, v.tobytes()) for v in values]))
    return found


@pytest.fixture(scope="module", params=["sc", "tso"])
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    place = tmp_path_factory.mktemp("quiet")
    guest = quiet_elf(place / "guest.elf", rounds=3)
    policy = StrataPolicy(cycles=200)
    return record_with(guest, place / "r", cores=2, strata=policy, model=request.param, evidence=("losses",))


@pytest.mark.parametrize("constraints", [VALUES, TENURES, LOSSES])
def test_problems_are_those_of_regions_one_by_one(
    recording: Recording, constraints: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = RecordingTraces(recording, constraints=constraints)
    assert longest(traces) > 5
    together = problems(traces)
    monkeypatch.setattr(unfiltered, "iter_stretches", iter_regions)
    assert together == problems(traces)


def begins_of(region: Region) -> list[list[bytes]]:
    """Where the tenures of a region begin and what its cores lost, core by core."""
    found = []
    for begins in getattr(region.tenures, "begins", ()):
        columns = [column for name, column in begins._asdict().items() if name != "losses"]
        found.append([column.tobytes() for column in (*columns, *begins.losses)])
    return found


def test_tenures_go_on_behind_quiet_regions(recording: Recording) -> None:
    traces = RecordingTraces(recording, constraints=LOSSES)
    apart = {region.index: begins_of(region) for region in iter_regions(traces)}
    first_quiet, late_losses = runs_of(traces)[0][0], 0
    for one in iter_stretches(traces):
        if isinstance(one, Region):
            assert begins_of(one) == apart[one.index], f"region {one.index}"
            begins = getattr(one.tenures, "begins", ())
            late_losses += sum(len(core.losses.line) for core in begins if one.index > first_quiet)
    assert late_losses


def ordered(traces: Traces, path: Path, jobs: int = 1) -> tuple[object, bytes]:
    """What comes of ordering, but for times, and the certificate."""
    result = order_recording(traces, path, bytes(16), Options(engine="cut"), resources=Resources(jobs))
    found = [(r.region, r.counts, r.verdict, r.engine, r.reason) for r in result.regions]
    return (found, result.counts, result.check), path.read_bytes()


@pytest.mark.soak
def test_orders_are_those_of_regions_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = [ordered(clustered(seed), tmp_path / f"{seed}") for seed in range(12)]
    jobs = [ordered(clustered(seed), tmp_path / f"{seed}", 2) for seed in range(2)]
    monkeypatch.setattr(ahead, "iter_stretches", iter_regions)
    for seed in range(12):
        assert together[seed] == ordered(clustered(seed), tmp_path / f"{seed}"), f"seed {seed}"
    assert jobs == together[:2]


def test_many_quiet_regions_are_few_stretches(tmp_path: Path) -> None:
    record_with(quiet_elf(tmp_path / "guest.elf"), tmp_path / "few", cores=2, evidence=("losses",))
    many = with_empty_strata(Recording.open(tmp_path / "few"), tmp_path / "many", 5000)

    def stretches(constraints: str) -> Iterator[object]:
        return iter_stretches(RecordingTraces(many, constraints=constraints))

    for constraints in (VALUES, LOSSES):
        assert len(list(stretches(constraints))) < 20
