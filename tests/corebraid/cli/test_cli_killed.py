"""What a killed recorder leaves, on the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import record, run

from recorder.files.frame import FILE_HEADER_BYTES
from recorder.files.reader import Recording


@pytest.fixture(scope="module")
def uts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts on 3 cores, ordered."""
    path = tmp_path_factory.mktemp("path") / "uts"
    assert record(path, "uts", "--cores", 3, "--strata", "cycles:10000").code == 0
    assert run("order", path).code == 0
    return path


@pytest.fixture
def copy(uts: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may damage."""
    return Path(shutil.copytree(uts, tmp_path / "copy"))


def test_a_killed_recording_can_be_looked_at_ordered_and_verified(copy: Path) -> None:
    manifest = Recording.open(copy).manifest
    files = {"initial.img": manifest.files["initial.img"]}
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files=files)
    (copy / "manifest.json").write_bytes(killed.render())
    log = copy / "core-1.log"
    log.write_bytes(log.read_bytes()[:-5])
    facts = json.loads(run("info", copy, "--json").out)
    assert facts["complete"] is False
    assert run("order", copy).code == 0
    verified = json.loads(run("verify", copy, "--json").out)
    assert (verified["sound"], verified["certificate"]["legal"], verified["truth"]["legal"]) == (
        True,
        True,
        None,
    )
    assert facts["cores"][0]["instructions"] == manifest.instructions[0]
    assert 0 <= facts["cores"][1]["instructions"] <= manifest.instructions[1]


def test_a_recorder_killed_behind_its_manifest_leaves_nothing_else(copy: Path) -> None:
    manifest = Recording.open(copy).manifest
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
    shutil.rmtree(copy)
    copy.mkdir()
    (copy / "manifest.json").write_bytes(killed.render())
    ran = run("info", copy)
    assert (ran.code, len(ran.lines)) == (0, 1), ran
    assert "incomplete" in ran.err


def test_a_recorder_killed_before_the_guest_began_leaves_an_empty_recording(copy: Path) -> None:
    manifest = Recording.open(copy).manifest
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
    (copy / "manifest.json").write_bytes(killed.render())
    for path in copy.iterdir():
        if path.suffix == ".log":
            path.write_bytes(path.read_bytes()[:FILE_HEADER_BYTES])
        elif path.suffix in (".img", ".cert"):
            path.unlink()
    assert json.loads(run("verify", copy, "--json").out)["findings"] == []
    for command in ("order", "crosscheck", "pairs"):
        ran = run(command, copy)
        assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1), ran
        assert f"{copy}: the recording is empty; record again" in ran.err
        assert "offset" not in ran.err
    # Killed even earlier: the files were not all made.
    (copy / "core-1.log").unlink()
    assert json.loads(run("verify", copy, "--json").out)["findings"] == []
    ran = run("replay", copy, "--core", 1)
    assert (ran.code, ran.out) == (2, "")
    assert "the recording is empty" in ran.err
