"""Store buffers under TSO, as tasks whose steps are commits: what those touch, and what loads from them do.

A store to a watched word is issued in a step of its core, which touches nothing of others, and is made in a
step of the buffer, which comes after. A load that the buffer answers conflicts with the commit of the store
that it sees, and with nothing else: behind that the load would look at memory. Both need the bytes to be
mapped all the same: that is a use of their places (`steps.PLACE`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.exhaustive.observing import uses_in
from corebraid.study.exhaustive.racing import Words
from corebraid.study.exhaustive.steps import PLACE, Footprint, Key
from corebraid.study.exhaustive.trace import Clock
from emu.board.board import Board
from emu.bus.store_buffer import ADDRESS, SIZE
from emu.native.state import CORE_AT
from emu.schedule.stepped import BUFFER
from recorder.files.collectors import Rows


@dataclass(frozen=True)
class Held:
    """A store to a watched word that is buffered. number: among those of its core, from 1."""

    number: int
    address: int
    size: int

    def uses(self) -> dict[Key, bool]:
        """The bytes that it changes."""
        return dict.fromkeys(range(self.address, self.address + self.size), True)


@dataclass
class _Core:
    """One core's buffer. issued: of each of its stores to watched words the step that did. commits: the steps
    in which they committed. drained: the core's steps that had to begin with the buffer empty, by their
    numbers among its steps. steps: how many steps the core has made."""

    issued: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    drained: list[int] = field(default_factory=list)
    steps: int = 0


@dataclass(frozen=True)
class Stored:
    """Where a core's step stands: its core, its number among those of the core, and how many stores to
    watched words the core had issued by then. task: whose step it is. at_once: what it has stored in its
    event, a kernel for it or itself, was memory at once."""

    core: int
    number: int
    issued: int
    task: int
    at_once: bool = False


@dataclass(frozen=True)
class Committed:
    """When stores to words that nobody watches have committed for sure. stored: of each step; None: a commit.
    drained: of each core, see `_Core`."""

    stored: Sequence[Stored | None]
    drained: Sequence[Sequence[int]]

    def before(self, step: int, late: int, clock: Clock) -> bool:
        """Whether what was stored in a core's step, behind its event if late, has committed before a step
        with this clock: a later store of the core has, or it has waited until its buffer was empty."""
        stored = self.stored[step]
        assert stored is not None
        if stored.at_once and not late:
            return clock.get(stored.task, 0) >= stored.number
        if clock.get(BUFFER + stored.core, 0) > stored.issued:
            return True
        drained = self.drained[stored.core]
        at = bisect_right(drained, stored.number)
        return at < len(drained) and clock.get(stored.task, 0) >= drained[at]


class Accesses(NamedTuple):
    """Of a step. events: the core's to watched words, EVENT[n]. kernel: a kernel's for it. plain: whether the
    step's event has stored anywhere, but atomically."""

    events: Rows
    kernel: Rows
    plain: bool


class StoreBuffers:
    """The buffers of a board's cores. watched: the words whose accesses are events, ascending."""

    def __init__(self, board: Board, watched: Words) -> None:
        self._board, self._watched = board, watched
        self._cores = [_Core() for _ in board.cores]
        self._stored: list[Stored | None] = []
        #: Of the core whose step is under way: what its buffer held before it, and whether it had to be
        #: empty.
        self._held: list[Held] = []
        self._drains = False
        #: How many of its stores to watched words must have committed before it, since they had to make room.
        self._awaited = 0

    def begin(self, core: int) -> None:
        """A core, or its buffer, is about to make a step."""
        self._held = self._holds(core)
        words = self._board.cores[core].words
        self._drains = words[CORE_AT.drains] == words[CORE_AT.count] + 1
        self._awaited = 0
        if words[CORE_AT.room] == words[CORE_AT.count] + 1:
            later = self._board.cores[core].rows_since(words[CORE_AT.room_for])
            self._awaited = len(self._cores[core].issued) - len(self._watched_spans(later))

    @property
    def made_room(self) -> bool:
        """Whether the step under way had to wait until there was room."""
        return self._awaited > 0

    def _holds(self, core: int) -> list[Held]:
        """The stores to watched words that a core's buffer holds, the oldest first."""
        spans = self._watched_spans(self._board.cores[core].held_rows())
        number = len(self._cores[core].commits)
        return [Held(number + k, *span) for k, span in enumerate(spans, 1)]

    def _watched_spans(self, rows: NDArray[np.uint64]) -> list[tuple[int, int]]:
        spans = [(int(row[ADDRESS]), int(row[SIZE])) for row in rows]
        return [span for span in spans if self._is_watched(*span)]

    def _is_watched(self, address: int, size: int) -> bool:
        low, high = np.searchsorted(
            self._watched, np.array([address >> 3, (address + size + 7) >> 3], np.uint64)
        )
        return bool(low < high)

    def commit(self, core: int, index: int) -> tuple[Footprint, int]:
        """The buffer's step is over: what it touched, and the step since which it could be made."""
        held, buffer = self._held[0], self._cores[core]
        buffer.commits.append(index)
        self._stored.append(None)
        return Footprint({**held.uses(), _key(core, held): True}), buffer.issued[held.number - 1]

    def step(
        self, core: int, task: int, index: int, accesses: Accesses
    ) -> tuple[dict[Key, bool], set[Key], bool, int]:
        """The step of a core's task is over. Returns what it has used of watched words (`Footprint`), whether
        it has issued stores to some, and the step since which it could be made."""
        events, kernel, plain = accesses
        buffer = self._cores[core]
        keys, may = uses_in(np.concatenate([events[events["kind"] == RMW], kernel]))
        for address, size in events[events["kind"] == READ][["addr", "size"]].tolist():
            keys |= self._read(core, address, size)
        written = events[events["kind"] == WRITE]
        stores = len(written)
        for address, size in written[["addr", "size"]].tolist():
            keys |= _places(address, size)
        buffer.issued += [index] * stores
        buffer.steps += 1
        if self._drains:
            buffer.drained.append(buffer.steps)
        at_once = bool(self._drains) and not plain
        self._stored.append(Stored(core, buffer.steps, len(buffer.issued), task, at_once))
        # Those that had to commit within a step, which is a doubt, were none of the buffer's steps.
        awaited = len(buffer.commits) if self._drains else min(self._awaited, len(buffer.commits))
        since = buffer.commits[awaited - 1] if awaited else -1
        return keys, may, stores > 0, since

    def _read(self, core: int, address: int, size: int) -> dict[Key, bool]:
        for held in reversed(self._held):
            if held.address < address + size and address < held.address + held.size:
                return {_key(core, held): False, **_places(address, size)}
        return dict.fromkeys(range(address, address + size), False)

    def committed(self) -> Committed:
        """What is known at the end."""
        return Committed(self._stored, [buffer.drained for buffer in self._cores])


def _places(address: int, size: int) -> dict[Key, bool]:
    return {(PLACE, byte): False for byte in range(address, address + size)}


def _key(core: int, held: Held) -> Key:
    return ("store", core, held.number)


def seen_in(events: Rows) -> dict[Key, bool]:
    """The bytes that a core's loads have looked at, whoever answered. events: EVENT[n]."""
    return {
        byte: False
        for address, size in events[events["kind"] == READ][["addr", "size"]].tolist()
        for byte in range(address, address + size)
    }
