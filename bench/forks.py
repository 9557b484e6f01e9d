"""`python -m bench forks`: what one run of a hunt costs, made by a machine that is put back to where it stood
ready, or recorded.

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

#: With their arguments. The last two have some 17,000 and 45,000 instructions from the second thread on, the
#: others about 10,000.
PROGRAMS = (
    "good_counter", "good_publication", "good_aba", "good_lock_order", "good_atomicity",
    "ray_tracer 4 4", "rwlock_table 40",
)  # fmt: skip
#: Prints the processor seconds of a command, with what it has left behind (prctl(2), PR_SET_CHILD_SUBREAPER):
#: processes of a hunt are killed.
_MEASURING = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
subprocess.call(sys.argv[1:])
try:
    while True:
        os.wait()
except ChildProcessError:
    print(sum(os.times()[2:4]))
"""
#: Runs of a short hunt and of a long one, by how they are run. A hunt that runs again and again learns anew
#: before its 33rd run and its 65th, and never after that.
_AGAIN, _RECORDED = (80, 1080), (2, 8)
#: Whatever depends on the host's time is recorded run by run.
_WHOLE = ("--time-limit", "3600")


def _processor_seconds(arguments: list[str], place: Path) -> float:
    """Of a hunt that finds nothing, and of all processes that it began."""
    ours = [sys.executable, "-m", "corebraid", "hunt", "--jobs", "1", "-o", str(place / "rec"), *arguments]
    command = [sys.executable, "-c", _MEASURING, *ours]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.split()[-1])


def _a_run(program: str, runs: tuple[int, int], options: tuple[str, ...], place: Path) -> float:
    name, *arguments = program.split()
    command = ["--", str(GUESTS / name), *arguments]
    few, many = (_processor_seconds(["--runs", str(n), *options, *command], place) for n in runs)
    return (many - few) / (runs[1] - runs[0])


def main(console: Console, rounds: int = 3) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "forks",
        "A run of a hunt",
        [
            Column("program"), Column("a run, ms", ".1f"), Column("runs/s", ".0f"),
            Column("recorded ms", ".0f"), Column("/ a run", ".0f"),
        ],
        ["Processor time, medians of the rounds. runs/s: for each processor."],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name in PROGRAMS:
            again, recorded = list[float](), list[float]()
            for _ in range(rounds):
                again.append(_a_run(name, _AGAIN, (), Path(scratch)))
                recorded.append(_a_run(name, _RECORDED, _WHOLE, Path(scratch)))
            ratio = statistics.median(one / other for one, other in zip(recorded, again, strict=True))
            took = statistics.median(again)
            table.add(name, took * 1e3, 1 / took, statistics.median(recorded) * 1e3, ratio)
    publish("forks", [table], console)
    return [table]
