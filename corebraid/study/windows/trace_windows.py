"""Windows of a trace: the rows around an event, or from one event up to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from corebraid.base.errors import UsageError
from corebraid.names.event_names import EventName
from corebraid.names.places import Rows
from corebraid.names.selection import Selection
from corebraid.study.windows.moments import EventPlace, place_in
from recorder.files.reader import Recording, iter_agent_trace
from recorder.replay.seek import accesses

Piece = tuple[Rows, bool]
#: Rows before and after an event, if nobody says how many.
AROUND = 10
#: Instructions before an event from which on its stream is traced, and how many times as many if that were
#: not enough rows.
_LEAD, _FURTHER = 1 << 12, 16


@dataclass(frozen=True)
class Window:
    """What of a trace is wanted: `rows` rows before and after the event `around`, or those from `first` up to
    (not) `until`, None for the trace's ends."""

    around: EventName | None = None
    rows: int = AROUND
    first: EventName | None = None
    until: EventName | None = None


def braid_window(
    pieces: Callable[[], Iterator[Piece]], window: Window, wanted: Selection, buffered: int
) -> Iterator[Piece]:
    """The window of a braid. pieces: makes all its rows anew. Raises UsageError, and what `pieces` raises."""

    def place(event: EventName) -> EventPlace:
        return place_in((rows for rows, _ in pieces()), event, buffered)

    if window.around is not None:
        return around(pieces(), place(window.around), wanted, window.rows)
    ends = [None if event is None else place(event) for event in (window.first, window.until)]
    return between(pieces(), ends[0], ends[1], wanted)


def stream_window(recording: Recording, event: EventName, wanted: Selection, n: int) -> Iterator[Piece]:
    """n rows of an event's stream before and after it, which is traced from somewhat before the event. Raises
    UsageError, FormatError, Divergence."""
    if event.stream == recording.manifest.n_cores:
        yield from around(_in_order(iter_agent_trace(recording)), EventPlace(event), wanted, n)
        return
    back = _LEAD
    while True:
        first = max(event.count - back, 0)
        rows = accesses(recording, event.stream, first or None)
        found = list(around(_in_order(rows), EventPlace(event), wanted, n))
        before = sum(int((piece["count"] < np.uint64(event.count)).sum()) for piece, _ in found)
        if not first or before >= n:
            yield from found
            return
        back *= _FURTHER


def _in_order(pieces: Iterable[Rows]) -> Iterator[Piece]:
    return ((rows, True) for rows in pieces)


def around(pieces: Iterable[Piece], place: EventPlace, wanted: Selection, n: int) -> Iterator[Piece]:
    """The last n wanted rows before an event, the event's own if it is an access, the first n wanted
    after."""
    before, held, left = deque[Piece](), 0, n
    for rows, has_order in pieces:
        kept = wanted.mask(rows)
        if place.found:
            after = rows[kept][:left]
        else:
            at = place.find(rows)
            mine = rows[: len(rows) if at is None else at]
            before.append((mine[kept[: len(mine)]], has_order))
            held += len(before[-1][0])
            while held - len(before[0][0]) >= n:
                held -= len(before.popleft()[0])
            if at is None:
                continue
            yield from _last(before, held - n)
            before.clear()
            if place.exact:
                yield rows[at : at + 1], has_order
            behind = at + place.exact
            after = rows[behind:][kept[behind:]][:left]
        left -= len(after)
        if len(after):
            yield after, has_order
        if not left:
            return
    if not place.found:
        place.check_number()
        yield from _last(before, held - n)


def _last(pieces: Iterable[Piece], left_out: int) -> Iterator[Piece]:
    """Pieces without their first rows."""
    for rows, has_order in pieces:
        skipped = min(max(left_out, 0), len(rows))
        left_out -= skipped
        if skipped < len(rows):
            yield rows[skipped:], has_order


def between(
    pieces: Iterable[Piece], first: EventPlace | None, until: EventPlace | None, wanted: Selection
) -> Iterator[Piece]:
    """The wanted rows from an event on, and up to another. Raises UsageError if that is the earlier one."""
    for rows, has_order in pieces:
        begin = 0 if first is None or first.found else first.find(rows)
        end = None if until is None else until.find(rows)
        if first is not None and until is not None and end is not None and (begin is None or begin > end):
            raise UsageError(
                "a window that ends before it begins",
                found=f"{first.event.text} comes behind {until.event.text}",
                remedy="exchange the two",
            )
        if begin is not None:
            mine = rows[begin:end]
            yield mine[wanted.mask(mine)], has_order
        if until is not None and until.found:
            return
    for place in (first, until):
        if place is not None and not place.found:
            place.check_number()
