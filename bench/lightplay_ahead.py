"""LightPlay's search while the program runs (sections 2 and 2.2): how much of it is done when the program
ends, and what the recorder pays for it.

python -m bench ahead
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.programs import FIRMWARE, image
from bench.report import Column, Table, publish
from corebraid.study.evidence.slice_search import searching
from corebraid.study.recording import record_subject
from corebraid.study.replays.in_processes import usable_processors
from corebraid.study.subjects import Asked, subject_of
from recorder.files.evidence_names import SLICES
from recorder.files.manifest import SLICES_FOUND
from recorder.files.reader import Recording
from solver.evidence.lightplay.decide import Settings
from solver.evidence.lightplay.report import survey

#: What is recorded, and the longest turns: short ones, so that there are races at all on an emulator.
PROGRAMS = (
    (image("litmus"), 400), (image("uts", "medium"), 400), (image("spin_ticket"), 60),
    (FIRMWARE / "linux" / "x86_64" / "mutexes", 400), (FIRMWARE / "linux" / "x86_64" / "histogram", 400),
)  # fmt: skip
CORES, SEED = 4, 1


@dataclass(frozen=True)
class Commanded:
    """A `corebraid record`. wall: seconds from its beginning to the program's end, if the slices are
    searched, else to its own end. recorder: seconds of a processor, but for the search. facts: what it
    says."""

    wall: float
    recorder: float
    facts: dict[str, Any]


def commanded(program: Path, turn: int, path: Path, *more: str) -> Commanded:
    """Record into `path` by the command, in a process of its own."""
    options = ["--cores", str(CORES), "--seed", str(SEED), "--slice", str(turn), "--evidence", SLICES, *more]
    command = [sys.executable, "-m", "corebraid", "record", "-o", str(path), "--json", *options, str(program)]
    began, before = time.monotonic(), _of_children()
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    wall, spent = time.monotonic() - began, _of_children() - before
    facts: dict[str, Any] = json.loads(ran.stdout[ran.stdout.index(b"\n{") if b"\n{" in ran.stdout else 0 :])
    if (search := facts.get("search")) is not None:
        wall, spent = wall - search["lag_seconds"], spent - search["processor_seconds"]
    return Commanded(wall, spent, facts)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least(program: Path, turn: int, rounds: int, *more: str) -> Commanded:
    """The recording whose recorder took least of a processor, of some."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder:
            found.append(commanded(program, turn, Path(folder) / "rec", *more))
    return min(found, key=lambda one: one.recorder)


def ready_and_afterwards(program: Path, turn: int) -> tuple[float, float, float]:
    """Percent of the slices that are decided while the program runs if the search has loaded its kernels
    before; seconds to take all slices from the recording, searched anew, and as found."""
    subject = subject_of(Asked(str(program), cores=CORES, seed=SEED, slice=turn, evidence=SLICES))
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as folder, searching() as search:
        while not search.ready:
            time.sleep(0.01)
        path, options = Path(folder) / "rec", replace(subject.options, followers={SLICES: search})
        record_subject(subject, options, path, _ignore, _ignore, lambda _: None)
        searched = search.finish(lambda: None)
        recording, took = Recording.open(path), []
        for anew in (False, True):
            if anew:
                (path / SLICES_FOUND).unlink()
            began = time.process_time()
            survey(recording, Settings())
            took.append(time.process_time() - began)
    return 100 * searched.running / max(searched.slices, 1), took[1], took[0]


def _ignore(_: bytes) -> None:
    pass


def ahead_table(programs: tuple[tuple[Path, int], ...], rounds: int) -> Table:
    """Share of slices that are decided when the program ends, and what the recorder pays."""
    table = Table(
        "ahead",
        "LightPlay's search while the program runs",
        [
            Column("program"), Column("turns", "d"), Column("M instructions", ".2f"), Column("slices", ",d"),
            Column("decided while it ran %", ".1f"), Column("with kernels loaded before %", ".1f"),
            Column("lag, s", ".2f"), Column("search, processor s", ".2f"),
            Column("recorder alone, processor s", ".2f"), Column("with the search, processor s", ".2f"),
            Column("alone, s", ".2f"), Column("with the search, s", ".2f"), Column("slices anew, s", ".2f"),
            Column("slices as found, s", ".2f"),
        ],
        [
            f"{CORES} cores, seed {SEED}; turns of up to so many instructions. {usable_processors()} "
            f"processors, shared with others. Of {rounds} runs of the command the one whose recorder took "
            "least of a processor.",
            "While the program runs the search has to load its kernels first; in the next column it has them "
            "when the program begins. lag: from the program's end to that of the search.",
            "alone, with: the command from its beginning to the program's end, Python's own start and the "
            "recorder's kernels included.",
            "slices anew, as found: seconds of a processor to decide all slices of the recording, with their "
            "constraints, without what was found and with it; both replay the cores.",
        ],
    )  # fmt: skip
    for program, turn in programs:
        alone, one = least(program, turn, rounds), least(program, turn, rounds, "--search-slices")
        search, instructions = one.facts["search"], sum(one.facts["instructions"])
        ready, anew, found = ready_and_afterwards(program, turn)
        table.add(
            program.stem, turn, instructions / 1e6, search["slices"],
            100 * search["while_running"] / max(search["slices"], 1), ready, search["lag_seconds"],
            search["processor_seconds"], alone.recorder, one.recorder, alone.wall, one.wall, anew, found,
        )  # fmt: skip
    return table


def main(console: Console, programs: tuple[tuple[Path, int], ...] = PROGRAMS, rounds: int = 3) -> list[Table]:
    """Measure, print, and write bench/out/ahead.md and .json."""
    with console.status("kernels are being loaded"):
        for program, turn in {path.suffix: (path, turn) for path, turn in programs}.values():
            ready_and_afterwards(program, turn)
    tables = [ahead_table(programs, rounds)]
    publish("ahead", tables, console)
    return tables
