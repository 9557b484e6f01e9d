"""What is done with one region, in whatever process: sift it, solve it, walk its order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from solver.check.buffered_seams import BufferedWalker
from solver.check.region_walk import RegionWalker
from solver.check.seams import Seam
from solver.regions.hold_rows import holds_of, no_holds, with_agents
from solver.regions.problem import Problem
from solver.regions.region import Region
from solver.regions.rights import begin_rows, rights_of
from solver.regions.traces import Traces
from solver.sifting.boundary import Net, net_values
from solver.sifting.buffered_sift import sift_buffered
from solver.sifting.filters import Chains, Counts, sift
from solver.sifting.granules import find_granules
from solver.sifting.words import WordTable
from solver.tenures.buffered_edges import not_told
from solver.tenures.deduce import Deduced
from solver.tenures.edges import break_rows, row_edges
from solver.tenures.region import with_deduced


@dataclass(frozen=True)
class Sifted:
    """A region's unfiltered events, without values at its two ends, and what its events say of these."""

    problem: Problem
    counts: Counts
    chains: Chains
    net: Net


def sift_region(region: Region, table: WordTable | None = None) -> Sifted:
    """Granules, filters and the region's own part of the boundary values. table: see `find_granules`.

    Raises OrderError."""
    deduced: Deduced | None = None
    shared = _is_shared(region)
    holds = holds_of(region.streams) if shared and not region.tails else no_holds()
    # Under TSO no page is told by holds: the agents' stream is the last one.
    agents = len(region.streams) - 1
    rights = rights_of(with_agents(holds, agents, region.streams[agents]))
    breaks = [begin_rows(rights, stream) for stream in range(len(region.streams))] if len(rights) else []
    if region.tenures is not None and shared:
        deduced = region.tenures.deduced(region, holds)
    if deduced is not None:
        edges = not_told(row_edges(deduced.clocks), deduced.ties)
        told = break_rows(edges, len(region.streams))
        breaks = [np.union1d(*both) for both in zip(told, breaks, strict=True)] if breaks else told
    if breaks:
        given = region.breaks or [np.empty(0, np.int64)] * len(breaks)
        region = region.with_breaks([np.union1d(*both) for both in zip(given, breaks, strict=True)])
    if region.tails:
        problem, counts, chains = sift_buffered(region, table)
    else:
        problem, counts, chains = sift(region, find_granules(region, table))
    if deduced is not None:
        problem = with_deduced(problem, deduced)
    problem = replace(problem, rights=rights)
    return Sifted(problem, counts, chains, net_values(problem))


def _is_shared(region: Region) -> bool:
    """Whether more than one core or agent has rows in the region."""
    first_store = len(region.streams) - len(region.tails)
    cores = {s % first_store for s, rows in enumerate(region.streams) if len(rows)}
    return len(cores) > 1


class Walks:
    """The checker's walk over regions of `traces`; what it needs is made when it is first used."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._walker: RegionWalker | None = None

    def walk(self, region: Region, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Seam:
        """See `RegionWalker.walk`. Raises OrderError."""
        if self._walker is None:
            traces = self._traces
            kind = BufferedWalker if traces.buffered else RegionWalker
            self._walker = kind(traces.memory_bytes, traces.strata, traces.n_streams)
        return self._walker.walk(region, stream, rows)
