"""Holds of pages in place of accesses: what a core's logs, accesses and losses say, told row by row."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from guest import Code, run_guest, write_schedule
from guest_bodies import GUESTS, build
from holds_twin import hold_against_naive, rows_of, spells_in, with_holds, words_of_agents
from numpy.typing import NDArray

import corebraid
from bench.soak import IMAGES
from corebraid.base.errors import OrderError
from corebraid.base.hold_places import OF_CORES, WITH_AGENTS
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import ALONE
from corebraid.base.rows.record import LOSES, MISS
from corebraid.base.wording import said
from emu.bus.losses import DOWNGRADED, LOST
from emu.bus.names import PAGE
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay import contested, core, spells
from recorder.replay.contested import CONTESTED, MARKED, Contested
from recorder.replay.holds import ByHolds, find_unclear, with_losses
from recorder.replay.traces import RecordingTraces
from solver.check.certificate import Certificate
from solver.check.checker import check_slices
from solver.passes.order import order_recording

Rows = NDArray[Any]
LINUX = Path(__file__).parents[3] / "firmware" / "linux" / "x86_64"


def record_linux(program: str, path: Path) -> Recording:
    corebraid.record(LINUX / program, path, cores=3, strata="cycles:20000", limit=150_000)
    return Recording.open(path)


def record_radix(path: Path) -> Recording:
    corebraid.record(IMAGES / "radix.elf", path, cores=3, strata="cycles:10000", limit=60_000)
    return Recording.open(path)


def slices_of(recording: Recording) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint64]]]:
    for rows in iter_sealed_truth(recording):
        yield rows["stream"].astype(np.int64), rows["end"].astype(np.uint64)


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
def test_hostile_guests(body: Callable[[Code], None], tmp_path: Path) -> None:
    program = build(tmp_path, body)
    schedule = write_schedule(tmp_path / "schedule", GUESTS[body], 3, 20)
    run = run_guest(
        program, tmp_path / "rec", GUESTS[body], strata="cycles:900", schedule=str(schedule), input=b"input",
        limit=60_000, bus=PAGE, evidence=("losses",),
    )  # fmt: skip
    hold_against_naive(Recording.open(run.path))


@pytest.mark.parametrize("program", ["radix", "uts", "laplace"])
def test_firmware(program: str, tmp_path: Path) -> None:
    corebraid.record(IMAGES / f"{program}.elf", tmp_path / "rec", cores=3, strata="cycles:3000", limit=40_000)
    assert hold_against_naive(Recording.open(tmp_path / "rec"))[0] > 10


@pytest.mark.parametrize("program", ["semaphores", "mutexes", "condvars"])
@pytest.mark.soak
def test_linux(program: str, tmp_path: Path) -> None:
    """Threads that wait for one another: the kernel reads words of their pages, and writes some."""
    told, of_words = hold_against_naive(record_linux(program, tmp_path / "rec"))
    assert told > 10
    assert of_words > 10


def record_spells(program: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Pages of which agents use much, and then little, and then much again. Short spells are told, too."""
    monkeypatch.setattr(spells, "_WORTH", 1)
    corebraid.record(LINUX / program, path, cores=3, strata="cycles:6000", limit=200_000)
    return Recording.open(path)


@pytest.mark.parametrize("program", [pytest.param("thread_order", marks=pytest.mark.soak), "condvars"])
def test_spells(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_spells(program, tmp_path / "rec", monkeypatch)
    found = spells_in(with_holds(recording))
    assert any(spell.opener >= 0 for spell in found)
    assert any(spell.closer >= 0 for spell in found)
    assert hold_against_naive(recording)[0] > 100
    assert check_slices(with_holds(recording), slices_of(recording)).events
    told = list[str]()
    corebraid.order(recording, jobs=1, note=lambda text: told.append(str(text)))
    assert not told
    assert corebraid.check_order(recording).events
    assert corebraid.verify(recording.path).sound


def test_marked_rows_have_the_same_holds(tmp_path: Path) -> None:
    """Of pages of which holds are told no access counts, and all of them are there."""
    recording = record_radix(tmp_path / "rec")
    pages, memory = with_holds(recording).pages.by_holds, recording.manifest.memory
    for number in range(3):
        few = rows_of(with_holds(recording).chunks(number))
        marked = rows_of(with_holds(recording, MARKED).chunks(number))
        every = rows_of(RecordingTraces(recording).chunks(number))
        shown = marked[marked["flags"] & ALONE == 0]
        assert np.array_equal(shown["seq"], every["seq"])
        assert np.array_equal(shown["addr"], every["addr"])
        inside = np.isin(every["addr"] // PAGE_BYTES, pages)
        assert inside.any()
        assert (shown["flags"][inside] & 64).all()
        holds = [rows[rows["addr"] >= memory] for rows in (few, marked)]
        holds = [rows[rows["flags"] & ALONE != 0] for rows in holds]
        for field in ("count", "addr", "old", "new", "kind"):
            assert np.array_equal(holds[0][field], holds[1][field])


def test_unclear_pages_as_a_naive_twin_finds_them() -> None:
    rng = random.Random(4)
    seen = set[bool]()
    for _ in range(400):
        n_pages = rng.randint(1, 3)
        events = sorted((rng.randint(0, 9), rng.randint(0, 2), rng.randrange(n_pages)) for _ in range(12))
        gains = [(count, page) for count, what, page in events if what == 2]
        losses = [
            (count, page, LOST if what == 0 else DOWNGRADED) for count, what, page in events if what < 2
        ]
        expected = [False] * n_pages
        held: dict[int, int] = {}
        for count, what, page in sorted(events, key=lambda event: (event[0], event[1] == 2)):
            if what == 2:
                expected[page] |= page in held
                held[page] = count
                continue
            expected[page] |= page not in held or count <= held[page]
            if what == 0:
                held.pop(page, None)
        found = np.zeros(n_pages, bool)
        order = sorted(
            [(count, what == 1, page) for count, what, page in events if what < 2], key=lambda one: one[:2]
        )
        losses = [(count, page, DOWNGRADED if down else LOST) for count, down, page in order]
        find_unclear(
            tuple(np.array([one[k] for one in gains], kind) for k, kind in enumerate((np.uint64, np.int64))),
            tuple(
                np.array([one[k] for one in losses], kind)
                for k, kind in enumerate((np.uint64, np.int64, np.uint8))
            ),
            np.zeros(n_pages, np.uint64),
            found,
        )
        assert found.tolist() == expected
        seen |= set(expected)
    assert seen == {False, True}


def test_a_page_that_is_used_after_it_was_lost_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a recorder that takes a right and lets the core go on with it."""
    recording = record_radix(tmp_path / "rec")
    assert check_slices(with_holds(recording), slices_of(recording)).events

    def too_early(*asked: Any) -> Iterator[Any]:
        # Of the first page that is lost for good, an instruction after it was got.
        pieces = [(rows.copy(), blob) for rows, blob in with_losses(*asked)]
        for rows, blob in pieces:
            for i in np.flatnonzero((rows["kind"] == LOSES) & (rows["flags"] == LOST)).tolist():
                got = (rows["kind"] == MISS) & (rows["addr"] == rows["addr"][i]) & (np.arange(len(rows)) < i)
                if got.any():
                    k = int(np.flatnonzero(got)[-1])
                    moved = rows[i].copy()
                    moved["count"] = rows["count"][k] + 1
                    left = np.delete(rows, i)
                    at = int(np.searchsorted(left["count"], moved["count"], side="left"))
                    yield np.insert(left, at, moved), blob
                    return
            yield rows, blob

    monkeypatch.setattr(core, "with_losses", too_early)
    with pytest.raises(OrderError):
        check_slices(with_holds(recording), slices_of(recording))


def test_a_loss_that_is_not_told_leaves_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = record_radix(tmp_path / "rec")

    def without(*asked: Any) -> Iterator[Any]:
        for rows, blob in with_losses(*asked):
            yield rows[(rows["kind"] != LOSES) | (rows["flags"] != LOST)], blob

    monkeypatch.setattr(core, "with_losses", without)
    with pytest.raises(OrderError):
        check_slices(with_holds(recording), slices_of(recording))


def test_where_holds_have_no_order_accesses_are_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a page that agents use were taken for one of cores alone."""
    recording = record_linux("pipes_poll", tmp_path / "rec")
    corebraid.order(recording, jobs=1)
    assert Certificate(recording.path / ORDER_CERT, recording.manifest.id).head.holds == WITH_AGENTS
    plain = contested.pages_by_holds

    def with_agents(of: Recording, strata: Any, agents: NDArray[np.uint64], **_: object) -> ByHolds:
        return plain(of, strata, agents[:0])

    more = with_agents(recording, with_holds(recording).strata, np.zeros(1, np.uint64)).pages
    assert len(more) > len(with_holds(recording).pages.by_holds)
    monkeypatch.setattr(contested, "pages_by_holds", with_agents)
    ordered = corebraid.order(recording, jobs=1, fresh=True)
    assert not ordered.with_verdict("illegal")
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert head.contested
    assert not head.holds
    assert corebraid.check_order(recording).events


def test_orders_of_accesses_are_read_as_before(tmp_path: Path) -> None:
    """Certificates of version 2: checked, verified, shown."""
    recording = record_radix(tmp_path / "rec")
    traces = RecordingTraces(recording, rows=CONTESTED)
    order_recording(traces, recording.path / ORDER_CERT, recording.manifest.id)
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.contested, head.holds) == (True, False)
    events = corebraid.check_order(recording).events
    assert events == sum(len(rows_of(traces.chunks(stream))) for stream in range(4))
    verdict = corebraid.verify(recording.path)
    assert verdict.sound
    assert verdict.truth.legal
    assert verdict.certificate.report is not None
    assert verdict.certificate.report.events == events
    assert corebraid.order(recording, jobs=1).check.events < events / 10


def test_what_holds_leave_to_be_ordered(tmp_path: Path) -> None:
    """Less by far than accesses; of pages that an agent uses only those of which it uses little."""
    recording = record_radix(tmp_path / "rec")
    known = Contested(recording, RecordingTraces(recording).strata, holds=OF_CORES)
    beside = Contested(recording, RecordingTraces(recording).strata, holds=WITH_AGENTS)
    others = Contested(recording, RecordingTraces(recording).strata)
    assert len(known.by_holds)
    assert not len(others.by_holds)
    assert not set(known.by_holds.tolist()) & words_of_agents(recording).keys()
    assert set(known.by_holds.tolist()) <= set(beside.by_holds.tolist())
    assert not len(known.words)
    told = [rows_of(with_holds(recording).chunks(number)) for number in range(3)]
    every = [rows_of(RecordingTraces(recording, rows=CONTESTED).chunks(number)) for number in range(3)]
    assert sum(map(len, told)) < sum(map(len, every)) / 10


def test_orders_of_holds_of_cores_alone_are_read_as_before(tmp_path: Path) -> None:
    """Certificates of version 3, of a program that has pages of which those of now order holds, too."""
    recording = record_linux("mutexes", tmp_path / "rec")
    assert len(with_holds(recording).pages.words)
    traces = with_holds(recording, holds=OF_CORES)
    order_recording(traces, recording.path / ORDER_CERT, recording.manifest.id)
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.contested, head.holds) == (True, OF_CORES)
    assert corebraid.check_order(recording).events == sum(
        len(rows_of(traces.chunks(stream))) for stream in range(4)
    )
    verdict = corebraid.verify(recording.path)
    assert verdict.sound
    assert verdict.truth.legal


def test_where_agents_do_not_fit_holds_of_cores_alone_are_ordered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a word that an agent uses were not known to be one."""
    recording = record_linux("mutexes", tmp_path / "rec")
    plain = contested.pages_by_holds

    def without_words(*asked: Any, beside: bool = False) -> ByHolds:
        found = plain(*asked, beside=beside)
        return replace(found, words=found.words[:-1]) if beside else found

    monkeypatch.setattr(contested, "pages_by_holds", without_words)
    told = list[str]()
    corebraid.order(recording, jobs=1, fresh=True, note=lambda text: told.append(said(text)))
    head = Certificate(recording.path / ORDER_CERT, recording.manifest.id).head
    assert (head.contested, head.holds) == (True, OF_CORES)
    assert len(told) == 1
    assert told[0].startswith("holds of pages that agents use do not count: ")
