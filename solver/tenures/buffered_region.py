"""The tenures of a region under TSO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from solver.regions.traces import Traces
from solver.tenures.buffered_deduce import BufferedTenures
from solver.tenures.buffered_lines import BufferedLines
from solver.tenures.buffered_placed import LossMatcher
from solver.tenures.buffered_scan import BufferedScanner
from solver.tenures.region import first_of

if TYPE_CHECKING:
    from solver.regions.region import RowSource


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
        return first_of(self._scanners)

    def pass_over(self, regions: int) -> None:
        """As of `TenuresOfRegions`."""
        for scanner in self._scanners:
            scanner.pass_over(regions)
