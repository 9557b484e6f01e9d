"""Rings of recorders that were killed, or had no room: what is there is put together by whoever opens it."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, run

import corebraid
from corebraid.base.errors import FormatError
from recorder.capture import intervals
from recorder.capture.intervals import Joining, join_killed, place_of
from recorder.files.frame import FrameWriter, UnwrittenError
from recorder.files.manifest import INTERVALS, MANIFEST
from recorder.files.reader import Recording, iter_core_records
from recorder.files.sealed_json import seal
from recorder.files.writer import RecordingWriter
from recorder.replay.core import CoreReplay


def _last_whole(directory: Path) -> None:
    """What is there opens, verifies and orders."""
    corebraid.info(directory)
    assert not (directory / INTERVALS).exists()
    facts = corebraid.verify(directory).facts()
    assert facts["sound"], facts
    corebraid.order(directory)
    corebraid.check_order(directory)


#: Options, and how much is kept with them, by turns.
_WAYS: tuple[tuple[str, list[str]], ...] = (
    ("2M", []), ("500k", ["--bus", "mesi"]), ("500k", ["--model", "tso"]), ("500k", ["--cache", "4k:2:64"]),
)  # fmt: skip


def _killed(directory: Path, number: int, after: float) -> int:
    """Record until it is killed. Returns how many intervals it left."""
    last, more = _WAYS[number % len(_WAYS)]
    command = [
        sys.executable, "-m", "corebraid", "record", "-o", str(directory), "--cores", "3", "--last", last,
        *more, "--seed", str(number), str(FIRMWARE.parent / "linux" / "x86_64" / "loop_forever"),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        began = time.monotonic()
        while process.poll() is None and not place_of(directory, 3).exists():
            assert time.monotonic() - began < 100
            time.sleep(0.005)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.wait()
    return len(list((directory / INTERVALS).iterdir())) if (directory / INTERVALS).exists() else 0


def _die(tmp_path: Path, first: int, cases: int) -> None:
    draw, left = random.Random(first), 0
    for number in range(first, first + cases):
        directory = tmp_path / f"rec{number}"
        print(f"seed {number}, killed {number - first} of {cases}")
        left += _killed(directory, number, draw.uniform(0, 0.4)) > 1
        _last_whole(directory)
        shutil.rmtree(directory)
    assert left


def test_a_killed_ring_can_be_read(tmp_path: Path) -> None:
    _die(tmp_path, 0, 4)


@pytest.mark.soak
def test_a_killed_ring_can_be_read_at_any_moment(tmp_path: Path) -> None:
    _die(tmp_path, 100, 200)


def _unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int = 8000, model: str = "sc") -> Path:
    """A ring that was never put together."""
    with monkeypatch.context() as broken:
        broken.setattr(Joining, "__init__", _refuse)
        with pytest.raises(FormatError):
            corebraid.record(
                FIRMWARE / "uts.elf", tmp_path / "rec", cores=2, strata="cycles:1000", last=last, model=model
            )
    return tmp_path / "rec"


def _refuse(*_: object) -> None:
    raise FormatError("cannot be written (No space left on device)")


def test_no_room_to_put_it_together_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    assert (path / INTERVALS).exists()
    _last_whole(path)


def test_no_room_for_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervals before it are readable."""
    write, calls = RecordingWriter.write_image, []

    def full(self: RecordingWriter, which: str, pages: object) -> None:
        calls.append(which)
        if len(calls) == 6:
            _refuse()
        write(self, which, pages)  # type: ignore[arg-type]

    with monkeypatch.context() as broken:
        broken.setattr(RecordingWriter, "write_image", full)
        with pytest.raises(FormatError, match="No space"):
            corebraid.record(FIRMWARE / "uts.elf", tmp_path / "rec", cores=2, strata="cycles:1000", last=8000)
    _last_whole(tmp_path / "rec")
    assert len(calls) == 6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("writes", [0, 3, 9])
def test_no_room_for_who_puts_it_together_later(
    writes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told to remove an interval, and once there is room it works."""
    path, left = _unfinished(tmp_path, monkeypatch), [writes]
    write = FrameWriter._write

    def full(self: FrameWriter, data: bytes) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise UnwrittenError("cannot be written (No space left on device)", where=str(path / "joined"))
        write(self, data)

    with monkeypatch.context() as broken:
        broken.setattr(FrameWriter, "_write", full)
        with pytest.raises(FormatError, match=r"No space.*make room there.*all intervals are still there"):
            join_killed(path)
    _last_whole(path)


def test_no_room_for_what_it_says_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)

    def full(self: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "write_bytes", full)
        with pytest.raises(FormatError, match=r"No space.*make room there.*all intervals are still there"):
            join_killed(path)
    _last_whole(path)


@pytest.mark.parametrize("moment", ["an interval is half removed", "one has not begun", "half put together",
                                    "put together, intervals left"])  # fmt: skip
@pytest.mark.sampled(2)
def test_moments(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    numbers = sorted(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit())
    assert len(numbers) > 3
    if moment == "an interval is half removed":
        with monkeypatch.context() as killed:
            killed.setattr(intervals.shutil, "rmtree", lambda place: (place / "core-0.log").unlink())
            intervals.drop_interval(place_of(path, numbers[0]))
    elif moment == "one has not begun":
        (place_of(path, numbers[-1] + 1)).mkdir()
    elif moment == "half put together":
        monkeypatch.setattr(Joining, "settle", _refuse)
        with pytest.raises(FormatError):
            join_killed(path)
        os.replace(path / "joined" / "core-0.log", path / "core-0.log")
        monkeypatch.undo()
    else:
        shutil.copytree(path / INTERVALS, tmp_path / "kept")
        join_killed(path)
        shutil.copytree(tmp_path / "kept", path / INTERVALS)
    _last_whole(path)
    assert not (path / "joined").exists()


def test_one_that_is_being_recorded_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    with intervals.held(path), pytest.raises(FormatError, match="still being recorded"):
        corebraid.info(path)
    _last_whole(path)


def test_a_missing_interval_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    numbers = sorted(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit())
    shutil.rmtree(place_of(path, numbers[1]))
    ran = run("info", path)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert "an interval is missing" in ran.err


@pytest.mark.parametrize(
    "name", ["core-0.log", "core-1.log", "evidence-losses.log", "truth.log", "agent.log"]
)
@pytest.mark.parametrize("part", [0, 2])
@pytest.mark.sampled(2)
def test_what_is_cut_off_is_missed(
    name: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of the last interval anything may be missing, and nothing elsewhere."""
    path = _unfinished(tmp_path, monkeypatch)
    numbers = sorted(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit())
    file = place_of(path, numbers[1]) / name
    raw = file.read_bytes()
    file.write_bytes(raw[: len(raw) // part if part else 0])
    ran = run("info", path)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert name in ran.err
    assert "those before it" in ran.err
    assert file.exists()
    # As it says.
    for number in numbers[:2]:
        shutil.rmtree(place_of(path, number))
    last = place_of(path, numbers[-1]) / name
    last.write_bytes(last.read_bytes()[:-3])
    _last_whole(path)


@pytest.mark.parametrize("ring", [False, True])
def test_what_is_somebody_elses_stays(ring: bool, tmp_path: Path) -> None:
    """A folder of the same name beside a recording's files, or where there is no recording."""
    path, more = tmp_path / "rec", {"last": "100M"} if ring else {}
    corebraid.record(FIRMWARE / "fig1.elf", path, cores=1, **more)  # type: ignore[arg-type]
    (tmp_path / "no" / INTERVALS / "7").mkdir(parents=True)
    for folder in (path, tmp_path / "no"):
        (folder / INTERVALS).mkdir(exist_ok=True)
        (folder / INTERVALS / "notes").write_text("mine")
        (folder / INTERVALS / "\u00b2").mkdir()
    (path / INTERVALS / "0").mkdir()
    (path / INTERVALS / "0" / "base.json").write_text("{}")
    assert run("info", path).code == 0
    assert run("info", tmp_path / "no").code == 2
    for folder in (path, tmp_path / "no"):
        assert (folder / INTERVALS / "notes").read_text() == "mine"
        assert not (folder / INTERVALS / "lock").exists()


@pytest.mark.parametrize("what", ["another recording", "another model", "a pipe"])
def test_a_hostile_interval(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    numbers = sorted(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit())
    place = place_of(path, numbers[0] if what == "another model" else numbers[1])
    if what == "a pipe":
        (place / "base.json").unlink()
        os.mkfifo(place / "base.json")
    else:
        manifest = Recording.open(place).manifest
        other = {"model": "tso", "line": 64, "options": {**manifest.options, "store_buffer": 4}}
        changed = replace(manifest, **({"seed": 9} if what == "another recording" else other))
        (place / MANIFEST).write_bytes(changed.render())
    ran = run("verify", path)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert str(place) in ran.err
    assert place.exists()


@pytest.mark.parametrize("damage", ["base", "interval"])
def test_damage_is_found(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _unfinished(tmp_path, monkeypatch)
    number = min(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit()) + 1
    file = place_of(path, number) / ("base.json" if damage == "base" else "core-1.log")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    ran = run("verify", path)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert file.name in ran.err
    # Nothing is thrown away.
    assert file.exists()


@pytest.mark.parametrize("field", ["counts", "strata", "accesses", "committed"])
def test_one_that_does_not_go_on_from_the_one_before_is_found(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though its checksum is right. A replay would go on for as long as a count says."""
    path = _unfinished(tmp_path, monkeypatch, model="tso")
    numbers = sorted(int(place.name) for place in (path / INTERVALS).iterdir() if place.name.isdigit())
    base = place_of(path, numbers[2]) / "base.json"
    said = json.loads(base.read_bytes())
    before = said[field]
    said[field] = [before[0], before[1] + (1 << 40)] if isinstance(before, list) else before + 1
    base.write_bytes(seal({key: value for key, value in said.items() if key != "digest"}))
    ran = run("verify", path)
    assert (ran.code, len(ran.lines)) == (2, 1), ran
    assert "does not begin where the one before it ends" in ran.err
    assert str(base) in ran.err
    # No number that has gone round 2^64.
    assert not re.search(r"[0-9]{15}", ran.err.replace(str(tmp_path), ""))
    assert base.exists()


def test_intervals_begin_with_what_they_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is read by itself."""
    path = _unfinished(tmp_path, monkeypatch)
    read = 0
    for place in (path / INTERVALS).iterdir():
        if place.name.isdigit():
            recording = Recording.open(place)
            for core in range(recording.manifest.n_cores):
                assert all(True for _ in CoreReplay(recording, core).run())
                read += sum(len(rows) for rows, _ in iter_core_records(recording, core))
    assert read
