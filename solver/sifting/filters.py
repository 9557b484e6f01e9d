"""Unfiltered events: what is left after local and read-only accesses (MICRO 2009, section 4.3) and
repeated reads are dropped.

Filtered accesses follow from one another: those of a local granule are one stream's program order, those of a
read-only one all see the same. `granules.py` followed the words that have nothing else; this pass follows the
filtered bytes of the others, and those that did not follow, to name the event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.regions.problem import Problem
from solver.regions.region import Region
from solver.regions.traces import Events
from solver.sifting.granules import Granules
from solver.sifting.sync_edges import edges_of
from solver.sifting.words import (
    AGAIN,
    BEGIN,
    LANE,
    LEFT_OUT,
    LOW_HALF,
    NOWHERE,
    PAGE_SHIFT,
    SHARED,
    WRITTEN,
    WordTable,
    byte_bits,
    find_word,
    follow,
    lane,
    list_chains,
)

#: Where `sift_rows` counts: operations, unfiltered rows of them, rows before the piece, parts; then rows by
#: what became of them; operations that end before the present segment; breaks that lie behind.
OPS, KEPT, BEFORE, PARTS, READ_ONLY, HOT, ENDED, BROKEN_OFF, AT = range(9)
#: Most parts of one indivisible access: 16 rows of 8 bytes.
MOST_PARTS = 128
_DONE, _FULL, _CONTRADICTS, _BROKEN = 0, 1, 2, 3
_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_SHIFT, _HALF, _IN_PAGE = np.uint64(PAGE_SHIFT), np.uint64(32), np.uint64((1 << PAGE_SHIFT) - 1)
_DAMAGED = "the recording is damaged: record again, or run 'corebraid verify' to see where"


@dataclass(frozen=True)
class Counts:
    """Event rows of a region by what became of them. total is the sum of the others.

    uncached: left out entirely. local: every granule touched by one stream only. read_only: the other
    filtered ones. collapsed: repeats of an identical read. unfiltered: rows left to order.
    """

    total: int
    uncached: int
    local: int
    read_only: int
    collapsed: int
    unfiltered: int

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.total + other.total,
            self.uncached + other.uncached,
            self.local + other.local,
            self.read_only + other.read_only,
            self.collapsed + other.collapsed,
            self.unfiltered + other.unfiltered,
        )


@njit(cache=True)
def word_parts(entry, low, size, old, new, at, granule, olds, news):  # type: ignore[no-untyped-def]
    """Append the unfiltered parts of an access to one word. Returns the new end."""
    hot = lane(entry.marks, SHARED) & lane(entry.marks, WRITTEN)
    begin = hot & lane(entry.marks, BEGIN)
    number, shift = np.int64(entry.base) - 1, _ZERO
    for b in range(np.int64(low + size)):
        bit = np.uint64(b)
        if (begin >> bit) & _ONE:
            number += 1
            if bit >= low:
                granule[at], olds[at], news[at], shift = number, _ZERO, _ZERO, _ZERO
                at += 1
        if bit >= low and (hot >> bit) & _ONE:
            down = (bit - low) << _THREE
            olds[at - 1] |= ((old >> down) & LANE) << shift
            news[at - 1] |= ((new >> down) & LANE) << shift
            shift += _EIGHT
    return at


@njit(cache=True)
def join_parts(first, at, end, granule, old, new):  # type: ignore[no-untyped-def]
    """Join parts at..end to those of their operation, which start at `first`: a granule occurs once.

    Returns the new end, or -1 if the operation contradicts itself (a granule touched twice whose second
    old value is not the first new one).
    """
    kept = at
    for q in range(at, end):
        twin = -1
        for r in range(first, at):
            if granule[r] == granule[q]:
                twin = r
        if twin < 0:
            granule[kept], old[kept], new[kept] = granule[q], old[q], new[q]
            kept += 1
        elif new[twin] != old[q]:
            return -1
        else:
            new[twin] = new[q]
    return kept


@njit(cache=True)
def sift_row(row, turn, pages, words, at, granule, olds, news, tally):  # type: ignore[no-untyped-def]
    """Append a row's unfiltered parts, count it, and follow its other bytes where that is to be done again.
    Returns (new end of the parts, number in the row of the first byte that breaks its chain, or -1)."""
    word, low = row.addr >> _THREE, row.addr & _SEVEN
    left, old, new = np.uint64(row.size), row.old, row.new
    shared, done, end = False, np.int64(0), at
    while left > _ZERO:
        size = min(left, _EIGHT - low)
        entry = words[find_word(word, turn, pages)]
        marks, bits = entry.marks, byte_bits(low, size)
        cold = bits & ~(lane(marks, SHARED) & lane(marks, WRITTEN))
        if cold != bits:
            end = word_parts(entry, low, size, old, new, end, granule, olds, news)
        if cold != _ZERO:
            shared = shared or lane(marks, SHARED) & bits != _ZERO
            if lane(marks, AGAIN) != _ZERO:
                broken = follow(entry, cold, low, size, old, new)
                if broken >= 0:
                    return at, done + broken - np.int64(low)
        left -= size
        if left > _ZERO:
            old, new = old >> (size << _THREE), new >> (size << _THREE)
            word, low, done = word + _ONE, _ZERO, np.int64(size)
    if end > at:
        tally[HOT] += 1
    elif shared:
        tally[READ_ONLY] += 1
    return end, -1


@njit(cache=True)
def pass_filtered(rows, start, turn, pages, words, tally):  # type: ignore[no-untyped-def]
    """Count rows from `start` on, up to the first that needs more: its word is to be followed again, it goes
    over two words, it is uncached, or indivisible together with another. Returns that row's index."""
    mask = np.uint64(pages.shape[0] - 1)
    here, base = NOWHERE, _ZERO
    read_only, end = 0, rows.size
    for i in range(start, rows.size):
        row = rows[i]
        size, low = np.uint64(row.size), row.addr & _SEVEN
        if row.flags & (UNCACHED | GLUED) or low + size > _EIGHT:
            end = i
            break
        word = row.addr >> _THREE
        page = word >> _SHIFT
        if page != here:
            slot = ((page * GOLDEN) >> _HALF) & mask
            while pages[slot, 0] != page:
                slot = (slot + _ONE) & mask
            here, base = page, (pages[slot, 1] & LOW_HALF) << _SHIFT
        marks = words[base | (word & _IN_PAGE)].marks
        if lane(marks, AGAIN) != _ZERO:
            end = i
            break
        read_only += int((marks >> SHARED) & byte_bits(low, size) != _ZERO)
    tally[READ_ONLY] += read_only
    return end


@njit(cache=True)
def repeats(first, middle, end, granule, old, new):  # type: ignore[no-untyped-def]
    """Whether the parts middle..end are the same pure reads as the parts first..middle."""
    if middle - first != end - middle:
        return False
    for i in range(end - middle):
        p, q = first + i, middle + i
        if granule[p] != granule[q] or old[p] != old[q] or new[p] != old[p] or new[q] != old[q]:
            return False
    return True


@njit(cache=True, nogil=True)
def sift_rows(rows, start, breaks, turn, pages, words, granule, old, new, part_ptr, end_row, tally):  # type: ignore[no-untyped-def]
    """Sift a piece of a stream from row `start` on: append its unfiltered operations, count all rows. breaks:
    int64, ascending, rows of the stream that are not joined to what came before. Returns (status, row, byte):
    _FULL asks for longer arrays and to go on from that row."""
    before, cut = tally[BEFORE], tally[BROKEN_OFF]
    ops, part = tally[OPS], tally[PARTS]
    i = pass_filtered(rows, start, turn, pages, words, tally)
    status, byte = _DONE, np.int64(0)
    while i < rows.size:
        if part + MOST_PARTS > granule.size or ops == end_row.size:
            status = _FULL
            break
        first, hot_rows = part, 0
        while cut < breaks.size and breaks[cut] <= before + i:
            tally[ENDED] = ops
            cut += 1
        while True:
            row = rows[i]
            if (row.flags & UNCACHED) == 0:
                end, broken = sift_row(row, turn, pages, words, part, granule, old, new, tally)
                if broken >= 0:
                    return _BROKEN, i, broken
                if end > part and part > first:
                    end = join_parts(first, part, end, granule, old, new)
                    if end < 0:
                        return _CONTRADICTS, i, byte
                if end > part:
                    hot_rows += 1
                    part = end
            i += 1
            if (row.flags & GLUED) == 0 or i == rows.size:
                break
        if part > first:
            if ops > tally[ENDED] and repeats(part_ptr[ops - 1], first, part, granule, old, new):
                part = first
            else:
                ops += 1
                part_ptr[ops] = part
                tally[KEPT] += hot_rows
            end_row[ops - 1] = before + i
        i = pass_filtered(rows, i, turn, pages, words, tally)
    tally[OPS], tally[PARTS], tally[BROKEN_OFF] = ops, part, cut
    if status == _DONE:
        tally[BEFORE] += rows.size
    return status, i, byte


@dataclass(frozen=True)
class Chains:
    """What a region's filtered accesses say of its two ends, for every 8-byte word that it touches.

    word: uint64 (n,), address / 8. known, written: uint8 (n,), bit b set if byte b is filtered; if an
    event of the region wrote it. first, last: uint64 (n,), values at the two ends of the known bytes.
    """

    word: NDArray[np.uint64]
    known: NDArray[np.uint8]
    written: NDArray[np.uint8]
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


class _Gathered:
    """One stream's unfiltered operations, in arrays that grow."""

    def __init__(self) -> None:
        self.tally = np.zeros(AT, np.int64)
        self.granule, self.old, self.new = (np.empty(512, t) for t in (np.int32, np.uint64, np.uint64))
        self.part_ptr, self.end_row = np.zeros(257, np.int64), np.empty(256, np.int64)

    def sift(self, piece: Events, breaks: NDArray[np.int64], table: WordTable) -> tuple[int, int, int]:
        """Sift a piece. breaks: of its stream. Returns (status, row, byte) of `sift_rows`, never _FULL."""
        status, row, byte = _FULL, 0, 0
        while status == _FULL:
            status, row, byte = sift_rows(
                piece, row, breaks, table.turn, table.pages, table.words,
                self.granule, self.old, self.new, self.part_ptr, self.end_row, self.tally,
            )  # fmt: skip
            if status == _FULL:
                self._grow()
        return status, row, byte

    def _grow(self) -> None:
        for name in ("granule", "old", "new", "part_ptr", "end_row"):
            array = getattr(self, name)
            longer = np.empty(2 * len(array), array.dtype)
            longer[: len(array)] = array
            setattr(self, name, longer)

    def begin_segment(self) -> None:
        """What comes next is not joined to what came before: a sync point lies between."""
        self.tally[ENDED] = self.tally[OPS]

    def cut(self) -> None:
        """Drop what the arrays have too much."""
        ops, parts = int(self.tally[OPS]), int(self.tally[PARTS])
        self.granule, self.old, self.new = self.granule[:parts], self.old[:parts], self.new[:parts]
        self.part_ptr, self.end_row = self.part_ptr[: ops + 1], self.end_row[:ops]


def _refuse(region: Region, stream: int, piece: Events, status: int, row: int, byte: int) -> OrderError:
    bad = piece[row]
    if status == _CONTRADICTS:
        return OrderError(
            "an indivisible access that contradicts itself",
            where=f"region {region.index}, stream {stream}, event {bad['seq']}",
            remedy="the recording is damaged",
        )
    address = int(bad["addr"]) + byte
    held = _value_before(region, stream, int(bad["seq"]), address)
    return broken_chain(region.index, stream, bad, byte, held)


def _value_before(region: Region, stream: int, seq: int, address: int) -> int:
    """What a filtered byte holds before an event: the new value of the last earlier access."""
    held = 0
    for number, rows in enumerate(region.streams[: stream + 1]):
        for piece in rows.pieces():
            inside = (piece["addr"] <= address) & (address - piece["addr"] < piece["size"])
            inside &= (piece["flags"] & UNCACHED) == 0
            if number == stream:
                inside &= piece["seq"] < seq
            for row in piece[inside][-1:]:
                held = (int(row["new"]) >> (8 * (address - int(row["addr"])))) & 0xFF
    return held


def broken_chain(region: int, stream: int, row: np.void, byte: int, held: int) -> OrderError:
    """The error for an event whose old value at `byte` is not what memory holds there."""
    return OrderError(
        "an event does not follow from memory",
        expected=f"{(int(row['old']) >> (8 * byte)) & 0xFF:#04x}",
        found=f"{held:#04x}",
        where=f"region {region}, address {int(row['addr']) + byte:#x}, 1 bytes, stream {stream}, "
        f"event {row['seq']}, instruction count {row['count']}, pc {int(row['pc']):#x}",
        remedy=_DAMAGED,
    )


def sift(region: Region, g: Granules) -> tuple[Problem, Counts, Chains]:
    """The region's unfiltered events as a `Problem` (its boundary values still zero), the counts, and what
    the filtered ones say. The granules are used up: each table serves once.

    Raises OrderError if rows of one indivisible access contradict each other, or if a filtered access does
    not see what the one before it left.
    """
    gathered = [_Gathered() for _ in region.streams]
    if not g.plain:
        _sift_streams(region, g, gathered)
    for got in gathered:
        got.cut()
    sums = np.sum([got.tally for got in gathered], axis=0)
    hot, kept, read_only = (int(sums[k]) for k in (HOT, KEPT, READ_ONLY))
    total, uncached = region.events, int(g.table.used[LEFT_OUT])
    counts = Counts(total, uncached, total - uncached - read_only - hot, read_only, hot - kept, kept)
    return _problem(region, g, gathered), counts, chains_of(g)


def _sift_streams(region: Region, g: Granules, gathered: list[_Gathered]) -> None:
    """Sift all rows, in the order in which `granules` followed them."""
    breaks = region.breaks or [np.empty(0, np.int64)] * len(region.streams)
    for stream, _, piece in region.in_order():
        if len(region.syncs.points):
            gathered[stream].begin_segment()
        status, row, byte = gathered[stream].sift(piece, breaks[stream], g.table)
        if status != _DONE:
            raise _refuse(region, stream, piece, status, row, byte)


def _problem(region: Region, g: Granules, gathered: list[_Gathered]) -> Problem:
    part_base = np.cumsum([0] + [len(got.granule) for got in gathered])
    empty = np.zeros(len(g.address), np.uint64)
    stream_ptr = np.cumsum([0] + [len(got.end_row) for got in gathered]).astype(np.int64)
    end_row = np.concatenate([got.end_row for got in gathered])
    return Problem(
        region=region.index,
        rows=np.array([len(rows) for rows in region.streams], np.int64),
        stream_ptr=stream_ptr,
        end_row=end_row,
        part_ptr=np.concatenate(
            [np.zeros(1, np.int64)] + [got.part_ptr[1:] + part_base[s] for s, got in enumerate(gathered)]
        ),
        granule=np.concatenate([got.granule for got in gathered]),
        old=np.concatenate([got.old for got in gathered]),
        new=np.concatenate([got.new for got in gathered]),
        address=g.address,
        size=g.size,
        initial=empty,
        final=empty,
        edges=edges_of(region.places, stream_ptr, end_row, len(region.streams) - 1),
        syncs=region.places,
    )


def chains_of(g: Granules) -> Chains:
    """What the filtered accesses of a region that was sifted say."""
    word = g.touched.copy()
    known, written = np.empty(len(word), np.uint8), np.empty(len(word), np.uint8)
    first, last = np.empty(len(word), np.uint64), np.empty(len(word), np.uint64)
    list_chains(word, g.table.turn, g.table.pages, g.table.words, known, written, first, last)
    return Chains(word, known, written, first, last)


def unfiltered(region: Region, g: Granules) -> tuple[Problem, Counts]:
    """The first two of `sift`."""
    problem, counts, _ = sift(region, g)
    return problem, counts
