"""Names of events: what is printed of one, and accepted wherever a command asks for one.

An event is CORE:COUNT, the first access of its instruction, or CORE:COUNT.N where that makes several: the
core ('dev' for devices, 'kernel' for that of a Linux guest), the instruction count and the number of the
access, from 0, among all rows that `corebraid trace --fetches` has of the instruction. A core may be written
as tables show it, c2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import FETCH
from corebraid.names.streams import parse_stream, streams

Rows = NDArray[np.void]

EVENT_REMEDY = "write CORE:COUNT or CORE:COUNT.N, such as 2:20375 or 2:20375.1"


@dataclass(frozen=True)
class EventName:
    """stream: the core's number, or the number of cores for agents. number: None if not given."""

    stream: int
    count: int
    number: int | None
    text: str

    @classmethod
    def parse(cls, text: str, n_cores: int) -> EventName:
        """From 'CORE:COUNT' or 'CORE:COUNT.N'. Raises UsageError."""
        core, colon, rest = text.partition(":")
        count, dot, number = rest.partition(".")
        stream = parse_stream(core[1:] if core[:1] == "c" else core, n_cores)
        digits = (count, number if dot else "0")
        if not colon or not all(d.isascii() and d.isdigit() and len(d) < 20 for d in digits):
            raise UsageError("not an event", found=repr(text), remedy=EVENT_REMEDY)
        if stream is None:
            raise UsageError(
                "no such core in this recording", expected=streams(n_cores), found=text, remedy=EVENT_REMEDY
            )
        return cls(stream, int(count), int(number) if dot else None, text)


def event_name(stream: int, count: int, number: int, agents: str, n_cores: int) -> str:
    """What an event is called. number: of the access in its instruction. agents: what their stream is
    called."""
    core = agents if stream == n_cores else str(stream)
    return f"{core}:{count}" + (f".{number}" if number else "")


class EventNumbers:
    """Numbers of accesses in their instructions, of rows that come piece by piece, those of a stream in its
    order. buffered: under TSO, where a store comes when it leaves its buffer. every: the number is never left
    out."""

    def __init__(self, buffered: bool = False, *, every: bool = False) -> None:
        self._every = every
        counted = _Seen if buffered else _Runs
        self._all, self._data = counted(), counted()

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """int64[n]: the number by which each of rows (EVENT[n]) is called, 0 where its instruction makes no
        access before it: then the number may be left out."""
        numbers = self._all.of(rows)
        if self._every:
            return numbers
        data = np.flatnonzero((rows["flags"] & np.uint8(FETCH)) == 0)
        first = self._data.of(rows[data]) == 0
        numbers[data[first]] = 0
        return numbers


class _Runs:
    """How many rows of the same stream and instruction count came before, where these come one after the
    other."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Of rows (EVENT[n]), which come next: int64[n]."""
        found = np.zeros(len(rows), np.int64)
        for stream in np.unique(rows["core"]).tolist():
            mine = np.flatnonzero(rows["core"] == stream)
            counts = rows["count"][mine]
            starts = np.flatnonzero(np.concatenate([[True], counts[1:] != counts[:-1]]))
            nth = np.arange(len(mine)) - np.repeat(starts, np.diff(np.append(starts, len(mine))))
            last, seen = self._last.get(stream, (-1, 0))
            if last == int(counts[0]):
                nth[: starts[1] if len(starts) > 1 else len(mine)] += seen
            self._last[stream] = int(counts[-1]), int(nth[-1]) + 1
            found[mine] = nth
        return found


class _Seen:
    """The same where others may come in between."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], int] = {}

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Of rows (EVENT[n]), which come next: int64[n]."""
        found = np.zeros(len(rows), np.int64)
        keys = zip(rows["core"].tolist(), rows["count"].tolist(), strict=True)
        for k, key in enumerate(keys):
            found[k] = self._seen.get(key, 0)
            self._seen[key] = int(found[k]) + 1
        return found
