"""What LightPlay's steps take, each by itself, against the run: the paper's Figures 13, 17 and 18.

python -m bench stages
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.programs import image, recorded
from bench.report import Column, Table, publish
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Capture, RecordOptions
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import Settings
from solver.evidence.lightplay.report import survey

PROGRAMS = ("spin_ticket", "uts", "primitives", "peterson", "litmus")
CORES = (2, 4, 8)
SEEDS = (1, 2, 3)
#: Longest turn of a core, instructions, as in `bench.lightplay`.
TURN = 400


@dataclass
class Spent:
    """Seconds: of the run, searching, replaying, fixing, on constraints; slices that were searched, and
    fixed."""

    run: float = 0.0
    search: float = 0.0
    replay: float = 0.0
    fixing: float = 0.0
    constraints: float = 0.0
    searched: int = 0
    fixed: int = 0

    def take(self, recording: Recording) -> None:
        """Decide a recording's slices."""
        report = survey(recording, Settings(), constraints=True)
        self.search += report.search_seconds
        self.fixing += report.fixing_seconds
        self.replay += max(report.seconds - report.search_seconds - report.fixing_seconds, 0.0)
        self.constraints += report.constraint_seconds
        self.searched += report.searched
        self.fixed += report.fixed


def run_seconds(program: Path, options: RecordOptions) -> float:
    """The run, recorded without slices: the least of two."""
    best = float("inf")
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
            capture = Capture(program, Path(folder) / "rec", X86_64, options, lambda _: None)
            with capture.writer:
                began = time.perf_counter()
                capture.run()
                best = min(best, time.perf_counter() - began)
    return best


def spent_on(name: str, cores: int, seeds: tuple[int, ...]) -> Spent:
    """All seeds of a program."""
    spent = Spent()
    for seed in seeds:
        plain = RecordOptions(cores=cores, seed=seed, longest_slice=TURN)
        spent.run += run_seconds(image(name), plain)
        options = RecordOptions(cores=cores, seed=seed, longest_slice=TURN, evidence=("slices",))
        with recorded(image(name), options) as made:
            spent.take(made.recording)
    return spent


def stages_table(programs: tuple[str, ...], cores: tuple[int, ...], seeds: tuple[int, ...]) -> Table:
    """Searching, fixing and constraints as multiples of the run."""
    table = Table(
        "stages",
        "LightPlay's steps against the run (the paper's Figures 13, 17 and 18)",
        [
            Column("program"), Column("cores", "d"), Column("run, ms", ".1f"), Column("searched", ",d"),
            Column("fixed", ",d"), Column("search, times", ".2f"), Column("replay, times", ".2f"),
            Column("fixing, times", ".3f"), Column("constraints, times", ".2f"),
            Column("fixing, ms a slice fixed", ".3f"), Column("fixing / search", ".2f"),
        ],
        [
            f"Sums of {len(seeds)} seeds; turns of up to {TURN} instructions; back end auto; seconds of this "
            "machine over those of the run, recorded on the emulator without slices: the paper's is native.",
            "search: the first one (2.2); replay: of the orders found (2.3); fixing: all that follows where "
            "none of them replays (2.4: moves, the relaxed search, and the search apart, which is beyond the "
            "paper).",
            "Paper: searching on a GPU is below 30 times for most programs, fixing below 2, constraints "
            "below 25.",
        ],
    )  # fmt: skip
    for name in programs:
        for n in cores:
            spent = spent_on(name, n, seeds)
            times = [one / spent.run for one in (spent.search, spent.replay, spent.fixing, spent.constraints)]
            table.add(
                name, n, 1e3 * spent.run, spent.searched, spent.fixed, *times,
                1e3 * spent.fixing / spent.fixed if spent.fixed else None,
                spent.fixing / spent.search if spent.search else None,
            )  # fmt: skip
    return table


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    cores: tuple[int, ...] = CORES,
    seeds: tuple[int, ...] = SEEDS,
) -> list[Table]:
    """Measure, print, and write bench/out/stages.md and .json."""
    with console.status("kernels are being loaded"):
        stages_table(programs[:1], cores[:1], seeds[:1])
    tables = [stages_table(programs, cores, seeds)]
    publish("stages", tables, console)
    return tables
