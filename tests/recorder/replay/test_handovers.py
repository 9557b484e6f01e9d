"""Cores shared out to several processes for an order: what is told at handovers, and that intervals between
them are a whole replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import Code, run_guest, write_schedule
from guest_bodies import GUESTS, build
from handover_factory import record_radix, replayed_parts, traces_of
from holds_twin import hold_against_naive, rows_of
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES
from corebraid.base.errors import FormatError, OrderError
from corebraid.base.hold_places import NO_HOLDS, OF_CORES, WITH_AGENTS
from corebraid.study.replays import cores, keeping
from corebraid.study.replays.in_processes import in_processes
from emu.bus.names import PAGE
from emu.core.watched_pages import WatchedPages
from recorder.files.checkpoints import checkpoint_path
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay import handovers, spells
from recorder.replay.checkpointing import CheckpointPolicy
from recorder.replay.contested import CONTESTED, RECEIVED
from recorder.replay.core import CoreReplay
from recorder.replay.handovers import NO_HANDOVERS, at_checkpoints, follow_rights, possible
from recorder.replay.interval import HeldReplay, intervals_at
from recorder.replay.spells import no_spells
from solver.check.certificate import Certificate, CertificateWriter, Head
from solver.check.checker import check_slices
from solver.passes.order import order_recording

Rows = NDArray[Any]
LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"


@pytest.fixture(autouse=True)
def _short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handovers, "SHORTEST", 1)


def examine(recording: Recording) -> int:
    """Rows of intervals are those of a whole replay, of each kind, and the run that was is one of their
    orders; how many intervals begin at a handover."""
    begun = 0
    for rows in (CONTESTED, RECEIVED):
        for holds in (NO_HOLDS, OF_CORES, WITH_AGENTS):
            traces = traces_of(recording, rows, holds)
            for core, regions in enumerate(traces.handovers):
                watched = traces.pages.of(core, rows)
                whole = rows_of(CoreReplay(recording, core, traced=True, watched=watched).run())
                parts = intervals_at(recording, core, regions)
                assert len(parts) == len(regions) + 1
                found = [
                    rows_of(HeldReplay(recording, part, traced=True, watched=watched).run()) for part in parts
                ]
                for number, part in zip(np.cumsum([0, *map(len, found)]), found, strict=False):
                    part["seq"] += np.uint64(number)
                assert np.concatenate(found).tobytes() == whole.tobytes(), (rows, holds, core)
                begun += len(regions)
            slices = ((r["stream"].astype(np.int64), r["end"]) for r in iter_sealed_truth(recording))
            assert check_slices(traces, slices).events
    return begun


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(5)
def test_hostile_guests(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    schedule = write_schedule(tmp_path / "schedule", GUESTS[body], 0, 5)
    run = run_guest(
        program, tmp_path / "rec", GUESTS[body], strata="cycles:500", schedule=str(schedule), bus=PAGE,
        input=b"input", limit=20_000, checkpoint=CheckpointPolicy(300), evidence=("losses",),
    )  # fmt: skip
    examine(run.recording)
    hold_against_naive(run.recording, at_checkpoints(run.recording))


@pytest.mark.parametrize("program", ["radix", "uts", "smc"])
@pytest.mark.sampled(1)
def test_firmware(program: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"strata": "cycles:3000", "limit": 60_000, "checkpoint": 3000}
    corebraid.record(IMAGES / f"{program}.elf", tmp_path / "rec", cores=3, **options)
    recording = Recording.open(tmp_path / "rec")
    assert examine(recording) >= 12
    assert hold_against_naive(recording, at_checkpoints(recording))[0] > 10


def record_linux(program: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """With spells of holds, short ones too."""
    monkeypatch.setattr(spells, "_WORTH", 1)
    corebraid.record(LINUX / program, path, cores=3, strata="cycles:6000", limit=200_000, checkpoint=12_000)
    return Recording.open(path)


@pytest.mark.parametrize("program", [pytest.param("thread_order", marks=pytest.mark.soak), "condvars"])
def test_linux(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_linux(program, tmp_path / "rec", monkeypatch)
    assert len(traces_of(recording).pages.spells.page)
    assert examine(recording) > 50
    assert hold_against_naive(recording, at_checkpoints(recording))[0] > 100


def test_the_last_intervals_of_a_run(tmp_path: Path) -> None:
    """A ring, whose cores forget their pages at its borders."""
    corebraid.record(
        IMAGES / "radix.elf", tmp_path / "rec", cores=3, strata="cycles:2000", limit=120_000, last=40_000
    )  # fmt: skip
    corebraid.checkpoint(tmp_path / "rec", every=2000)
    assert examine(Recording.open(tmp_path / "rec")) >= 6


@pytest.mark.soak
def test_the_order_is_the_same_however_many_share_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = record_radix(tmp_path / "rec")
    certificate = recording.path / ORDER_CERT
    parts, told = replayed_parts(monkeypatch), list[object]()
    corebraid.order(recording, jobs=1, note=told.append)
    alone = certificate.read_bytes()
    assert len(parts) > 6
    head = Certificate(certificate, recording.manifest.id).head
    assert (head.version, head.holds) == (7, WITH_AGENTS)
    assert head.handovers == traces_of(recording).handovers
    assert {one.core for one in parts} == {0, 1, 2}
    corebraid.order(recording, jobs=3, note=told.append)
    assert certificate.read_bytes() == alone
    assert not told
    assert not list(recording.path.glob("*.rows"))
    events = corebraid.check_order(recording).events
    expected = corebraid.verify(recording.path, jobs=1)
    assert expected.sound
    assert corebraid.verify(recording.path, jobs=2).facts() == expected.facts()
    braided = sum(len(rows) for rows, _ in corebraid.trace(recording, ordered=True))
    assert braided > events
    # What is told at handovers is told wherever a replay begins.
    for core in range(3):
        checkpoint_path(recording, core).unlink()
    assert corebraid.check_order(recording).events == events
    facts = corebraid.verify(recording.path, jobs=2).facts()
    assert facts == {**expected.facts(), "checkpoints": 0}
    corebraid.order(recording, jobs=2)
    assert Certificate(certificate, recording.manifest.id).head.version == 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("options", [{}, {"cache": "4k:2:32"}], ids=str)
def test_cores_of_the_line_bus_are_shared_out_too(
    options: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of all accesses, which depend on nothing."""
    recording = record_radix(tmp_path / "rec", bus="mesi", **options)
    monkeypatch.setattr(cores, "_WORTH_A_PROCESS", 5000)
    parts = replayed_parts(monkeypatch)
    corebraid.order(recording, jobs=1)
    alone, expected = (recording.path / ORDER_CERT).read_bytes(), corebraid.verify(recording.path, jobs=1)
    assert expected.sound
    assert len(parts) == 3
    # Few processes are few intervals; those of many are replayed by this one here.
    monkeypatch.setattr(keeping, "in_processes", lambda work, items, jobs: in_processes(work, items, 1))
    corebraid.order(recording, jobs=8)
    assert (recording.path / ORDER_CERT).read_bytes() == alone
    assert len(parts) > 8
    assert corebraid.verify(recording.path, jobs=8).facts() == expected.facts()
    assert len(parts) > 15
    assert not list(recording.path.glob("*.rows"))


@pytest.mark.parametrize(("holds", "version"), [(NO_HOLDS, 5), (OF_CORES, 6)])
def test_other_kinds_of_rows(holds: int, version: int, tmp_path: Path) -> None:
    recording = record_radix(tmp_path / "rec")
    order_recording(traces_of(recording, holds=holds), recording.path / ORDER_CERT, recording.manifest.id)
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.version, head.contested, head.holds) == (version, True, holds)
    assert corebraid.check_order(recording).events
    assert corebraid.verify(recording.path).sound


@pytest.mark.sampled(1)
@pytest.mark.parametrize("lost", ["choose", "_share"])
def test_what_is_not_told_at_a_handover_is_missed(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what a core made of pages, nor which it had alone."""
    recording = record_linux("condvars", tmp_path / "rec", monkeypatch)
    plain = WatchedPages.hand_over

    def hand_over(self: WatchedPages, ever: Rows, by_holds: Rows) -> None:
        nothing = np.zeros(0, np.uint64)
        plain(self, *((nothing, by_holds) if lost == "choose" else (ever, nothing)))

    monkeypatch.setattr(WatchedPages, "hand_over", hand_over)
    with pytest.raises(AssertionError):
        examine(recording)


def test_rights_that_are_not_taken_over_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_radix(tmp_path / "rec")
    monkeypatch.setattr(WatchedPages, "take_over", lambda *_: None)
    with pytest.raises((AssertionError, OrderError)):
        examine(recording)


# -- rules -----------------------------------------------------------------------------------------------


def test_where_a_handover_is_possible() -> None:
    """After an instruction of the core, inside the recording, and where no spell begins or ends."""
    strata = np.array([[5, 0], [5, 3], [9, 3]], np.uint64)
    every = (tuple(range(6)), tuple(range(6)))
    assert possible(every, strata, no_spells()) == ((1, 3), (2,))
    turning = no_spells()._replace(first=np.array([1]), end=np.array([2]), page=np.array([7], np.uint64))
    assert possible(every, strata, turning) == ((3,), ())
    assert possible(((2,), (1,)), strata, no_spells()) == NO_HANDOVERS
    assert possible(NO_HANDOVERS, strata, no_spells()) == NO_HANDOVERS


def test_rights_follow_gains_and_losses() -> None:
    from corebraid.base.rows.record import LOSES, MISS, RECORD, STORED
    from emu.bus.losses import DOWNGRADED, LOST

    draw = np.random.default_rng(8)
    for _ in range(50):
        rows = np.zeros(30, RECORD)
        rows["kind"] = draw.choice([MISS, LOSES, STORED], 30)
        rows["flags"] = draw.choice([LOST, DOWNGRADED], 30)
        place = draw.integers(0, 4, 30)
        expected = [False] * 4
        for row, at in zip(rows, place.tolist(), strict=True):
            if row["kind"] == MISS:
                expected[at] = True
            elif row["kind"] == LOSES and row["flags"] == LOST:
                expected[at] = False
        held = np.zeros(4, bool)
        follow_rights(rows, place, held)
        assert held.tolist() == expected


@pytest.mark.parametrize("asked", [((1, 4), (2,)), ((), (3,)), ((1, 2, 3, 4), ())])
def test_handovers_in_a_certificate(asked: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    head = Head("cut", 3, 5, True, WITH_AGENTS, asked)
    writer = CertificateWriter(tmp_path / "c", bytes(16), head)
    writer.empty(0, 5)
    writer.finish(np.zeros(3, np.int64))
    certificate = Certificate(tmp_path / "c", bytes(16))
    assert certificate.head == head
    assert len(list(certificate.blocks())) == 5


@pytest.mark.parametrize("wrong", [((1, 5), ()), ((2, 2), ()), ((0,), ()), ((1,),), ((1,), (2,), (3,))])
def test_handovers_that_cannot_be(wrong: tuple[tuple[int, ...], ...], tmp_path: Path) -> None:
    writer = CertificateWriter(tmp_path / "c", bytes(16), Head("cut", 3, 5, True, WITH_AGENTS, wrong))
    writer.empty(0, 5)
    writer.finish(np.zeros(3, np.int64))
    with pytest.raises(FormatError):
        Certificate(tmp_path / "c", bytes(16))
