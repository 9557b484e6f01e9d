"""Wrong use of what reads a recording, and recordings that cannot be read: one clear line each, the right
exit code."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import FOREVER, elf, record, refused, run

from corebraid.base.rows.record import MISS
from recorder.files.codec import Encoder
from recorder.files.frame import CORE, FileHeader, FrameWriter
from recorder.files.reader import Recording, iter_core_records
from recorder.files.writer import FRAME_BYTES


@pytest.fixture(autouse=True)
def _compiled(fig1: Path) -> None:
    """The note that kernels are being compiled has been said."""


# -- recordings --------------------------------------------------------------------------------------

READERS = (
    ["info"], ["replay", "--core", "0"], ["replay", "--all"], ["order"], ["trace"], ["trace", "--ordered"],
    ["check-order"], ["verify"],
)  # fmt: skip


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_no_recording_there(tmp_path: Path, reader: list[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    for name, part in (("missing", "no such recording"), ("empty", "not a recording"), ("file", "directory")):
        refused(run(reader[0], tmp_path / name, *reader[1:]), part, name)


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_a_recording_of_another_version(copy_of_fig1: Path, reader: list[str]) -> None:
    path = copy_of_fig1 / "manifest.json"
    path.write_text(path.read_text().replace('"version": 3', '"version": 5'))
    code = 1 if reader[0] == "verify" else 2
    refused(
        run(reader[0], copy_of_fig1, *reader[1:]),
        "version",
        "expected 1 or 2 or 3 or 4",
        "found 5",
        code=code,
    )


@pytest.mark.parametrize("name", ["manifest.json", "core-0.log"])
@pytest.mark.parametrize("how", ["cut", "empty", "flip", "gone", "longer"])
def test_a_damaged_file_is_2_for_replay_and_1_for_verify(copy_of_fig1: Path, name: str, how: str) -> None:
    damage(copy_of_fig1 / name, how)
    gone = (name, how) == ("manifest.json", "gone")
    refused(run("replay", copy_of_fig1, "--core", 0), name if not gone else str(copy_of_fig1))
    ran = run("verify", copy_of_fig1)
    assert ran.code == (2 if gone else 1)
    assert name in ran.err
    if name == "core-0.log":
        assert run("replay", copy_of_fig1, "--core", 1).code == 0
        facts = json.loads(run("verify", copy_of_fig1, "--json").out)
        assert [finding["file"] for finding in facts["findings"]] == [name]
        assert [replay["bit_exact"] for replay in facts["replays"]] == [False, True]


def damage(path: Path, how: str) -> None:
    """Cut, empty, lengthen or remove a file, or flip one of its bits."""
    data = bytearray(path.read_bytes())
    if how == "gone":
        path.unlink()
        return
    if how == "flip":
        data[len(data) // 2] ^= 0x10
    path.write_bytes({"cut": data[:-1], "empty": b"", "longer": data + b"\0", "flip": data}[how])


OTHERS = ("initial.img", "final.img", "agent.log", "truth.log")


@pytest.mark.parametrize(
    ("name", "how"),
    [*((name, how) for name in OTHERS for how in ("cut", "flip", "gone")), ("program.elf", "flip")],
)
def test_verify_finds_damage_in_every_other_file(copy_of_fig1: Path, name: str, how: str) -> None:
    damage(copy_of_fig1 / name, how)
    ran = run("verify", copy_of_fig1, "--json")
    facts = json.loads(ran.out)
    assert ran.code == 1
    assert [finding["file"] for finding in facts["findings"]] == [name]
    assert not facts["sound"]
    assert "Traceback" not in ran.err


def test_verify_and_replay_say_how_much_more_they_have_found(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "fig1", "--cores", 64).code == 0
    for log in path.glob("core-*.log"):
        log.unlink()
    ran = run("verify", path)
    more = int(ran.lines[-1].split(" more findings like these")[0].split()[-1])
    assert (ran.code, len(ran.lines)) == (1, 41)
    found = json.loads(run("verify", path, "--json").out)
    assert 40 + more == len(found["findings"]) + sum(not core["bit_exact"] for core in found["replays"])
    ran = run("replay", path, "--all")
    assert (ran.code, len(ran.lines)) == (2, 41)
    assert "24 more findings like these" in ran.lines[-1]


def test_a_log_from_another_recording(copy_of_fig1: Path, tmp_path: Path) -> None:
    assert record(tmp_path / "other", "fig1", "--cores", 2, "--seed", 9).code == 0
    shutil.copyfile(tmp_path / "other" / "core-0.log", copy_of_fig1 / "core-0.log")
    ran = run("replay", copy_of_fig1, "--core", 0)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert run("verify", copy_of_fig1).code == 1
    shutil.copyfile(copy_of_fig1 / "core-1.log", copy_of_fig1 / "core-0.log")
    assert run("replay", copy_of_fig1, "--core", 0).code == 2


def test_a_divergence_is_1_and_says_how_to_look_closer(copy_of_fig1: Path) -> None:
    """A log whose records are of another run, under right checksums: the digests notice."""
    recording = Recording.open(copy_of_fig1)
    path = copy_of_fig1 / "core-0.log"
    pieces = list(iter_core_records(recording, 0))
    path.unlink()
    manifest = recording.manifest
    writer = FrameWriter(path, FileHeader(CORE, 0, manifest.id, manifest.line))
    encoder = Encoder(manifest.line, FRAME_BYTES, manifest.memory)
    for rows, blob in pieces:
        data = blob.copy()
        last = rows[rows["kind"] == MISS][-1]
        end = last["offset"] + last["size"]
        data[end - 8 : end] ^= 0xFF
        end, payload = encoder.encode_some(rows, data, 0)
        assert end == len(rows)
        writer.append(payload, end, int(rows["count"][0]), int(rows["count"][-1]))
    writer.close()
    files = {**manifest.files, "core-0.log": writer.facts()}
    (copy_of_fig1 / "manifest.json").write_bytes(replace(manifest, files=files).render())
    ran = run("replay", copy_of_fig1, "--core", 0)
    refused(
        ran, "diverged", "core 0", "expected", "found", f"corebraid trace {copy_of_fig1} --core 0", code=1
    )
    assert run("replay", copy_of_fig1, "--all").code == 1
    verified = run("verify", copy_of_fig1, "--json")
    assert verified.code == 1
    assert json.loads(verified.out)["replays"][0]["bit_exact"] is False


# -- what is asked of a recording --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["replay"], ["--core K or --all"]),
        (["replay", "--core", 0, "--all"], ["--core K or --all"]),
        (["replay", "--core", 2], ["no such core", "0 to 1"]),
        (["replay", "--core", -1], ["no such core"]),
        (["replay", "--core", "x"], ["--core"]),
        (["replay", "--core", 2, "--until", 5], ["no such core"]),
        (["replay", "--core", 0, "--from", 5], ["--until"]),
        (["replay", "--core", 0, "--from", 5, "--until", 5], ["holds nothing"]),
        (["replay", "--all", "--until", 5], ["--core"]),
        (["replay", "--core", 0, "--jobs", 2], ["--jobs"]),
        (["replay", "--core", 0, "--until", 10**12], ["never comes so far"]),
        (["trace", "--core", 2], ["no such core", "0 to 1, or dev"]),
        (["trace", "--core", "zero"], ["no such core"]),
        (["trace", "--addr", "0x10:0x10"], ["holds nothing"]),
        (["trace", "--addr", "0x20:0x10"], ["holds nothing"]),
        (["trace", "--addr", "nowhere"], ["nowhere", "symbol"]),
        (["trace", "--addr", ":"], ["--addr"]),
        (["trace", "--addr", "0xzz:1"], ["0xzz"]),
        (["trace", "--addr", "-1"], ["--addr"]),
        (["trace", "--addr", f"0:{1 << 65}"], ["--addr"]),
        (["trace", "--from", 9, "--until", 9], ["holds nothing"]),
        (["trace", "--until", 0], ["holds nothing"]),
        (["trace", "--kind", "R,X"], ["kind", "R, W, RMW, F"]),
        (["trace", "--kind", ""], ["kind"]),
        (["trace", "--region", 10**6], ["no such region"]),
        (["trace", "--limit", 0], ["--limit"]),
        (["trace", "--format", "csv"], ["csv", "parquet"]),
        (["trace", "--format", "parquet"], ["-o FILE"]),
        (["order", "--engine", "guess"], ["guess"]),
        (["order", "--region-timeout", 0], ["--region-timeout"]),
        (["order", "--region-timeout", "nan"], ["--region-timeout"]),
        (["pairs", "--region-timeout", "nan"], ["--region-timeout"]),
        (["verify", "--jobs", 0], ["--jobs"]),
    ],
    ids=lambda value: " ".join(str(part) for part in value),
)
def test_questions_that_make_no_sense(fig1: Path, arguments: list[object], parts: list[str]) -> None:
    refused(run(arguments[0], fig1, *arguments[1:]), *parts)


def test_an_ordered_trace_needs_an_order(copy_of_fig1: Path) -> None:
    (copy_of_fig1 / "order.cert").unlink()
    refused(run("trace", copy_of_fig1, "--ordered"), f"corebraid order {copy_of_fig1}")


def test_a_trace_is_not_written_over_a_file(fig1: Path, tmp_path: Path) -> None:
    target = tmp_path / "trace"
    target.write_text("mine")
    refused(run("trace", fig1, "-o", target), "already", str(target))
    assert target.read_text() == "mine"
    refused(run("trace", fig1, "-o", tmp_path / "missing" / "trace"), "cannot be written")
    refused(run("trace", fig1, "-o", tmp_path), "already")


def test_a_trace_that_fails_leaves_no_file(copy_of_fig1: Path, tmp_path: Path) -> None:
    damage(copy_of_fig1 / "core-1.log", "flip")
    refused(run("trace", copy_of_fig1, "-o", tmp_path / "trace"), "core-1.log")
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize("name", ["order.cert", "order.partial"])
def test_an_order_is_not_written_over_a_directory(copy_of_fig1: Path, name: str) -> None:
    (copy_of_fig1 / name).unlink(missing_ok=True)
    (copy_of_fig1 / name / "kept").mkdir(parents=True)
    refused(run("order", copy_of_fig1), "a directory stands where a file is to be written", "move it", name)
    assert (copy_of_fig1 / name / "kept").is_dir()


def _without_privileges() -> None:
    """The next program cannot write where permissions say no, not even root's."""
    for capability in (1, 2):
        ctypes.CDLL(None).prctl(24, capability)


@pytest.mark.parametrize("command", ["order", "checkpoint"])
def test_a_recording_that_may_not_be_written_to(copy_of_fig1: Path, command: str) -> None:
    """Told before anything is replayed."""
    (copy_of_fig1 / "core-1.log").unlink()
    copy_of_fig1.chmod(0o555)
    ran = subprocess.run(
        [sys.executable, "-m", "corebraid", command, copy_of_fig1],
        preexec_fn=_without_privileges,
        capture_output=True,
        text=True,
    )
    copy_of_fig1.chmod(0o755)
    assert ran.returncode == 2, ran.stderr
    assert "may not be written to; let it be written to, or " in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_device_may_be_written_to(fig1: Path) -> None:
    assert run("trace", fig1, "-o", os.devnull).code == 0


def test_another_program_under_the_recordings_name(copy_of_fig1: Path) -> None:
    (copy_of_fig1 / "program.elf").write_bytes(elf(FOREVER))
    refused(run("trace", copy_of_fig1), "program.elf", "not the program")
    assert run("replay", copy_of_fig1, "--core", 0).code == 0


def test_without_the_program_a_trace_has_no_names(copy_of_fig1: Path) -> None:
    (copy_of_fig1 / "program.elf").unlink()
    ran = run("trace", copy_of_fig1, "--core", 0, "--format", "jsonl")
    assert ran.code == 0
    assert "no symbols" in ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["symbol"] for row in rows} == {None}
    verified = run("verify", copy_of_fig1)
    assert verified.code == 0
    assert "no copy of the program" in verified.out
    assert "CONSOLE_TX" in {row["data"] for row in rows}
