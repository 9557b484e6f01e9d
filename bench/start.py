"""`python -m bench start`: commands that have next to nothing to do, once all kernels are there.

Whole processes, all in one round one after the other: processor seconds, and the ratio to `python -c "import
numpy"` within the round, which is what no command that computes can do without.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish

_YARDSTICK = "python -c 'import numpy'"
_TRACE = "0: M[0] := 1\n1: M[0] == 1\n1: M[1] := 1\n0: M[1] == 1\ncheck\n"


def commands(folder: Path) -> dict[str, list[str]]:
    """By name: with a recording `rec` in the folder."""
    ours, rec = [sys.executable, "-m", "corebraid"], str(folder / "rec")
    trace = folder / "trace.axe"
    trace.write_text(_TRACE)
    found = {
        _YARDSTICK: [sys.executable, "-c", "import numpy"],
        "corebraid --help": [*ours, "--help"],
        "corebraid record -- /bin/true": [*ours, "record", "-o", str(folder / "new"), "--", "/bin/true"],
        "corebraid info": [*ours, "info", rec],
        "corebraid replay --core 0": [*ours, "replay", rec, "--core", "0"],
        "corebraid trace --limit 1": [*ours, "trace", rec, "--limit", "1"],
        "corebraid order": [*ours, "order", rec],
        "corebraid verify": [*ours, "verify", rec],
        "corebraid check, four lines": [*ours, "check", "--model", "sc", str(trace)],
    }
    if valgrind := shutil.which("valgrind"):
        found["valgrind --tool=none /bin/true"] = [valgrind, "--tool=none", "/bin/true"]
    return found


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Processor seconds of a process and of those it waited for; seconds. Raises CalledProcessError."""
    began = time.monotonic()
    with open(os.devnull, "r+b") as nothing:
        process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def main(console: Console, rounds: int = 7) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "start",
        "Commands that have next to nothing to do",
        [
            Column("command"), Column("processor s", ".2f"), Column("s", ".2f"), Column("/ numpy", ".1f"),
            Column("least", ".1f"), Column("most", ".1f"),
        ],
        ["Whole processes; medians of the rounds. The recording is that of /bin/true."],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        folder = Path(scratch)
        todo = commands(folder)
        shutil.rmtree(folder / "new", ignore_errors=True)
        timed(todo["corebraid record -- /bin/true"])
        (folder / "new").rename(folder / "rec")
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in todo}
        # The first round fills caches.
        for _ in range(rounds + 1):
            for name, command in todo.items():
                shutil.rmtree(folder / "new", ignore_errors=True)
                found[name].append(timed(command))
    for name, times in found.items():
        ratios = [one[0] / least[0] for one, least in zip(times[1:], found[_YARDSTICK][1:], strict=True)]
        table.add(
            name, *(statistics.median(column) for column in zip(*times[1:], strict=True)),
            statistics.median(ratios), min(ratios), max(ratios),
        )  # fmt: skip
    publish("start", [table], console)
    return [table]
