"""Checkpoints: a replay that begins at one sees what a replay from the beginning sees."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_factory import FIRMWARE
from guest import DATA, Code, elf, run_guest, write_schedule
from guest_bodies import GUESTS, build
from numpy.typing import NDArray
from static_guest import call, static_program

import corebraid
from corebraid.base.errors import FormatError, UsageError
from corebraid.base.memory import PAGE_BYTES
from emu.bus.line_state import SEEN
from emu.bus.names import BUSES, MESI, PAGE
from emu.core.changed_pages import ChangedPages
from emu.core.core import Core
from emu.core.isolated import IsolatedCore
from emu.core.saved_pages import drop_pages, put_pages, take_pages
from emu.native.state import CORE_AT
from isa.x86_64.registers import X86_64
from recorder.files.checkpoints import checkpoint_path, checkpoints, pages_up_to
from recorder.files.manifest import core_log
from recorder.files.reader import Recording
from recorder.replay import seek
from recorder.replay.checkpoint_check import check_memory
from recorder.replay.checkpointing import CheckpointPolicy
from recorder.replay.core import CoreReplay, replay_core
from recorder.replay.interval import intervals, joined, replay_interval
from recorder.replay.making import make_checkpoints
from recorder.replay.pause import CoreState, PausedReplay, states_at
from recorder.replay.start import start_before

Rows = NDArray[np.void]


def rows_of(pieces: Iterator[Rows]) -> list[tuple[Any, ...]]:
    """All rows, without their numbers: those count from where a replay began."""
    return [tuple(row)[1:] for piece in pieces for row in piece.copy()]


def counted(rows: list[tuple[Any, ...]], first: int) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[0] >= first]


def states_from_the_beginning(recording: Recording, core: int, counts: list[int]) -> dict[int, CoreState]:
    replay = PausedReplay(recording, core, counts)
    for _ in replay.run():
        pass
    return replay.states


def examine(path: Path, seed: int = 0) -> int:
    """Hold every way to begin in the middle against whole replays; how many checkpoints were begun at."""
    recording, rng, begun = Recording.open(path), random.Random(seed), 0
    for core in range(recording.manifest.n_cores):
        whole = rows_of(CoreReplay(recording, core, traced=True).run())
        assert check_memory(recording, core) == len(checkpoints(recording, core))
        longest = rng.randrange(1, 20_000)
        parts = [replay_interval(recording, one) for one in intervals(recording, core, longest)]
        assert joined(parts) == replay_core(recording, core)
        for one in checkpoints(recording, core):
            start = start_before(recording, core, one.count + 1)
            assert start is not None
            assert start.state.count == one.count
            replay = CoreReplay(recording, core, start=start)
            assert list(replay.run())
            assert replay.result.complete
            start = start_before(recording, core, one.count + 1, traced=True)
            if start is None:
                continue
            begun += 1
            found = rows_of(CoreReplay(recording, core, traced=True, start=start).run())
            assert found == counted(whole, start.state.count)[-len(found) :]
            assert len(counted(whole, start.state.count)) == len(found)
        if not whole:
            continue
        for first in (
            *(one.count for one in checkpoints(recording, core)[:3]),
            0,
            whole[-1][0],
            whole[-1][0] + 1,
            *(rng.randrange(whole[-1][0] + 1) for _ in range(4)),
        ):
            assert counted(rows_of(seek.accesses(recording, core, first)), first) == counted(whole, first)
        stood = [one.count for one in checkpoints(recording, core)]
        for count in {*stood[:1], *stood[-1:]}:
            there = states_from_the_beginning(recording, core, [count])
            assert states_at(recording, core, [count]) == there
        region = rng.randrange(whole[-1][5] + 1)
        first = rng.randrange(whole[-1][0] + 1)
        both = [row for row in counted(whole, first) if row[5] >= region]
        found = rows_of(seek.accesses(recording, core, first, region))
        assert [row for row in counted(found, first) if row[5] >= region] == both
        later = [row for row in whole if row[5] >= region]
        assert [
            row for row in rows_of(seek.accesses(recording, core, None, region)) if row[5] >= region
        ] == later
    return begun


@pytest.fixture(autouse=True)
def _change_over_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short recordings are to be replayed without a trace first, as long ones are."""
    monkeypatch.setattr(seek, "_WORTH_IT", 0)


@pytest.mark.parametrize("bus", BUSES)
@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(3)
def test_hostile_guests_from_every_checkpoint(body: Any, bus: str, tmp_path: Path) -> None:
    """Code that changes itself, interrupts, transfers, straddling accesses, under slices of few
    instructions."""
    program = build(tmp_path, body)
    schedule = write_schedule(tmp_path / "schedule", GUESTS[body], 0, 5)
    run = run_guest(
        program, tmp_path / "rec", GUESTS[body], strata="cycles:500", schedule=str(schedule), bus=bus,
        input=b"input", limit=20_000, checkpoint=CheckpointPolicy(300),
    )  # fmt: skip
    examine(run.path)


WAYS = (
    ("uts", {"bus": PAGE}),
    ("uts", {"bus": MESI}),
    ("radix", {"bus": MESI, "cache": "4k:2:32"}),
    ("smc", {"bus": PAGE}),
    ("dma_race", {"bus": MESI, "cache": "512:2:128"}),
    ("timer", {"bus": PAGE}),
    ("litmus", {"bus": MESI, "model": "tso", "longest_slice": 900, "limit": 60_000}),
    ("peterson", {"bus": MESI, "model": "tso", "limit": 60_000}),
    ("timer", {"bus": MESI, "model": "tso"}),
)


@pytest.mark.parametrize(("name", "options"), WAYS, ids=lambda way: str(way))
@pytest.mark.sampled(1)
def test_programs_from_every_checkpoint(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    run = run_guest(
        FIRMWARE / f"{name}.elf", tmp_path / "rec", 3, strata="cycles:2000", memory=64 << 20,
        checkpoint=CheckpointPolicy(1500), **{"limit": 100_000, **options},
    )  # fmt: skip
    assert examine(run.path) >= 2


def _busy(code: Code) -> Code:
    """A Linux program that asks for memory, changes much of it, and asks for the time."""
    call(code, 9, rdi=0, rsi=1 << 20, rdx=3, r10=0x22, r8=-1 & (1 << 64) - 1, r9=0)
    code.emit("89", "rax", "rbx").mov("r12", 40).label("again")
    code.store(("rbx", 64), "r12").store(("rbx", 8192), "r12").add("rbx", 4096)
    call(code, 228, rdi=1, rsi=DATA + 64)
    code.mov("r13", 300).label("spin").emit("ff", 0, DATA).loop("r13", "spin").loop("r12", "again")
    return call(code, 60, rdi=0)


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.soak
def test_linux_programs_from_every_checkpoint(model: str, tmp_path: Path) -> None:
    program = static_program(tmp_path / "guest", _busy(Code()))
    corebraid.record(
        program,
        tmp_path / "rec",
        cores=2,
        model=model,
        strata="cycles:1000",
        checkpoint=1000,
        guest="linux",
        system=False,
    )
    assert examine(tmp_path / "rec") >= 5


def test_where_the_last_x87_instruction_was_is_in_a_checkpoint(tmp_path: Path) -> None:
    """No digest has it, and the next fnstenv stores it."""
    code = Code().mov("rsp", DATA + 0x800).emit("d9", 0, DATA + 256, wide=False).mov("rcx", 2000)
    code.label("wait").loop("rcx", "wait").emit("d9", 6, DATA + 128, wide=False).power_off(0)
    run = run_guest(
        elf(tmp_path / "guest.elf", code), tmp_path / "rec", 1, strata="cycles:500", bus=PAGE,
        checkpoint=CheckpointPolicy(1000),
    )  # fmt: skip
    recording = run.recording
    (one, *_) = checkpoints(recording, 0)
    assert any(one.unlisted)
    examine(run.path)


# -- made afterwards -------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize("bus", BUSES)
def test_checkpoints_made_afterwards_stand_where_those_of_the_recorder_do(bus: str, tmp_path: Path) -> None:
    run = run_guest(
        FIRMWARE / "radix.elf", tmp_path / "rec", 3, strata="cycles:3000", memory=64 << 20, bus=bus,
        checkpoint=CheckpointPolicy(2500),
    )  # fmt: skip
    for core in range(3):
        live = checkpoints(run.recording, core)
        made = make_checkpoints(run.recording, core, CheckpointPolicy(2500))
        again = checkpoints(run.recording, core)
        assert made.checkpoints == len(again) == len(live) > 2
        assert [(one.stratum, one.count, one.unlisted) for one in again] == [
            (one.stratum, one.count, one.unlisted) for one in live
        ]
    assert examine(run.path) > 5


def test_the_same_seed_gives_the_same_checkpoints(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        run = run_guest(
            FIRMWARE / "uts.elf", tmp_path / name, 2, strata="cycles:3000", memory=64 << 20, bus=PAGE,
            checkpoint=CheckpointPolicy(2500),
        )  # fmt: skip
        files.append([checkpoint_path(run.recording, core).read_bytes() for core in range(2)])
    assert files[0] == files[1]


def test_memory_at_a_checkpoint_is_read_from_few_pages(tmp_path: Path) -> None:
    """From at most twice what memory holds, wherever it is; and some are not whole."""
    run = run_guest(
        FIRMWARE / "radix.elf", tmp_path / "rec", 2, strata="cycles:1000", memory=64 << 20, bus=PAGE,
        checkpoint=CheckpointPolicy(1),
    )  # fmt: skip
    found, ever = checkpoints(run.recording, 0), set[int]()
    assert len({one.whole for one in found}) == 2
    for one in found:
        read = [n for some in pages_up_to(run.recording, 0, one) for n in some.numbers.tolist()]
        ever |= set(read)
        assert len(read) <= 2 * len(ever)


def test_what_lies_before_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame of the log that is damaged is no matter to a replay that begins behind it."""
    monkeypatch.setattr("recorder.capture.base.FLUSH_EVERY", 100_000)
    run = run_guest(
        FIRMWARE / "litmus.elf", tmp_path / "rec", 2, strata="cycles:50000", memory=64 << 20, bus=PAGE,
        checkpoint=CheckpointPolicy(100_000), limit=2_400_000,
    )  # fmt: skip
    recording, log = run.recording, run.path / core_log(0)
    last, data = checkpoints(recording, 0)[-1], bytearray(log.read_bytes())
    assert data.count(b"CBFR") > 1
    sound = states_at(recording, 0, (last.count + 3,))
    data[data.index(b"CBFR") + 60] ^= 1
    log.write_bytes(bytes(data))
    with pytest.raises(FormatError, match="checksum"):
        list(CoreReplay(recording, 0).run())
    assert states_at(recording, 0, (last.count + 3,)) == sound


def test_states_are_the_same_with_and_without_checkpoints(tmp_path: Path) -> None:
    run = run_guest(
        FIRMWARE / "uts.elf", tmp_path / "rec", 2, strata="cycles:3000", memory=64 << 20, bus=PAGE,
        checkpoint=CheckpointPolicy(2500),
    )  # fmt: skip
    recording, rng = run.recording, random.Random(3)
    for count in rng.sample(range(recording.manifest.instructions[1]), 12):
        alone = PausedReplay(recording, 1, (count,))
        assert list(alone.run()) is not None
        assert states_at(recording, 1, (count,))[count] == alone.state(count)


# -- when ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "every"), [("auto", 0), ("1", 1), ("16000000", 16_000_000), ("none", None)])
def test_distances(text: str, every: int | None) -> None:
    policy = CheckpointPolicy.parse(text)
    assert (None if policy is None else policy.every) == every


@pytest.mark.parametrize("text", ["0", "-1", "1e6", "", "every", "9" * 16, "٣"])
def test_what_is_no_distance(text: str) -> None:
    with pytest.raises(UsageError, match="no such distance"):
        CheckpointPolicy.parse(text)


def test_by_size_a_checkpoint_waits_for_what_it_costs() -> None:
    policy = CheckpointPolicy()
    assert not policy.due(0, 15_999_999, 1, 0)
    assert policy.due(0, 16_000_000, 1600, 0)
    assert not policy.due(0, 16_000_000, 1601, 0)
    assert not policy.due(16_000_000, 31_999_999, 1, 0)
    assert policy.due(16_000_000, 32_000_000, 1, 500_000)
    assert not policy.due(16_000_000, 32_000_000, 1, 500_001)
    assert CheckpointPolicy(5).due(10, 15, 1 << 20, 1 << 30)
    assert not CheckpointPolicy(5).due(10, 14, 0, 0)


# -- kernels and their twins -----------------------------------------------------------------------------


@pytest.mark.parametrize("line", [16, 64, 256, 4096])
def test_pages_taken_and_put_are_what_a_naive_walk_finds(line: int) -> None:
    rng = np.random.default_rng(line)
    source, target = (IsolatedCore(X86_64, 0, 64 * PAGE_BYTES, line, traced=False).core for _ in range(2))
    source.memory[:] = rng.integers(0, 256, len(source.memory), np.uint8)
    lines, per_page = len(source.memory) // line, PAGE_BYTES // line
    there = np.flatnonzero(rng.random(lines) < 0.4)
    for number in there.tolist():
        mark(source, number)
    wanted = rng.permutation(64)[:40].astype(np.uint64)
    for some in take_pages(source, wanted, line):
        put_pages(target, some, line)
    expected = np.zeros(len(source.memory), np.uint8)
    kept = [n for n in there.tolist() if n // per_page in set(wanted.tolist())]
    for number in kept:
        expected[number * line : (number + 1) * line] = source.memory[number * line : (number + 1) * line]
    assert np.array_equal(target.memory, expected)
    assert np.flatnonzero(target.line_state & SEEN).tolist() == kept
    changed = ChangedPages(target)
    changed.note()
    assert sorted(changed.changed.tolist()) == sorted({n // per_page for n in kept})
    gone = wanted[:7]
    drop_pages(target, gone, line)
    left = [n for n in kept if n // per_page not in set(gone.tolist())]
    assert np.flatnonzero(target.line_state & SEEN).tolist() == left


def mark(core: Core, line: int) -> None:
    core.line_state[line] |= SEEN


@pytest.mark.parametrize("seed", range(5))
def test_changed_pages_are_those_of_a_set(seed: int) -> None:
    rng = random.Random(seed)
    core = IsolatedCore(X86_64, 0, 64 * PAGE_BYTES, 64, traced=False).core
    pages, changed, ever = ChangedPages(core), set[int](), set[int]()
    for _ in range(60):
        listed = rng.sample(range(64), rng.randrange(12))
        core.dirty_pages[: len(listed)] = listed
        core.words[CORE_AT.dirty_n] = len(listed)
        pages.note()
        changed |= set(listed)
        ever |= set(listed)
        assert (sorted(pages.changed), sorted(pages.ever)) == (sorted(changed), sorted(ever))
        if rng.random() < 0.2:
            pages.forget()
            changed = set()
    assert len(ever) > 50
