"""The paper's measurements as tables, its own figures beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bench.report import Cell, Column, Table
from bench.smt_times import Solved
from bench.strata_regions import RegionFacts, distribution
from solver.regions.problem import Solution, Verdict

if TYPE_CHECKING:
    from bench.paper import Facts

#: Slowdown of recording that the paper reports, plain and prioritised, by cores (section 5.4).
PAPER_SLOWDOWN = {8: (0.013, 0.0099), 16: (0.0173, 0.0117)}

_CYCLES = ("cycles:10000", "cycles:100000", "cycles:1000000")
_DOWNGRADES = ("downgrades:10", "downgrades:100", "downgrades:1000")
_SHORT = {
    "cycles:10000": "c 10k", "cycles:100000": "c 100k", "cycles:1000000": "c 1M",
    "downgrades:10": "d 10", "downgrades:100": "d 100", "downgrades:1000": "d 1000",
}  # fmt: skip


def input_table(facts: list[Facts]) -> Table:
    """Figure 7a: the program input log."""
    table = Table(
        "input-log",
        "Program input log: bytes for 1000 memory accesses (paper's Figure 7a)",
        [Column("program"), Column("cores", "d"), Column("M accesses", ".1f")]
        + [Column(name, ".1f") for name in ("misses/1000, 32k:4:32", "bytes, 32k:4:32", "bytes, unbounded")]
        + [Column("digests, c 100k", ".2f"), Column("on disk, 32k:4:32", ".1f")],
        [
            "Bytes are before compression. On disk: all core logs with digests and strata every 10,000 "
            "cycles, compressed.",
            "Digests are ours, for checking a replay; the paper has none. It gives Figure 7a as a plot only.",
            "An access is one data access as the core makes it: an atomic or a 16-byte one counts as two.",
        ],
    )
    for fact in facts:
        assert fact.finite is not None
        assert fact.unbounded is not None
        kilo = fact.accesses / 1000
        table.add(
            fact.program,
            fact.cores,
            fact.accesses / 1e6,
            fact.misses / kilo,
            fact.finite.input / kilo,
            fact.unbounded.input / kilo,
            fact.unbounded.digests / kilo,
            fact.finite.disk / kilo,
        )
    return table


def strata_table(facts: list[Facts]) -> Table:
    """Figure 8: the strata log."""
    policies = _CYCLES + _DOWNGRADES
    table = Table(
        "strata-log",
        "Strata log: bytes for 1000 memory accesses (paper's Figure 8)",
        [Column("program"), Column("cores", "d"), *(Column(_SHORT[name], ".3f") for name in policies)],
        [
            "c: a stratum every so many cycles; d: after so many downgrades on a core. 32k:4:32 caches.",
            "The paper: about 10 bytes on 8 cores, a tenth of ReRun's race log.",
        ],
    )
    for fact in facts:
        cells: list[Cell] = [
            fact.strata[name] / fact.strata_accesses[name] * 1000 if name in fact.strata else None
            for name in policies
        ]
        table.add(fact.program, fact.cores, *cells)
    return table


def removed(regions: list[RegionFacts]) -> float:
    """Share of accesses that are local or read-only in their region."""
    total = sum(region.counts.total for region in regions)
    return 1 - sum(region.paper_unfiltered for region in regions) / total


def filter_table(facts: list[Facts]) -> Table:
    """Figure 5b: what filtering removes."""
    policies = _CYCLES + _DOWNGRADES
    table = Table(
        "filtering",
        "Accesses that filtering removes, % (paper's Figure 5b)",
        [Column("program"), Column("cores", "d"), *(Column(_SHORT[name], ".2f") for name in policies)],
        [
            "The paper, at d 100: over 99% for every program but Ocean.",
            "Repeated reads are not counted as removed.",
        ],
    )
    for fact in facts:
        cells: list[Cell] = [
            removed(fact.regions[name]) * 100 if name in fact.regions else None for name in policies
        ]
        table.add(fact.program, fact.cores, *cells)
    return table


def region_table(facts: list[Facts]) -> Table:
    """Figure 4: unfiltered events of a region."""
    table = Table(
        "regions",
        "Regions by their unfiltered events (paper's Figure 4)",
        [Column("program"), Column("cores", "d"), Column("strata")]
        + [Column(name, "d") for name in ("<100", "100-500", "500-1000", ">1000")]
        + [Column("most", "d"), Column("collapsed: <100", "d")]
        + [Column(name, "d") for name in ("100-500 ", "500-1000 ", ">1000 ")]
        + [Column("most ", "d")],
        [
            "Left: as the paper counts. Right: after a core's repeated identical reads (spin loops) are one "
            "event, which is what our engines get.",
            "The paper's aim: less than 500 a region. Its figure is a plot; in its d 100 (SPECjbb) no "
            "region has more than 1000.",
        ],
    )
    for fact in facts:
        for name, regions in fact.regions.items():
            sizes = [region.paper_unfiltered for region in regions]
            fewer = [region.counts.unfiltered for region in regions]
            counts = distribution(sizes), distribution(fewer)
            table.add(fact.program, fact.cores, _SHORT[name], *counts[0], max(sizes), *counts[1], max(fewer))
    return table


def correlation(regions: list[RegionFacts], collapsed: bool) -> float | None:
    """Pearson's r of downgrades and unfiltered events over the regions; None where one does not vary."""
    downgrades = np.array([region.downgrades for region in regions], float)
    events = np.array(
        [region.counts.unfiltered if collapsed else region.paper_unfiltered for region in regions], float
    )
    if len(regions) < 3 or not downgrades.std() or not events.std():
        return None
    return float(np.corrcoef(downgrades, events)[0, 1])


def correlation_table(facts: list[Facts]) -> Table:
    """Figure 5a: downgrades against unfiltered events."""
    table = Table(
        "correlation",
        "Downgrades against unfiltered events of a region, Pearson's r (paper's Figure 5a)",
        [Column("program"), Column("cores", "d")]
        + [Column(name, ".2f") for name in ("c 10k", "c 100k", "collapsed, c 10k", "collapsed, c 100k")],
        ['The paper: "significant correlation", as a plot.'],
    )
    for fact in facts:
        table.add(
            fact.program,
            fact.cores,
            *(
                correlation(fact.regions[name], collapsed)
                for collapsed in (False, True)
                for name in _CYCLES[:2]
            ),
        )
    return table


def _outcome(solution: Solution) -> Cell:
    if solution.verdict is Verdict.LEGAL:
        return solution.seconds
    return f"{solution.reason or solution.verdict.value} ({solution.seconds:.1f})"


def smt_table(solved: list[tuple[str, Solved]], timeout_s: float) -> Table:
    """Figure 7b: seconds for a region against its unfiltered events."""
    table = Table(
        "smt",
        "Seconds to order one region, 8 cores (paper's Figure 7b)",
        [Column("program"), Column("unfiltered", "d"), Column("to order", "d")]
        + [Column(name, ".3f") for name in ("SMT, paper's encoding", "SMT, chain encoding", "cut search")],
        [
            f"Wall seconds; an engine that gave up is named with its time (limit {timeout_s:g} s).",
            "unfiltered: as the paper counts; to order: after repeated reads are collapsed.",
            "The paper (Yices, Ocean, Apache and SPECjbb): about 5 s for about 500 unfiltered accesses.",
        ],
    )
    for name, one in solved:
        engines = (_outcome(solution) for solution in (one.paper, one.chain, one.cut))
        table.add(name, one.unfiltered, one.problem.n_ops, *engines)
    return table


def slowdown_table(facts: list[Facts]) -> Table:
    """Figure 9: modelled slowdown of recording."""
    table = Table(
        "slowdown",
        "Modelled slowdown of recording, % (paper's Figure 9)",
        [Column("program"), Column("cores", "d")]
        + [Column(name, ".2f") for name in ("plain", "prioritised", "paper: plain", "paper: prioritised")],
        [
            "Model: `bench/slowdown.py`. One memory link of 16 bytes a cycle for all cores, 32k:4:32 caches.",
            "The paper's worst: Ocean on 16 cores, 12.65% plain, 10.06% prioritised.",
        ],
    )
    for fact in facts:
        assert fact.slowdown is not None
        table.add(
            fact.program, fact.cores, fact.slowdown.plain * 100, fact.slowdown.prioritised * 100, None, None
        )
    for cores in sorted({fact.cores for fact in facts}):
        found = [fact.slowdown for fact in facts if fact.cores == cores and fact.slowdown]
        paper: list[Cell] = [share * 100 for share in PAPER_SLOWDOWN.get(cores, ())] or [None, None]
        means = (np.mean([s.plain for s in found]), np.mean([s.prioritised for s in found]))
        table.add("mean", cores, *(float(mean) * 100 for mean in means), *paper)
    return table


def all_tables(facts: list[Facts], solved: list[tuple[str, Solved]], timeout_s: float) -> list[Table]:
    """Every table of the paper's section 5."""
    tables = [table(facts) for table in (input_table, strata_table, filter_table, region_table)]
    return [*tables, correlation_table(facts), smt_table(solved, timeout_s), slowdown_table(facts)]
