"""`python -m bench figure6`: seconds to analyse a million memory accesses, by the bound of strata, for the
paper's formula and for ours (MICRO 2009, Figure 6); and what repeated reads cost the formula.

The paper builds Algorithm 1 from all unfiltered events. Here repeated equal reads of a core are one event
before any engine sees them (`solver.sifting`); `uncollapsed` undoes that. Seconds are processor time of the
engines, formula and search, z3's process among them, without replay, sifting or that process's start. All go
by values alone, as the paper does.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from bench.ordering_traces import problem_of
from bench.programs import image, recorded
from bench.report import Cell, Column, Table, publish
from recorder.capture.firmware import RecordOptions
from recorder.capture.strata_policy import StrataPolicy
from recorder.replay.traces import RecordingTraces
from solver.cuts.search import solve_cut
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.boundary import Forward
from solver.sifting.filters import Counts, unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions
from solver.sifting.words import WordTable
from solver.smt.engine import solve_smt
from solver.smt.process import PROCESSES

PROGRAMS = ("uts", "matmul", "radix", "nqueens", "laplace", "ring")
CORES = 4
#: Bounds by cycles do not change the run; those by downgrades change where slices end.
BOUNDS = ("cycles:250", "cycles:500", "downgrades:10")
#: Strata are cut between slices: these are short, so that so small bounds can be kept.
SLICE = 100
#: Wall seconds for a region.
TIMEOUT_S = 3.0
ALL_EVENTS = "paper, all events"
Solve = Callable[[Problem, float], Solution]


@dataclass(frozen=True)
class Engine:
    """What a region is given to. collapsed: repeated equal reads are one event."""

    name: str
    solve: Solve
    collapsed: bool = True


def _paper(problem: Problem, timeout_s: float) -> Solution:
    return solve_smt(problem, timeout_s=timeout_s, encoding="paper")


def _chain(problem: Problem, timeout_s: float) -> Solution:
    return solve_smt(problem, timeout_s=timeout_s, encoding="chain")


def _cut(problem: Problem, timeout_s: float) -> Solution:
    return solve_cut(problem, timeout_s=timeout_s)


ENGINES = (
    Engine(ALL_EVENTS, _paper, collapsed=False),
    Engine("paper", _paper),
    Engine("chain", _chain),
    Engine("cut", _cut),
)


def _processor_seconds() -> float:
    """Of this process, of those that z3 works in, and of those that have ended."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for pid in PROCESSES.idle:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def timed(engine: Engine, problem: Problem, timeout_s: float) -> tuple[Solution, float]:
    """An engine's answer, and the processor seconds that it took."""
    if not PROCESSES.idle:
        # z3's process starts, and loads what it needs, with this.
        solve_smt(problem_of([[(0, 0, 1)]], [0], [1]), timeout_s=600)
    began = _processor_seconds()
    solution = engine.solve(problem, timeout_s)
    return solution, _processor_seconds() - began


@dataclass
class Spent:
    """What an engine needed for all regions. late: regions that it did not decide; what it spent on them
    counts."""

    seconds: float = 0.0
    late: int = 0
    operations: int = 0

    def add(self, problem: Problem, solution: Solution, seconds: float) -> None:
        """One region more. Raises AssertionError if it is said to have no order: it was recorded."""
        assert solution.verdict is not Verdict.ILLEGAL, f"region {problem.region}: {solution.engine}"
        self.seconds += seconds
        self.late += solution.verdict is Verdict.UNDECIDED
        self.operations += problem.n_ops


@dataclass
class Measured:
    """One program with one bound. regions: all of them. asked: those in which there is something to order.
    largest: most unfiltered events in a region, as the paper counts them. both: seconds of the formula in
    the regions that it decided with all events and with repeated reads collapsed: those two."""

    program: str
    bound: str
    accesses: int
    regions: int = 0
    asked: int = 0
    events: int = 0
    largest: int = 0
    spent: dict[str, Spent] = field(default_factory=dict)
    both: list[float] = field(default_factory=lambda: [0.0, 0.0])

    def rate(self, name: str) -> Cell:
        """Seconds for a million accesses; marked as a lower bound where regions were not decided."""
        spent = self.spent[name]
        seconds = spent.seconds / self.accesses * 1e6
        return f">{seconds:.1f} ({spent.late} late)" if spent.late else seconds


def uncollapsed(region: Region) -> Region:
    """The region with every row an event of its own: no repeated read is joined to the one before it."""
    return region.with_breaks([np.arange(len(rows)) for rows in region.streams])


@dataclass(frozen=True)
class Given:
    """A region as engines get it, by values alone, its values at both ends filled in, with repeated reads
    collapsed and not."""

    collapsed: Problem
    every: Problem
    counts: Counts


def given(traces: Traces) -> Iterator[Given]:
    """All regions of a recording, first to last."""
    forward, words = Forward(traces.initial()), WordTable()
    for region in iter_regions(traces):
        granules = find_granules(region, words)
        problem, counts = unfiltered(region, granules)
        problem, _ = forward.advance(region, granules, problem)
        apart = uncollapsed(region)
        every, _ = unfiltered(apart, find_granules(apart, words))
        yield Given(problem, every.bounded(problem.initial, problem.final), counts)


def measure(measured: Measured, regions: Iterable[Given], timeout_s: float) -> Measured:
    """Give every region to every engine."""
    measured.spent = {engine.name: Spent() for engine in ENGINES}
    for one in regions:
        measured.regions += 1
        if not one.collapsed.n_ops:
            continue
        measured.asked += 1
        events = one.counts.unfiltered + one.counts.collapsed
        measured.events += events
        measured.largest = max(measured.largest, events)
        found: dict[str, tuple[Solution, float]] = {}
        for engine in ENGINES:
            problem = one.collapsed if engine.collapsed else one.every
            if measured.asked == 1 and not engine.name.startswith("paper"):
                engine.solve(problem, timeout_s)  # kernels are loaded
            found[engine.name] = timed(engine, problem, timeout_s)
            measured.spent[engine.name].add(problem, *found[engine.name])
        pair = found[ALL_EVENTS], found["paper"]
        if all(solution.verdict is Verdict.LEGAL for solution, _ in pair):
            measured.both = [was + more for was, (_, more) in zip(measured.both, pair, strict=True)]
    return measured


def of_program(program: Path, name: str, bound: str, timeout_s: float) -> Measured:
    """Record a program with a bound of strata, and let all engines order it."""
    options = RecordOptions(cores=CORES, seed=1, longest_slice=SLICE, strata=StrataPolicy.parse(bound))
    with recorded(program, options) as made:
        measured = Measured(name, bound, made.total("accesses"))
        return measure(measured, given(RecordingTraces(made.recording)), timeout_s)


def rate_table(found: list[Measured], timeout_s: float) -> Table:
    """Figure 6."""
    table = Table(
        "figure6",
        "Seconds to analyse a million memory accesses (paper's Figure 6)",
        [Column("program"), Column("bound"), Column("k accesses", ".0f"), Column("regions", "d")]
        + [Column("to order", "d"), Column("largest", "d")]
        + [Column(engine.name, ".1f") for engine in ENGINES],
        [
            f"Small images, {CORES} cores, slices of at most {SLICE} instructions, seed 1; filtered and "
            "unfiltered accesses count, as in the paper. Processor seconds of the engines alone.",
            "to order: regions with unfiltered events. largest: most of those in one region, repeated reads "
            "among them.",
            f"> and late: so many regions were not decided within {timeout_s:g} s (wall); what was spent on "
            "them counts, and the figure is a lower bound.",
            "The paper: about 15 s on average (Yices; bounds of its own choice, 8 and 16 cores).",
        ],
    )
    for one in found:
        rates = [one.rate(engine.name) for engine in ENGINES]
        table.add(one.program, one.bound, one.accesses / 1000, one.regions, one.asked, one.largest, *rates)
    return table


def collapsing_table(found: list[Measured], timeout_s: float) -> Table:
    """The paper's formula of all unfiltered events, and of those left once repeated reads are one."""
    table = Table(
        "collapsing",
        "The paper's formula with and without repeated reads",
        [
            Column("program"),
            Column("bound"),
            Column("events, all", "d"),
            Column("collapsed", "d"),
            Column("seconds, all", ".2f"),
            Column("collapsed", ".2f"),
            Column("late, all", "d"),
            Column("collapsed", "d"),
        ],
        [
            "events: indivisible operations on shared locations, in all regions.",
            f"seconds: of the regions that were decided both ways within {timeout_s:g} s each (wall); late: "
            "those that were not.",
        ],
    )
    for one in found:
        every, fewer = one.spent[ALL_EVENTS], one.spent["paper"]
        table.add(
            one.program, one.bound, every.operations, fewer.operations, *one.both, every.late, fewer.late
        )
    return table


def main(
    console: Console,
    programs: tuple[str, ...] = PROGRAMS,
    bounds: tuple[str, ...] = BOUNDS,
    timeout_s: float = TIMEOUT_S,
) -> list[Table]:
    """Measure and publish."""
    found: list[Measured] = []
    with console.status("kernels are being loaded") as status:
        for name in programs:
            for bound in bounds:
                status.update(f"{name}, {bound}")
                found.append(of_program(image(name), name, bound, timeout_s))
    tables = [rate_table(found, timeout_s), collapsing_table(found, timeout_s)]
    publish("figure6", tables, console)
    return tables
