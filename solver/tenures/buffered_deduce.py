"""What the tenures of a region prove under TSO (`solver.tenures.deduce`): there a commit is the write that
takes a line from others, and a core's own commits belong to its tenure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.regions.problem import LOSSES, NOTHING, TENURES
from solver.regions.program_order import core_rows
from solver.regions.traces import Traces
from solver.tenures.buffered_causes import Taken, apply_takers, make_taken
from solver.tenures.buffered_clocks import make_buffered_clocks, of_rows
from solver.tenures.buffered_lines import BufferedLines, Followed, Ties, ties_of
from solver.tenures.buffered_losses import Times, apply_alone_times, make_times, none_noted, noted
from solver.tenures.buffered_misses import parts_before
from solver.tenures.buffered_placed import LossMatcher
from solver.tenures.buffered_scan import BufferedBegins, BufferedScanner
from solver.tenures.clocks import CHANGED, CYCLE, Clocks, Places, close
from solver.tenures.contents import apply_contents, make_contents
from solver.tenures.deduce import Deduced, take_too_long
from solver.tenures.foreign import apply_foreign
from solver.tenures.misses import apply_misses
from solver.tenures.scan import first_loss
from solver.tenures.spans import no_spans
from solver.tenures.syncs import learn_syncs

if TYPE_CHECKING:
    from solver.regions.region import Region, RowSource


@dataclass(frozen=True)
class BufferedTenures:
    """Where the tenures of a region begin under TSO, core by core, and what finds the lines that matter.
    by_writes: whether a miss proves a foreign write. by_losses: whether the cores have noted what
    they lost."""

    begins: Sequence[BufferedBegins]
    lines: BufferedLines
    by_writes: bool
    by_losses: bool = False

    def deduced(self, region: Region, _: object = None) -> Deduced:
        """What the tenures prove of the region's rows. Raises OrderError as `program_order.core_rows`."""
        n_cores = len(self.begins)
        cores = [core_rows(region, core) for core in range(n_cores)]
        ties = [ties_of(rows, begins) for rows, begins in zip(cores, self.begins, strict=True)]
        lines, found = self.lines.follow(region, self.begins, cores, ties)
        known = self._known(region, lines, found, ties, self.by_losses and self.by_writes)
        return replace(known, clocks=of_rows(known.clocks, 2 * n_cores + 1))

    def _known(
        self,
        region: Region,
        lines: NDArray[np.int64],
        found: Followed,
        ties: list[Ties],
        by_losses: bool,
    ) -> Deduced:
        """What is deduced; without losses if these contradict the rows, and nothing if the rest does."""
        n_cores = len(self.begins)
        # Without them not even where they stand is told: that may be what contradicts.
        losses = noted(found, self.begins if by_losses else (), n_cores)
        losses += [none_noted()] * (n_cores - len(losses))
        clocks, places = make_buffered_clocks(found, self.begins, ties, len(lines), losses)
        learn_syncs(region.places, n_cores, clocks, buffered=True)
        close(clocks)
        times = None
        if by_losses:
            alone, holds = make_times(found, self.begins, losses, clocks, len(lines))
            times = alone, holds, make_taken(found, self.begins, losses, lines)
        before = parts_before(found, n_cores) if self.by_writes else None
        rounds, wrong = _apply_rules(found, clocks, places, len(lines), before, times)
        if wrong and by_losses:
            known = self._known(region, lines, found, ties, by_losses=False)
            return replace(known, dropped=max(known.dropped, LOSSES))
        if wrong:
            clocks.clock[:] = 0
        dropped = TENURES if wrong else NOTHING
        return Deduced(clocks, len(found.parts.last_write), rounds, dropped, ties)


def _apply_rules(
    found: Followed,
    clocks: Clocks,
    places: Places,
    n_lines: int,
    before: NDArray[np.int64] | None,
    times: tuple[Times, Times, Taken] | None,
) -> tuple[int, bool]:
    """The rules to a fixed point, or until that takes too long. Returns (rounds, whether they contradict each
    other or the rows)."""
    contents = make_contents(found.tenures, places, n_lines)
    owners = 1 + (clocks.clock.shape[1] - 1) // 4
    rounds, wrong = 0, False
    while not wrong:
        rounds += 1
        clocks.state[CHANGED] = 0
        apply_foreign(found.tenures, places, clocks)
        close(clocks)
        if times is not None:
            alone, holds, taken = times
            wrong = apply_alone_times(alone, holds, owners, clocks) >= 0
            close(clocks)
            wrong = wrong or apply_takers(taken, alone, owners, clocks) >= 0
            close(clocks)
        wrong = wrong or apply_contents(found.tenures, places, clocks, contents, no_spans()) >= 0
        close(clocks)
        if before is not None and not wrong:
            wrong = apply_misses(found.tenures, places, clocks, before) >= 0
            close(clocks)
        wrong = wrong or bool(clocks.state[CYCLE])
        if not clocks.state[CHANGED] or take_too_long(rounds, len(found.parts.last_write), clocks):
            break
    return rounds, wrong


def buffered_scanner_of(traces: Traces, core: int) -> BufferedScanner:
    """`scanner_of` under TSO."""
    losses = None
    if traces.has_losses:
        lost, records = traces.losses(core), traces.records(core)
        losses = LossMatcher(lost, records, traces.memory_bytes, traces.line_bytes)
    return BufferedScanner(traces.records(core), traces.memory_bytes, traces.line_bytes, losses)


class BufferedTenuresOfRegions:
    """`TenuresOfRegions` under TSO."""

    def __init__(self, traces: Traces) -> None:
        n_cores = traces.buffered
        self._scanners = [buffered_scanner_of(traces, core) for core in range(n_cores)]
        self._lines = BufferedLines(traces.memory_bytes, traces.line_bytes, n_cores)
        self._by_writes, self._by_losses = traces.misses_prove_writes, traces.has_losses

    def of_region(self, index: int, streams: Sequence[RowSource]) -> BufferedTenures:
        """Those of the next region. streams: its rows."""
        n_cores = len(self._scanners)
        begins = [
            scanner.scan((streams[core].pieces(), streams[n_cores + 1 + core].pieces()))
            for core, scanner in enumerate(self._scanners)
        ]
        return BufferedTenures(begins, self._lines, self._by_writes, self._by_losses)

    @property
    def next_loss(self) -> int | None:
        """As of `TenuresOfRegions`."""
        return first_loss(self._scanners)

    def pass_over(self, regions: int) -> None:
        """As of `TenuresOfRegions`."""
        for scanner in self._scanners:
            scanner.pass_over(regions)
