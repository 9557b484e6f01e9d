"""`python -m bench forks`: what one run of a hunt costs, forked from a machine that stands ready, or
recorded.

Processor seconds of whole commands with few runs and with many, one after the other in each round; a run's
is the difference over that of the runs. Programs that never fail, so that all runs are run.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.hunt import GUESTS
from bench.report import Column, Table, publish

PROGRAMS = ("good_counter", "good_publication", "good_aba", "good_lock_order", "good_atomicity")
#: Runs of a short hunt and of a long one, by how they are run; what says so.
_FORKED, _RECORDED = (20, 120), (2, 8)
#: Whatever depends on the host's time is recorded run by run.
_NO_FORKS = ("--time-limit", "3600")


def _processor_seconds(arguments: list[str], place: Path) -> float:
    """Of a hunt that finds nothing, and of all processes that it began."""
    ours = [sys.executable, "-m", "corebraid", "hunt", "--jobs", "1", "-o", str(place / "rec"), *arguments]
    script = "import os, subprocess, sys; subprocess.call(sys.argv[1:]); print(sum(os.times()[2:4]))"
    command = [sys.executable, "-c", script, *ours]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.split()[-1])


def _a_run(program: str, runs: tuple[int, int], options: tuple[str, ...], place: Path) -> float:
    few, many = (
        _processor_seconds(["--runs", str(n), *options, "--", str(GUESTS / program)], place) for n in runs
    )
    return (many - few) / (runs[1] - runs[0])


def main(console: Console, rounds: int = 3) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "forks",
        "A run of a hunt",
        [
            Column("program"), Column("forked ms", ".1f"), Column("runs/s", ".0f"),
            Column("recorded ms", ".0f"), Column("/ forked", ".0f"),
        ],
        ["Processor time, medians of the rounds. runs/s: for each processor."],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name in PROGRAMS:
            forked, recorded = list[float](), list[float]()
            for _ in range(rounds):
                forked.append(_a_run(name, _FORKED, (), Path(scratch)))
                recorded.append(_a_run(name, _RECORDED, _NO_FORKS, Path(scratch)))
            ratio = statistics.median(one / other for one, other in zip(recorded, forked, strict=True))
            took = statistics.median(forked)
            table.add(name, took * 1e3, 1 / took, statistics.median(recorded) * 1e3, ratio)
    publish("forks", [table], console)
    return [table]
