"""Who wrote bytes last before a moment, in the recording's order: one pass over the braid, up to that
moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from corebraid.base.wording import Call, Option, Phrase
from corebraid.names.event_names import EventName, EventNumbers
from corebraid.names.selection import AddressRange
from corebraid.study.windows.moments import EventPlace, place_in
from corebraid.study.writes.rows import Access, Rows, are_writes, of_memory
from recorder.files.reader import Recording
from solver.regions.traces import Events

Piece = tuple[Events, bool]


@dataclass
class Standing:
    """Bytes at a moment. last: of each the last write before it, None where there is none. event: the access
    that the moment is right before, None where it is the end of a stream, or of the run."""

    span: AddressRange
    last: list[Access | None] = field(default_factory=list)
    event: Access | None = None

    def __post_init__(self) -> None:
        self.last = self.last or [None] * (self.span.high - self.span.low)

    def write(self, access: Access) -> None:
        """One more write."""
        low, high = max(access.first, self.span.low), min(access.end, self.span.high)
        for k in range(low - self.span.low, high - self.span.low):
            self.last[k] = access

    def copy(self) -> Standing:
        """As it is now."""
        return Standing(self.span, list(self.last), self.event)


@dataclass(frozen=True)
class Query:
    """Who wrote these bytes last before an event, None: the end?"""

    span: AddressRange
    event: EventName | None


def standings(
    pieces: Callable[[], Iterator[Piece]],
    queries: Sequence[Query],
    buffered: int,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Standing]:
    """The answer to each query, by one pass over the braid up to the last event. pieces: makes the rows of
    the braid anew. buffered: cores that have store buffers, which take a pass for each event besides; a load
    of one of these sees its core's earlier stores too. progress: called with the rows looked at. Raises
    UsageError if there is no such event, and what `pieces` raises."""
    places = [
        None if one.event is None else place_in((rows for rows, _ in pieces()), one.event, buffered)
        for one in queries
    ]
    walks = [_Walk(one.span, place, bool(buffered)) for one, place in zip(queries, places, strict=True)]
    passed, numbers = 0, EventNumbers(bool(buffered))
    for rows, has_order in pieces():
        named = numbers.of(rows)
        for walk in walks:
            if not walk.over:
                walk.take(rows, named, has_order)
        passed += len(rows)
        progress(passed)
        if all(walk.over for walk in walks):
            break
    for place in places:
        if place is not None and not place.found:
            place.check_number()
    return [walk.answer for walk in walks]


class _Walk:
    """The pass. over: nothing that follows matters."""

    def __init__(self, span: AddressRange, place: EventPlace | None, buffered: bool) -> None:
        self._span, self._place, self._buffered = span, place, buffered
        self._now = Standing(span)
        self._own_end: Standing | None = None
        self.passed, self.over = 0, False

    @property
    def answer(self) -> Standing:
        """What has been found. Of a moment behind all that its core did: as it was after the last of that."""
        place = self._place
        return self._own_end if place is not None and not place.found and self._own_end else self._now

    def take(self, rows: Rows, numbers: NDArray[np.int64], has_order: bool) -> None:
        """Rows that come next, and by which number the event of each is called."""
        wanted = np.flatnonzero(of_memory(rows, self._span) & are_writes(rows))
        writes = [
            Access(rows[k].copy(), int(numbers[k]), self.passed + k, has_order) for k in wanted.tolist()
        ]
        if self._place is None:
            self._write(writes)
        elif self._place.found:
            self._own_stores(rows, writes)
        else:
            self._before(self._place, rows, writes, numbers.tolist(), has_order)
        self.passed += len(rows)

    def _before(
        self, place: EventPlace, rows: Rows, writes: list[Access], numbers: list[int], has_order: bool
    ) -> None:
        at = place.find(rows)
        if at is None:
            mine = np.flatnonzero(rows["core"] == place.event.stream)
            last = self.passed + int(mine[-1]) if len(mine) else -1
            self._write([one for one in writes if one.at <= last])
            if len(mine):
                self._own_end = self._now.copy()
            self._write([one for one in writes if one.at > last])
            return
        self._write([one for one in writes if one.at < self.passed + at])
        if not has_order:
            raise OrderError(
                f"the region of event {place.event.text} has no order",
                where=f"region {int(rows['stratum'][at])}",
                remedy=Phrase("order it with more time: ", Call("order", "REC", (Option("region_timeout"),))),
            )
        if place.exact:
            self._now.event = Access(rows[at].copy(), numbers[at], self.passed + at, has_order)
        self.over = not self._buffered or (place.exact and bool(are_writes(rows[at : at + 1])[0]))
        if not self.over:
            self._own_stores(rows[at + 1 :], [one for one in writes if one.at > self.passed + at])

    def _own_stores(self, rows: Rows, writes: list[Access]) -> None:
        """Under TSO: stores of the event's core that come before it in the program, and leave the store
        buffer after it."""
        assert self._place is not None
        event = self._place.event
        limit = self._limit(event)
        self._write([one for one in writes if int(one.row["core"]) == event.stream and _of(one.row) < limit])
        stores = np.flatnonzero((rows["core"] == event.stream) & are_writes(rows))
        self.over = any(_of(rows[k]) >= limit for k in stores.tolist())

    def _limit(self, event: EventName) -> tuple[int, int]:
        """Where the event's instruction is in its core's program order: (count, sequence number)."""
        access = self._now.event
        return (event.count, 0) if access is None else _of(access.row)

    def _write(self, writes: list[Access]) -> None:
        for one in writes:
            self._now.write(one)


def _of(row: np.void) -> tuple[int, int]:
    return int(row["count"]), int(row["seq"])


def order_of(recording: Recording) -> Callable[[], Iterator[Piece]]:
    """What makes the rows of the recording's braid anew. Raises FormatError if it has no order."""
    from corebraid.study.certificates import certificate_of
    from corebraid.study.tracing import whole_braid

    certificate = certificate_of(recording)
    return lambda: whole_braid(recording, certificate)
