"""Where an event stands among rows that come in an order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH, UNCACHED, WRITE
from corebraid.names.event_names import EVENT_REMEDY, EventName
from corebraid.names.streams import streams
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces

Rows = NDArray[np.void]


class EventPlace:
    """Finds an event in rows that come piece by piece, those of its stream in their order. What an event
    without an access is found at is the next row of its stream, and behind all of these the end.

    at: how many rows come before it, where that is known; under TSO it must be (`place_in`). exact: it has
    been found, and is an access."""

    def __init__(self, event: EventName, at: int | None = None) -> None:
        self.event, self._at = event, at
        self._passed = self._seen = 0
        self.found = self.exact = False

    def find(self, rows: Rows) -> int | None:
        """Where in rows (EVENT[n]), which come next, the event is; None: it comes later. Raises UsageError if
        its instruction has not so many accesses."""
        if self._at is not None:
            index = self._at - self._passed
            self._passed += len(rows)
            if index >= len(rows):
                return None
            self.found, self.exact = True, self._is_it(rows[index])
            return index
        mine = self._accesses(rows)
        counts = rows["count"][mine]
        begin = int(np.searchsorted(counts, np.uint64(self.event.count)))
        end = int(np.searchsorted(counts, np.uint64(self.event.count), side="right"))
        number = self.event.number or 0
        if begin + max(number - self._seen, 0) < end:
            self.found = self.exact = True
            return int(mine[begin + max(number - self._seen, 0)])
        self._seen += end - begin
        if end == len(mine):
            return None
        self.check_number()
        self.found = True
        return int(mine[end])

    def _accesses(self, rows: Rows) -> NDArray[np.intp]:
        """Which of the rows may be it, or lie behind it: of its instruction, unless it says which, what it
        accesses, and not that the instruction was fetched."""
        mine = rows["core"] == self.event.stream
        if self.event.number is None:
            fetched = (rows["flags"] & np.uint8(FETCH)) != 0
            mine &= ~(fetched & (rows["count"] == np.uint64(self.event.count)))
        return np.flatnonzero(mine)

    def check_number(self) -> None:
        """All accesses of its instruction have passed. Raises UsageError if its number is not one of them."""
        if self.event.number is not None:
            raise no_such_access(self.event, self._seen)

    def _is_it(self, row: np.void) -> bool:
        return int(row["core"]) == self.event.stream and int(row["count"]) == self.event.count


def no_such_access(event: EventName, accesses: int) -> UsageError:
    """The error of an event whose instruction has not so many accesses."""
    return UsageError(
        "no such access of this instruction",
        expected=f"0 to {accesses - 1}" if accesses else "an instruction with accesses",
        found=event.text,
        remedy=EVENT_REMEDY,
    )


def place_in(pieces: Iterable[Rows], event: EventName, buffered: int) -> EventPlace:
    """Where an event is in rows of a whole braid, which are gone through only under TSO: there a store comes
    when it leaves its core's buffer, behind later loads. buffered: see `RecordingTraces.buffered`. Raises
    UsageError."""
    if not buffered:
        return EventPlace(event)
    passed, seen, later = 0, 0, None
    beyond = [False, False]
    for rows in pieces:
        for k in np.flatnonzero(rows["core"] == event.stream).tolist():
            count = int(rows["count"][k])
            if count == event.count:
                fetched = bool(rows["flags"][k] & np.uint8(FETCH))
                if event.number == seen or (event.number is None and not fetched):
                    return EventPlace(event, passed + k)
                seen += 1
            elif count > event.count:
                later = passed + k if later is None else later
                beyond[_is_store(rows[k])] = True
        passed += len(rows)
        if all(beyond):
            break
    if event.number is not None:
        raise no_such_access(event, seen)
    return EventPlace(event, passed if later is None else later)


def _is_store(row: np.void) -> bool:
    """Whether it went through a store buffer."""
    return int(row["kind"]) == WRITE and not int(row["flags"]) & UNCACHED


def check_event(recording: Recording, event: EventName) -> None:
    """Raises UsageError for an event that the recording cannot have, FormatError."""
    manifest = recording.manifest
    if recording.killed:
        strata = RecordingTraces(recording).strata
        reached = int(strata[-1, event.stream]) - 1 if len(strata) else -1
    elif event.stream == manifest.n_cores:
        return
    else:
        reached = manifest.instructions[event.stream]
    if event.count > reached:
        raise UsageError(
            "no such event: its stream ends before",
            expected=f"a count of at most {reached}" if reached >= 0 else streams(manifest.n_cores),
            found=event.text,
            where=str(recording.path),
            remedy="give an event that 'corebraid trace' shows",
        )
