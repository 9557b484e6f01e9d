"""Recordings that earlier versions wrote: they open, replay bit for bit and order as they did."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from cli_factory import run

from recorder.files.reader import Recording, sync_points
from recorder.replay.traces import RecordingTraces

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
ANSWERS = json.loads((GOLDEN / "answers.json").read_text())


def facts_of(path: Path) -> dict[str, object]:
    """What the answer file holds of a recording."""
    recording = Recording.open(path)
    traces = RecordingTraces(recording)
    events = [np.concatenate(list(traces.chunks(s)) or [np.zeros(0)]) for s in range(traces.n_streams)]
    return {
        "version": recording.manifest.version,
        "instructions": list(recording.manifest.instructions),
        "strata": len(traces.strata),
        "events": [len(rows) for rows in events],
        "sync_points": len(sync_points(recording)),
        "traces": hashlib.sha256(b"".join(rows.tobytes() for rows in events)).hexdigest(),
    }


def test_every_golden_recording_has_answers() -> None:
    assert sorted(ANSWERS) == sorted(f"{path.parent.name}/{path.name}" for path in GOLDEN.glob("v*/*"))


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_a_golden_recording(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "rec"
    shutil.copytree(GOLDEN / name, copy)
    assert facts_of(copy) == ANSWERS[name]
    ordered = run("order", copy, "--json")
    assert ordered.code == 0, ordered.err
    said = json.loads(ordered.out)
    assert said["verdict"] == "legal"
    assert run("check-order", copy).code == 0
    verified = run("verify", copy, "--json")
    assert verified.code == 0, verified.out
    old = ANSWERS[name]["version"] == 1
    for found in (said, json.loads(verified.out), json.loads(run("info", copy, "--json").out)):
        assert bool(found["missing_edges"]) == old
    for command in (["order"], ["check-order"], ["verify"], ["pairs", "--summary"], ["trace", "--ordered"]):
        told = run(*command, copy)
        assert told.code == 0, told.err
        assert ("format version 1, which does not say the order between" in told.err) == old, command
    assert ("format version 1" in run("info", copy).out) == old


def test_files_of_two_versions_do_not_mix(tmp_path: Path) -> None:
    copy = tmp_path / "rec"
    shutil.copytree(GOLDEN / "v2" / "dma_race", copy)
    for file in ("core-0.log", "agent.log"):
        shutil.copy(GOLDEN / "v1" / "dma_race" / file, copy / file)
    ran = run("verify", copy)
    assert ran.code == 1
    assert "Traceback" not in ran.err
