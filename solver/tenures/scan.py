"""Where a core's tenures begin: its rows held against the miss records of its log.

A *tenure* is a core, a line, and a maximal run of the core's accesses to the line without a miss record in
between. A record belongs to the first access to its line at or after its instruction count; of several, the
last one counts (a stopped access leaves one behind). What the core knows of a line's bytes at an access is
what the record brought, and its own stores since.

A tenure may span strata. In each region the first access to a line begins a piece of it: CONTINUED if no
record came since the access before, which lies in an earlier region, else MISSED. Where lines come by whole
pages (`Traces.whole_pages`) a core has a line from its record on, accessed or not: of one that came before
the region the first access continues the tenure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inlined
from corebraid.base.rows.event import ALONE, BESIDE_AGENTS, FETCH, GLUED, OF_HOLD, READ, UNCACHED
from corebraid.base.rows.record import MISS, MISS_OWNED, MISS_WRITE, RECORD
from solver.regions.image import zeros
from solver.regions.traces import Events
from solver.tenures.placed import LossCursor, Placed, nothing_lost

#: How a piece of a tenure begins. FIRST: with a record, on a line that the core never had before.
CONTINUED, MISSED, FIRST = np.uint8(0), np.uint8(1), np.uint8(2)
#: Marks of a line: the core has touched it; a record waits for its access. MISS_OWNED and MISS_WRITE of the
#: record are kept beside them.
_SEEN, _PENDING = np.uint8(2), np.uint8(4)
_KEPT = np.uint8(MISS_OWNED | MISS_WRITE)
_DONE, _WANTS_RECORDS, _WANTS_ROOM = 0, 1, 2
#: Most pieces that there is room for at a time.
_ROOM = 1 << 12
#: What is kept of a core's last instruction: its count, plus 1; whether its last row is GLUED; how many lines
#: it missed on; and from here on, these.
_COUNT, _GLUED, _MISSES, _MISSED_ON = range(4)
#: Room for that: an access that is GLUED has at most 16 rows.
_RECENT = _MISSED_ON + 2 * 17
#: Lines that may become loose by rows until more room is made. Rows that are no accesses of an instruction.
_LOOSE, _NO_ACCESS = 1 << 12, FETCH | ALONE
#: A core's miss records: RECORD[n] and the bytes that they index.
Records = tuple[NDArray[np.void], NDArray[np.uint8]]


class Begins(NamedTuple):
    """The pieces of tenures of one core in one region, in the order in which they begin.

    row: int64 (n,), number of the first access among the stream's rows of the region. line: int64 (n,),
    address / bytes in a line. how: uint8 (n,). image: uint8 (n, line_bytes), the line as the core sees it
    right before that access. flags: uint8 (n,), MISS_OWNED and MISS_WRITE of its record. losses: the
    core's in the region. loose: int64 (m,), lines that the core may have got earlier than its rows say: of
    which there was a record without an access, as where an instruction was fetched that did not run then, or
    which an instruction missed on that went on to another access, where it may have been stopped or have
    failed, and have begun again.
    """

    row: NDArray[np.int64]
    line: NDArray[np.int64]
    how: NDArray[np.uint8]
    image: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    losses: Placed
    loose: NDArray[np.int64]


def no_begins(line_bytes: int) -> Begins:
    """Of a stream that has no tenures."""
    return Begins(
        np.empty(0, np.int64),
        np.empty(0, np.int64),
        np.empty(0, np.uint8),
        np.empty((0, line_bytes), np.uint8),
        np.empty(0, np.uint8),
        nothing_lost(),
        np.empty(0, np.int64),
    )


class Held(NamedTuple):
    """What a core knows of its lines. shift: bits of an address within a line. memory: uint8[bytes], as it
    sees them. marks: uint8[lines], see _SEEN. last: uint32[lines], the region of each line's last access,
    plus 1. came: the same of its last record; no lines where none is had without an access. loose: int64
    (n,), how many lines of `Begins.loose` there are, then these; it has room for them. recent: int64
    (_RECENT,), see _COUNT."""

    shift: int
    memory: NDArray[np.uint8]
    marks: NDArray[np.uint8]
    last: NDArray[np.uint32]
    came: NDArray[np.uint32]
    loose: NDArray[np.int64]
    recent: NDArray[np.int64]


class Log(NamedTuple):
    """Some of a core's miss records. records: RECORD (n,); blob: uint8, the bytes that they index. ended:
    there are no more."""

    records: NDArray[np.void]
    blob: NDArray[np.uint8]
    ended: bool


class Room(NamedTuple):
    """Room for `Begins`, of which these are columns."""

    row: NDArray[np.int64]
    line: NDArray[np.int64]
    how: NDArray[np.uint8]
    image: NDArray[np.uint8]
    flags: NDArray[np.uint8]


@inlined
def take_records(log, at, upto, place, held):  # type: ignore[no-untyped-def]
    """Lay the lines of miss records with a count of at most `upto` over what the core knows. place: the
    region, and the count at which it begins. Returns the next record."""
    records, blob, shift = log.records, log.blob, held.shift
    memory, marks, loose = held.memory, held.marks, held.loose
    while at < records.size and records[at].count <= upto:
        record = records[at]
        if record.kind == MISS:
            first, offset = np.int64(record.addr), np.int64(record.offset)
            for k in range(np.int64(record.size)):
                memory[first + k] = blob[offset + k]
            if marks[first >> shift] & _PENDING:
                loose[0] += 1
                loose[loose[0]] = first >> shift
            marks[first >> shift] = (marks[first >> shift] & _SEEN) | _PENDING | (record.flags & _KEPT)
            if held.came.size:
                held.came[first >> shift] = place[0] + (1 if record.count >= place[1] else 0)
        at += 1
    return at


@inlined
def follow_instruction(row, recent, loose):  # type: ignore[no-untyped-def]
    """Take note of a core's next row. If its last instruction goes on, what that missed on is loose."""
    same = recent[_COUNT] == np.int64(row.count) + 1
    if same and recent[_GLUED] == 0:
        for k in range(recent[_MISSES]):
            loose[0] += 1
            loose[loose[0]] = recent[_MISSED_ON + k]
    if not (same and recent[_GLUED] != 0):
        recent[_MISSES] = 0
    recent[_COUNT] = np.int64(row.count) + 1
    recent[_GLUED] = 1 if row.flags & GLUED else 0


@inlined
def loose_room(log, at, loose):  # type: ignore[no-untyped-def]
    """How many more lines may become loose than the records that are left, from `at` on, may make so."""
    return loose.size - 1 - loose[0] - (log.records.size - at)


@inlined
def put_bytes(memory, first, end, value):  # type: ignore[no-untyped-def]
    """Put the low bytes of a value (uint64) from `first` to `end`."""
    for a in range(first, end):
        memory[a] = np.uint8(value & np.uint64(0xFF))
        value >>= np.uint64(8)


@inlined
def tells_tenures(row):  # type: ignore[no-untyped-def]
    """Whether tenures are told by a row: of device registers there are none, and none of pages of which holds
    are rows and agents use words, whose losses no line tells."""
    beside = row.flags & np.uint8(OF_HOLD) == np.uint8(OF_HOLD) and row.pc & np.uint64(BESIDE_AGENTS)
    return not (row.flags & UNCACHED or beside)


@njit(cache=True, nogil=True)
def scan_rows(rows, start, place, log, at, held, out, n):  # type: ignore[no-untyped-def]
    """Scan rows from `start` on. place: the region, the core's count at its beginning, and the number of
    rows[0] in it. log: `Log`. at: the next record. held: `Held`. out: `Room`, n filled. Returns (row, record,
    n, status)."""
    region, begin, number = place
    shift, memory, marks, last, came, loose, recent = held
    for i in range(start, rows.size):
        row = rows[i]
        if not tells_tenures(row):
            continue
        at = take_records(log, at, row.count, (region, begin), held)
        if at == log.records.size and not log.ended:
            return i, at, n, _WANTS_RECORDS
        if n + 2 > out.row.size or loose_room(log, at, loose) < _RECENT:
            return i, at, n, _WANTS_ROOM
        first, end = np.int64(row.addr), np.int64(row.addr) + np.int64(row.size)
        if row.flags & np.uint8(OF_HOLD) == np.uint8(OF_HOLD):
            # No record tells what stood for the page: the row does.
            put_bytes(memory, first, end, row.old)
        else:
            follow_instruction(row, recent, loose)
        for line in range(first >> shift, ((end - 1) >> shift) + 1):
            pending = marks[line] & _PENDING
            if not pending and last[line] == region + 1:
                continue
            out.row[n], out.line[n] = number + i, line
            earlier = not pending or (came.size > 0 and came[line] <= region)
            out.how[n] = CONTINUED if earlier else MISSED if marks[line] & _SEEN else FIRST
            out.image[n] = memory[line << shift : (line + 1) << shift]
            out.flags[n] = marks[line] & _KEPT
            if pending and (row.flags & _NO_ACCESS) == 0 and recent[_MISSES] + _MISSED_ON < recent.size:
                recent[_MISSED_ON + recent[_MISSES]] = line
                recent[_MISSES] += 1
            marks[line] = _SEEN
            last[line] = region + 1
            n += 1
        if row.kind != READ:
            put_bytes(memory, first, end, row.new)
    return rows.size, at, n, _DONE


class Scanner:
    """Finds where the tenures of one core begin, region after region.

    records: its miss records in the order of its log, in pieces. memory_bytes: of the guest. line_bytes: a
    power of two. losses: LOSS (n,), in pieces. strata: uint64 (strata,), the core's count at each, where it
    has lines from their records on; else None. Needs memory for the lines that the core ever had.
    """

    def __init__(
        self,
        records: Iterator[Records],
        memory_bytes: int,
        line_bytes: int,
        losses: Iterator[Events] = iter(()),  # noqa: B008
        strata: NDArray[np.uint64] | None = None,
    ) -> None:
        self._records, self._strata = records, strata
        self._piece = Log(np.empty(0, RECORD), np.empty(0, np.uint8), False)
        self._at = 0
        lines = memory_bytes // line_bytes
        self._held = Held(
            line_bytes.bit_length() - 1, zeros(memory_bytes), zeros(lines), zeros(4 * lines).view(np.uint32),
            zeros(0 if strata is None else 4 * lines).view(np.uint32), np.zeros(1, np.int64),
            np.zeros(_RECENT, np.int64),
        )  # fmt: skip
        self._line_bytes, self._number = line_bytes, 0
        self._parts = [no_begins(line_bytes)]
        self._losses = LossCursor(losses, line_bytes)
        # It serves piece after piece: a fresh page costs more than to fill it.
        self._out = Room(
            np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64), np.empty(_ROOM, np.uint8),
            np.empty((_ROOM, line_bytes), np.uint8), np.empty(_ROOM, np.uint8),
        )  # fmt: skip
        self._more()

    def _more(self) -> None:
        piece = next(self._records, None)
        if piece is None:
            self._piece = self._piece._replace(ended=True)
        else:
            self._piece, self._at = Log(*piece, False), 0
            self._make_room()

    def _make_room(self) -> None:
        """For lines that become loose: by the records that are left, and some by rows."""
        loose = self._held.loose
        wanted = loose[0] + 1 + len(self._piece.records) - self._at + _LOOSE
        if len(loose) < wanted:
            self._held = self._held._replace(loose=np.append(loose, np.zeros(wanted - len(loose), np.int64)))

    def scan(self, region: int, pieces: Iterator[Events]) -> Begins:
        """Where tenures begin, or go on, in a region. pieces: all rows of the core's stream there."""
        for rows in pieces:
            self.add(region, rows)
        return self.take(region)

    def add(self, region: int, rows: Events) -> None:
        """Scan the rows of a region that come next."""
        self._losses.add(region, rows)
        start, begin = 0, np.uint64(0)
        if self._strata is not None and region:
            begin = self._strata[region - 1]
        while start < len(rows):
            out, n, status = self._out, 0, _WANTS_RECORDS
            while status == _WANTS_RECORDS:
                start, self._at, n, status = scan_rows(
                    rows, start, (region, begin, self._number), self._piece, self._at, self._held, out, n
                )
                if status == _WANTS_RECORDS:
                    self._more()
                elif status == _WANTS_ROOM:
                    self._make_room()
            found = Begins(
                out[0][:n].copy(), out[1][:n].copy(), out[2][:n].copy(), out[3][:n].copy(),
                out[4][:n].copy(), nothing_lost(), np.empty(0, np.int64),
            )  # fmt: skip
            self._parts.append(found)
        self._number += len(rows)

    @property
    def next_loss(self) -> int | None:
        """The region of the core's next loss, once a region was taken; None if there is none."""
        return self._losses.next_region

    def take(self, region: int) -> Begins:
        """What was found in the region whose rows were added, and begin another."""
        parts, self._parts, self._number = self._parts, [no_begins(self._line_bytes)], 0
        loose = self._held.loose[1 : self._held.loose[0] + 1].copy()
        self._held.loose[0] = 0
        found = parts[-1] if len(parts) <= 2 else _joined(parts)
        return found._replace(losses=self._losses.take(region), loose=loose)


def _joined(parts: list[Begins]) -> Begins:
    return Begins(
        np.concatenate([part.row for part in parts]), np.concatenate([part.line for part in parts]),
        np.concatenate([part.how for part in parts]), np.concatenate([part.image for part in parts]),
        np.concatenate([part.flags for part in parts]), nothing_lost(), np.empty(0, np.int64),
    )  # fmt: skip


class CoreScanner(Protocol):
    """What scans a core's rows, with store buffers or without."""

    @property
    def next_loss(self) -> int | None:
        """The next region in which the core loses a line, None if none does."""


def first_loss(scanners: Sequence[CoreScanner]) -> int | None:
    """The next region in which one of these cores loses a line, None if none does."""
    return min((at for scanner in scanners if (at := scanner.next_loss) is not None), default=None)
