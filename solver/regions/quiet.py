"""Runs of regions in which nothing happened: a program that sleeps, or computes in registers, goes past
strata all the same.

A region has its price in every pass, whatever is in it. Such a run is one thing to a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corebraid.base.rows.event import EVENT
from solver.regions.region import Region, Rows
from solver.regions.sync_order import no_syncs


@dataclass(frozen=True)
class Quiet:
    """Regions `first` to `end` - 1. In these no stream has a row, no agent met a core, no core lost a line.
    Memory, threads and tenures are after them what they were before. n_streams, buffered: of `Traces`."""

    first: int
    end: int
    n_streams: int
    buffered: int

    def regions(self) -> Iterator[Region]:
        """Each of them by itself."""
        streams = [Rows()] * self.n_streams
        tails = [np.empty(0, EVENT)] * self.buffered
        syncs = no_syncs(max(self.n_streams - self.buffered - 1, 0))
        for index in range(self.first, self.end):
            yield Region(index, streams, tails, syncs)


#: What the regions of a recording come as: one with rows, or a run of those without.
Stretch = Region | Quiet
