"""Rows of replays that are kept: those that a replay gives, of one kind and of the other; and what `verify`
makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import Code, run_guest, write_schedule
from guest_bodies import GUESTS, build
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES
from corebraid.base.fingerprints import fingerprint_beside, page_fingerprint
from corebraid.base.hold_places import NO_HOLDS, OF_CORES, WITH_AGENTS
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import EVENT, GLUED, HELD, OWNED, UNCACHED, UNCOUNTED
from corebraid.base.rows.packed import (
    CHUNK_WORDS,
    drop_uncounted,
    pack_chunk,
    start_of_region,
    unpack_chunk,
)
from corebraid.study.verifying import Verdict
from emu.bus.names import PAGE
from recorder.files.reader import Recording
from recorder.replay import kept_rows
from recorder.replay.contested import ALL, CONTESTED, RECEIVED, Watched
from recorder.replay.handovers import NO_HANDOVERS
from recorder.replay.interval import Interval
from recorder.replay.kept_rows import KeptRows, Kind, replay_and_keep
from recorder.replay.traces import RecordingTraces

Rows = NDArray[Any]
LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"


def joined(pieces: Any) -> Rows:
    return np.concatenate([np.zeros(0, EVENT), *(piece.copy() for piece in pieces)])


def hold(path: Path) -> int:
    """What is kept is what replays give; how many rows are not counted."""
    recording, left_out = Recording.open(path), 0
    few = (RECEIVED, CONTESTED)
    for rows, shown, holds in (
        (RECEIVED, few, NO_HOLDS), (RECEIVED, few, OF_CORES), (RECEIVED, few, WITH_AGENTS),
        (ALL, (ALL,), NO_HOLDS),
    ):  # fmt: skip
        traces = RecordingTraces(recording, holds=holds)
        parts = [Interval(core) for core in range(recording.manifest.n_cores)]
        kept = KeptRows.of(Kind(rows, holds, NO_HANDOVERS), parts)
        assert kept is not None
        files = [file.fileno() for file in kept.files]
        for core, part in enumerate(parts):
            watched: Watched | None = None if rows == ALL else traces.pages.of(core, rows)
            finished = replay_and_keep(recording, part, watched, files[core], files)
            assert finished.result.complete
            assert not kept.has(core, Kind(rows, holds, NO_HANDOVERS))
            kept.learn(part, finished)
            for kind in shown:
                assert kept.has(core, Kind(kind, holds, NO_HANDOVERS))
                assert kept.has(core, Kind(kind, (holds + 1) % 3, NO_HANDOVERS)) == (kind == ALL)
                assert kept.has(core, Kind(kind, holds, ((2,),))) == (kind == ALL)
                found = joined(kept.chunks(core, kind))
                replayed = RecordingTraces(recording, rows=kind, holds=holds)._replay(core)
                assert found.tobytes() == joined(replayed).tobytes()
            left_out += int((joined(kept.chunks(core, rows))["flags"] & UNCOUNTED != 0).sum())
        kept.close()
    return left_out


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(2)
def test_hostile_guests(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    for number, (longest, strata) in enumerate(((3, "cycles:700"), (60, "none"))):
        schedule = write_schedule(tmp_path / f"schedule-{number}", GUESTS[body], 0, longest)
        run = run_guest(
            program, tmp_path / f"rec-{number}", GUESTS[body], strata=strata, schedule=str(schedule),
            input=b"input", limit=200_000, bus=PAGE, evidence=("losses",),
        )  # fmt: skip
        hold(run.path)


@pytest.mark.parametrize("program", ["mutexes", "pipes_poll", "signals"])
@pytest.mark.sampled(1)
def test_linux_programs(program: str, tmp_path: Path) -> None:
    corebraid.record(LINUX / program, tmp_path / "rec", cores=3, strata="cycles:20000", limit=150_000)
    assert hold(tmp_path / "rec")


def record(path: Path, **options: Any) -> Recording:
    corebraid.record(IMAGES / "radix.elf", path, cores=3, strata="cycles:10000", limit=60_000, **options)
    corebraid.order(path, jobs=1)
    return Recording.open(path)


def verdict_of(recording: Recording, jobs: int = 1) -> dict[str, object]:
    verdict = corebraid.verify(recording, jobs=jobs)
    assert isinstance(verdict, Verdict)
    return verdict.facts()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, {"bus": "mesi"}, {"model": "tso"}], ids=str)
def test_verify_says_the_same_without_them(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no room, or none that is worth it; and in several processes."""
    recording = record(tmp_path / "rec", **options)
    expected = verdict_of(recording)
    assert expected["sound"]
    assert expected["score"]
    assert verdict_of(recording, 3) == expected
    replayed: list[int] = []
    plain = RecordingTraces._replay

    def replay(self: RecordingTraces, core: int) -> Any:
        if self._kept_rows is None or not self._kept_rows.has(core, self.kind):
            replayed.append(core)
        return plain(self, core)

    monkeypatch.setattr(RecordingTraces, "_replay", replay)
    assert verdict_of(recording) == expected
    assert not replayed
    for most in (300, 0):
        monkeypatch.setattr(kept_rows, "MOST_BYTES", most)
        assert verdict_of(recording) == expected
        assert set(replayed) == {0, 1, 2}


def test_a_full_disk_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record(tmp_path / "rec")
    expected = verdict_of(recording)

    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recorder.replay.kept_rows.os.pwrite", full)
    assert verdict_of(recording) == expected
    monkeypatch.setattr("recorder.replay.kept_rows.tempfile.TemporaryFile", full)
    assert verdict_of(recording) == expected


def test_rows_that_lie_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both orders are walked over what is kept: one byte of it, and they do not fit."""
    recording = record(tmp_path / "rec")
    plain = KeptRows.chunks

    def chunks(self: KeptRows, core: int, rows: str) -> Any:
        for k, piece in enumerate(plain(self, core, rows)):
            if core == 1 and k == 0:
                piece["old"][len(piece) // 2] ^= 1
            yield piece

    monkeypatch.setattr(KeptRows, "chunks", chunks)
    facts: dict[str, Any] = verdict_of(recording)
    assert not facts["sound"]
    assert facts["certificate"]["legal"] is False
    assert facts["truth"]["legal"] is False


def test_a_page_that_is_not_what_was_received_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record(tmp_path / "rec")
    plain = KeptRows.chunks

    def chunks(self: KeptRows, core: int, rows: str) -> Any:
        for piece in plain(self, core, rows):
            piece["old"][piece["kind"] == HELD] ^= 1 << 63
            yield piece

    monkeypatch.setattr(KeptRows, "chunks", chunks)
    facts: dict[str, Any] = verdict_of(recording)
    assert facts["certificate"]["legal"]
    assert facts["truth"]["legal"] is False
    assert "a page that a core received is not what memory held" in facts["truth"]["message"]


def naive_fingerprint(page: bytes) -> int:
    mask, lanes = (1 << 64) - 1, [1, 2, 3, 4]
    for at in range(0, len(page), 8):
        lane = at // 8 % 4
        value = (lanes[lane] ^ int.from_bytes(page[at : at + 8], "little")) * 0x9FB21C651E98DF25 & mask
        lanes[lane] = value ^ value >> 32
    first = lanes[0]
    for lane in lanes[1:]:
        first = (first ^ lane) * 0x9FB21C651E98DF25 & mask
        first ^= first >> 32
    return first


def test_fingerprints_of_pages() -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        page = draw.integers(0, 256, PAGE_BYTES, np.uint8)
        before = int(page_fingerprint(page))
        assert before == naive_fingerprint(page.tobytes())
        page[draw.integers(0, PAGE_BYTES)] ^= 1 << draw.integers(0, 8)
        assert int(page_fingerprint(page)) != before
        words = np.unique(draw.integers(0, PAGE_BYTES // 8, draw.integers(0, 16))).astype(np.uint64)
        blank, whole = page.copy(), page.copy()
        blank.view(np.uint64)[words] = 0
        beside = int(fingerprint_beside(page, np.uint64(5 * PAGE_BYTES) + words * np.uint64(8)))
        assert beside == naive_fingerprint(blank.tobytes())
        assert np.array_equal(page, whole)


def test_packed_chunks_come_back() -> None:
    """Of several regions, also those that end inside an indivisible access; and without what is not
    counted."""
    draw = np.random.default_rng(5)
    for case in range(40):
        n = int(draw.integers(1, 3000))
        rows = np.zeros(n, EVENT)
        rows["seq"] = np.arange(n) + int(draw.integers(0, 99))
        rows["count"] = np.sort(draw.integers(0, 1 << int(draw.integers(1, 63)), n))
        rows["stratum"] = np.sort(draw.integers(0, int(draw.integers(1, 50)), n))
        rows["pc"] = draw.integers(0, 1 << 40, n, np.uint64)
        rows["addr"] = draw.integers(0, 1 << int(draw.integers(1, 63)), n, np.uint64)
        rows["old"] = draw.integers(0, 1 << 63, n, np.uint64)
        rows["new"] = np.where(draw.random(n) < 0.5, rows["old"], rows["seq"])
        rows["core"], rows["size"], rows["kind"] = 3, draw.integers(1, 9, n), draw.integers(1, 6, n)
        rows["flags"] = draw.choice([0, 0, UNCACHED, GLUED, OWNED, UNCOUNTED, UNCOUNTED | 4, 32], n)
        packed, found = np.empty(n * CHUNK_WORDS, np.uint64), np.empty(n, EVENT)
        used = int(pack_chunk(rows, packed, start_of_region()))
        unpack_chunk(packed[:used], 3, found, start_of_region())
        assert found.tobytes() == rows.tobytes(), f"case {case}"
        counted = rows[rows["flags"] & UNCOUNTED == 0]
        counted["seq"] = 7 + np.arange(len(counted))
        assert found[: int(drop_uncounted(found, np.uint64(7)))].tobytes() == counted.tobytes()
