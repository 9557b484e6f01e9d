"""New values by thread: a replay set of threads in place of cores (OPR, section 3, whose members are
threads).

The evidence is of cores, and of a Linux program threads move between them. So the cores are replayed, from
their value logs, and their accesses put into one order: that of the event orders, and of the sync points,
which say when a thread left a core and came to another. In it Algorithm 1 is done anew, with a shadow memory
for each thread: a value is new to a thread when the thread did not know it, whatever its core knew. Who
wrote it is inferred as in section 6, by order and value: the thread of the set that last wrote those bytes,
if they hold what was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED, WRITE
from emu.bus.sync_points import ENTER
from recorder.evidence.opr.log import OprLog
from recorder.evidence.opr.shadow import grow_shadow, knows, learn, new_shadow
from recorder.files.reader import Recording, sync_points
from recorder.replay.member import MemberReplay
from solver.evidence.opr.memories import room_for
from solver.evidence.opr.order_log import OrderLog

Rows = NDArray[np.void]

#: A new value of a thread. reader, writer: places in the set, writer is -1 for none of it. addr, size, value:
#: what was read.
THREAD_VALUE = np.dtype(
    [
        ("addr", "<u8"),
        ("value", "<u8"),
        ("reader", "<i4"),
        ("writer", "<i4"),
        ("size", "<i4"),
        ("core", "<i4"),
    ]
)
_NOBODY, _OUTSIDE = 0, -1
_EIGHT, _BYTE = np.uint64(8), np.uint64(0xFF)
#: An access number, or a count, that no core reaches.
_END = 1 << 62


@njit(cache=True)
def _writer(row, reader, owner, content):  # type: ignore[no-untyped-def]
    """Who of the set wrote what a row reads: the one that all bytes are of which are not the reader's own,
    if all hold what was read; else _OUTSIDE."""
    found = np.int64(_OUTSIDE)
    for k in range(np.int64(row.size)):
        at = np.int64(row.addr) + k
        if np.int64(content[at]) != np.int64((row.old >> (_EIGHT * np.uint64(k))) & _BYTE):
            return np.int64(_OUTSIDE)
        who = np.int64(owner[at]) - 1
        if who == reader:
            continue
        if who < 0 or (found >= 0 and found != who):
            return np.int64(_OUTSIDE)
        found = who
    return found


@njit(cache=True)
def follow_thread(rows, start, reader, shadow, owner, content, out):  # type: ignore[no-untyped-def]
    """Algorithm 1 over rows[start:] (EVENT[n]) of one thread, place `reader` of the set, or -1 for one that
    is not in it, of which only the writes count.

    owner: uint8[memory], 1 + who of the set wrote each byte last, 0 for nobody. content: uint8[memory], what
    was written. out: THREAD_VALUE[n]. Returns (first row not done, values put); it stops early where shadow
    memory must grow.
    """
    n = 0
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if (row.flags & UNCACHED) != 0:
            continue
        size = np.int64(row.size)
        if reader >= 0:
            if not room_for(shadow, 4):
                return i, n
            if row.kind != WRITE and not knows(shadow, row.addr, size, row.old):
                value = out[n]
                value.addr, value.value, value.size, value.core = row.addr, row.old, size, row.core
                value.reader, value.writer = reader, _writer(row, reader, owner, content)
                learn(shadow, row.addr, size, row.old)
                n += 1
            if row.kind != READ:
                learn(shadow, row.addr, size, row.new)
        if row.kind != READ:
            for k in range(size):
                at = np.int64(row.addr) + k
                owner[at] = np.uint8(reader + 1)
                content[at] = np.uint8((row.new >> (_EIGHT * np.uint64(k))) & _BYTE)
    return rows.shape[0], n


class ThreadValues:
    """Algorithm 1 for the threads of a set. memory: bytes of the guest's."""

    def __init__(self, threads: int, memory: int) -> None:
        self._shadows = [new_shadow() for _ in range(threads)]
        self._nobody = new_shadow()
        self._owner, self._content = host_memory(memory), host_memory(memory)
        self._found: list[Rows] = [np.zeros(0, THREAD_VALUE)]

    def take(self, rows: Rows, who: NDArray[np.int64]) -> None:
        """The next accesses (EVENT[n]) in order, and whose each is: int64[n], a place in the set or -1."""
        ends = [*(np.flatnonzero(np.diff(who)) + 1).tolist(), len(rows)]
        start = 0
        for end in ends:
            if end > start:
                self._run(rows[start:end], int(who[start]))
            start = end

    def _run(self, rows: Rows, reader: int) -> None:
        out, done = np.zeros(len(rows), THREAD_VALUE), 0
        while done < len(rows):
            shadow = self._shadows[reader] if reader >= 0 else self._nobody
            done, n = follow_thread(rows, done, reader, shadow, self._owner, self._content, out)
            self._found.append(out[:n].copy())
            if done < len(rows):
                self._shadows[reader] = grow_shadow(shadow)

    def values(self) -> Rows:
        """All new values so far, in order: THREAD_VALUE[n]."""
        return np.concatenate(self._found)


class _Cursor:
    """A member's accesses, taken up to an access number or an instruction count. pieces: EVENT[n]."""

    def __init__(self, pieces: Iterator[Rows]) -> None:
        self._pieces, self._rows, self.sn = pieces, np.zeros(0, EVENT), 0

    def upto(self, sn: int) -> Iterator[Rows]:
        """Those up to access `sn`, piece by piece."""
        while self.sn < sn and self._fill():
            yield self._take(min(sn - self.sn, len(self._rows)))

    def before(self, count: int) -> int:
        """The number of the last access below an instruction count among those at hand; if that is the last
        one at hand, there may be more."""
        if not self._fill():
            return self.sn
        return self.sn + int(np.searchsorted(self._rows["count"], np.uint64(count), side="left"))

    def _fill(self) -> bool:
        while not len(self._rows):
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._rows = piece[(piece["flags"] & FETCH) == 0]
        return True

    def _take(self, n: int) -> Rows:
        rows, self._rows = self._rows[:n], self._rows[n:]
        self.sn += n
        return rows


class InOrder:
    """The members' accesses in one order. pieces: of each member's replay. orders: what waits for what.
    take: is called with the accesses of one member, EVENT[n], in order. given_up: orders that kept members
    waiting for each other."""

    def __init__(self, pieces: list[Iterator[Rows]], orders: OrderLog, take: Callable[[Rows], None]) -> None:
        self._cursors, self._waits, self._take = [_Cursor(one) for one in pieces], orders.waits, take
        self._at, self.given_up = [0] * len(pieces), 0

    def run(self, points: Rows, members: tuple[int, ...]) -> None:
        """All accesses, those below a sync point's count where the agents met the core (SYNC_POINT[n])."""
        place = {core: k for k, core in enumerate(members)}
        met = points[(points["way"] & ENTER) != 0]
        for core, count in zip(met["core"].tolist(), met["count"].tolist(), strict=True):
            if core in place:
                self._below(place[core], count)
        for k in range(len(members)):
            self._below(k, _END)

    def _below(self, member: int, count: int) -> None:
        cursor = self._cursors[member]
        while (sn := cursor.before(count)) > cursor.sn:
            self._advance(member, sn)

    def _advance(self, member: int, sn: int) -> None:
        """A member goes on to its access `sn`, others before it as far as it waits for them."""
        asked = [(member, sn)]
        while asked:
            k, target = asked[-1]
            cursor, waits = self._cursors[k], self._waits[k]
            at = self._at[k]
            if cursor.sn >= target:
                asked.pop()
                continue
            if at == len(waits) or int(waits[at]["sn"]) > target:
                self._emit(k, target)
                asked.pop()
                continue
            wait = waits[at]
            peer, place = int(wait["peer"]), int(wait["place"])
            self._emit(k, int(wait["sn"]) - 1)
            if self._cursors[peer].sn >= place:
                self._at[k] += 1
            elif any(other == peer for other, _ in asked):
                self._at[k] += 1
                self.given_up += 1
            else:
                asked.append((peer, place))

    def _emit(self, member: int, sn: int) -> None:
        for rows in self._cursors[member].upto(sn):
            self._take(rows)


def values_of_threads(
    recording: Recording,
    log: OprLog,
    threads: tuple[int, ...],
    who: Callable[[Rows], NDArray[np.int64]],
    *,
    relaxed: bool = False,
) -> tuple[Rows, int]:
    """(THREAD_VALUE[n] of a set of threads, orders given up). who: gives of accesses (EVENT[n]) the thread
    of each, int64[n]. Raises FormatError, and Divergence if a member is not what it was."""
    found = ThreadValues(len(threads), recording.manifest.memory)
    numbers = np.array(threads, np.int64)

    def take(rows: Rows) -> None:
        same = who(rows)[:, None] == numbers
        found.take(rows, np.where(same.any(axis=1), same.argmax(axis=1), -1))

    pieces = [MemberReplay(recording, log, core).run() for core in log.members]
    order = InOrder(pieces, OrderLog.of(log, relaxed), take)
    order.run(sync_points(recording), log.members)
    return found.values(), order.given_up
