"""Rows where a core met agents: against a twin, and that with them pairs of accesses to contested pages are
known as well as among all accesses."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import Code, run_guest, write_schedule
from guest_bodies import GUESTS, build
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES
from bench.true_tenures import proved_edges
from corebraid.base.rows.event import EVENT, READ
from emu.bus.names import PAGE
from emu.bus.sync_points import SYNC_POINT
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording
from recorder.replay import traces as traces_module
from recorder.replay.contested import ALL, CONTESTED
from recorder.replay.meetings import MEETING, meeting_rows, with_meetings
from recorder.replay.traces import RecordingTraces
from solver.passes.unfiltered import iter_problems, rows_of_ops

LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"
Edges = list[set[tuple[Any, ...]]]


def naive(rows: NDArray[Any], meetings: list[tuple[int, int]]) -> list[tuple[int, bool]]:
    """(count, whether it is a meeting), one by one."""
    found, left = [], sorted(meetings)
    for count in rows["count"].tolist():
        while left and left[0][1] <= count:
            found.append((left.pop(0)[1], True))
        found.append((count, False))
    return found + [(count, True) for _, count in left]


@given(st.lists(st.integers(0, 12)), st.lists(st.integers(0, 14)), st.lists(st.integers(0, 30)))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_a_meeting_stands_before_the_first_row_of_its_count(
    counts: list[int], meetings: list[int], cuts: list[int]
) -> None:
    rows = np.zeros(len(counts), EVENT)
    rows["count"], rows["kind"], rows["size"] = sorted(counts), READ, 8
    syncs = np.zeros(len(meetings), SYNC_POINT)
    syncs["count"], syncs["core"] = sorted(meetings), np.arange(len(meetings)) % 2
    ends = [0, *sorted(cut % (len(rows) + 1) for cut in cuts), len(rows)]
    pieces = [rows[first:end] for first, end in itertools.pairwise(ends)]
    found = list(with_meetings(iter(pieces), meeting_rows(syncs, 1)))
    every = np.concatenate([np.zeros(0, EVENT), *found])
    told = [(int(row["count"]), bool(row["flags"] == MEETING)) for row in every]
    mine = {(0, int(point["count"])) for point in syncs if point["core"] == 1}
    assert told == naive(rows, list(mine))


def edges_of(recording: Recording, rows: str, *, meetings: bool = True) -> Edges:
    """Of each region, what comes before what."""
    found = []
    asked = RecordingTraces(recording, constraints=LOSSES, rows=rows, meetings=meetings)
    for region, problem in iter_problems(asked):
        first, _ = rows_of_ops(region, problem)
        names = [tuple(int(row[name]) for name in ("core", "count", "addr", "kind")) for row in first]
        found.append({(names[a], names[b]) for a, b in problem.edges.tolist()} | {tuple(names)})
    return found


def hold(path: Path) -> int:
    """Everything that is known of all accesses is known of those to contested pages, and it was so."""
    recording = Recording.open(path)
    few, every = (edges_of(recording, rows) for rows in (CONTESTED, ALL))
    assert few == every
    for rows in (ALL, CONTESTED):
        asked = RecordingTraces(recording, constraints=LOSSES, rows=rows, meetings=True)
        assert proved_edges(recording, asked)[1] == []
    return sum(map(len, few)) - len(few)


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(5)
def test_hostile_guests(body: Callable[[Code], None], tmp_path: Path) -> None:
    schedule = write_schedule(tmp_path / "schedule", GUESTS[body], 0, 50)
    run = run_guest(
        build(tmp_path, body), tmp_path / "rec", GUESTS[body], strata="cycles:1000", schedule=str(schedule),
        input=b"input", limit=200_000, bus=PAGE, evidence=("losses",),
    )  # fmt: skip
    hold(run.path)


@pytest.mark.parametrize("program", ["radix", "uts", "ring", "dma_race"])
def test_firmware(program: str, tmp_path: Path) -> None:
    corebraid.record(IMAGES / f"{program}.elf", tmp_path / "rec", cores=3, strata="cycles:3000", limit=60_000)
    assert hold(tmp_path / "rec")


@pytest.mark.parametrize(("program", "cores"), [("condvars", 4), ("mutexes", 2), ("semaphores", 2)])
@pytest.mark.sampled(1)
def test_linux_programs(program: str, cores: int, tmp_path: Path) -> None:
    """Also of more threads than cores, which go from one to another."""
    corebraid.record(LINUX / program, tmp_path / "rec", cores=cores, strata="cycles:20000", limit=150_000)
    assert hold(tmp_path / "rec")


def condvars(path: Path) -> Recording:
    corebraid.record(LINUX / "condvars", path, cores=4, strata="cycles:20000")
    return Recording.open(path)


def test_less_is_known_without_a_row_where_a_core_met_an_agent(tmp_path: Path) -> None:
    recording = condvars(tmp_path / "rec")
    without = edges_of(recording, CONTESTED, meetings=False)
    assert without != edges_of(recording, ALL, meetings=False)
    assert without != edges_of(recording, CONTESTED)


def test_a_meeting_that_is_left_out_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = condvars(tmp_path / "rec")
    known = edges_of(recording, CONTESTED)
    monkeypatch.setattr(traces_module, "meeting_rows", lambda syncs, core: meeting_rows(syncs, core)[::3])
    assert edges_of(recording, CONTESTED) != known
