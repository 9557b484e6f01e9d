"""Every firmware program: how much of it is ordered, with strata and without any, and how sure that is."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.programs import FIRMWARE
from bench.report import Column, Table
from isa.errors import CorebraidError
from isa.x86_64 import X86_64
from recorder.capture import RecordOptions, record
from recorder.reader import Recording
from recorder.strata_policy import StrataPolicy
from recorder.traces import RecordingTraces
from solver.count import count_orders
from solver.freedom import Limits, freedom_of
from solver.order import Options, OrderResult, order_recording
from solver.pairs import Order, tally
from solver.problem import Verdict
from solver.unfiltered import iter_problems

STRATA = ("cycles:100000", "none")
_MEMORY, _LIMIT, _NODES = 8 << 20, 40_000_000, 10**9
#: Regions up to this many operations are asked how sure their order is, each and all within so many seconds.
_MOST_OPS, _REGION_S, _ALL_S = 3000, 2.0, 15.0


def _recordings(cores: int, scratch: Path) -> Iterator[tuple[str, str, Recording]]:
    for program in sorted((FIRMWARE / "x86_64").glob("*.elf")):
        for strata in STRATA:
            folder = scratch / f"{program.stem}-{cores}-{strata.replace(':', '-')}"
            options = RecordOptions(
                cores=cores,
                seed=1,
                strata=StrataPolicy.parse(strata),
                memory_bytes=_MEMORY,
                limit=_LIMIT,
                input=b"corebraid\n",
            )
            try:
                record(program, folder, X86_64, options, lambda _: None)
            except CorebraidError:
                continue
            yield program.stem, strata, Recording.open(folder)


def _ordered(recording: Recording, timeout_s: float) -> tuple[OrderResult, float]:
    began = time.perf_counter()
    result = order_recording(
        RecordingTraces(recording),
        recording.path / "order.cert",
        recording.manifest.id,
        Options(timeout_s=timeout_s, nodes=_NODES),
    )
    return result, time.perf_counter() - began


@dataclass
class _Sure:
    """How sure the orders of some regions are. digits: log10 of the number of orders, of all together."""

    regions: int = 0
    must: int = 0
    may: int = 0
    undecided: int = 0
    digits: float = 0.0
    exact: bool = True

    @property
    def may_share(self) -> str:
        """May pairs in percent of all that conflict, and those left undecided."""
        pairs = self.must + self.may + self.undecided
        if not pairs:
            return "-"
        left = f" ({100 * self.undecided / pairs:.2g}% undecided)" if self.undecided else ""
        return f"{100 * self.may / pairs:.2g}%{left}"

    @property
    def orders(self) -> str:
        """The number of orders."""
        if not self.regions:
            return "-"
        at_least = "" if self.exact else "at least "
        return f"{at_least}{10**self.digits:.0f}" if self.digits < 3 else f"{at_least}1e{self.digits:.0f}"


def _sure(recording: Recording) -> _Sure:
    sure, until = _Sure(), time.perf_counter() + _ALL_S
    for _, problem in iter_problems(RecordingTraces(recording)):
        if not 0 < problem.n_ops <= _MOST_OPS or time.perf_counter() > until:
            continue
        limits = Limits(cuts=200_000, seconds=_REGION_S)
        freedom, count = freedom_of(problem, limits), count_orders(problem, limits)
        pairs = tally(freedom)
        sure.regions += 1
        sure.must, sure.may = sure.must + pairs[Order.MUST], sure.may + pairs[Order.MAY]
        sure.undecided += pairs[Order.UNDECIDED]
        sure.digits += math.log10(max(count.orders, 1))
        sure.exact = sure.exact and count.exact
    return sure


def firmware_table(cores: int, timeout_s: float, say: Callable[[str], None]) -> Table:
    """Every program: how much of it is decided, in what time, and how sure."""
    table = Table(
        f"firmware-{cores}",
        f"Every firmware program on {cores} cores: regions decided, seconds for the whole pass, and how sure",
        [
            *(Column(name) for name in ("program", "strata")),
            *(Column(name, ",d") for name in ("events", "to order", "regions", "decided", "largest")),
            Column("seconds", ".2f"),
            Column("asked", ",d"),
            *(Column(name, ">") for name in ("may", "orders")),
        ],
        [
            f"Limit {timeout_s:g} s a region. Largest: operations to order in one region.",
            "Seconds include traced replay of every core and the checker.",
            f"Asked: regions with something to order, of up to {_MOST_OPS:,} operations, asked how sure",
            f"they are, {_REGION_S:g} s each for pairs and count, {_ALL_S:g} s in all. May: of their pairs",
            "that conflict. Orders: of all of these regions together.",
        ],
    )
    with tempfile.TemporaryDirectory(prefix="corebraid-bench-") as scratch:
        for name, strata, recording in _recordings(cores, Path(scratch)):
            say(f"{name}, {cores} cores, strata {strata}")
            result, seconds = _ordered(recording, timeout_s)
            decided = [r for r in result.regions if r.verdict is Verdict.LEGAL]
            if result.verdict is Verdict.ILLEGAL:
                raise RuntimeError(f"{name}: a recording was found illegal")
            say(f"{name}, {cores} cores, strata {strata}: pairs and counts")
            sure = _sure(recording)
            table.add(
                name,
                strata,
                result.counts.total,
                result.counts.unfiltered,
                len(result.regions),
                len(decided),
                max(r.counts.unfiltered for r in result.regions),
                seconds,
                sure.regions,
                sure.may_share,
                sure.orders,
            )
    return table
