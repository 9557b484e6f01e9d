"""OPR on Linux programs: data are data, who wrote what is inferred, and who came first; code is replayed
where it comes to be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_factory import ROOT, run

from corebraid.base.errors import Contradiction
from corebraid.study.opr_score import Score
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.evidence.opr.engine import OprEngine
from solver.evidence.opr.order_log import OrderLog
from solver.passes.answers import Options
from solver.passes.order import order_recording

PROGRAMS = ROOT / "firmware" / "linux" / "x86_64"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("program", "least"), [("mutexes", 500), ("jit", 50)])
def test_what_members_wrote_is_inferred(program: str, least: int, tmp_path: Path) -> None:
    rec = tmp_path / "rec"
    recorded = run("record", "-o", rec, "--evidence", "opr", "--cores", 4, PROGRAMS / program)
    assert recorded.code == 0, recorded.err
    ran = run("opr", rec, "--score", "--json")
    assert ran.code == 0, ran.err
    score = json.loads(ran.out)["score"]
    assert score["claimed"] > least
    assert score["within"] > least
    assert score["precision"] > 0.9
    assert score["recall"] > 0.9
    crossed = run("crosscheck", rec, "--engines", "opr")
    assert crossed.code == 0, crossed.out


@pytest.fixture(scope="module")
def ocean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel of four threads that meet at barriers, all cores members."""
    rec = tmp_path_factory.mktemp("opr") / "rec"
    options = ("--evidence", "opr", "--cores", 4, "--bus", "mesi", "--strata", "cycles:20000")
    recorded = run("record", "-o", rec, *options, PROGRAMS / "ocean", 4, 24)
    assert recorded.code == 0, recorded.err
    return rec


def test_every_region_is_ordered_the_kernel_in_it_too(ocean: Path) -> None:
    ordered = run("order", ocean, "--engine", "opr", "--json")
    assert ordered.code == 0, ordered.err
    told = [one for one in json.loads(ordered.out)["by_region"] if one["events"]["unfiltered"]]
    assert len(told) > 5
    assert {(one["engine"], one["verdict"]) for one in told} == {("opr", "legal")}
    assert any(one["reason"] == "the kernel's accesses, and fetches, by values" for one in told)
    assert run("check-order", ocean).code == 0


def test_orders_are_those_that_ran_where_values_are_not(ocean: Path) -> None:
    """What the search by values gets wrong, event orders get right."""
    crossed = run("crosscheck", ocean, "--engines", "auto,opr", "--truth", "--json")
    assert crossed.code == 0, crossed.out
    engines = json.loads(crossed.out)["engines"]
    blind, opr = engines["auto"], engines["opr"]
    assert opr["checked"] == opr["to_order"] > 5
    assert opr["contradicts"] == 0
    assert blind["against_truth"]["wrong_change"] > 10
    assert opr["against_truth"]["wrong"] == opr["against_truth"]["undetermined"] == 0
    assert opr["against_truth"]["right"] > 50_000


def test_orders_of_another_run_are_told(ocean: Path) -> None:
    """An engine that has lost what it waits for does not pass for one that has not."""
    recording = Recording.open(ocean)
    engine = OprEngine.of(recording)
    lost = OrderLog([np.zeros(0, engine._waits.dtype) for _ in range(4)])
    options = Options("opr", evidence=OprEngine((0, 1, 2, 3), lost, kernel=4))
    traces = RecordingTraces(recording)
    with pytest.raises(Contradiction, match="no place for the kernel's accesses"):
        order_recording(traces, ocean / "lost.cert", recording.manifest.id, options)


def test_with_members_beside_others_regions_are_left(tmp_path: Path) -> None:
    rec = tmp_path / "rec"
    options = ("--evidence", "opr", "--rset", "0,2", "--cores", 4)
    assert run("record", "-o", rec, *options, PROGRAMS / "ocean", 4, 8).code == 0
    ordered = json.loads(run("order", rec, "--engine", "opr", "--json").out)
    left = [one["reason"] for one in ordered["by_region"] if one["verdict"] == "undecided"]
    assert set(left) == {"no evidence"}


def test_nothing_out_of_nothing_is_no_share() -> None:
    nothing = Score(values=3, own=0, within=0, claimed=0, right=0, outside_right=3)
    assert nothing.precision is None
    assert nothing.recall is None
