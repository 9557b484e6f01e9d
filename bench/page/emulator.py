"""Beside the emulator: the same firmware, one core, run alone, without any of ours and with each of ours."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.bare import run_bare
from bench.programs import image
from bench.report import Column, Table
from bench.speed import time_record, time_replay
from recorder.capture.firmware import RecordOptions

#: By what runs: its column's heading.
_HEADS = {
    "bare": "bare", "own": "own rights", "page": "record", "replay": "replay", "mesi": "rec. mesi",
    "traced": "traced",
}  # fmt: skip


def _round(program: Path, folder: Path) -> tuple[dict[str, float], int]:
    found = {"bare": run_bare(program).run, "own": run_bare(program, own_pages=True).run}
    instructions = 0
    for bus in ("page", "mesi"):
        options = RecordOptions(cores=1, seed=1, evidence=("losses",), bus=bus)
        seconds, instructions, _ = time_record(program, folder / bus, options)
        found[bus] = seconds.run
    found["replay"] = time_replay(folder / "page", traced=False).run
    found["traced"] = time_replay(folder / "page", traced=True).run
    return found, instructions


def emulator_table(
    names: tuple[str, ...], rounds: int, say: Callable[[str], None], size: str = "large"
) -> Table:
    """Measure. names: of firmware. say: told of each run."""
    table = Table(
        "emulator",
        "Beside the emulator, one core: seconds over the bare one's",
        [
            Column("program"), Column("M instr", ",.0f"), Column("bare s", ".2f"),
            *(Column(head, ".2f") for name, head in _HEADS.items() if name != "bare"),
            Column("record/replay", ".2f"),
        ],
        [
            "Processor seconds of the run alone, in one process; ratios within a round, medians.",
            "bare: no hook at all. own rights: its page table is ours, as ours must be; nothing is counted.",
            "record, rec. mesi: on the two buses. traced: a replay that writes an event for each access.",
        ],
    )  # fmt: skip
    for name in names:
        rows: list[dict[str, float]] = []
        instructions = 0
        # The first round loads kernels.
        for number in range(rounds + 1):
            say(f"{name} beside the emulator, round {number} of {rounds}")
            with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
                times, instructions = _round(image(name, size), Path(scratch))
            rows += [times] if number else []
        ratios = [
            statistics.median(row[kind] / row["bare"] for row in rows) for kind in _HEADS if kind != "bare"
        ]
        table.add(
            name, instructions / 1e6, statistics.median(row["bare"] for row in rows), *ratios,
            statistics.median(row["page"] / row["replay"] for row in rows),
        )  # fmt: skip
    return table
