"""What a killed recorder leaves, on the command line."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from cli_factory import run

from recorder.files.frame import FILE_HEADER_BYTES
from recorder.files.reader import Recording


def test_a_killed_recording_can_be_looked_at_ordered_and_verified(copy_of_uts: Path) -> None:
    manifest = Recording.open(copy_of_uts).manifest
    files = {"initial.img": manifest.files["initial.img"]}
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files=files)
    (copy_of_uts / "manifest.json").write_bytes(killed.render())
    log = copy_of_uts / "core-1.log"
    log.write_bytes(log.read_bytes()[:-5])
    facts = json.loads(run("info", copy_of_uts, "--json").out)
    assert facts["complete"] is False
    assert run("order", copy_of_uts).code == 0
    verified = json.loads(run("verify", copy_of_uts, "--json").out)
    assert (verified["sound"], verified["certificate"]["legal"], verified["truth"]["legal"]) == (
        True,
        True,
        None,
    )
    assert facts["cores"][0]["instructions"] == manifest.instructions[0]
    assert 0 <= facts["cores"][1]["instructions"] <= manifest.instructions[1]


def test_a_recorder_killed_behind_its_manifest_leaves_nothing_else(copy_of_uts: Path) -> None:
    manifest = Recording.open(copy_of_uts).manifest
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
    shutil.rmtree(copy_of_uts)
    copy_of_uts.mkdir()
    (copy_of_uts / "manifest.json").write_bytes(killed.render())
    ran = run("info", copy_of_uts)
    assert (ran.code, len(ran.lines)) == (0, 1), ran
    assert "incomplete" in ran.err


def test_a_recorder_killed_before_the_guest_began_leaves_an_empty_recording(copy_of_uts: Path) -> None:
    manifest = Recording.open(copy_of_uts).manifest
    killed = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
    (copy_of_uts / "manifest.json").write_bytes(killed.render())
    for path in copy_of_uts.iterdir():
        if path.suffix == ".log":
            path.write_bytes(path.read_bytes()[:FILE_HEADER_BYTES])
        elif path.suffix in (".img", ".cert"):
            path.unlink()
    assert json.loads(run("verify", copy_of_uts, "--json").out)["findings"] == []
    for command in ("order", "crosscheck", "pairs"):
        ran = run(command, copy_of_uts)
        assert (ran.code, ran.out, len(ran.lines)) == (2, "", 1), ran
        assert f"{copy_of_uts}: the recording is empty; record again" in ran.err
        assert "offset" not in ran.err
    # Killed even earlier: the files were not all made.
    (copy_of_uts / "core-1.log").unlink()
    assert json.loads(run("verify", copy_of_uts, "--json").out)["findings"] == []
    ran = run("replay", copy_of_uts, "--core", 1)
    assert (ran.code, ran.out) == (2, "")
    assert "the recording is empty" in ran.err
