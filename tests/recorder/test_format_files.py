"""Files of whole recordings: round trip, damage at every byte and bit, killed recorders, hostile lengths."""

from __future__ import annotations

import shutil
import struct
import tracemalloc
import zlib
from pathlib import Path

import lz4.block
import numpy as np
import pytest
from format_factory import (
    BLOB,
    MEMORY,
    agent_batches,
    contents,
    core_batches,
    flips,
    manifest,
    page,
    truth_rows,
    write,
)

from corebraid.base.errors import FormatError, UsageError
from recorder.evidence.integrity import check_file, integrity
from recorder.files import truth
from recorder.files.agent_log import is_access
from recorder.files.end import End
from recorder.files.frame import CORE, MAX_RAW, FileHeader, FrameWriter, iter_frames, read_header
from recorder.files.reader import Recording, iter_agent_trace, iter_core_records, load_image, strata
from recorder.files.writer import RecordingWriter

LOGS = ("core-0.log", "core-1.log", "agent.log", "truth.log")
IMAGES = ("initial.img", "final.img")


def test_round_trip(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec")
    assert integrity(recording) == []
    for core in range(2):
        frames = list(iter_core_records(recording, core))
        assert len(frames) == 3
        for (rows, blob), batch in zip(frames, core_batches(core), strict=True):
            for got, row in zip(rows, batch, strict=True):
                names = ("count", "kind", "flags", "addr", "value", "size")
                assert [got[name] for name in names] == [row[name] for name in names]
                if row["kind"] in (1, 4, 5):
                    at, size = int(row["offset"]), int(row["size"])
                    assert blob[got["offset"] :][:size].tobytes() == BLOB[at : at + size].tobytes()
    expected = [row for batch in agent_batches() for row in batch[is_access(batch)]]
    events = [event for rows in iter_agent_trace(recording) for event in rows]
    for name in ("addr", "old", "new", "size", "kind", "flags", "stratum"):
        assert [event[name] for event in events] == [row[name] for row in expected]
    assert [(e["seq"], e["count"], e["core"], e["pc"]) for e in events] == [
        (0, 0, 2, 1),
        (1, 1, 2, 1),
        (2, 2, 2, 2),
    ]
    assert [row for rows in contents(recording, "truth.log") for row in rows] == truth_rows().tolist()  # type: ignore[attr-defined]
    memory = np.zeros(MEMORY, dtype=np.uint8)
    load_image(recording, "initial", memory)
    assert np.flatnonzero(memory.reshape(-1, 4096).any(axis=1)).tolist() == [2, 15]
    assert contents(recording, "final.img") == [(0x2000, page(5).tobytes())]
    assert strata(recording).tolist() == [[90, 1090, 2], [190, 1190, 3]]
    assert recording.manifest.totals == {"misses": 6}


def test_the_same_calls_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a")
    write(tmp_path / "b")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(("manifest.json", *LOGS, *IMAGES))
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert write(tmp_path / "c", seed=2).manifest.id != Recording.open(tmp_path / "a").manifest.id


def test_nothing_is_written_over(tmp_path: Path) -> None:
    write(tmp_path / "rec")
    before = {path: path.read_bytes() for path in (tmp_path / "rec").iterdir()}
    (tmp_path / "file").write_text("precious")
    for taken in ("rec", "file"):
        with pytest.raises(UsageError, match="choose another directory="):
            RecordingWriter.create(tmp_path / taken, manifest())
    with pytest.raises(UsageError, match="cannot be made"):
        RecordingWriter.create(tmp_path / "none" / "rec", manifest())
    assert {path: path.read_bytes() for path in (tmp_path / "rec").iterdir()} == before
    assert (tmp_path / "file").read_text() == "precious"


def test_one_cores_log_is_enough(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec")
    expected = contents(recording, "core-1.log")
    for path in (tmp_path / "rec").iterdir():
        if path.name not in ("manifest.json", "core-1.log"):
            path.unlink()
    assert contents(Recording.open(tmp_path / "rec"), "core-1.log") == expected
    assert {finding.file for finding in integrity(recording)} == {
        "core-0.log",
        "agent.log",
        "truth.log",
        *IMAGES,
    }


@pytest.mark.parametrize("name", [*LOGS, *IMAGES])
@pytest.mark.sampled(1)
def test_every_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    """By the frames alone when the recorder was killed, and against the manifest when it was not."""
    whole, killed = write(tmp_path / "whole"), write(tmp_path / "killed", finish=False)
    path = tmp_path / "whole" / name
    data = path.read_bytes()
    twins = [recording for recording in (whole, killed) if (recording.path / name).exists()]
    for index, flipped in enumerate(flips(data)):
        for recording in twins:
            (recording.path / name).write_bytes(flipped)
            with pytest.raises(FormatError):
                contents(recording, name)
            finding = check_file(recording, name)
            assert finding is not None, f"bit {index}"
            assert finding.file == name
    assert [finding.file for finding in integrity(whole)] == [name]


@pytest.mark.parametrize("name", [*LOGS, *IMAGES])
def test_every_truncation_is_found(tmp_path: Path, name: str) -> None:
    recording = write(tmp_path / "rec")
    path = recording.path / name
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError):
            contents(recording, name)
        assert check_file(recording, name) is not None
    path.write_bytes(data + b"\0")
    assert check_file(recording, name) is not None


@pytest.mark.parametrize("name", LOGS)
def test_a_killed_recorder_leaves_the_complete_frames(tmp_path: Path, name: str) -> None:
    recording = write(tmp_path / "rec", finish=False)
    path = recording.path / name
    data, frames = path.read_bytes(), contents(recording, name)
    ends = [32 + sum(sizes) for sizes in _prefixes(path)]
    assert ends[-1] == len(data)
    for size in range(len(data)):
        path.write_bytes(data[:size])
        complete = sum(end <= size for end in ends)
        assert contents(recording, name) == frames[:complete]
        assert check_file(recording, name) is None


def _prefixes(path: Path) -> list[list[int]]:
    sizes = [44 + frame.stored for frame, _ in iter_frames(path, read_header(path))]
    return [sizes[: k + 1] for k in range(len(sizes))]


def test_a_killed_recording_has_the_strata_that_all_logs_have(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec", finish=False)
    assert strata(recording).tolist() == [[90, 1090, 2], [190, 1190, 3]]
    path = recording.core_log_path(1)
    first = 32 + _prefixes(path)[0][0]
    path.write_bytes(path.read_bytes()[: first + 20])
    assert strata(recording).tolist() == [[90, 1090, 2]]
    assert integrity(recording) == []
    with pytest.raises(FormatError, match="no such image"):
        contents(recording, "final.img")


def _header_error(path: Path, data: bytes, expected: FileHeader) -> FormatError:
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        list(iter_frames(path, expected))
    return caught.value


def test_headers_tell_what_a_file_is(tmp_path: Path) -> None:
    path, mine = tmp_path / "x.log", FileHeader(CORE, 1, b"m" * 16, 64)
    good = mine.pack()
    assert len(good) == 32
    cases = {
        b"#!/bin/sh" + b"\0" * 30: "not a corebraid file",
        good[:4] + b"\5\0" + good[6:]: "format version: expected 1 or 2 or 3 or 4, found 5",
        good[:8] + b"\3" + good[9:]: "bad checksum of the file header",
        FileHeader(CORE, 1, b"y" * 16, 64).pack(): "another recording",
        FileHeader(CORE, 2, b"m" * 16, 64).pack(): "another core: expected 1, found 2",
        FileHeader(2, 1, b"m" * 16, 64).pack(): "expected log of a core, found agent log",
        FileHeader(CORE, 1, b"m" * 16, 64, 1).pack(): "not the recording's: expected 3, found 1",
        FileHeader(CORE, 1, b"m" * 16, 16).pack(): "bytes in a line: expected 64, found 16",
        good[:31]: "truncated",
        b"": "truncated",
    }
    for data, message in cases.items():
        error = _header_error(path, data, mine)
        assert message in error.line()
        assert error.remedy
        assert str(path) in error.line()


def test_logs_of_another_recording_or_core(tmp_path: Path) -> None:
    recording, other = write(tmp_path / "a"), write(tmp_path / "b", seed=2)
    shutil.copy(other.core_log_path(0), recording.core_log_path(0))
    shutil.copy(recording.path / "core-1.log", other.core_log_path(0))
    with pytest.raises(FormatError, match="another recording"):
        list(iter_frames(recording.core_log_path(0), recording.header(CORE, 0)))
    with pytest.raises(FormatError, match="another recording"):
        list(iter_frames(other.core_log_path(0), other.header(CORE, 0)))
    with pytest.raises(FormatError, match="log of another core"):
        list(iter_frames(recording.core_log_path(1), recording.header(CORE, 0)))


def test_a_well_formed_log_of_other_content_is_found(tmp_path: Path) -> None:
    recording, name = write(tmp_path / "rec"), "truth.log"
    path = recording.path / name
    data = path.read_bytes()
    changed = truth_rows()
    changed["end"][1] += 1
    header = recording.header_of(name)
    writer = FrameWriter(tmp_path / name, header)
    encoder = truth.Encoder(3, 1 << 10)
    writer.append(bytes(encoder.encode_some(changed[:4], 0)[1]), 4, 0, 3)
    writer.append(bytes(encoder.encode_some(changed[4:], 0)[1]), 3, 4, 6)
    writer.close()
    shutil.copy(tmp_path / name, path)
    assert len(path.read_bytes()) == len(data)
    assert contents(recording, name)
    assert [(f.file, f.offset) for f in integrity(recording)] == [(name, 0)]


def test_another_program_is_found(tmp_path: Path) -> None:
    recording = write(tmp_path / "rec")
    (recording.path / "program.elf").write_bytes(b"not what ran")
    assert [(f.file, f.offset) for f in integrity(recording)] == [("program.elf", 0)]


def _hostile_frame(header: FileHeader, payload: bytes, raw: int, stored: int, records: int) -> bytes:
    packed = header.pack()
    body = struct.pack("<4sIIIIQQI", b"CBFR", 0, raw, stored, records, 0, 0, zlib.crc32(payload))
    return packed + body + struct.pack("<I", zlib.crc32(body, zlib.crc32(packed[:28]))) + payload


@pytest.mark.parametrize(
    ("payload", "raw", "stored", "records"),
    [
        (lz4.block.compress(bytes(64 << 20), store_size=False), 1 << 16, None, 1),
        (lz4.block.compress(bytes(1 << 20), store_size=False), 1 << 20, None, 2**32 - 1),
        (lz4.block.compress(b"x" * 50, store_size=False), 2**32 - 1, None, 1),
        (lz4.block.compress(b"x" * 50, store_size=False), 51, None, 1),
        (b"\xf0" * 60, 50, None, 1),
        (b"x" * 50, 50, 2**32 - 1, 1),
        (b"", 0, 0, 0),
    ],
)
def test_hostile_lengths_cost_no_memory(
    tmp_path: Path, payload: bytes, raw: int, stored: int | None, records: int
) -> None:
    recording = write(tmp_path / "rec", finish=False)
    list(iter_core_records(recording, 1))
    stored = len(payload) if stored is None else stored
    data = _hostile_frame(recording.header(CORE, 0), payload, raw, stored, records)
    recording.core_log_path(0).write_bytes(data)
    tracemalloc.start()
    with pytest.raises(FormatError):
        list(iter_core_records(recording, 0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A frame decodes to at most MAX_RAW / 2 rows of 32 bytes and as much blob as it is long.
    assert peak < 20 * MAX_RAW


def test_a_frame_inflates_to_the_declared_length(tmp_path: Path) -> None:
    header = FileHeader(CORE, 0, b"m" * 16, 64)
    payload = lz4.block.compress(b"x" * 50, store_size=False)
    for raw in (49, 51):
        error = _header_error(
            tmp_path / "x.log", _hostile_frame(header, payload, raw, len(payload), 1), header
        )
        assert f"{raw}" in error.line()
        assert "frame 0" in error.line()


def test_frames_must_follow_each_other(tmp_path: Path) -> None:
    header = FileHeader(CORE, 0, b"m" * 16, 64)
    writer = FrameWriter(tmp_path / "a.log", header)
    writer.append(b"abc", 1, 5, 9)
    with pytest.raises(FormatError, match="does not follow"):
        writer.append(b"abc", 1, 8, 9)
    for size in (0, MAX_RAW + 1):
        with pytest.raises(ValueError, match="a frame holds"):
            writer.append(bytes(size), 1, 9, 9)
    with pytest.raises(FormatError, match="cannot be created"):
        FrameWriter(tmp_path / "a.log", header)
    data = (tmp_path / "a.log").read_bytes()
    error = _header_error(tmp_path / "b.log", data + data[32:], header)
    assert "frame number: expected 1, found 0" in error.line()


def test_a_frame_of_another_file_does_not_fit(tmp_path: Path) -> None:
    """In version 1 it did: the checksum of a file header with its own checksum is the same for all."""
    for version, fits in ((1, True), (2, False)):
        mine, theirs = (FileHeader(CORE, 0, who * 16, 64, version) for who in (b"m", b"t"))
        for name, header in (("mine", mine), ("theirs", theirs)):
            writer = FrameWriter(tmp_path / f"{name}{version}", header)
            writer.append(name.encode() * 3, 1, 5, 9)
            writer.close()
        other = (tmp_path / f"theirs{version}").read_bytes()[32:]
        path = tmp_path / "mixed"
        path.write_bytes(mine.pack() + other)
        if fits:
            assert [raw for _, raw in iter_frames(path, mine)] == [b"theirs" * 3]
        else:
            with pytest.raises(FormatError, match="bad checksum of the header of frame 0"):
                list(iter_frames(path, mine))


def test_logs_that_disagree_on_the_strata(tmp_path: Path) -> None:
    with RecordingWriter.create(tmp_path / "rec", manifest()) as writer:
        writer.append_core(0, core_batches(0)[0], BLOB)
        writer.append_core(1, core_batches(1)[0], BLOB)
        writer.append_core(1, core_batches(1)[2], BLOB)
        for rows in agent_batches():
            writer.append_agent(rows)
        writer.write_image("initial", [])
        writer.write_image("final", [])
        writer.finish(End("limit"), (90, 1300))
    with pytest.raises(FormatError, match="strata in the logs"):
        strata(Recording.open(tmp_path / "rec"))


def test_a_core_that_ended_stands_at_its_end(tmp_path: Path) -> None:
    with RecordingWriter.create(tmp_path / "rec", manifest()) as writer:
        for batch in core_batches(0):
            writer.append_core(0, batch, BLOB)
        writer.append_core(1, core_batches(1)[0], BLOB)
        writer.append_core(1, core_batches(1)[2], BLOB)
        for rows in agent_batches():
            writer.append_agent(rows)
    assert strata(Recording.open(tmp_path / "rec")).tolist() == [[90, 1090, 2], [190, 1300, 3]]
