"""Who may have written bytes last before a moment: the exact set, over all legal orders of a recording.

Regions are gone through as `pairs` does, up to that of the moment. Of the bytes that it shares with others
the possible writers come from a search over its orders (`solver.freedom.sources`); what was there when it
began was written last in the region before that has writes to them. Bytes that belong to one core, or thread,
in a region are written there in its program order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corebraid.names.event_names import EventName
from corebraid.names.selection import AddressRange
from corebraid.study.writes.region_writes import At, Candidate, Touch, breaks_of, find_event, writes_of
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.freedom.freedom import Limits
from solver.freedom.sources import BEGIN, SourceSearch, Spot
from solver.passes.stages import sift_region
from solver.passes.unfiltered import is_unfiltered
from solver.regions.problem import Problem, Verdict
from solver.regions.quiet import Quiet
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.boundary import Forward
from solver.sifting.strata import iter_stretches

#: How sure a possible writer is: a legal order has it, or it is not excluded within the budget.
POSSIBLE, UNDECIDED = "possible", "undecided"


_SYNCED = (
    "the moment is no access to them, and how the calls of the thread that has them alone stand to it is not "
    "looked at"
)


@dataclass
class Possible:
    """Of one byte. writers: by key, the write and how sure it is. initial: how sure it is that nobody wrote
    it; None: somebody did. reason: why this is not all that there is to know, or ''."""

    writers: dict[tuple[int, int, int, int], tuple[Candidate, str]] = field(default_factory=dict)
    initial: str | None = None
    reason: str = ""

    @property
    def exact(self) -> bool:
        """Whether the set is neither too large nor too small."""
        sure = [how for _, how in self.writers.values()] + ([self.initial] if self.initial else [])
        return not self.reason and UNDECIDED not in sure


class _View:
    """A region with writes to the bytes, or with the moment. at: None if the moment comes later."""

    def __init__(
        self, region: Region, problem: Problem, writes: list[Touch], at: At | None, limits: Limits
    ) -> None:
        self.region, self.problem, self.writes, self.at = region, problem, writes, at
        self._limits = limits
        self._search: SourceSearch | None = None
        self._known: dict[tuple[int, ...], Possible] = {}

    def of(self, byte: int) -> Possible:
        """Who may have written a byte last before the moment, or the region's end. `initial`: how sure it is
        that nobody in this region did."""
        touching = [k for k, one in enumerate(self.writes) if _covers(one.candidate.row, byte)]
        shared, reads = self._is_kept(byte), self._event_touches(byte)
        key = (int(shared), int(reads), *touching)
        if key not in self._known:
            writes = [self.writes[k] for k in touching]
            self._known[key] = self._shared(writes) if shared else self._local(writes, reads)
        return self._known[key]

    def _is_kept(self, byte: int) -> bool:
        problem = self.problem
        at = problem.address <= np.uint64(byte)
        return bool((at & (problem.address + problem.size.astype(np.uint64) > np.uint64(byte))).any())

    def _event_touches(self, byte: int) -> bool:
        return self.at is not None and self.at.row is not None and _covers(self.at.row, byte)

    @property
    def search(self) -> SourceSearch:
        """Over the region's orders."""
        self._search = self._search or SourceSearch(self.problem, self._limits)
        return self._search

    # -- bytes that several share ----------------------------------------------------------------------

    def _shared(self, writes: list[Touch]) -> Possible:
        problem = self.problem
        by_op: dict[int, Candidate] = {}
        for one in writes:
            op = self._op(one.stream, one.index)
            assert op is not None
            by_op[op] = one.candidate
        spot = self._spot()
        if problem.buffered and not (spot.is_end or spot.op):
            return _all(writes, "under TSO a moment that is no access to shared bytes is not looked at")
        found = self.search.sources(sorted(by_op), spot)
        if found.verdict is Verdict.ILLEGAL:
            return _all(writes, f"region {self.region.index} has no legal order")
        answer = Possible()
        for op, candidate in by_op.items():
            if op in found.possible or op in found.undecided:
                sure = POSSIBLE if op in found.possible else UNDECIDED
                answer.writers[candidate.key] = candidate, sure
        if BEGIN in found.possible or BEGIN in found.undecided:
            answer.initial = POSSIBLE if BEGIN in found.possible else UNDECIDED
        return answer

    def _spot(self) -> Spot:
        if self.at is None:
            return Spot(is_end=True)
        before, op = self._around(self.at.stream, self.at.index)
        if self.at.row is not None and op is not None and self._is_solid(self.at.row):
            return Spot(after=op, op=True)
        return Spot(before, op)

    def _is_solid(self, row: np.void) -> bool:
        return bool(is_unfiltered(np.array([row]), self.problem)[0])

    def _op(self, stream: int, index: int) -> int | None:
        """The operation of a row, or that which comes next in its stream; None: none does."""
        first, end = self.problem.stream_ptr[stream : stream + 2].tolist()
        op = first + int(np.searchsorted(self.problem.end_row[first:end], index, side="right"))
        return op if op < end else None

    def _around(self, stream: int, index: int) -> tuple[int | None, int | None]:
        """The operations before a row, and of it or behind it."""
        first, end = self.problem.stream_ptr[stream : stream + 2].tolist()
        op = self._op(stream, index)
        before = (end if op is None else op) - 1
        return (before if before >= first else None), op

    # -- bytes of one alone ----------------------------------------------------------------------------

    def _local(self, writes: list[Touch], reads: bool) -> Possible:
        """Nobody but one owner uses the byte in this region."""
        order = self._in_order(writes)
        if order is None:
            return _all(writes, "under TSO bytes of several streams are not looked at")
        if self.at is None:
            return _one(order[-1] if order else None)
        if reads or len({one.stream for one in order} | {self.at.stream}) == 1:
            mine = [one for one in order if self._comes_before(one, order)]
            return _one(mine[-1] if mine else None)
        sure = UNDECIDED if len(self.region.syncs.points) else POSSIBLE
        answer = Possible()
        for k in range(len(order) + 1):
            last = order[k - 1] if k else None
            found = self.search.precedes(self._wishes(last, order[k] if k < len(order) else None))
            how = UNDECIDED if found is None else sure if found else None
            if how is not None and last is not None:
                answer.writers[last.candidate.key] = last.candidate, how
            elif how is not None:
                answer.initial = how
        if len(answer.writers) + (answer.initial is not None) == 1:
            return _certain(answer)
        if not answer.writers and answer.initial is None:
            return _all(writes, "no legal order has the moment")
        answer.reason = _SYNCED if sure == UNDECIDED else ""
        return answer

    def _comes_before(self, one: Touch, order: Sequence[Touch]) -> bool:
        """Whether a write comes before the moment, which is of the same owner."""
        at = self.at
        assert at is not None
        if one.stream == at.stream:
            return one.index < at.index
        places = self._places([(w.stream, w.index) for w in order] + [(at.stream, at.index)])
        return places[one.stream, one.index] < places[at.stream, at.index]

    def _wishes(self, last: Touch | None, then: Touch | None) -> tuple[tuple[int, int], ...]:
        """Pairs of operations that put the moment behind one write, and before the next."""
        spot, wishes = self._spot(), list[tuple[int, int]]()
        if last is not None and spot.after is not None:
            before, op = self._around(last.stream, last.index)
            mine = op if op is not None and self._is_solid(last.candidate.row) else before
            wishes += [] if mine is None else [(mine, spot.after)]
        begins = spot.after if spot.op else spot.before
        if then is not None and begins is not None:
            op = self._op(then.stream, then.index)
            wishes += [] if op is None else [(begins, op)]
        return tuple(wishes)

    def _in_order(self, writes: list[Touch]) -> list[Touch] | None:
        """The writes of one owner as it made them; None if that is not known."""
        if len({one.stream for one in writes}) <= 1:
            return sorted(writes, key=lambda one: one.index)
        if self.problem.buffered:
            return None
        places = self._places([(one.stream, one.index) for one in writes])
        return sorted(writes, key=lambda one: places[one.stream, one.index])

    def _places(self, rows: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """Where rows (stream, index) are in an order that the sync points allow."""
        passed = [0] * len(self.region.streams)
        found, place = dict[tuple[int, int], int](), 0
        for batch in self.region.in_order():
            pieces = batch.pieces
            sizes = (pieces.end - pieces.begin).tolist()
            for stream, n in zip(pieces.stream.tolist(), sizes, strict=True):
                for one in rows:
                    if one[0] == stream and passed[stream] <= one[1] < passed[stream] + n:
                        found[one] = place + one[1] - passed[stream]
                passed[stream] += n
                place += n
        return {one: found.get(one, place) for one in rows}


def _covers(row: np.void, byte: int) -> bool:
    return int(row["addr"]) <= byte < int(row["addr"]) + int(row["size"])


def _one(write: Touch | None) -> Possible:
    if write is None:
        return Possible(initial=POSSIBLE)
    return Possible({write.candidate.key: (write.candidate, POSSIBLE)})


def _certain(only: Possible) -> Possible:
    """Somebody must have written it, and nobody else is left."""
    writers = {key: (candidate, POSSIBLE) for key, (candidate, _) in only.writers.items()}
    return Possible(writers, None if only.initial is None else POSSIBLE)


def _all(writes: list[Touch], reason: str) -> Possible:
    """Nothing is excluded."""
    every = {one.candidate.key: (one.candidate, UNDECIDED) for one in writes}
    return Possible(every, UNDECIDED, reason)


# -- regions -------------------------------------------------------------------------------------------------


def possible_writers(
    recording: Recording,
    span: AddressRange,
    event: EventName | None,
    constraints: str,
    limits: Limits,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Possible]:
    """Of each byte, who may have written it last before an event; None: at the end of the run. limits: of a
    region. progress: called with how many regions are done. Raises OrderError, FormatError, Divergence."""
    traces = RecordingTraces(recording, constraints=constraints)
    return possible_in(traces, span, event, limits, progress)


def possible_in(
    traces: Traces,
    span: AddressRange,
    event: EventName | None,
    limits: Limits,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Possible]:
    """`possible_writers` of any traces."""
    held: dict[int, _View] = {}
    last: _View | None = None
    for view in _views(traces, span, event, limits, progress):
        if view.at is not None:
            last = view
            break
        for one in view.writes:
            row = one.candidate.row
            for byte in range(max(int(row["addr"]), span.low), min(_end(row), span.high)):
                held[byte] = view
    return [_of_byte(byte, last, held.get(byte)) for byte in range(span.low, span.high)]


def _end(row: np.void) -> int:
    return int(row["addr"]) + int(row["size"])


def _of_byte(byte: int, last: _View | None, before: _View | None) -> Possible:
    if last is None:
        return Possible(initial=POSSIBLE) if before is None else before.of(byte)
    found = last.of(byte)
    if found.initial is None or before is None:
        return found
    earlier, writers = before.of(byte), dict(found.writers)
    for key, (candidate, sure) in earlier.writers.items():
        writers.setdefault(key, (candidate, sure if found.initial == POSSIBLE else UNDECIDED))
    # In its region somebody has written it.
    return Possible(writers, None, found.reason or earlier.reason)


def _views(
    traces: Traces,
    span: AddressRange,
    event: EventName | None,
    limits: Limits,
    progress: Callable[[int], None],
) -> Iterator[_View]:
    """The regions with writes, and at last that of the event."""
    target = len(traces.strata) + 1 if event is None else _region_of(traces, event)
    forward = Forward(traces.initial())
    for region in iter_stretches(traces):
        if isinstance(region, Quiet):
            # Nothing happens there; an event without an access may be in one.
            if target < region.end:
                return
            progress(region.end)
            continue
        if region.index > target:
            return
        progress(region.index + 1)
        writes = [one for stream in range(len(region.streams)) for one in writes_of(region, stream, span)]
        at = None if region.index < target or event is None else find_event(region, event)
        sifted = sift_region(region.with_breaks(breaks_of(region, writes, at)))
        problem, _ = forward.compose(region, sifted.problem, sifted.chains, sifted.net)
        if writes or at is not None:
            yield _View(region, problem, writes, at, limits)


def _region_of(traces: Traces, event: EventName) -> int:
    """The region that an event is of, by the strata of its stream."""
    strata: NDArray[np.uint64] = traces.strata
    return int(np.searchsorted(strata[:, event.stream], np.uint64(event.count), side="right"))
