"""The tap of a recording machine: the events of a later traced replay, in the order in which they ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cli_factory import FIRMWARE
from evidence_factory import spy_on

from emu.cache import CacheGeometry
from recorder.event import EVENT, UNCACHED
from recorder.traces import RecordingTraces

PROGRAMS = ["smc", "uts", "peterson", "timer", "dma_race", "fault_unmapped", "primitives", "spin_mcs", "fig2"]


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
    """The same run with and without: only the manifest and the recording's id in the headers differ."""
    _, tapped = spy_on(FIRMWARE / "uts.elf", tmp_path / "with", cores=2, seed=9)
    _, plain = spy_on(FIRMWARE / "uts.elf", tmp_path / "without", cores=2, seed=9, evidence=())
    assert tapped.manifest.instructions == plain.manifest.instructions
    assert tapped.manifest.totals == plain.manifest.totals
    for name in ("core-0.log", "core-1.log", "truth.log", "agent.log"):
        with_tap, without = (r.path.joinpath(name).read_bytes() for r in (tapped, plain))
        assert len(with_tap) == len(without)
