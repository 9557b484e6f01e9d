"""When the next stratum is due, and how long nobody need look for it."""

from __future__ import annotations

from emu.board.board import Board
from emu.board.stretch import NEVER, Room
from emu.native.state import CORE_AT, MACHINE_AT
from recorder.capture.strata_policy import StrataPolicy


class StrataTimer:
    """Of a machine by a policy. most: strata that there may be."""

    def __init__(self, policy: StrataPolicy, board: Board, most: int) -> None:
        self._policy, self._board, self._most = policy, board, most
        #: What the fastest core's clock shows, and rights that cores were given, when the next is due.
        self._clock, self._events = policy.cycles or NEVER, policy.events or NEVER

    def bounded(self, length: int) -> int:
        """No slice is longer than what lies between two strata, so that they come about when they are due."""
        return min(length, self._policy.cycles or length)

    def room(self, instructions: int) -> Room:
        """Until then nothing is due. instructions: when something else is."""
        events = max(0, self._events - self._given()) if self._policy.events else NEVER
        return Room(instructions, self._clock, self._policy.cycles or NEVER, events)

    def due(self, strata: int) -> bool:
        """Whether one is to be cut now, between two slices, which there are so many of."""
        policy, words = self._policy, self._board.words
        due = False
        if policy.downgrades:
            due, words[MACHINE_AT.want_stratum] = bool(words[MACHINE_AT.want_stratum]), 0
        if policy.cycles and (now := self._board.clock()) >= self._clock:
            self._clock = (now // policy.cycles + 1) * policy.cycles
            due = True
        if policy.events:
            given = self._given()
            due = due or given >= self._events
            self._events = given + policy.events if due else self._events
        return due and strata < self._most

    def _given(self) -> int:
        return sum(core.words[CORE_AT.misses] + core.words[CORE_AT.upgrades] for core in self._board.cores)
