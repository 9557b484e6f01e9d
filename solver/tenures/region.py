"""The tenures of a region, and what they add to its problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from corebraid.base.memory import PAGE_BYTES
from solver.regions.hold_rows import has_one_order
from solver.regions.problem import Problem
from solver.regions.traces import Events, Traces
from solver.tenures.deduce import Deduced, deduce
from solver.tenures.edges import op_edges
from solver.tenures.holds import find_spans
from solver.tenures.lines import HotLines
from solver.tenures.scan import Begins, Scanner, first_loss

if TYPE_CHECKING:
    from solver.regions.hold_rows import HoldRows
    from solver.regions.region import Region, RowSource
    from solver.tenures.buffered_deduce import BufferedTenuresOfRegions


@dataclass(frozen=True)
class RegionTenures:
    """Where the tenures of a region begin, core by core, and what finds the lines that matter. by_writes:
    whether a miss proves a foreign write (`solver.tenures.misses`). by_losses: whether the cores have noted
    all that they lost; unbounded: and lose nothing else; agents_say: and agents whether a core had the line
    alone. untold: see `Traces`."""

    begins: Sequence[Begins]
    lines: HotLines
    by_writes: bool
    by_losses: bool = False
    unbounded: bool = False
    agents_say: bool = False
    untold: Events | None = None

    def deduced(self, region: Region, holds: HoldRows | None = None) -> Deduced | None:
        """What the tenures prove of the region's rows. holds: rows of it. None: nothing that their values do
        not tell, since all lines that matter stand for pages, whose order those tell."""
        hot = self.lines.hot(region, self.begins)
        if holds is not None and self.lines.are_places(hot, holds.address) and has_one_order(holds):
            return None
        lines, tenures, writes = self.lines.find(region, list(self.begins), hot)
        if self.untold is not None and len(self.untold):
            # What came while holds were rows is not known; later records say what is other than that.
            pages = (lines << self.lines.shift) // PAGE_BYTES
            tenures.known[np.isin(pages, self.untold.astype(np.int64))[tenures.line]] = False
        n_rows, spans = [len(rows) for rows in region.streams[: len(self.begins) + 1]], None
        if self.by_losses:
            spans = find_spans(tenures, writes, self.begins, lines, n_rows, self.unbounded, self.agents_say)
        return deduce(tenures, writes, n_rows, len(lines), region.places, self.by_writes, spans)


def scanner_of(traces: Traces, core: int) -> Scanner:
    """What finds the tenures of one core."""
    losses = traces.losses(core) if traces.has_losses else iter(())
    strata = traces.strata[:, core] if traces.whole_pages else None
    return Scanner(traces.records(core), traces.memory_bytes, traces.line_bytes, losses, strata)


def tenures_in(traces: Traces, begins: Sequence[Begins], lines: HotLines) -> RegionTenures:
    """Those of a region of the traces."""
    return RegionTenures(
        begins,
        lines,
        traces.misses_prove_writes,
        traces.has_losses,
        traces.unbounded,
        traces.agents_say_owned,
        traces.untold,
    )


class TenuresOfRegions:
    """The tenures of a recording, region after region."""

    def __init__(self, traces: Traces) -> None:
        n_cores = traces.n_streams - 1
        self._scanners = [scanner_of(traces, core) for core in range(n_cores)]
        self._lines = HotLines(traces.memory_bytes, traces.line_bytes, n_cores)
        self._traces = traces

    @staticmethod
    def of(traces: Traces) -> TenuresOfRegions | BufferedTenuresOfRegions | None:
        """Those of traces, None if they are not to be used."""
        if not traces.line_bytes:
            return None
        if not traces.buffered:
            return TenuresOfRegions(traces)
        from solver.tenures.buffered_deduce import BufferedTenuresOfRegions

        return BufferedTenuresOfRegions(traces)

    def of_region(self, index: int, streams: Sequence[RowSource]) -> RegionTenures:
        """Those of the next region. streams: its rows."""
        begins = [
            scanner.scan(index, rows.pieces()) for scanner, rows in zip(self._scanners, streams, strict=False)
        ]
        return tenures_in(self._traces, begins, self._lines)

    @property
    def next_loss(self) -> int | None:
        """The next region in which a core loses a line, None if none does."""
        return first_loss(self._scanners)

    def pass_over(self, regions: int) -> None:
        """Go on over so many regions without rows or losses, which leave everything as it is."""


def with_deduced(problem: Problem, deduced: Deduced) -> Problem:
    """The problem with the edges that were deduced, beside those it has."""
    more = op_edges(deduced.clocks, problem.stream_ptr, problem.end_row)
    if problem.buffered:
        from solver.tenures.buffered_edges import implied_by

        more = more[~implied_by(problem.edges, more, problem.op_stream, problem.n_streams)]
    told, deduced_too = (edges[:, 0] * problem.n_ops + edges[:, 1] for edges in (problem.edges, more))
    edges = np.concatenate([problem.edges, more[~np.isin(deduced_too, told)]])
    n = len(edges) - len(problem.edges)
    return replace(problem, edges=edges, deduced=n, dropped=deduced.dropped)
