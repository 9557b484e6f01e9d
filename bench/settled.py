"""What an order leaves open, by values alone and by all that the logs prove: firmware, and Linux programs.

Each recording is ordered twice, and each order is held against the sealed truth; then the pairs of accesses
that conflict are asked what every legal order says of them, and orders and executions are counted.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from bench.linux_soak import Plan, record_plan
from bench.programs import FIRMWARE
from bench.report import Cell, Column, Table, publish
from bench.scored import LINUX, firmware, scored
from corebraid.base.errors import CorebraidError
from recorder.files.constraints import LOSSES, VALUES
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.freedom.count import count_orders
from solver.freedom.freedom import Limits, freedom_of
from solver.freedom.pairs import Order, tally
from solver.passes.unfiltered import iter_problems

STRATA = ("cycles:100000", "none")
CONSTRAINTS = (VALUES, LOSSES)
#: Regions up to this many operations are asked what they leave open, each and all within so many seconds.
_MOST_OPS, _REGION_S, _ALL_S, _CUTS = 3000, 0.5, 3.0, 200_000
_LINUX_CORES = 4
_HEADINGS = ("decided", "asked", "seconds", "other source %", "may %", "orders", "executions")


def _firmware(cores: int, folder: Path) -> Iterator[tuple[str, str, Recording]]:
    """Recordings of all programs, one at a time."""
    chosen = Namespace(seed=1, slice=10_000, engines=["auto"])
    for program in sorted((FIRMWARE / "x86_64").glob("*.elf")):
        for strata in STRATA:
            path = folder / f"{program.stem}-{strata.replace(':', '-')}"
            try:
                firmware(program.stem, cores, strata, chosen, "sc", path)
            except CorebraidError:
                continue
            yield program.stem, strata, Recording.open(path)
            shutil.rmtree(path)


def _linux(folder: Path) -> Iterator[tuple[str, str, Recording]]:
    for name in LINUX:
        for strata in STRATA:
            path = folder / f"{name}-{strata.replace(':', '-')}"
            record_plan(Plan(name, _LINUX_CORES, 1, strata=strata, longest_slice=10_000), path)
            yield name, strata, Recording.open(path)
            shutil.rmtree(path)


@dataclass
class _Open:
    """What some regions leave open. digits: log10 of numbers, of all regions together: orders, and the least
    and most executions, None without a bound."""

    regions: int = 0
    must: int = 0
    may: int = 0
    undecided: int = 0
    orders: float = 0.0
    exact: bool = True
    least: float = 0.0
    most: float | None = 0.0

    def cells(self) -> list[Cell]:
        """Pairs that may stand either way in % of all that conflict, orders, executions."""
        pairs = self.must + self.may + self.undecided
        if not self.regions:
            return ["-", "-", "-"]
        left = f" ({100 * self.undecided / pairs:.2g} undecided)" if self.undecided else ""
        may = f"{100 * self.may / pairs:.2g}{left}" if pairs else "-"
        orders = ("" if self.exact else "at least ") + _power(self.orders)
        same = self.most is not None and abs(self.most - self.least) < 1e-9
        return [may, orders, ("" if same else "at least ") + _power(self.least)]


def _power(digits: float) -> str:
    return f"{10**digits:,.0f}" if digits < 6 else f"1e{digits:.0f}"


def _left_open(recording: Recording, constraints: str) -> _Open:
    left, until = _Open(), time.perf_counter() + _ALL_S
    for _, problem in iter_problems(RecordingTraces(recording, constraints=constraints)):
        if not 0 < problem.n_ops <= _MOST_OPS or time.perf_counter() > until:
            continue
        limits = Limits(cuts=_CUTS, seconds=_REGION_S)
        pairs, count = tally(freedom_of(problem, limits)), count_orders(problem, limits)
        left.regions += 1
        left.must, left.may = left.must + pairs[Order.MUST], left.may + pairs[Order.MAY]
        left.undecided += pairs[Order.UNDECIDED]
        left.orders += math.log10(max(count.orders, 1))
        left.exact = left.exact and count.exact
        left.least += math.log10(max(count.executions.least, 1))
        most = count.executions.most
        left.most = None if left.most is None or most is None else left.most + math.log10(max(most, 1))
    return left


def settled_table(
    key: str,
    what: str,
    recordings: Iterator[tuple[str, str, Recording]],
    timeout_s: float,
    say: Callable[[str], None],
) -> Table:
    """Every recording, by values and with losses. what: in words."""
    table = Table(
        key,
        f"What orders leave open, by values -> with losses: {what}",
        [
            *(Column(name) for name in ("program", "strata")),
            *(Column(name, ",d") for name in ("regions", "shared reads")),
            *(Column(name, ">") for name in _HEADINGS),
        ],
        [
            f"Limit {timeout_s:g} s a region. Seconds include traced replay of every core and the checker.",
            "Other source: of the shared reads, those whose source is not the one that they had.",
            f"Asked: regions with something to order, of up to {_MOST_OPS:,} operations, asked what they",
            f"leave open, {_REGION_S:g} s each for pairs and count, {_ALL_S:g} s in all. May: of their pairs",
            "that conflict. Orders, executions: of all of these regions together.",
        ],
    )
    for name, strata, recording in recordings:
        say(f"{name}, strata {strata}")
        rows: list[list[Cell]] = []
        for constraints in CONSTRAINTS:
            score, regions, undecided, seconds = scored(recording, "auto", constraints, timeout_s)
            other = f"{100 * score.other / score.reads:.2g}" if score.reads else "-"
            left = _left_open(recording, constraints)
            rows.append([regions - undecided, left.regions, f"{seconds:.2f}", other, *left.cells()])
        both = [f"{before} -> {after}" for before, after in zip(*rows, strict=True)]
        table.add(name, strata, regions, score.reads, *both)
    return table


def main(console: Console, timeout_s: float = 5.0, cores: tuple[int, ...] = (8, 16)) -> list[Table]:
    """Measure and publish. cores: of the firmware's recordings."""
    tables = []
    with (
        console.status("recordings are being ordered") as status,
        tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch,
    ):
        folder = Path(scratch)
        for n in cores:
            what = f"firmware on {n} cores"
            tables.append(
                settled_table(f"firmware-{n}", what, _firmware(n, folder), timeout_s, status.update)
            )
        what = f"Linux programs on {_LINUX_CORES} cores"
        tables.append(settled_table("linux", what, _linux(folder), timeout_s, status.update))
    publish("settled", tables, console)
    return tables
