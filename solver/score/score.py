"""An order's score: whose bytes its reads see, and how its conflicting pairs stand, against what ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from solver.check.certificate import ORDERED, Block, Certificate
from solver.regions.quiet import Quiet
from solver.regions.traces import Traces
from solver.score.places import CertificatePlaces, TruthPlaces
from solver.score.shared import Accesses, accesses_of, shared_bytes
from solver.score.sources import NOBODY, UNKNOWN, Sources, compare_sources
from solver.score.standing import compare_standing
from solver.score.within import ToOrder, Within, WithinRegions
from solver.sifting.strata import iter_stretches

_NO_END = np.uint64(0xFFFFFFFFFFFFFFFF)


@dataclass(frozen=True)
class Score:
    """What became of the reads of shared bytes, and of the conflicting pairs.

    A byte is shared if several processors (cores, and the agents as one) access it and one of them writes to
    it. reads: accesses that read one. Of them same: every byte comes from the same write as in the truth;
    other: one comes from another; none: the order does not say, because a region has none; changed: one comes
    from another even if writes of what was there before are nobody's source. pairs: accesses of different
    processors in the same region that have a byte in common and of which one writes (strata order the rest);
    as_ran, turned, open: how they stand, open in regions without an order. within: how each region's accesses
    stand among its changes; None if that was not asked.
    """

    reads: int
    same: int
    other: int
    none: int
    changed: int
    pairs: int
    as_ran: int
    turned: int
    open: int
    within: Within | None = None

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "reads": {
                "shared": self.reads, "same": self.same, "other": self.other, "none": self.none,
                "other_change": self.changed,
            },
            "pairs": {
                "conflicting": self.pairs, "as_ran": self.as_ran, "turned": self.turned, "open": self.open,
            },
        }  # fmt: skip

    def lines(self) -> list[str]:
        """In words, a line for the reads and one for the pairs."""
        if not self.reads:
            first = "no shared reads"
        else:
            other = f"{self.other:,} another{_share(self.other, self.reads)}"
            first = f"{self.reads:,} shared reads: {self.same:,} have the source that they had, {other}"
            if self.changed:
                first += f", {self.changed:,} of another change{_share(self.changed, self.reads)}"
            first += f", {self.none:,} none" if self.none else ""
        if not self.pairs:
            return [first, "no conflicting pairs"]
        turned = f"{self.turned:,} the other way round{_share(self.turned, self.pairs)}"
        second = f"{self.pairs:,} conflicting pairs: {self.as_ran:,} stand as they ran, {turned}"
        return [first, second + (f", {self.open:,} in no order" if self.open else "")]


def _share(part: int, whole: int) -> str:
    return f" ({100 * part / whole:.2g}%)" if part else ""


def score_certificate(
    traces: Traces,
    certificate: Certificate,
    slices: Iterable[tuple[NDArray[np.int64], NDArray[np.uint64]]],
    *,
    within: bool = False,
    to_order: ToOrder | None = None,
    apart: int = NOBODY,
) -> Score:
    """Hold a certificate's order, which must be legal, against the order that ran.

    slices: batches of (stream int64 (n,), end uint64 (n,)), as `checker.check_slices` takes them. Both orders
    must be legal; rows are read twice, a region is held at a time. within: whether each region is judged by
    itself, too (`solver.score.within`); to_order: of which bytes, in each region, something is to be ordered;
    None: of all; apart: the processor that is not judged. Raises FormatError if the certificate is not for
    these traces or cannot be read, OrderError if an order leaves rows out.
    """
    if (certificate.head.n_streams, certificate.head.n_regions) != (traces.n_streams, len(traces.strata) + 1):
        raise FormatError("a certificate for another recording", remedy="order the recording again")
    sizes = traces.memory_bytes, traces.n_streams, traces.buffered
    judge = WithinRegions(*sizes, to_order, apart) if within else None
    return _Scorer(traces, slices, judge).run(certificate)


class _Scorer:
    """The walk over all regions."""

    def __init__(
        self,
        traces: Traces,
        slices: Iterable[tuple[NDArray[np.int64], NDArray[np.uint64]]],
        judge: WithinRegions | None,
    ) -> None:
        n, self._buffered = traces.n_streams, traces.buffered
        self._traces, self._n = traces, n
        cuts = np.ascontiguousarray(traces.strata, np.uint64).reshape(-1, n)
        cuts = np.concatenate([cuts, np.full((1, n), _NO_END)])
        self._truth = TruthPlaces(slices, cuts, self._buffered)
        self._sources = [
            [Sources(traces.memory_bytes, n, self._buffered, changed) for _ in ("ran", "found")]
            for changed in (False, True)
        ]
        self._tally, self._judge = np.zeros(7, np.int64), judge

    def run(self, certificate: Certificate) -> Score:
        marks, blocks = shared_bytes(self._traces), certificate.blocks()
        for region in iter_stretches(self._traces):
            if isinstance(region, Quiet):
                _pass_over(blocks, region)
                continue
            accesses = accesses_of(region, self._n, self._buffered, marks)
            rows = np.array([len(stream) for stream in region.streams], np.int64)
            ran = self._truth.order(region.index, accesses, rows)
            found = _order_of(blocks, accesses, region.index)
            self._region(accesses, ran, found)
            if self._judge is not None:
                self._judge.take(region.index, accesses, ran, found)
        same, other, none, changed, pairs, as_ran, left = self._tally.tolist()
        return Score(
            reads=same + other + none, same=same, other=other, none=none, changed=changed,
            pairs=pairs, as_ran=as_ran, turned=pairs - as_ran - left, open=left,
            within=self._judge.within if self._judge is not None else None,
        )  # fmt: skip

    def _region(self, accesses: Accesses, ran: NDArray[np.int64], found: NDArray[np.int64] | None) -> None:
        begin = np.concatenate([np.zeros(1, np.int64), np.cumsum(accesses.size, dtype=np.int64)])
        compared = []
        for true, said in self._sources:
            was = true.walk(accesses, ran, begin)
            now = said.pass_over(accesses, begin) if found is None else said.walk(accesses, found, begin)
            compared.append(compare_sources(accesses, accesses.placed, begin, was, now, UNKNOWN))
        self._tally[:4] += (*compared[0], compared[1][1])
        pairs, as_ran = compare_standing(
            accesses, ran, ran if found is None else found, self._n - self._buffered, self._buffered > 0
        )
        self._tally[4:] += (pairs, 0, pairs) if found is None else (pairs, as_ran, 0)


def _pass_over(blocks: Iterator[Block], quiet: Quiet) -> None:
    """Take the blocks of regions that have nothing to compare."""
    left = quiet.end - quiet.first
    while left:
        left -= next(blocks).last


def _order_of(blocks: Iterator[Block], accesses: Accesses, region: int) -> NDArray[np.int64] | None:
    """The order of the next region, None if it has none."""
    places = CertificatePlaces(accesses, region)
    for block in blocks:
        if block.status != ORDERED:
            return None
        places.add(block.stream, block.rows)
        if block.last:
            break
    return places.order()
