"""The benchmark: every program, one after the other.

python -m bench systems [--programs fft lu] [--rounds 3]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from bench.report import Table, publish
from bench.systems.measure import REGION_TIMEOUT_S, Measured, measure
from bench.systems.runs import kernel, subjects
from bench.systems.tables import all_tables
from corebraid.base.errors import UsageError


def main(
    console: Console,
    rounds: int = 3,
    chosen: tuple[str, ...] = (),
    timeout_s: float = REGION_TIMEOUT_S,
    warm: bool = True,
) -> list[Table]:
    """Measure and publish. rounds: of timing, 0 for none. chosen: programs, all if none. timeout_s: for a
    region. warm: run a small program first, so that kernels are loaded. Raises UsageError."""
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as temporary:
        folder = Path(temporary)
        wanted = subjects(folder, chosen)
        if unknown := set(chosen) - {one.name.split()[0] for one in wanted}:
            raise UsageError("no such programs", found=", ".join(sorted(unknown)), remedy="leave them out")
        if warm:
            measure(kernel("radix_sort", 2, 64), _made(folder / "warm"), min(rounds, 1), timeout_s)
        for number, subject in enumerate(wanted):
            console.print(f"systems: {subject.name}, {subject.cores} threads", highlight=False)
            measured.append(measure(subject, _made(folder / str(number)), rounds, timeout_s))
    tables = all_tables(measured)
    publish("systems", tables, console)
    return tables


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
