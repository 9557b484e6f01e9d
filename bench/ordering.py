"""How fast regions are ordered, by what their values tell, against the paper's formulas in z3.

Regions of simulated cores (`bench.ordering_traces`) are given whole to an engine; preparation counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from rich.console import Console

from bench import tso_traces
from bench.ordering_traces import CLASSES, region
from bench.report import Column, Table, publish
from solver.cuts.search import solve_cut
from solver.engines.decide import solve_auto
from solver.passes.answers import Options, solve
from solver.regions.problem import Problem, Solution, Verdict
from solver.smt.engine import solve_smt

CORES = (2, 4, 8)
SMALL, LARGE, TSO_LARGE = 500, 20_000, 10_000
#: (events, cores) of the regions of unique values.
HUGE = ((100_000, 4), (100_000, 8), (1_000_000, 4), (1_000_000, 8))
_GRANULES, _LARGE_GRANULES = 16, 64
_NODES = 10**9

Engine = Callable[[Problem], Solution]


def _milliseconds(engine: Engine, problems: list[Problem]) -> tuple[list[float], int]:
    """Milliseconds of each problem, and how many were left undecided. Every one has a legal order."""
    times, undecided = [], 0
    for problem in problems:
        began = time.perf_counter()
        verdict = engine(problem).verdict
        times.append((time.perf_counter() - began) * 1e3)
        undecided += verdict is Verdict.UNDECIDED
        if verdict is Verdict.ILLEGAL:
            raise RuntimeError("a legal region was found illegal")
    return times, undecided


def _shown(times: list[float], undecided: int) -> str:
    """Median and worst; how many were not decided."""
    least = f"{statistics.median(times):.3g} / {max(times):.3g}"
    return least + (f" ({undecided} undecided)" if undecided else "")


def small_table(seeds: int, timeout_s: float, say: Callable[[str], None]) -> Table:
    """Regions of SMALL events: every engine."""

    def auto(problem: Problem) -> Solution:
        return solve_auto(problem, timeout_s=timeout_s, nodes=_NODES)

    def cut(problem: Problem) -> Solution:
        return solve_cut(problem, timeout_s=timeout_s, nodes=_NODES)

    def paper(problem: Problem) -> Solution:
        return solve_smt(problem, timeout_s=timeout_s, encoding="paper")

    table = Table(
        "small",
        f"One region of {SMALL} events over {_GRANULES} granules: milliseconds, median / worst",
        [Column("values"), Column("cores", "d")]
        + [Column(name, ">") for name in ("auto", "cut search alone", "paper's encoding in z3")],
        [
            f"{seeds} seeds each, the paper's encoding 1; limit {timeout_s:g} s a region.",
            "All have a legal order.",
        ],
    )
    for kind in CLASSES:
        for cores in CORES:
            say(f"{SMALL} events, {kind}, {cores} cores")
            problems = [
                region(kind, cores=cores, events=SMALL, granules=_GRANULES, seed=seed)
                for seed in range(seeds)
            ]
            table.add(
                kind,
                cores,
                _shown(*_milliseconds(auto, problems)),
                _shown(*_milliseconds(cut, problems)),
                _shown(*_milliseconds(paper, problems[:1])),
            )
    return table


def large_table(seeds: int, timeout_s: float, say: Callable[[str], None]) -> Table:
    """One region, no strata at all."""
    table = Table(
        "large",
        f"One large region over {_LARGE_GRANULES} granules: milliseconds, median / worst",
        [Column("values"), Column("cores", "d"), Column("events", ",d"), Column("auto", ">"), Column("by")],
        [f"{seeds} seeds each, 1 from 100,000 events on; limit {timeout_s:g} s a region."],
    )
    sizes = [(kind, 8, LARGE) for kind in CLASSES] + [("unique", cores, events) for events, cores in HUGE]
    for kind, cores, events in sizes:
        say(f"{events:,} events, {kind}, {cores} cores")
        engines: set[str] = set()

        def auto(problem: Problem, engines: set[str] = engines) -> Solution:
            solution = solve_auto(problem, timeout_s=timeout_s, nodes=_NODES)
            engines.add(solution.engine)
            return solution

        problems = [
            region(kind, cores=cores, events=events, granules=_LARGE_GRANULES, seed=seed)
            for seed in range(seeds if events == LARGE else 1)
        ]
        times = _shown(*_milliseconds(auto, problems))
        table.add(kind, cores, events, times, ", ".join(sorted(engines)))
    return table


def tso_table(seeds: int, timeout_s: float, say: Callable[[str], None]) -> Table:
    """Under TSO, where half of the events are loads and no fence helps."""
    table = Table(
        "tso",
        f"One region under TSO over {_LARGE_GRANULES} granules: milliseconds, median / worst",
        [Column("values"), Column("cores", "d"), Column("events", ",d"), Column("auto", ">"), Column("by")],
        [f"{seeds} seeds each; limit {timeout_s:g} s a region. Store buffers of 8 stores."],
    )
    for kind in tso_traces.CLASSES:
        for cores, events in ((2, SMALL), (4, SMALL), (8, SMALL), (8, TSO_LARGE)):
            say(f"TSO, {events:,} events, {kind}, {cores} cores")
            engines: set[str] = set()

            def auto(problem: Problem, engines: set[str] = engines) -> Solution:
                solution = solve(problem, Options(timeout_s=timeout_s, nodes=_NODES))
                engines.add(solution.engine)
                return solution

            problems = [
                tso_traces.buffered_region(
                    kind, cores=cores, events=events, granules=_LARGE_GRANULES, seed=seed
                )
                for seed in range(seeds)
            ]
            times = _shown(*_milliseconds(auto, problems))
            table.add(kind, cores, events, times, ", ".join(sorted(engines)))
    return table


def warm_up() -> None:
    """Compile, or load, every kernel that the measurements use."""
    for kind in CLASSES:
        problem = region(kind, cores=2, events=40, granules=6)
        solve_auto(problem, timeout_s=60, nodes=1)
        solve_cut(problem, timeout_s=60)
        solve_smt(problem, timeout_s=60, encoding="paper")


def main(console: Console, seeds: int = 8, timeout_s: float = 5.0) -> list[Table]:
    """Measure and publish."""
    with console.status("kernels are being loaded") as status:
        warm_up()
        tables = [
            small_table(seeds, timeout_s, status.update),
            large_table(max(seeds // 4, 1), timeout_s, status.update),
            tso_table(max(seeds // 4, 1), timeout_s, status.update),
        ]
    publish("ordering", tables, console)
    return tables
