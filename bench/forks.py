"""`python -m bench forks`: what one run of a hunt costs, made by a machine that is put back to where it stood
ready, or recorded.

Processor seconds of whole commands with few runs and with many, one after the other in each round; a run's
is the difference over that of the runs. Programs that never fail, so that all runs are run. Needs gcc.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.hunt import GUESTS
from bench.report import Column, Table, publish
from corebraid.study.replays.in_processes import usable_processors
from corebraid.study.subjects import Asked, subject_of
from emu.bus.names import MESI
from isa.registry import linux_abi_of
from recorder.capture.linux import LinuxCapture
from recorder.capture.options import RecordOptions

#: With their arguments; the last one is compiled.
PROGRAMS = (
    "good_counter", "good_publication", "good_aba", "good_lock_order", "good_atomicity",
    "ray_tracer 4 4", "rwlock_table 40", "locked_sums",
)  # fmt: skip
#: Those of which runs by the clock are measured, with processes from one on.
_TOGETHER = ("good_counter", "locked_sums")
_SOURCES = Path(__file__).parent / "forked"
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
#: before its 33rd run and its 65th, and never after that; behind them both have made their first runs with
#: store buffers.
_AGAIN, _RECORDED = (200, 1200), (2, 8)
#: Whatever depends on the host's time is recorded run by run.
_WHOLE = ("--time-limit", "3600")


def _hunt(jobs: int, arguments: list[str], place: Path) -> list[str]:
    command = [sys.executable, "-m", "corebraid", "hunt", "--jobs", str(jobs), "-o", str(place / "rec")]
    return [*command, *arguments]


def _processor_seconds(arguments: list[str], place: Path) -> float:
    """Of a hunt that finds nothing, and of all processes that it began."""
    command = [sys.executable, "-c", _MEASURING, *_hunt(1, arguments, place)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(told.split()[-1])


def _command(program: str, place: Path) -> list[str]:
    name, *arguments = program.split()
    source, made = _SOURCES / f"{name}.c", GUESTS / name
    if source.exists():
        made = place / name
        subprocess.run(["gcc", "-O1", "-pthread", str(source), "-o", str(made)], check=True)
    return [str(made), *arguments]


def _instructions(command: list[str]) -> int:
    """Of one run, from the second thread on."""
    subject = subject_of(Asked(command[0], tuple(command[1:]), schedule_seed=0, bus=MESI))
    spec, options, before = subject.spec, replace(subject.options, unwritten=True), list[int]()
    assert spec is not None
    capture = LinuxCapture(spec, Path(), spec.isa, linux_abi_of(spec.isa), options, _ignore, _ignore)

    def note() -> RecordOptions:
        before.append(sum(core.count for core in capture.machine.cores))
        return options

    capture.choose = note
    with closing(capture):
        outcome = capture.run()
    return sum(outcome.manifest.instructions) - before[0]


def _ignore(_: bytes) -> None:
    pass


def _a_run(command: list[str], runs: tuple[int, int], options: tuple[str, ...], place: Path) -> float:
    few, many = (_processor_seconds(["--runs", str(n), *options, "--", *command], place) for n in runs)
    return (many - few) / (runs[1] - runs[0])


def _by_the_clock(jobs: int, command: list[str], place: Path) -> float:
    """Runs a second."""
    took = list[float]()
    for runs in _AGAIN:
        began = time.perf_counter()
        hunt = _hunt(jobs, ["--runs", str(runs), "--", *command], place)
        subprocess.run(hunt, capture_output=True, check=False)
        took.append(time.perf_counter() - began)
    return (_AGAIN[1] - _AGAIN[0]) / (took[1] - took[0])


def _together(rounds: int, place: Path) -> Table:
    processors = [1 << k for k in range(usable_processors().bit_length())]
    columns = [Column("program"), *(Column(f"--jobs {jobs}", ".0f") for jobs in processors)]
    title = "Runs of a hunt a second, by the clock"
    table = Table("forks_together", title, columns, ["Medians of the rounds."])
    for name in _TOGETHER:
        command = _command(name, place)
        rates = [[_by_the_clock(jobs, command, place) for jobs in processors] for _ in range(rounds)]
        table.add(name, *map(statistics.median, zip(*rates, strict=True)))
    return table


def main(console: Console, rounds: int = 3) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "forks",
        "A run of a hunt",
        [
            Column("program"), Column("instructions", ",d"), Column("a run, ms", ".1f"),
            Column("runs/s", ".0f"), Column("recorded ms", ".0f"), Column("/ a run", ".0f"),
        ],
        [
            "Processor time, medians of the rounds. runs/s: for each processor. instructions: of one run "
            "with random slices, from the second thread on."
        ],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        # All kernels are compiled before the first round.
        _a_run(_command(PROGRAMS[0], Path(scratch)), (12, 13), (), Path(scratch))
        for name in PROGRAMS:
            again, recorded, command = list[float](), list[float](), _command(name, Path(scratch))
            for _ in range(rounds):
                again.append(_a_run(command, _AGAIN, (), Path(scratch)))
                recorded.append(_a_run(command, _RECORDED, _WHOLE, Path(scratch)))
            ratio = statistics.median(one / other for one, other in zip(recorded, again, strict=True))
            took = statistics.median(again)
            table.add(
                name, _instructions(command), took * 1e3, 1 / took, statistics.median(recorded) * 1e3, ratio
            )
        together = _together(rounds, Path(scratch))
    publish("forks", [table, together], console)
    return [table, together]
