"""What ordering a recording comes to: of a region's problem, of a region, of the whole recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.check.checker import CheckReport
from solver.regions.problem import Verdict
from solver.sifting.filters import Counts


@dataclass(frozen=True)
class Answer:
    """What became of a region's problem. stream, rows: int64, the runs that place all of its rows, if LEGAL.

    engine, seconds, reason: as in `Solution`.
    """

    verdict: Verdict
    engine: str
    seconds: float
    reason: str
    stream: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class RegionResult:
    """One region: its event rows by what became of them, and the engine's answer.

    engine: the one that answered, "" where nothing was left to solve. reason: why it is undecided.
    """

    region: int
    counts: Counts
    verdict: Verdict
    engine: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class OrderResult:
    """A whole recording. regions: from the first to the last. check: the checker's report on the
    certificate; every region whose verdict is LEGAL passed. kept: the certificate that was there orders more,
    and is there still."""

    regions: list[RegionResult]
    counts: Counts
    check: CheckReport
    kept: bool = False

    @property
    def verdict(self) -> Verdict:
        """ILLEGAL if any region is, else UNDECIDED if any is, else LEGAL."""
        found = {region.verdict for region in self.regions}
        for verdict in (Verdict.ILLEGAL, Verdict.UNDECIDED):
            if verdict in found:
                return verdict
        return Verdict.LEGAL
