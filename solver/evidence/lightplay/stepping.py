"""Cores that stand still before instructions whose accesses race, until it is their turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import Divergence
from corebraid.base.rows.event import EVENT, FETCH, UNCACHED
from corebraid.base.rows.record import RECORD
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay
from recorder.replay.driver import STOP, Piece
from recorder.replay.seek import start_of


def with_stops_behind(pieces: Iterable[Piece], stops: Sequence[int]) -> Iterator[Piece]:
    """Frames with a row of kind STOP behind all rows of each count. stops: ascending. So what a core
    receives for an instruction is there where it stands before that."""
    left, held = list(stops), None
    for piece in pieces:
        if held is not None:
            here = [count for count in left if count < int(piece[0]["count"][0])]
            left = left[len(here) :]
            yield _with(held, here)
        held = piece
    if held is not None:
        yield _with(held, [count for count in left if count <= int(held[0]["count"][-1])])


def _with(piece: Piece, stops: list[int]) -> Piece:
    rows, blob = piece
    if not stops:
        return piece
    marks = np.zeros(len(stops), RECORD)
    marks["count"], marks["kind"] = stops, STOP
    return np.insert(rows, np.searchsorted(rows["count"], marks["count"], side="right"), marks), blob


def _of(rows: NDArray[np.void], count: int) -> NDArray[np.void]:
    """The data that the instruction after so many accessed."""
    data = rows["flags"] & np.uint8(UNCACHED | FETCH) == 0
    return rows[(rows["count"] == count) & data]


class SteppedCore(CoreReplay):
    """Replays a core from its own log, with memory that somebody else puts there before each stop's
    instruction. counts: of these instructions, ascending, each once. Begins at the last checkpoint before."""

    def __init__(self, recording: Recording, number: int, counts: Sequence[int]) -> None:
        super().__init__(recording, number, traced=True, start=start_of(recording, number, counts))
        self._counts = counts
        #: The instruction before which it stands; -1: none.
        self.before = -1
        self.failed: Divergence | None = None
        self._going = self.run()
        self.go()

    def _pieces(self) -> Iterator[Piece]:
        return with_stops_behind(super()._pieces(), self._counts)

    def _before(self, kind: int) -> Iterator[NDArray[np.void]]:
        if kind == STOP:
            self.before = self._core.count
            yield self._core.take_trace()
            self.before = -1
        else:
            yield from super()._before(kind)

    def go(self) -> NDArray[np.void]:
        """Execute the instruction before which the core stands, and go on to the next stop, or to the end of
        the log. Returns what the instruction accessed, EVENT[n]. `failed` says where the core did not get
        there, by what the instruction may have done. Raises FormatError."""
        count, found = self.before, np.zeros(0, EVENT)
        try:
            for rows in self._going:
                found = np.concatenate([found, _of(rows, count)])
                if self.before >= 0:
                    break
        except Divergence as error:
            self.failed = error
            found = np.concatenate([found, _of(self._core.take_trace(), count)])
        return found

    def put(self, address: int, value: bytes) -> None:
        """Its memory holds this."""
        memory, end = self._core.core.memory, address + len(value)
        if memory[address:end].tobytes() != value:
            memory[address:end] = np.frombuffer(value, np.uint8)
            self._core.core.forget_code(address, end)

    @property
    def instructions(self) -> int:
        """Instructions so far."""
        return self._core.count
