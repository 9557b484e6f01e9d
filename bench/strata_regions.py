"""Unfiltered events of every strata region, for several bounds from one recording (MICRO 2009, Figure 4).

Cycle-bound strata do not change the run, and those of a bound are among those of a bound that divides it:
one recording with the smallest bound gives the regions of all, by joining neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.programs import Clock
from recorder.replay.traces import RecordingTraces
from solver.regions.region import Region, Rows
from solver.sifting.filters import Counts, unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions

#: The paper's four ranges of unfiltered events in a region: up to these, and more.
RANGES = (100, 500, 1000)


@dataclass(frozen=True)
class RegionFacts:
    """One region. downgrades: over all cores."""

    counts: Counts
    downgrades: int

    @property
    def paper_unfiltered(self) -> int:
        """Unfiltered events as the paper counts them: repeated reads included."""
        return self.counts.unfiltered + self.counts.collapsed


def slice_of_cuts(clock: Clock, strata: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each stratum (uint64 (n, cores)) the entry of the clock at that instant."""
    found: NDArray[np.int64] = np.searchsorted(clock.instructions, strata.sum(axis=1, dtype=np.uint64))
    return found


def cuts_of_bound(clock: Clock, at: NDArray[np.int64], bound: int) -> list[int]:
    """Which strata, taken at entries `at` of the clock, a coarser cycle bound would have taken too."""
    cuts, due = [], bound
    for number, now in enumerate(clock.cycles[at].tolist()):
        if now >= due:
            due = (now // bound + 1) * bound
            cuts.append(number)
    return cuts


class _Joined:
    """Regions of one bound, put together from finer ones."""

    def __init__(self, n_streams: int, ends: set[int]) -> None:
        self._ends, self._n = ends, n_streams
        self._rows = [Rows() for _ in range(n_streams)]
        self.facts: list[RegionFacts] = []
        self._downgrades = 0

    def add(self, region: Region, downgrades: int, *, last: bool) -> None:
        """The next finer region."""
        for rows, new in zip(self._rows, region.streams, strict=True):
            for piece in new.pieces():
                rows.append(piece)
        self._downgrades += downgrades
        if last or region.index in self._ends:
            whole = Region(len(self.facts), self._rows)
            _, counts = unfiltered(whole, find_granules(whole))
            self.facts.append(RegionFacts(counts, self._downgrades))
            self._rows, self._downgrades = [Rows() for _ in range(self._n)], 0


def with_downgrades(traces: RecordingTraces, clock: Clock) -> Iterator[tuple[Region, int]]:
    """Every region of the recording, with the downgrades in it."""
    at = slice_of_cuts(clock, traces.strata[:, :-1])
    edges = np.concatenate([[0], clock.downgrades[at].astype(np.int64), [int(clock.downgrades[-1])]])
    for region in iter_regions(traces):
        yield region, int(edges[region.index + 1] - edges[region.index])


def regions_by_bound(
    traces: RecordingTraces, clock: Clock, bounds: tuple[int, ...]
) -> dict[int, list[RegionFacts]]:
    """Facts of all regions, for each cycle bound. The recording's own bound must divide all of them."""
    at = slice_of_cuts(clock, traces.strata[:, :-1])
    joined = {bound: _Joined(traces.n_streams, set(cuts_of_bound(clock, at, bound))) for bound in bounds}
    for region, downgrades in with_downgrades(traces, clock):
        for regions in joined.values():
            regions.add(region, downgrades, last=region.index == len(at))
    return {bound: regions.facts for bound, regions in joined.items()}


def own_regions(traces: RecordingTraces, clock: Clock) -> list[RegionFacts]:
    """Facts of the recording's own regions."""
    return [
        RegionFacts(unfiltered(region, find_granules(region))[1], downgrades)
        for region, downgrades in with_downgrades(traces, clock)
    ]


def distribution(sizes: list[int]) -> list[int]:
    """How many regions have less than 100 unfiltered events, 100-500, 500-1000, more than 1000."""
    ranges = np.searchsorted(RANGES, sizes, side="right")
    return [int(np.count_nonzero(ranges == number)) for number in range(len(RANGES) + 1)]
