"""Wrong use of `record`, and programs it cannot run: one clear line each, nothing left behind."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_factory import BASE, FIRMWARE, elf, record, refused, run

from recorder.files.reader import Recording


@pytest.fixture(autouse=True)
def _compiled(fig1: Path) -> None:
    """The note that kernels are being compiled has been said."""


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
        (["--strata", "weekly"], ["strata", "events:1000"]),
        (["--strata", "events:0"], ["strata", "events:0"]),
        (["--strata", "cycles:500,cycles:600"], ["strata", "cycles:500,cycles:600"]),
        (["--strata", "cycles:500,none"], ["strata", "cycles:500,none"]),
        (["--strata", "events:7,"], ["strata", "events:7,"]),
        (["--strata", "cycles:" + "9" * 5000], ["strata", "999..."]),
        (["--cache", "9" * 5000 + ":4:32"], ["cache"]),
        (["--schedule", "/dev/zero"], ["/dev/zero", "regular file"]),
        (["--seed", -1], ["--seed"]),
        (["--seed", 1 << 64], ["--seed"]),
        (["--slice", 0], ["--slice"]),
        (["--limit", 0], ["--limit"]),
        (["--schedule", "pct:0"], ["the depth of pct"]),
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


@pytest.mark.parametrize(
    "wanted",
    [
        ["--model", "tso"],
        ["--cache", "32k:4:32"],
        ["--strata", "downgrades:5"],
        ["--schedule", "pct:3"],
        ["--schedule", "chaos"],
        ["--evidence", "linkage,losses"],
    ],
    ids=" ".join,
)
def test_the_page_bus_refuses_what_looks_at_accesses(tmp_path: Path, wanted: list[str]) -> None:
    path = tmp_path / "rec"
    shown = f"{wanted[0]} {wanted[1].removesuffix(',losses')}"
    refused(record(path, "fig1", "--bus", "page", *wanted), "page bus", shown, "--bus mesi")
    assert not path.exists()


@pytest.mark.parametrize(
    ("wanted", "because"),
    [
        ([], ""),
        (["--strata", "cycles:500"], ""),
        (["--strata", "events:50"], ""),
        (["--schedule", "round-robin", "--slice", "7"], ""),
        (["--evidence", "none"], ""),
        (["--model", "tso"], "--model tso"),
        (["--cache", "1k:2:32", "--strata", "downgrades:5"], "--cache 1k:2:32, --strata downgrades:5"),
        (["--schedule", "chaos"], "--schedule chaos"),
        (["--evidence", "slices"], "--evidence slices"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_bus_is_chosen_and_that_is_said(tmp_path: Path, wanted: list[str], because: str) -> None:
    ran = record(tmp_path / "rec", "fig1", "--json", *wanted)
    assert ran.code == 0
    assert json.loads(ran.out[ran.out.index("{") :])["bus"] == ("mesi" if because else "page")
    said = f"corebraid: --bus mesi, as is needed for {because} (docs/pages.md)"
    assert (said in ran.lines) == bool(because)
    named = record(tmp_path / "named", "fig1", "--bus", "mesi", *wanted)
    assert named.code == 0
    assert "as is needed for" not in named.err
    assert Recording.open(tmp_path / "named").manifest.bus == "mesi"


def test_a_schedule_file_chooses_lines_and_may_go_with_pages(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule"
    schedule.write_text("0 10\n1 10\n" * 400)
    for name, more, bus in (("exact", [], "mesi"), ("rounded", ["--bus", "page"], "page")):
        ran = record(tmp_path / name, "fig1", "--cores", 2, "--schedule", schedule, "--limit", 4000, *more)
        assert (f"--schedule {schedule}" in ran.err) == (bus == "mesi"), ran.err
        assert Recording.open(tmp_path / name).manifest.bus == bus


def test_a_schedule_file_is_checked_line_by_line(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule"
    schedule.write_text("0 10\n9 10\n")
    refused(record(tmp_path / "rec", "fig1", "--schedule", schedule), f"{schedule}:2")
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize("number", [errno.ENOMEM, None])
def test_no_memory_is_not_the_disk_nor_standard_output(
    number: int | None, fig1: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object, **__: object) -> None:
        raise MemoryError if number is None else OSError(number, os.strerror(number))

    monkeypatch.setattr("mmap.mmap", none)
    refused(record(tmp_path / "rec", "fig1"), "out of memory")
    assert not (tmp_path / "rec").exists()
    refused(run("replay", fig1, "--core", 0), "out of memory")
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


def test_nothing_is_written_over(tmp_path: Path, copy_of_fig1: Path) -> None:
    before = {path.name: path.read_bytes() for path in copy_of_fig1.iterdir()}
    refused(record(copy_of_fig1, "fig1"), "already", str(copy_of_fig1))
    assert {path.name: path.read_bytes() for path in copy_of_fig1.iterdir()} == before
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


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["order", "--help"]], ids=" ".join)
def test_help_that_cannot_be_printed_is_one_line(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "corebraid", *arguments]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "corebraid: standard output: No space left on device\n")
