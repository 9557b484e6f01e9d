"""Rings: what is kept of a run is a recording of its own, the same as in one of all of the run."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE
from engine_suite import SOAK
from guest import Code, run_guest, write_schedule
from guest_bodies import GUESTS, build, sizes
from numpy.typing import NDArray

import corebraid
from bench.soak import Broken, examine
from corebraid.base.errors import Divergence, FormatError, OrderError, UsageError
from corebraid.base.rows.record import CONTEXT, CONTEXT_FORGOTTEN, MISS, RECORD, STRATUM
from emu.board.board import Board
from emu.bus.line_state import LOST, SEEN
from emu.bus.line_state import MESI as MESI_BITS
from emu.bus.losses import LOSS_NOTE
from emu.bus.names import MESI, PAGE
from emu.core.core import Core
from recorder.capture.base import BaseCapture
from recorder.capture.ring import RingWriter
from recorder.capture.ring_borders import begin_core
from recorder.capture.ring_policy import RingPolicy
from recorder.files.agent_codec import AGENT_OP, SYNC
from recorder.files.manifest import INTERVALS
from recorder.files.reader import Recording, iter_core_records
from recorder.files.rebase import Base
from recorder.files.truth import TRUTH
from recorder.replay.core import CoreReplay, replay_core

Rows = NDArray[np.void]


@dataclass(frozen=True)
class Fixed(RingPolicy):
    """A ring whose intervals do not depend on how much of it is kept."""

    every: int = field(default=0)

    @property
    def interval(self) -> int:
        return self.every


#: Whose rings there are.
MACHINES: dict[str, dict[str, Any]] = {
    "pages": {"bus": PAGE},
    "lines": {"bus": MESI},
    "caches": {"bus": MESI, "cache": "512:1:32"},
    "buffers": {"bus": MESI, "model": "tso", "store_buffer": 4},
}
Ring = tuple[int, str, int, int]
#: Longest slice, strata, and of what a ring is made and how much of it is kept, in instructions.
RINGS: tuple[Ring, ...] = ((5, "cycles:400", 60, 50), (50, "cycles:1000", 100, 50), (13, "cycles:20", 1, 5))


def dropped(recording: Recording) -> list[int]:
    """Instructions of each core before what is kept."""
    return [int(text) for text in str(recording.manifest.totals["dropped_by_core"]).split(",")]


def rows_from(recording: Recording, core: int, first: int) -> list[tuple[object, ...]]:
    """The rows of a traced replay from an instruction on, but for their numbers, counted from there."""
    found = []
    for piece in CoreReplay(recording, core, traced=True).run():
        for row in piece[piece["count"] >= first].tolist():
            # seq, count, pc, addr, old, new, stratum, ...
            found.append((row[1] - first, *row[2:6], *row[7:]))
    return found


#: In a long campaign each guest on all machines in all ways; else on pages and on one other, each in one way.
_WHOLES = [
    (body, machine, RINGS if SOAK > 1 else RINGS[2:] if n else (RINGS[k % 2], RINGS[2]))
    for k, body in enumerate(GUESTS)
    for n, machine in enumerate(MACHINES)
    if SOAK > 1 or n in (0, 1 + k % 3)
]


@pytest.mark.parametrize(
    ("body", "machine", "rings"), _WHOLES, ids=[f"{body.__name__}-{machine}" for body, machine, _ in _WHOLES]
)
@pytest.mark.sampled(1)
def test_the_end_is_that_of_the_whole(
    body: Callable[[Code], None], machine: str, rings: tuple[Ring, ...], tmp_path: Path
) -> None:
    program, cores = build(tmp_path, body), GUESTS[body]
    cut, how = 0, MACHINES[machine]
    for number, (longest, strata, every, kept) in enumerate(rings):
        schedule = write_schedule(tmp_path / f"schedule-{number}", cores, number, longest)
        whole, end = (
            run_guest(
                program, tmp_path / f"{name}-{number}", cores, strata=strata, schedule=str(schedule),
                input=b"input", limit=200_000, evidence=("losses",), checkpoint=None,
                ring=Fixed(amount, every=every), **how,
            )
            for name, amount in (("whole", 1 << 40), ("end", kept))
        )  # fmt: skip
        assert whole.outcome.end.reason == end.outcome.end.reason == "power-off"
        before = dropped(end.recording)
        assert dropped(whole.recording) == [0] * cores
        cut += sum(before)
        sides = zip(before, whole.recording.manifest.instructions, strict=True)
        assert list(end.recording.manifest.instructions) == [count - first for first, count in sides]
        for core, first in enumerate(before):
            assert rows_from(end.recording, core, 0) == rows_from(whole.recording, core, first)
        for run in (whole, end):
            assert examine(run.path, timeout_s=5.0).regions_illegal == 0
            assert corebraid.verify(run.path).facts()["sound"]
    assert cut


#: Options that choose the machines above.
_OPTIONS: tuple[dict[str, Any], ...] = ({}, {"bus": MESI}, {"cache": "1k:2:64"}, {"model": "tso"})
_FIRMWARE = ("uts", "radix", "laplace", "timer", "dma_race", "smc", "pgas_uts", "rpc_queens")
#: All of them in a long campaign; else each program on pages and one other.
_ON = [
    (program, options) for k, program in enumerate(_FIRMWARE)
    for n, options in enumerate(_OPTIONS) if SOAK > 1 or n in (0, 1 + k % 3)
]  # fmt: skip


@pytest.mark.parametrize(("program", "options"), _ON, ids=lambda part: str(part))
@pytest.mark.sampled(1)
def test_firmware(program: str, options: dict[str, Any], tmp_path: Path) -> None:
    recorded = corebraid.record(
        FIRMWARE / f"{program}.elf", tmp_path / "rec", cores=3, strata="cycles:1000", last=8000,
        limit=300_000, **options,
    )  # fmt: skip
    totals = recorded.manifest.totals
    print(totals)
    kept = sum(recorded.manifest.instructions)
    assert int(str(totals["dropped_instructions"])) > 0
    assert 8000 <= kept < 30_000
    assert not (tmp_path / "rec" / INTERVALS).exists()
    assert examine(tmp_path / "rec").regions_illegal == 0
    assert corebraid.verify(tmp_path / "rec").facts()["sound"]


@pytest.mark.parametrize("options", [{}, {"model": "tso", "store_buffer": 3}, {"schedule": "pct:3"}], ids=str)
@pytest.mark.sampled(1)
def test_a_linux_program(options: dict[str, Any], tmp_path: Path) -> None:
    program = FIRMWARE.parent / "linux" / "x86_64" / "condvars"
    recorded = corebraid.record(
        program, tmp_path / "rec", cores=3, strata="cycles:2000", last="20k", **options
    )
    totals = recorded.manifest.totals
    print(totals)
    assert int(str(totals["dropped_instructions"])) > 0
    corebraid.checkpoint(tmp_path / "rec", every=3000)
    corebraid.order(tmp_path / "rec")
    corebraid.check_order(tmp_path / "rec")
    facts = corebraid.verify(tmp_path / "rec").facts()
    assert facts["sound"]
    threads = {int(row) for rows, _ in corebraid.trace(tmp_path / "rec", ordered=True, limit=50)
               for row in rows["core"]}  # fmt: skip
    assert threads


def test_what_is_shorter_is_kept_whole(tmp_path: Path) -> None:
    done = corebraid.record(FIRMWARE / "fig1.elf", tmp_path / "rec", cores=2, last="100M")
    assert done.manifest.totals["dropped_instructions"] == 0
    assert corebraid.verify(tmp_path / "rec").facts()["sound"]
    done = corebraid.record(FIRMWARE / "fig1.elf", tmp_path / "timed", cores=2, last="60s")
    assert done.manifest.options["last"] == "60s"


def test_a_replay_that_remembers_diverges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = FIRMWARE.parent / "linux" / "x86_64" / "condvars"
    corebraid.record(program, tmp_path / "rec", cores=2, strata="cycles:1000", last=20_000)
    replay_core(Recording.open(tmp_path / "rec"), 0)
    monkeypatch.setattr("emu.core.isolated.drop_pages", lambda *_: None)
    with pytest.raises(Divergence, match="memory"):
        replay_core(Recording.open(tmp_path / "rec"), 0)


def test_stores_that_have_not_committed_are_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where an interval begins with them, in a ring that does not let them commit before."""

    def due(capture: BaseCapture) -> RingWriter | None:
        writer = capture.writer
        return writer if isinstance(writer, RingWriter) and writer.due(capture._base()) else None

    monkeypatch.setattr(BaseCapture, "_ring_due", due)
    program = build(tmp_path, sizes)
    longest, strata, every, kept = RINGS[2]
    schedule = write_schedule(tmp_path / "schedule", 2, 2, longest)

    def record_and_examine() -> None:
        run = run_guest(
            program, tmp_path / "rec", 2, strata=strata, schedule=str(schedule), evidence=("losses",),
            checkpoint=None, ring=Fixed(kept, every=every), **MACHINES["buffers"],
        )  # fmt: skip
        examine(run.path)

    with pytest.raises((Divergence, FormatError, OrderError, Broken)):
        record_and_examine()


def test_committed_stores_are_counted_from_where_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = BaseCapture._base
    monkeypatch.setattr(BaseCapture, "_base", lambda capture: replace(plain(capture), committed=(0,) * 3))
    with pytest.raises(FormatError, match="does not begin where the one before it ends"):
        corebraid.record(
            FIRMWARE / "uts.elf", tmp_path / "rec", cores=3, strata="cycles:1000", last=8000, model="tso"
        )


# -- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [({"last": "0"}, "no such part"), ({"last": "x"}, "no such part"), ({"last": "-5"}, "no such part"),
     ({"last": "1" * 40}, "no such part"), ({"last": "s"}, "no such part"),
     ({"last": "399999"}, "smaller than one interval"),
     ({"last": "1M", "strata": "none"}, "may be none"), ({"last": "1M", "strata": "events:9"}, "may be none"),
     ({"last": "1M", "checkpoint": 5}, "no other checkpoints"),
     ({"last": "1M", "evidence": "linkage"}, "cannot begin anew"),
     ({"last": "1M", "evidence": "rpc"}, "cannot begin anew"),
     ({"last": "1M", "evidence": "losses,rpc"}, "cannot begin anew"), ({"last": 0}, "last")],
)  # fmt: skip
def test_rings_that_cannot_be(options: dict[str, object], what: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=what):
        corebraid.record(FIRMWARE / "fig1.elf", tmp_path / "rec", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "rec").exists()


@pytest.mark.parametrize(
    ("last", "strata", "remedy"),
    [
        (1, "cycles:5000", "keep more$"),
        (1000, "cycles:5000", "keep more, or cut more often: strata='cycles:250'"),
        (1000, "cycles:5000,events:20", "keep more, or cut more often: strata='cycles:250,events:20'"),
        ("1k", "events:20", "strata='cycles:100000,events:20'"),
    ],
)
def test_what_would_make_it_one(last: object, strata: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=remedy):
        corebraid.record(FIRMWARE / "fig1.elf", tmp_path / "rec", last=last, strata=strata)  # type: ignore[arg-type]


# -- counting from elsewhere -----------------------------------------------------------------------------


def test_there_and_back() -> None:
    draw = np.random.default_rng(5)
    base = Base((10**12, 77), 5 << 33, 12345, (8, 1 << 40))
    cores = np.zeros(100, RECORD)
    cores["count"], cores["value"] = draw.integers(0, 1 << 50, 100), draw.integers(0, 1 << 30, 100)
    cores["kind"] = draw.integers(0, 8, 100)
    moved = base.of_core(1, cores)
    assert (moved["count"] == cores["count"] + np.uint64(77)).all()
    strata = cores["kind"] == STRATUM
    more = np.where(strata, 12345, np.where(cores["kind"] == MISS, 1 << 40, 0)).astype(np.uint64)
    assert (moved["value"] == cores["value"] + more).all()
    assert (moved["addr"] == cores["addr"] + np.where(strata, 1 << 40, 0).astype(np.uint64)).all()
    assert (base.back.of_core(1, moved) == cores).all()
    agents = np.zeros(50, AGENT_OP)
    agents["kind"], agents["cause"] = draw.choice([1, SYNC], 50), draw.integers(0, 2, 50)
    agents["addr"], agents["number"] = draw.integers(0, 1 << 40, 50), draw.integers(0, 1 << 40, 50)
    moved = base.of_agents(agents)
    for before, after in zip(agents, moved, strict=True):
        by = base.counts[before["cause"]] if before["kind"] == SYNC else 0
        assert after["addr"] == before["addr"] + np.uint64(by)
        assert after["number"] == before["number"] + np.uint64(5 << 33)
    assert (base.back.of_agents(moved) == agents).all()
    truth = np.array([(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)], TRUTH)
    assert base.of_truth(truth)["end"].tolist() == [5 + 10**12, 83, 7 + (5 << 33), 16, 9 + (1 << 40)]
    notes = np.array([(9, 4096, 1, 1), (8, 0, 0, 2)], LOSS_NOTE)
    assert base.of_losses(notes)["count"].tolist() == [9 + 77 + 12345, 8 + 10**12 + 12345]
    assert base.since(base) == Base((0, 0), committed=(0, 0))


@pytest.mark.parametrize("options", [{}, {"bus": "mesi"}, {"cache": "1k:2:64"}, {"model": "tso"}], ids=str)
def test_nothing_is_left_where_an_interval_begins(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def looked_at(board: Board, number: int, who: int) -> None:
        for core in board.cores:
            assert not (core.line_state & (MESI_BITS | SEEN | LOST)).any()
            assert not int(core.row["buffered"])
            assert not int(core.row["tags"]) or not _tags(core).any()
        begun.append(number)
        begin_core(board, number, who)

    monkeypatch.setattr("recorder.capture.base.begin_core", looked_at)
    corebraid.record(
        FIRMWARE / "uts.elf", tmp_path / "rec", cores=3, strata="cycles:1000", last=8000, **options
    )
    assert len(begun) > 9


def _tags(core: Core) -> NDArray[np.uint64]:
    """The places of its finite cache."""
    size = int(core.row["sets"]) * int(core.row["ways"])
    words = (ctypes.c_uint64 * size).from_address(int(core.row["tags"]))
    return np.frombuffer(words, np.uint64)


def test_nothing_is_forgotten_but_in_a_ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that says so, with checksums that are right."""
    path = tmp_path / "rec"
    corebraid.record(FIRMWARE / "fig1.elf", path, cores=1, bus="mesi")
    read = iter_core_records

    def changed(
        recording: Recording, core: int, **options: object
    ) -> Iterator[tuple[Rows, NDArray[np.uint8]]]:
        for rows, blob in read(recording, core, **options):  # type: ignore[arg-type]
            contexts = np.flatnonzero(rows["kind"] == CONTEXT)
            rows["flags"][contexts] = CONTEXT_FORGOTTEN
            rows["offset"][contexts] = len(blob)
            blob = np.concatenate([blob, *([np.zeros(40, np.uint8)] if len(contexts) else [])])
            for at in contexts:
                size = int(rows["size"][at])
                blob = np.concatenate([blob[:-40], blob[:size], blob[-40:]])
                rows["size"][at] = size + 40
            yield rows, blob

    monkeypatch.setattr("recorder.replay.core.iter_core_records", changed)
    with pytest.raises(FormatError, match="a context header"):
        replay_core(Recording.open(path), 0)
