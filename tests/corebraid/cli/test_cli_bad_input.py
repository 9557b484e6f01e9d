"""Wrong use and unreadable input: one clear line each, the right exit code, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import BASE, FIRMWARE, FOREVER, Ran, elf, record, run

from corebraid.base.rows.record import MISS
from recorder.files.codec import Encoder
from recorder.files.frame import CORE, FileHeader, FrameWriter
from recorder.files.reader import Recording, iter_core_records
from recorder.files.writer import FRAME_BYTES


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of fig1 on 2 cores, ordered."""
    path = tmp_path_factory.mktemp("bad") / "rec"
    assert record(path, "fig1", "--cores", 2).code == 0
    assert run("order", path).code == 0
    return path


@pytest.fixture(autouse=True)
def _compiled(rec: Path) -> None:
    """The note that kernels are being compiled has been said."""


@pytest.fixture
def copy(rec: Path, tmp_path: Path) -> Path:
    """A copy of it to be damaged."""
    return Path(shutil.copytree(rec, tmp_path / "copy"))


def refused(ran: Ran, *parts: str, code: int = 2) -> None:
    """One line on stderr that names what matters, and nothing on stdout."""
    assert (ran.code, ran.out) == (code, ""), ran
    assert len(ran.lines) == 1, ran.err
    assert ran.err.startswith("corebraid: ")
    for part in parts:
        assert part in ran.err


# -- record: options ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--cores", 0], ["1 to 64 cores", "--cores"]),
        (["--cores", 65], ["1 to 64 cores", "65"]),
        (["--cores", -1], ["1 to 64 cores"]),
        (["--cores", "many"], ["--cores", "many"]),
        (["--memory", "0"], ["memory", "--memory"]),
        (["--memory", "1000001"], ["memory"]),
        (["--memory", "8g"], ["memory"]),
        (["--memory", "plenty"], ["not a size", "64m"]),
        (["--memory", "9" * 40], ["not a size"]),
        (["--cache", "32k:3:48"], ["cache", "32k:4:32"]),
        (["--cache", "1:2:3:4"], ["cache"]),
        (["--cache", "-1:4:32"], ["cache"]),
        (["--cache", "k:4:32"], ["cache"]),
        (["--cache", "big"], ["cache"]),
        (["--strata", "cycles:0"], ["strata", "cycles:100000"]),
        (["--strata", "weekly"], ["strata"]),
        (["--strata", "cycles:" + "9" * 5000], ["strata", "999..."]),
        (["--cache", "9" * 5000 + ":4:32"], ["cache"]),
        (["--schedule", "/dev/zero"], ["/dev/zero", "regular file"]),
        (["--seed", -1], ["--seed"]),
        (["--seed", 1 << 64], ["--seed"]),
        (["--slice", 0], ["--slice"]),
        (["--limit", 0], ["--limit"]),
        (["--schedule", "pct:0"], ["PCT"]),
        (["--schedule", "no-such-file"], ["no-such-file", "round-robin"]),
        (["--input", "no-such-file"], ["input", "no-such-file"]),
        (["--no-such-option"], ["--no-such-option", "--help"]),
    ],
)
def test_record_refuses_options_that_make_no_sense(
    tmp_path: Path, arguments: list[object], parts: list[str]
) -> None:
    path = tmp_path / "rec"
    refused(record(path, "fig1", *arguments), *parts)
    assert not path.exists()


def test_a_schedule_file_is_checked_line_by_line(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule"
    schedule.write_text("0 10\n9 10\n")
    refused(record(tmp_path / "rec", "fig1", "--schedule", schedule), f"{schedule}:2")
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize("number", [errno.ENOMEM, None])
def test_no_memory_is_not_the_disk_nor_standard_output(
    number: int | None, rec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise MemoryError if number is None else OSError(number, os.strerror(number))

    monkeypatch.setattr("mmap.mmap", none)
    refused(record(tmp_path / "rec", "fig1"), "out of memory")
    assert not (tmp_path / "rec").exists()
    refused(run("replay", rec, "--core", 0), "out of memory")
    monkeypatch.setattr("corebraid.study.recording.record", none)
    refused(record(tmp_path / "rec", "fig1"), "out of memory")


def test_a_schedule_of_endless_numbers(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule"
    for text in (f"0 {'9' * 5000}\n", f"{'9' * 5000} 1\n"):
        schedule.write_text(text)
        ran = record(tmp_path / "rec", "fig1", "--schedule", schedule)
        refused(ran, f"{schedule}:1")
        assert len(ran.err) < 1000
    assert not (tmp_path / "rec").exists()


def test_a_pipe_is_no_schedule(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(record(tmp_path / "rec", "fig1", "--schedule", tmp_path / "pipe"), "regular file")


def test_a_schedule_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    refused(record(tmp_path / "rec", "fig1", "--schedule", tmp_path / "long"), "bytes")


def test_firmware_takes_no_arguments(tmp_path: Path) -> None:
    ran = run("record", "-o", tmp_path / "rec", "--", FIRMWARE / "fig1.elf", "a", "--cores")
    refused(ran, "no arguments", "a --cores")
    assert not (tmp_path / "rec").exists()


# -- record: images ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"#!/bin/sh\n", ["not an ELF image"]),
        (b"", ["not an ELF image", "empty"]),
        (elf()[:40], ["damaged"]),
        (elf(machine=183), ["another instruction set", "EM_AARCH64"]),
        (elf(machine=3), ["another instruction set"]),
        (elf(kind=3), ["static"]),
        (elf(entry=BASE + 0x5000), ["entry point"]),
        (elf(entry=0), ["entry point"]),
        (elf(address=1 << 40, entry=1 << 40), ["memory that is not there", "--memory"]),
        (elf(address=0, entry=0), ["memory that is not there"]),
        (elf(memory=1 << 30), ["memory that is not there"]),
        (elf(memory=(1 << 64) - 1), ["memory that is not there"]),
        (elf(flags=6), ["entry point"]),
    ],
)
def test_record_refuses_an_image_it_cannot_run(tmp_path: Path, content: bytes, parts: list[str]) -> None:
    image, path = tmp_path / "image.elf", tmp_path / "rec"
    image.write_bytes(content)
    refused(record(path, image, "--cores", 1), str(image), *parts)
    assert not path.exists()


@pytest.mark.parametrize("what", ["missing", "directory"])
def test_record_refuses_what_is_no_file(tmp_path: Path, what: str) -> None:
    image = tmp_path / "missing" if what == "missing" else tmp_path
    refused(record(tmp_path / "rec", image), str(image), "cannot be read")
    assert not (tmp_path / "rec").exists()


# -- record: where to --------------------------------------------------------------------------------


def test_nothing_is_written_over(tmp_path: Path, copy: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    refused(record(copy, "fig1"), "already", str(copy))
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    file = tmp_path / "file"
    file.write_text("mine")
    refused(record(file, "fig1"), "already", str(file))
    assert file.read_text() == "mine"


@pytest.mark.parametrize("place", ["missing/rec", "file/rec", "x" * 300])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    refused(record(tmp_path / place, "fig1"), "cannot be made", "-o")


def test_no_recording_named(tmp_path: Path) -> None:
    refused(run("record", FIRMWARE / "fig1.elf"), "-o")
    refused(run("record", "-o", tmp_path / "rec"), "PROGRAM")
    refused(run("replay"), "REC")
    refused(run("braid"), "braid")


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
def test_a_recording_of_another_version(copy: Path, reader: list[str]) -> None:
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace('"version": 2', '"version": 3'))
    code = 1 if reader[0] == "verify" else 2
    refused(run(reader[0], copy, *reader[1:]), "version", "expected 1 or 2", "found 3", code=code)


@pytest.mark.parametrize("name", ["manifest.json", "core-0.log"])
@pytest.mark.parametrize("how", ["cut", "empty", "flip", "gone", "longer"])
def test_a_damaged_file_is_2_for_replay_and_1_for_verify(copy: Path, name: str, how: str) -> None:
    damage(copy / name, how)
    gone = (name, how) == ("manifest.json", "gone")
    refused(run("replay", copy, "--core", 0), name if not gone else str(copy))
    ran = run("verify", copy)
    assert ran.code == (2 if gone else 1)
    assert name in ran.err
    if name == "core-0.log":
        assert run("replay", copy, "--core", 1).code == 0
        facts = json.loads(run("verify", copy, "--json").out)
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
def test_verify_finds_damage_in_every_other_file(copy: Path, name: str, how: str) -> None:
    damage(copy / name, how)
    ran = run("verify", copy, "--json")
    facts = json.loads(ran.out)
    assert ran.code == 1
    assert [finding["file"] for finding in facts["findings"]] == [name]
    assert not facts["sound"]
    assert "Traceback" not in ran.err


def test_verify_says_how_much_more_it_has_found(tmp_path: Path) -> None:
    path = tmp_path / "rec"
    assert record(path, "fig1", "--cores", 64).code == 0
    for log in path.glob("core-*.log"):
        log.unlink()
    ran = run("verify", path)
    more = int(ran.lines[-1].split(" more findings like these")[0].split()[-1])
    assert (ran.code, len(ran.lines)) == (1, 41)
    found = json.loads(run("verify", path, "--json").out)
    assert 40 + more == len(found["findings"]) + sum(not core["bit_exact"] for core in found["replays"])


def test_a_log_from_another_recording(copy: Path, tmp_path: Path) -> None:
    assert record(tmp_path / "other", "fig1", "--cores", 2, "--seed", 9).code == 0
    shutil.copyfile(tmp_path / "other" / "core-0.log", copy / "core-0.log")
    ran = run("replay", copy, "--core", 0)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert run("verify", copy).code == 1
    shutil.copyfile(copy / "core-1.log", copy / "core-0.log")
    assert run("replay", copy, "--core", 0).code == 2


def test_a_divergence_is_1_and_says_how_to_look_closer(copy: Path) -> None:
    """A log whose records are of another run, under right checksums: the digests notice."""
    recording = Recording.open(copy)
    path = copy / "core-0.log"
    pieces = list(iter_core_records(recording, 0))
    path.unlink()
    manifest = recording.manifest
    writer = FrameWriter(path, FileHeader(CORE, 0, manifest.id, manifest.line))
    encoder = Encoder(manifest.line, FRAME_BYTES, manifest.memory)
    for rows, blob in pieces:
        data = blob.copy()
        last = rows[rows["kind"] == MISS][-1]
        data[last["offset"] : last["offset"] + last["size"]] ^= 0xFF
        end, payload = encoder.encode_some(rows, data, 0)
        assert end == len(rows)
        writer.append(payload, end, int(rows["count"][0]), int(rows["count"][-1]))
    writer.close()
    files = {**manifest.files, "core-0.log": writer.facts()}
    (copy / "manifest.json").write_bytes(replace(manifest, files=files).render())
    ran = run("replay", copy, "--core", 0)
    refused(ran, "diverged", "core 0", "expected", "found", f"corebraid trace {copy} --core 0", code=1)
    assert run("replay", copy, "--all").code == 1
    verified = run("verify", copy, "--json")
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
def test_questions_that_make_no_sense(rec: Path, arguments: list[object], parts: list[str]) -> None:
    refused(run(arguments[0], rec, *arguments[1:]), *parts)


def test_an_ordered_trace_needs_an_order(copy: Path) -> None:
    (copy / "order.cert").unlink()
    refused(run("trace", copy, "--ordered"), f"corebraid order {copy}")


def test_a_trace_is_not_written_over_a_file(rec: Path, tmp_path: Path) -> None:
    target = tmp_path / "trace"
    target.write_text("mine")
    refused(run("trace", rec, "-o", target), "already", str(target))
    assert target.read_text() == "mine"
    refused(run("trace", rec, "-o", tmp_path / "missing" / "trace"), "cannot be written")
    refused(run("trace", rec, "-o", tmp_path), "already")


def test_a_trace_that_fails_leaves_no_file(copy: Path, tmp_path: Path) -> None:
    damage(copy / "core-1.log", "flip")
    refused(run("trace", copy, "-o", tmp_path / "trace"), "core-1.log")
    assert not (tmp_path / "trace").exists()


def test_a_device_may_be_written_to(rec: Path) -> None:
    assert run("trace", rec, "-o", os.devnull).code == 0


def test_another_program_under_the_recordings_name(copy: Path) -> None:
    (copy / "program.elf").write_bytes(elf(FOREVER))
    refused(run("trace", copy), "program.elf", "not the program")
    assert run("replay", copy, "--core", 0).code == 0


def test_without_the_program_a_trace_has_no_names(copy: Path) -> None:
    (copy / "program.elf").unlink()
    ran = run("trace", copy, "--core", 0, "--format", "jsonl")
    assert ran.code == 0
    assert "no symbols" in ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert {row["symbol"] for row in rows} == {None}
    verified = run("verify", copy)
    assert verified.code == 0
    assert "no copy of the program" in verified.out
    assert "CONSOLE_TX" in {row["data"] for row in rows}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["order", "--help"]], ids=" ".join)
def test_help_that_cannot_be_printed_is_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "corebraid", *arguments]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "corebraid: standard output: No space left on device\n")
