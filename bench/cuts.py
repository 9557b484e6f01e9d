"""`python -m bench cuts`: when a run is cut, and what recording and ordering it cost.

Whole commands in one process each, processor seconds, medians of the rounds; the schemes of a program by
turns in each round.
"""

from __future__ import annotations

import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish
from bench.start import timed
from emu.bus.names import MESI, PAGE
from recorder.files.manifest import MANIFEST

_LINUX = Path(__file__).resolve().parents[1] / "firmware" / "linux" / "x86_64"
#: Threads that share little, and threads that share one lock.
_PROGRAMS = (("histogram", "1792"), ("mutexes",))
_SCHEMES = ("auto", "none", "cycles:25000", "events:1000", "events:200", "cycles:400000,events:500")


def main(console: Console, rounds: int = 3) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "cuts",
        "Where runs are cut",
        [
            Column("program"), Column("bus"), Column("--strata"), Column("strata", ",.0f"),
            Column("record", ".2f"), Column("order", ".2f"),
        ],
        ["Four cores, processor seconds of whole commands, medians."],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for program in _PROGRAMS:
            for bus in (PAGE, MESI):
                for scheme, *figures in _measured(Path(scratch), program, bus, rounds):
                    table.add(program[0], bus, scheme, *figures)
    publish("cuts", [table], console)
    return [table]


def _measured(
    folder: Path, program: tuple[str, ...], bus: str, rounds: int
) -> list[tuple[str, int, float, float]]:
    """Of each scheme: strata, seconds to record and to order."""
    ours, rec = [sys.executable, "-m", "corebraid"], folder / "rec"
    guest, asked = [str(_LINUX / program[0]), *program[1:]], ["--bus", bus, "--cores", "4"]
    seconds: dict[str, list[tuple[float, float]]] = {scheme: [] for scheme in _SCHEMES}
    strata: dict[str, int] = {}
    # The first round fills caches.
    for turn in range(rounds + 1):
        for scheme in _SCHEMES:
            shutil.rmtree(rec, ignore_errors=True)
            record = [*ours, "record", "-o", str(rec), *asked, "--strata", scheme, "--", *guest]
            took = timed(record)[0], timed([*ours, "order", str(rec), "--fresh", "--jobs", "1"])[0]
            seconds[scheme] += [took] if turn else []
            strata[scheme] = json.loads((rec / MANIFEST).read_bytes())["totals"]["strata"]
    medians = {scheme: map(statistics.median, zip(*seconds[scheme], strict=True)) for scheme in _SCHEMES}
    return [(scheme, strata[scheme], *medians[scheme]) for scheme in _SCHEMES]
