"""Figure 1 of the MICRO 2009 paper (`firmware/src/fig1.c`): which of its accesses are logged, with what, and
what the isolated replay makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corebraid.base.rows.event import FETCH, READ, WRITE
from corebraid.base.rows.record import MISS, MISS_FETCH, MISS_WRITE
from corebraid.names.symbols import Symbols
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import RecordOptions, record
from recorder.files.reader import Recording, iter_core_records
from recorder.replay.traces import RecordingTraces

IMAGE = Path(__file__).resolve().parents[3] / "firmware" / "x86_64" / "fig1.elf"
#: The figure: processor, access, old and new value, whether a record is logged.
FIGURE = {
    "R1": (0, READ, 1, 1, True),
    "W5": (1, WRITE, 1, 2, True),
    "R6": (1, READ, 2, 2, False),
    "W2": (0, WRITE, 2, 4, True),
    "R3": (0, READ, 4, 4, False),
    "W4": (0, WRITE, 4, 5, False),
    "W7": (1, WRITE, 5, 3, True),
}


def found(path: Path) -> dict[str, tuple[int, int, int, int, bool]]:
    """The same of a recording. The value in a record has to be the one before the access."""
    recording, names = Recording.open(path), Symbols.of_elf(IMAGE.read_bytes())
    traces, x = RecordingTraces(recording), names.named("x")
    assert x is not None
    events: dict[str, tuple[int, int, int, int, bool]] = {}
    for core in range(2):
        logged = misses(recording, core, x.address)
        for rows in traces.chunks(core):
            for row in rows[(rows["addr"] == x.address) & (rows["flags"] & FETCH == 0)]:
                name = names.name(int(row["pc"]))
                if not name.startswith("fig1_"):
                    continue
                count, old = int(row["count"]), int(row["old"])
                if count in logged:
                    assert logged[count] == (old, row["kind"] == WRITE)
                events[name[5:]] = (core, int(row["kind"]), old, int(row["new"]), count in logged)
    return events


def misses(recording: Recording, core: int, address: int) -> dict[int, tuple[int, bool]]:
    """Records of the line: instruction count -> the value at the address, whether it was a write's."""
    line, logged = address & ~(recording.manifest.line - 1), {}
    for rows, blob in iter_core_records(recording, core):
        wanted = (rows["kind"] == MISS) & (rows["addr"] == line) & (rows["flags"] & MISS_FETCH == 0)
        for row in rows[wanted]:
            at = int(row["offset"]) + address - line
            value = int(np.frombuffer(blob[at : at + 8].tobytes(), "<u8")[0])
            logged[int(row["count"])] = (value, bool(row["flags"] & MISS_WRITE))
    return logged


@pytest.mark.parametrize("seed", range(4))
def test_what_is_logged_is_the_figures(seed: int, tmp_path: Path) -> None:
    """R1 is the first load, W2, W5 and W7 are write misses; nothing else of the figure is logged."""
    record(IMAGE, tmp_path / "rec", X86_64, RecordOptions(cores=2, seed=seed), lambda _: None)
    assert found(tmp_path / "rec") == FIGURE


def test_one_core_alone_logs_its_first_access(tmp_path: Path) -> None:
    """Without another processor nothing is lost, and nothing else is logged."""
    record(IMAGE, tmp_path / "rec", X86_64, RecordOptions(cores=1), lambda _: None)
    recording, x = Recording.open(tmp_path / "rec"), Symbols.of_elf(IMAGE.read_bytes()).named("x")
    assert x is not None
    assert list(misses(recording, 0, x.address).values()) == [(1, False)]
