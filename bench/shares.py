"""`python -m bench shares`: cores shared out to two processes, from checkpoint to checkpoint, and as wholes.

Wall-clock seconds of whole commands, one after the other in each round; a ratio is taken within a round.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish
from bench.seek import LARGE
from bench.start import timed
from corebraid.study.about import Info
from recorder.files.manifest import checkpoint_log

#: Bytes of a text that a compressor on one thread takes a second for, some.
_LINES = 60_000
_COMMANDS = ("order", "verify")
_WAYS = ("shared", "whole")


def _subjects(folder: Path) -> dict[str, list[str]]:
    """What to record, by name: programs of which one core does most."""
    found = {"laplace, 1 core": ["--cores", "1", str(LARGE / "laplace.elf")]}
    found["nqueens, 3 cores"] = ["--cores", "3", str(LARGE / "nqueens.elf")]
    text = folder / "text"
    text.write_bytes(b"".join(b"%d squared is %d\n" % (k, k * k % 9973) for k in range(_LINES)))
    for name, options in (("xz", ["-6", "-c"]), ("bzip2", ["-9", "-c"])):
        if program := shutil.which(name):
            found[f"{name} {options[0]}"] = ["--", program, *options, str(text)]
    return found


def main(console: Console, rounds: int = 5) -> list[Table]:
    """Measure and publish."""
    table = Table(
        "shares",
        "One core, two processes",
        [
            Column("program"), Column("M instr", ",.0f"), Column("points", "d"),
            *(Column(f"{command} {what}", ".2f") for command in _COMMANDS for what in ("s", "/ whole")),
        ],
        [
            "Wall-clock seconds of whole commands with --jobs 2, medians. points: checkpoints of the core "
            "with most instructions. / whole: over the same without checkpoints, where a process has a core "
            "to itself."
        ],
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name, arguments in _subjects(Path(scratch)).items():
            table.add(name, *_measured(Path(scratch), arguments, rounds))
    publish("shares", [table], console)
    return [table]


def _measured(folder: Path, arguments: list[str], rounds: int) -> list[int | float]:
    from recorder.files.checkpoints import checkpoints
    from recorder.files.reader import Recording

    ours, times = [sys.executable, "-m", "corebraid"], dict[tuple[str, str], list[float]]()
    for way in _WAYS:
        shutil.rmtree(folder / way, ignore_errors=True)
    timed([*ours, "record", "-o", str(folder / "shared"), *arguments])
    shutil.copytree(folder / "shared", folder / "whole")
    manifest = Info.of(folder / "shared").manifest
    for core in range(manifest.n_cores):
        (folder / "whole" / checkpoint_log(core)).unlink(missing_ok=True)
    # The first round fills caches.
    for turn in range(rounds + 1):
        for way in _WAYS:
            for command in _COMMANDS:
                began = time.monotonic()
                timed([*ours, command, str(folder / way), "--jobs", "2"])
                seconds = time.monotonic() - began
                times.setdefault((command, way), []).extend([seconds] if turn else [])
    most = max(range(manifest.n_cores), key=manifest.instructions.__getitem__)
    found: list[int | float] = [
        sum(manifest.instructions) / 1e6, len(checkpoints(Recording.open(folder / "shared"), most))
    ]  # fmt: skip
    for command in _COMMANDS:
        both = [times[command, way] for way in _WAYS]
        found.append(statistics.median(both[0]))
        found.append(statistics.median(one / other for one, other in zip(*both, strict=True)))
    return found
