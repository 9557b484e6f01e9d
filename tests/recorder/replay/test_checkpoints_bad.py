"""Checkpoints that are damaged or lie, with all checksums right: found by who begins there, and by
`verify`."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from cli_factory import FIRMWARE, run

import corebraid
from bench.hostile.sample import Sample
from corebraid.base.memory import PAGE_BYTES
from recorder.files.checkpoints import checkpoint_header, checkpoint_path, checkpoints
from recorder.files.frame import FRAME_HEADER_BYTES, FrameWriter, iter_frames
from recorder.files.manifest import MANIFEST, checkpoint_log
from recorder.files.reader import Recording

#: A frame of checkpoints: its bytes, its records (0: a head), its range.
Frame = tuple[bytes, int, int, int]
CORE = 1


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four cores with checkpoints, some whole and some not."""
    path = tmp_path_factory.mktemp("checkpoints") / "rec"
    options = ("--cores", 4, "--strata", "cycles:3000", "--checkpoint", 3000)
    assert run("record", "-o", path, *options, FIRMWARE / "uts.elf").code == 0
    assert {one.whole for one in checkpoints(Recording.open(path), CORE)} == {True, False}
    return path


@pytest.fixture
def rec(original: Path, tmp_path: Path) -> Path:
    """One to be damaged."""
    shutil.copytree(original, tmp_path / "rec")
    return tmp_path / "rec"


def frames_of(path: Path) -> list[Frame]:
    recording = Recording.open(path)
    header = checkpoint_header(recording, CORE)
    found = iter_frames(checkpoint_path(recording, CORE), header)
    return [(raw, one.records, one.first, one.last) for one, raw in found]


def write(path: Path, frames: list[Frame]) -> None:
    """In place of the checkpoints that are there, all checksums right."""
    recording = Recording.open(path)
    checkpoint_path(recording, CORE).unlink()
    writer = FrameWriter(checkpoint_path(recording, CORE), checkpoint_header(recording, CORE))
    for frame in frames:
        writer.append(*frame)
    writer.close()


def nth(frames: list[Frame], head: bool, n: int) -> int:
    """Place of the n-th head, or of the n-th frame of pages, from the end."""
    return [k for k, frame in enumerate(frames) if (frame[1] == 0) == head][-1 - n]


def of_head(frames: list[Frame], n: int, word: int, change: Callable[[int], int]) -> None:
    at = nth(frames, True, n)
    words = list(struct.unpack(f"<{len(frames[at][0]) // 8}Q", frames[at][0]))
    words[word] = change(words[word])
    frames[at] = (struct.pack(f"<{len(words)}Q", *words), *frames[at][1:])


def page_byte(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    raw = bytearray(frames[at][0])
    raw[-PAGE_BYTES + next(k for k in count() if raw[-PAGE_BYTES + k])] ^= 1
    frames[at] = (bytes(raw), *frames[at][1:])


def received_bit(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    raw = bytearray(frames[at][0])
    raw[8 * frames[at][1]] ^= 1
    frames[at] = (bytes(raw), *frames[at][1:])


def page_of_nothing(frames: list[Frame]) -> None:
    """One more page, of which no line is there."""
    at = nth(frames, False, 0)
    raw, n = frames[at][0], frames[at][1]
    number = struct.unpack_from("<Q", raw, 8 * (n - 1))[0] + 1
    numbers, masks, pages = raw[: 8 * n], raw[8 * n : 9 * n], raw[9 * n :]
    more = numbers + struct.pack("<Q", number) + masks + bytes(1) + pages + bytes(PAGE_BYTES)
    frames[at] = (more, n + 1, *frames[at][2:])
    of_head(frames, 0, 3, lambda said: said + 1)


def page_left_out(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    raw, n = frames[at][0], frames[at][1]
    assert n > 1
    kept = raw[8 : 8 * n] + raw[8 * n + 1 : 9 * n] + raw[9 * n + PAGE_BYTES :]
    frames[at] = (kept, n - 1, *frames[at][2:])
    of_head(frames, 0, 3, lambda pages: pages - 1)


def other_count(frames: list[Frame]) -> None:
    at = nth(frames, True, 0)
    last = frames[at][3] + 1
    frames[at] = (frames[at][0], 0, last, last)
    of_head(frames, 0, 1, lambda _: last)


def page_out_of_memory(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    n = frames[at][1]
    raw = bytearray(frames[at][0])
    raw[8 * (n - 1) : 8 * n] = struct.pack("<Q", 1 << 40)
    frames[at] = (bytes(raw), *frames[at][1:])


def pages_out_of_order(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    raw, n = frames[at][0], frames[at][1]
    frames[at] = (raw[8:16] + raw[:8] + raw[16:], n, *frames[at][2:])


def short_page(frames: list[Frame]) -> None:
    at = nth(frames, False, 0)
    frames[at] = (frames[at][0][:-1], *frames[at][1:])


def only_the_last(frames: list[Frame]) -> None:
    """Not whole, and nothing is there before it."""
    of_head(frames, 0, 2, lambda _: 0)
    del frames[: nth(frames, True, 1) + 1]


def another_again(frames: list[Frame]) -> None:
    frames.append(frames[nth(frames, True, 0)])


#: What the message says.
LIES: dict[Callable[[list[Frame]], None], str] = {
    page_byte: "its memory is not what the core's log says",
    received_bit: "bytes in lines that its core has not received",
    page_of_nothing: "bytes in lines that its core has not received",
    page_left_out: "its memory is not what the core's log says",
    other_count: "the core's log has no stratum",
    page_out_of_memory: "page numbers are out of range or out of order",
    pages_out_of_order: "page numbers are out of range or out of order",
    short_page: "bytes in a frame of pages",
    only_the_last: "checkpoints are out of sequence",
    another_again: "checkpoint",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lie_is_found(lie: Callable[[list[Frame]], None], rec: Path) -> None:
    frames = frames_of(rec)
    lie(frames)
    write(rec, frames)
    last = Recording.open(rec).manifest.instructions[CORE] - 1
    for command in (
        ("replay", rec, "--core", CORE, "--until", last),
        ("trace", rec, "--core", CORE, "--from", last),
    ):
        ran = run(*command)
        assert (ran.code, len(ran.lines)) == (2, 1), ran.err
        assert LIES[lie] in ran.err
        assert checkpoint_log(CORE) in ran.err
        assert "corebraid checkpoint" in ran.err
    ran = run("verify", rec, "--json")
    facts = json.loads(ran.out)
    assert ran.code == 1
    assert [finding["file"] for finding in facts["findings"]] == [checkpoint_log(CORE)]
    assert all(replay["bit_exact"] for replay in facts["replays"])
    # Nothing is lost with them.
    assert run("replay", rec, "--core", CORE).code == 0
    assert run("checkpoint", rec, "--every", 3000).code == 0
    assert run("verify", rec).code == 0


def test_other_registers_than_the_replay_has_are_found_by_verify(rec: Path) -> None:
    """No digest has them."""
    frames = frames_of(rec)
    of_head(frames, 0, 4, lambda word: word ^ 1)
    write(rec, frames)
    ran = run("verify", rec)
    assert ran.code == 1
    assert "its registers are not the replay's" in ran.err


@pytest.mark.parametrize("words", [0, 4, 6])
def test_as_many_registers_as_another_processor_has(words: int, rec: Path) -> None:
    frames = frames_of(rec)
    at = nth(frames, True, 0)
    frames[at] = (frames[at][0][:32] + bytes(8 * words), *frames[at][1:])
    write(rec, frames)
    ran = run("replay", rec, "--core", CORE, "--until", Recording.open(rec).manifest.instructions[CORE] - 1)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert f"it has {words} registers" in ran.err
    assert run("verify", rec).code == 1


@pytest.mark.parametrize("how", ["cut", "cut header", "flip", "header", "other"])
def test_a_damaged_file_is_found(how: str, rec: Path) -> None:
    file = rec / checkpoint_log(CORE)
    data = bytearray(file.read_bytes())
    if how == "flip":
        data[len(data) // 2] ^= 0x10
    elif how == "header":
        data[data.index(b"CBFR") + 8] ^= 1
    elif how == "other":
        data[:] = (rec / checkpoint_log(0)).read_bytes()
    else:
        del data[-FRAME_HEADER_BYTES // 2 if how == "cut" else 20 :]
    file.write_bytes(bytes(data))
    ran = run("verify", rec)
    assert ran.code == 1
    assert checkpoint_log(CORE) in ran.lines[-1]
    assert run("replay", rec, "--core", CORE).code == 0
    if how != "flip":  # That frame is not read.
        ran = run("replay", rec, "--core", CORE, "--until", 50_000)
        assert (ran.code, len(ran.lines)) == (2, 1)
        assert "make it again with corebraid checkpoint" in ran.err


def test_a_killed_recorders_checkpoints_are_used_as_far_as_they_go(rec: Path) -> None:
    """Also where they go further than the log."""
    text = json.loads((rec / MANIFEST).read_text())
    sample = Sample.read(rec)
    sample.manifest.update(complete=False, instructions=[], end=None, totals={})
    for name in [one for one in text["files"] if one != "initial.img"]:
        del sample.manifest["files"][name]
    shutil.rmtree(rec)
    sample.write(rec)
    found = checkpoints(Recording.open(rec), CORE)
    file = rec / checkpoint_log(CORE)
    file.write_bytes(file.read_bytes()[:-7])
    assert checkpoints(Recording.open(rec), CORE) == found[:-1]
    log = rec / f"core-{CORE}.log"
    log.write_bytes(log.read_bytes()[:-7])
    ran = run("replay", rec, "--core", CORE, "--until", 10)
    assert ran.code in (0, 2)
    assert len(ran.lines) <= 1
    assert run("verify", rec).code == 0


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("--every", "0"), "or auto, found '0'; write --every 10000000"),
        (("--every", "none"), "or auto, found 'none'"),
        (("--every", "1e6"), "found '1e6'"),
        (("--jobs", "0"), "--jobs"),
    ],
)
def test_what_cannot_be_asked_for(arguments: tuple[str, str], what: str, rec: Path) -> None:
    before = checkpoint_path(Recording.open(rec), CORE).read_bytes()
    ran = run("checkpoint", rec, *arguments)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert what in ran.err
    assert checkpoint_path(Recording.open(rec), CORE).read_bytes() == before


def test_no_strata_no_checkpoints(tmp_path: Path) -> None:
    fig1 = FIRMWARE / "fig1.elf"
    ran = run("record", "-o", tmp_path / "rec", "--strata", "none", "--checkpoint", 5, fig1)
    assert (ran.code, len(ran.lines), (tmp_path / "rec").exists()) == (2, 1, False)
    assert "checkpoints stand at strata" in ran.err
    assert run("record", "-o", tmp_path / "rec", "--strata", "none", fig1).code == 0
    ran = run("checkpoint", tmp_path / "rec")
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert "--strata cycles:100000" in ran.err


def test_a_replay_that_diverges_leaves_the_checkpoints_that_are_there(rec: Path) -> None:
    before = checkpoint_path(Recording.open(rec), CORE).read_bytes()
    log = rec / f"core-{CORE}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(bytes(data))
    ran = run("checkpoint", rec, "--every", 10)
    assert (ran.code, len(ran.lines)) == (2, 1)
    assert checkpoint_path(Recording.open(rec), CORE).read_bytes() == before
    assert not list(rec.glob("*.partial"))


def test_what_to_make_again_is_said_as_who_reads_it_calls_it(rec: Path) -> None:
    frames = frames_of(rec)
    at = max(number for number, frame in enumerate(frames) if frame[1])
    raw, *others = frames[at]
    frames[at] = (raw[:-1] + bytes([raw[-1] ^ 1]), *others)
    write(rec, frames)
    typed, called = f"corebraid checkpoint {rec}", f"corebraid.checkpoint({str(rec)!r})"
    ran = run("verify", rec)
    assert (ran.code, len(ran.lines)) == (1, 1), ran
    assert typed in ran.err
    assert called not in ran.err
    (found,) = json.loads(run("verify", rec, "--json").out)["findings"]
    assert typed in found["what"]
    (finding,) = corebraid.verify(rec).findings
    assert called in finding.what
