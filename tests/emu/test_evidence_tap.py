"""The tap of a recording machine: the events of a later traced replay, in the order in which they ran."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE
from evidence_factory import Spy, record_with, spy_on
from guest import DATA, WAYS, Code, run_guest, write_schedule
from guest_bodies import GUESTS, build
from random_code import random_program

from corebraid.base.rows.event import EVENT, UNCACHED
from emu.bus.cache import CacheGeometry
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces

PROGRAMS = ["smc", "uts", "peterson", "timer", "dma_race", "fault_unmapped", "primitives", "spin_mcs", "fig2"]


@pytest.mark.sampled(7)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("cache", ["unbounded", "1k:2:32"])
def test_the_tap_is_the_trace(tmp_path: Path, program: str, cache: str) -> None:
    spied, recording = spy_on(
        FIRMWARE / f"{program}.elf", tmp_path / "rec", cores=3, seed=5, cache=CacheGeometry.parse(cache)
    )
    traces = RecordingTraces(recording)
    for stream in range(traces.n_streams):
        replayed = np.concatenate([np.zeros(0, EVENT), *traces.chunks(stream)])
        assert len(replayed) or stream == 3
        tapped = spied.rows(stream)
        for name in ("seq", "count", "addr", "old", "new", "size", "kind", "flags"):
            assert np.array_equal(tapped[name], replayed[name]), (stream, name)
        if stream < 3:
            assert np.array_equal(tapped["stratum"], replayed["stratum"])
            assert np.array_equal(tapped["pc"], replayed["pc"])


def test_turns_come_in_the_order_in_which_they_ran(tmp_path: Path) -> None:
    """Memory followed through the turns explains every old value."""
    spied, recording = spy_on(FIRMWARE / "dma_race.elf", tmp_path / "rec", cores=2, seed=3)
    memory = RecordingTraces(recording).initial()
    checked = 0
    for _, rows in spied.turns:
        for row in rows[(rows["flags"] & UNCACHED) == 0]:
            at, size = int(row["addr"]), int(row["size"])
            assert int.from_bytes(memory[at : at + size].tobytes(), "little") == int(row["old"])
            memory[at : at + size] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:size], np.uint8)
            checked += 1
    assert checked > 1000


def test_the_tap_changes_nothing_that_is_recorded(tmp_path: Path) -> None:
    _, tapped = spy_on(FIRMWARE / "uts.elf", tmp_path / "with", cores=2, seed=9)
    plain = record_with(FIRMWARE / "uts.elf", tmp_path / "without", cores=2, seed=9)
    assert tapped.manifest.instructions == plain.manifest.instructions
    assert tapped.manifest.totals == plain.manifest.totals
    for name in ("core-0.log", "core-1.log", "truth.log", "agent.log"):
        assert (tapped.path / name).read_bytes() == (plain.path / name).read_bytes()


def same_rows(path: Path, spied: Spy) -> int:
    """Compare what a spy saw with the traced replay of the recording; returns the number of events."""
    traces, seen = RecordingTraces(Recording.open(path)), 0
    for stream in range(traces.n_streams):
        replayed = np.concatenate([np.zeros(0, EVENT), *traces.chunks(stream)])
        tapped = spied.rows(stream)
        for name in ("seq", "count", "addr", "old", "new", "size", "kind", "flags"):
            assert np.array_equal(tapped[name], replayed[name]), (path.name, stream, name)
        seen += len(replayed)
    return seen


def hold(program: Path, folder: Path, cores: int, seeds: int = 1) -> None:
    """Every way to record a guest under exact schedules."""
    for seed in range(seeds):
        for number, (longest, strata, cache) in enumerate(WAYS):
            schedule = write_schedule(folder / f"schedule-{seed}-{number}", cores, seed, longest)
            path, spy = folder / f"{program.stem}-{seed}-{number}", Spy()
            run_guest(
                program,
                path,
                cores,
                cache=cache,
                strata=strata,
                schedule=str(schedule),
                seed=seed,
                watchers=(spy,),
            )
            assert same_rows(path, spy) > 0


@pytest.mark.parametrize("body", GUESTS, ids=lambda body: body.__name__)
@pytest.mark.sampled(2)
def test_the_tap_of_guests_that_are_hard_to_record(body: Callable[[Code], None], tmp_path: Path) -> None:
    """Stores into running code, instructions of many accesses, stops in the middle, interrupts, DMA."""
    hold(build(tmp_path, body), tmp_path, GUESTS[body])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(3)
def test_the_tap_of_random_guests(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    cores = draw.choice((1, 2, 2, 3))
    places = [draw.choice((DATA + 8, DATA + 0x40, DATA + 0xFE0)) + draw.randrange(64) for _ in range(4)]
    hold(random_program(tmp_path / f"random-{seed}.elf", draw, places, 2), tmp_path, cores)
