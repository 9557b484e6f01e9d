"""How few preemptions are left of what hunts find: the seeded bugs, and programs of which nothing is measured
elsewhere but what hints say of them (bench/causes, the half that was seen)."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from bench.cause_score import build, programs
from bench.hunt import BUGS, GUESTS
from bench.report import Column, Table, publish

_RUNS, _FLAGS = 300, ["-O1"]
#: Seconds that the reduction of one run may take.
SECONDS = 60.0


def hunted(program: Path, place: Path, seconds: float, runs: int = _RUNS) -> dict[str, object]:
    """What `corebraid hunt --json` says of a program. Raises RuntimeError where it fails."""
    words = ["hunt", "--json", "--no-explain", "--runs", str(runs), "--reduce-time", str(seconds)]
    asked = [*words, "-o", str(place / "rec"), "--output", "/dev/null", "--", str(program)]
    command = [sys.executable, "-m", "corebraid", *asked]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{program}: {ran.stderr}")
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def row_of(name: str, found: dict[str, object]) -> tuple[object, ...]:
    """name, preemptions before and after, what is claimed, runs, seconds."""
    small = found.get("reduction")
    if not isinstance(small, dict):
        return (name, "-", "-", "not found", "-", "-")
    if not small["reduced"]:
        return (name, "-", "-", "not reduced", "-", "-")
    numbers = (str(small[key]) for key in ("before", "preemptions", "claim", "runs"))
    return (name, *numbers, f"{small['seconds']:.1f}")


def subjects(place: Path) -> Iterator[Path]:
    """The programs, those that must be built in `place`."""
    yield from (GUESTS / name for name in BUGS)
    for one in programs("seen"):
        yield build(one.path, _FLAGS, place)


def table_of(chosen: Iterator[Path], place: Path, seconds: float) -> Table:
    """A row for each of these programs."""
    table = Table(
        "smallest",
        "Preemptions of failing runs, before and after",
        [
            Column("program"), Column("before"), Column("after"), Column("claim"), Column("runs"),
            Column("seconds"),
        ],
        [f"At most {_RUNS} runs of a hunt, and {seconds:.0f} s for a reduction."],
    )  # fmt: skip
    for number, program in enumerate(chosen):
        folder = place / str(number)
        folder.mkdir()
        table.add(*row_of(program.name, hunted(program, folder, seconds)))
    return table


def main(console: Console, seconds: float = SECONDS) -> list[Table]:
    """Measure and publish. Needs gcc."""
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        place = Path(scratch)
        table = table_of(subjects(place), place, seconds)
    publish("smallest", [table], console)
    return [table]
