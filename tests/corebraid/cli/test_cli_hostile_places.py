"""Outputs that take no more, requests to end, files that have no end, others at the same recording: one
line, the promised code, nothing half written."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, record, run

HELLO = FIRMWARE.parent / "linux" / "x86_64" / "static_hello"
WOULD_BLOCK = "corebraid: standard output: write could not complete without blocking"
COMMAND = [sys.executable, "-m", "corebraid"]


@pytest.fixture(scope="module")
def rec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of uts on 4 cores, with strata."""
    path = tmp_path_factory.mktemp("places") / "rec"
    assert record(path, "uts", "--cores", 4, "--strata", "cycles:5000").code == 0
    return path


def to_full_pipe(*words: object, unbuffered: bool) -> tuple[int, bytes, list[str]]:
    """Run a command whose standard output takes 4 KiB and no more, and does not wait: (code, what it took,
    the lines of stderr)."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(write, False)
    surroundings = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    if unbuffered:
        surroundings["PYTHONUNBUFFERED"] = "1"
    ran = subprocess.run(
        [*COMMAND, *map(str, words)], stdout=write, stderr=subprocess.PIPE, env=surroundings, check=False,
        timeout=300,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read, "rb") as file:
        return ran.returncode, file.read(), ran.stderr.decode().splitlines()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", [("trace",), ("trace", "--format", "text"), ("info", "--json")])
def test_output_that_takes_no_more_is_told(words: tuple[str, ...], unbuffered: bool, rec: Path) -> None:
    code, took, told = to_full_pipe(words[0], rec, *words[1:], unbuffered=unbuffered)
    if code == 0:
        assert len(took) < 4096
        assert words[0] == "info"
        return
    assert (code, told) == (2, [WOULD_BLOCK])


@pytest.mark.parametrize("unbuffered", [False, True], ids=["buffered", "unbuffered"])
def test_what_a_guest_prints_where_there_is_no_more_room(unbuffered: bool, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"a line of input\n" * 800)
    words = ("record", "-o", tmp_path / "rec", "--input", text, "--cores", 1, FIRMWARE / "input_echo.elf")
    code, _, told = to_full_pipe(*words, unbuffered=unbuffered)
    assert code == 2
    assert any("what the guest printed could not all be written" in line for line in told)
    assert not any("Exception" in line for line in told)
    assert run("verify", tmp_path / "rec").code == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_listing_that_is_to_end_is_not_there(number: signal.Signals, rec: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    words = [*COMMAND, "trace", str(rec), "--format", "text", "-o", str(place)]

    def heed() -> None:
        signal.signal(number, signal.SIG_DFL)  # these tests may run below nohup

    for _ in range(20):
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed) as process:
            began = time.monotonic()
            while not place.exists() and process.poll() is None:
                assert time.monotonic() - began < 100
                time.sleep(0.002)
            process.send_signal(number)
            _, told = process.communicate(timeout=100)
        if process.returncode:
            break
        # It was done before: a busy machine woke us late.
        place.unlink()
    assert (process.returncode, told.splitlines()) == (130, [f"corebraid: ended by {number.name}"])
    assert not place.exists()


def test_a_signal_that_is_ignored_stays_so(rec: Path, tmp_path: Path) -> None:
    place = tmp_path / "out"
    words = [*COMMAND, "trace", str(rec), "--limit", "20", "-o", str(place)]

    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with subprocess.Popen(words, preexec_fn=ignore) as process:
        for _ in range(20):
            process.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        assert process.wait(100) == 0
    assert place.stat().st_size


@pytest.mark.parametrize("most", range(12, 21))
@pytest.mark.sampled(1)
def test_a_program_for_which_there_are_too_few_files(most: int, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    ran = subprocess.run(
        [*COMMAND, "record", "-o", str(tmp_path / "rec"), "--cores", "2", str(HELLO), "a"],
        capture_output=True, text=True, check=False, timeout=300, preexec_fn=limit,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1].startswith("corebraid: too many open files; allow more (ulimit -n)")
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize("most", range(11, 20))
@pytest.mark.sampled(1)
def test_a_hunt_for_which_there_are_too_few_files_leaves_nothing(most: int, tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

    (tmp_path / "tmp").mkdir()
    words = [*COMMAND, "hunt", "-o", str(tmp_path / "found"), "--runs", "2", "--cores", "2", str(HELLO)]
    ran = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=300, preexec_fn=limit,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
    )  # fmt: skip
    assert ran.returncode == 2
    assert "too many open files" in ran.stderr.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("words", [("verify",), ("trace", "--core", "0", "--limit", "1")])
def test_a_program_that_has_no_end_is_not_read(words: tuple[str, ...], rec: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(rec, tmp_path / "rec")
    (copy / "program.elf").unlink()
    with (copy / "program.elf").open("wb") as file:
        file.truncate(1 << 40)
    ran = run(words[0], copy, *words[1:])
    assert ran.code in (1, 2)
    assert "too long: expected at most 1,073,741,824 bytes" in ran.out + ran.err


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\udcff"])
def test_a_program_whose_name_cannot_be_told(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    shutil.copy(FIRMWARE / "fig1.elf", program)
    ran = run("record", "-o", tmp_path / "rec", program)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert "characters that are not printable" in ran.err
    assert "give it another one" in ran.err
    assert not (tmp_path / "rec").exists()


def test_checkpoints_that_somebody_makes_already(rec: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(rec, tmp_path / "rec")
    held = os.open(copy, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    theirs = copy / "checkpoints-0.log.partial"
    theirs.touch()
    ran = run("checkpoint", copy, "--every", 5000)
    assert (ran.code, ran.lines) == (
        2, [f"corebraid: {copy}: checkpoints of it are being made already; wait until that has ended"],
    )  # fmt: skip
    assert theirs.exists()
    os.close(held)
    assert run("checkpoint", copy, "--every", 5000).code == 0


def test_checkpoints_that_are_to_end_are_not_half_there(rec: Path, tmp_path: Path) -> None:
    """Made by several processes, which do not tidy up."""
    copy = shutil.copytree(rec, tmp_path / "rec")
    ended = 0
    for _ in range(20):
        with subprocess.Popen(
            [*COMMAND, "checkpoint", str(copy), "--every", "5000", "--jobs", "2"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            began = time.monotonic()
            while not list(copy.glob("*.partial")) and process.poll() is None:
                assert time.monotonic() - began < 100
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=100)
        assert process.returncode in (0, 130)
        assert not list(copy.glob("*.partial"))
        ended += process.returncode == 130
        if ended > 2:
            break
    assert ended
