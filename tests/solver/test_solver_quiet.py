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
from trace_factory import Shape, make, rows_of

from corebraid.base.errors import FormatError
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


def test_a_region_with_a_row_a_sync_point_or_a_loss_is_not_quiet(tmp_path: Path) -> None:
    guest = quiet_elf(tmp_path / "guest.elf", rounds=3, counted=2000)
    record_with(guest, tmp_path / "r", cores=2, strata=StrataPolicy("cycles", 200), evidence=("losses",))
    traces = RecordingTraces(Recording.open(tmp_path / "r"), constraints=LOSSES)
    lost = {int(loss["stratum"]) for core in range(2) for losses in traces.losses(core) for loss in losses}
    met = set(traces.syncs["stratum"].tolist())
    quiet = {
        region
        for stretch in iter_stretches(traces)
        if isinstance(stretch, Quiet)
        for region in range(stretch.first, stretch.end)
    }
    rows = {region.index for region in iter_regions(traces) if region.events}
    assert quiet
    assert not quiet & (rows | lost | met)
    # The first one is never counted, nor is one that only an instruction fetch or a meeting tells of.
    assert quiet | rows | lost | met | {0} == set(range(len(traces.strata) + 1))


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
    policy = StrataPolicy("cycles", 200)
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


def ordered(traces: Traces, path: Path, jobs: int = 1) -> tuple[object, bytes]:
    """What comes of ordering, but for times, and the certificate."""
    result = order_recording(traces, path, bytes(16), Options(engine="cut"), resources=Resources(jobs))
    found = [(r.region, r.counts, r.verdict, r.engine, r.reason) for r in result.regions]
    return (found, result.counts, result.check), path.read_bytes()


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
