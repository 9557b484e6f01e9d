"""Partial replay of the group (OPR, Algorithm 4): the members' accesses in an order that the order log
allows, values from the value logs, and after its writes each member looks for readers of them.

Members are replayed alone, each from its own value log, so that no order can make them other than they were.
One that the order log keeps waiting for itself (wrong orders only) is let go, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, READ, RMW
from recorder.evidence.opr.accesses import ACCESS, GOT, LOAD, AccessStream
from recorder.evidence.opr.shadow import Shadow, grow_shadow, learn, new_shadow
from solver.evidence.opr.memories import (
    Written,
    differs,
    grow_written,
    match_written,
    new_written,
    note_written,
    put_written,
    room_for,
)
from solver.evidence.opr.order_log import OrderLog

Rows = NDArray[np.void]

#: Where a member is in what it is told: the next of its waits, checks and new values.
_WAIT, _CHECK, _VALUE = range(3)
_ENDED, _WAITS, _NO_ROOM = 0, 1, 2
_BLOCK_BYTES = np.uint64(64)

#: Counts of a member: accesses done, waits, orders given up, logged reads, reads at which shared memory is
#: otherwise than what the member read (line 13 of Algorithm 4).
COUNTS = ("accesses", "waits", "given_up", "logged", "differing")
_ACCESSES, _WAITED, _GIVEN_UP, _LOGGED, _DIFFERING = range(5)


class Told(NamedTuple):
    """What the logs tell of a member. waits: WAIT[], orders that it waits for. checks: CHECK[], the
    write-check log of what it writes. values: NEW_VALUE[], of all members, from first_of[member] on (int64[r
    + 1])."""

    waits: Rows
    checks: Rows
    values: Rows
    first_of: NDArray[np.int64]


class Memories(NamedTuple):
    """view: what a member has seen. written: what it wrote. shared: memory that all write to. initial:
    uint8[memory_bytes], memory before the run."""

    view: Shadow
    written: Written
    shared: Shadow
    initial: NDArray[np.uint8]


class ComeTo(NamedTuple):
    """How far the replay is. done: int64[r], what each member has done last. at: int64[3], see _WAIT. found:
    int64[values], see `_check_writes`. counts: int64[5], see COUNTS."""

    done: NDArray[np.int64]
    at: NDArray[np.int64]
    found: NDArray[np.int64]
    counts: NDArray[np.int64]


@njit(cache=True)
def _check_writes(checks, check, written, values, first_of, found):  # type: ignore[no-untyped-def]
    """One entry of the write-check log: found[k] is the access that wrote new value k, if any."""
    row = checks[check]
    offset = first_of[row.reader]
    for k in range(offset + row.first, offset + row.last):
        value = values[k]
        found[k] = match_written(written, value.origin, np.int64(value.size), value.value)


@njit(cache=True)
def advance(rows, accesses, start, member, told, memories, come_to, give_up):  # type: ignore[no-untyped-def]
    """Do accesses[start:] (ACCESS[n] of EVENT rows) of a member as far as orders and room allow.

    give_up: whether the first order that is not satisfied is to be dropped. Returns (first access not done,
    why).
    """
    waits, checks, values, first_of = told
    view, written, shared, initial = memories
    done, at, found, counts = come_to
    for i in range(start, accesses.shape[0]):
        access = accesses[i]
        sn = np.int64(access.sn)
        while at[_WAIT] < waits.shape[0] and waits[at[_WAIT]].sn <= access.sn:
            wait = waits[at[_WAIT]]
            if done[wait.peer] < np.int64(wait.place):
                if not give_up:
                    return i, _WAITS
                give_up = False
                counts[_GIVEN_UP] += 1
            at[_WAIT] += 1
            counts[_WAITED] += 1
        if access.kind == GOT:
            done[member] = sn
            continue
        blocks = np.int64(access.size // _BLOCK_BYTES) + 2
        if not (room_for(view, blocks) and room_for(written, blocks) and room_for(shared, blocks)):
            return i, _NO_ROOM
        row = rows[access.event]
        size = np.int64(row.size)
        if access.put == 0 and (row.kind == READ or row.kind == RMW):
            if at[_VALUE] < first_of[member + 1] and values[at[_VALUE]].sn == access.sn:
                learn(shared, row.addr, size, row.old)
                learn(view, row.addr, size, row.old)
                at[_VALUE] += 1
                counts[_LOGGED] += 1
            elif differs(shared, row.addr, size, row.old):
                counts[_DIFFERING] += 1
        if access.put != 0:
            put_written(written, view, shared, initial, access.local, access.addr, access.size, sn)
        elif access.kind != LOAD:
            learn(view, row.addr, size, row.new)
            learn(shared, row.addr, size, row.new)
            note_written(written, row.addr, size, row.new, sn)
        done[member] = sn
        counts[_ACCESSES] += 1
        while at[_CHECK] < checks.shape[0] and checks[at[_CHECK]].sn <= access.sn:
            _check_writes(checks, at[_CHECK], written, values, first_of, found)
            at[_CHECK] += 1
    return accesses.shape[0], _ENDED


@dataclass
class _Member:
    """A member under replay: the piece of its trace that is being done, and its memories."""

    pieces: Iterator[Rows]
    stream: AccessStream
    at: NDArray[np.int64]
    counts: NDArray[np.int64]
    view: Shadow
    written: Written
    rows: Rows
    accesses: Rows
    start: int = 0
    over: bool = False


class Dropped(NamedTuple):
    """An order that was given up: a member's access, by its number, and its instruction, which waits for an
    access of another member."""

    member: int
    sn: int
    retired: int
    peer: int
    place: int


class GroupReplay:
    """Runs the members against each other. dropped: orders that were given up.

    pieces: of each member, its accesses as its replay yields them.
    values: NEW_VALUE[n] of each. initial: uint8[memory_bytes], memory before the run."""

    def __init__(
        self,
        pieces: list[Iterator[Rows]],
        orders: OrderLog,
        checks: list[Rows],
        values: list[Rows],
        initial: NDArray[np.uint8],
    ) -> None:
        r = len(pieces)
        self._orders, self._checks, self._initial = orders, checks, initial
        self._values = np.concatenate(values)
        self._first_of = np.concatenate([[0], np.cumsum([len(rows) for rows in values])]).astype(np.int64)
        self._done = np.zeros(r, np.int64)
        self._shared = new_shadow()
        self.dropped: list[Dropped] = []
        #: By producer and new value (all members' together): the access that wrote it, or 0. int64[r,
        #: values].
        self.found = np.zeros((r, len(self._values)), np.int64)
        self._members = [
            _Member(
                pieces[k], AccessStream(len(initial)), np.array([0, 0, self._first_of[k]]),
                np.zeros(5, np.int64), new_shadow(), new_written(), np.zeros(0, EVENT),
                np.zeros(0, ACCESS),
            )
            for k in range(r)
        ]  # fmt: skip

    def run(self) -> None:
        """Replay all members to their ends. Raises what their replays raise."""
        while not all(member.over for member in self._members):
            moved = [self._go_on(k, False) for k, member in enumerate(self._members) if not member.over]
            if not any(moved):
                k = next(k for k, member in enumerate(self._members) if not member.over)
                self.dropped.append(self._waiting(k))
                self._go_on(k, True)

    def _waiting(self, k: int) -> Dropped:
        """What a member waits for that does not go on."""
        member = self._members[k]
        wait = self._orders.waits[k][member.at[_WAIT]]
        access = member.accesses[member.start]
        count = member.rows[access["event"]]["count"]
        return Dropped(k, int(access["sn"]), int(count), int(wait["peer"]), int(wait["place"]))

    def counts(self, member: int) -> dict[str, int]:
        """Counts of a member, by the names in COUNTS."""
        return dict(zip(COUNTS, map(int, self._members[member].counts), strict=True))

    def _go_on(self, k: int, give_up: bool) -> bool:
        """Let a member go on until it waits or ends. Returns whether it did anything."""
        member, moved = self._members[k], False
        while True:
            if member.start >= len(member.accesses):
                piece = next(member.pieces, None)
                if piece is None:
                    member.over = True
                    return True
                member.rows, member.start, moved = piece, 0, True
                member.accesses = member.stream.take(piece, np.zeros(len(piece), np.uint8))
                continue
            told = Told(self._orders.waits[k], self._checks[k], self._values, self._first_of)
            memories = Memories(member.view, member.written, self._shared, self._initial)
            come_to = ComeTo(self._done, member.at, self.found[k], member.counts)
            start, why = advance(
                member.rows, member.accesses, member.start, k, told, memories, come_to, give_up
            )
            moved, give_up = moved or start > member.start or give_up, False
            member.start = int(start)
            if why == _WAITS:
                return moved
            if why == _NO_ROOM:
                self._make_room(member)

    def _make_room(self, member: _Member) -> None:
        blocks = int(member.accesses[member.start]["size"]) // 64 + 2
        while not room_for(member.view, blocks):
            member.view = grow_shadow(member.view)
        while not room_for(self._shared, blocks):
            self._shared = grow_shadow(self._shared)
        if not room_for(member.written, blocks):
            member.written = grow_written(member.written, blocks)
