"""Rows to unfiltered operations: what is left to order of a stream's rows, while their other bytes are
followed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.sifting.words import (
    AGAIN,
    BEGIN,
    LANE,
    LOW_HALF,
    NOWHERE,
    PAGE_SHIFT,
    SHARED,
    WRITTEN,
    byte_bits,
    find_word,
    follow,
    lane,
)

#: Where `sift_rows` counts: operations, unfiltered rows of them, rows before the piece, parts; then rows by
#: what became of them; operations that end before the present segment; breaks that lie behind.
OPS, KEPT, BEFORE, PARTS, READ_ONLY, HOT, ENDED, BROKEN_OFF, AT = range(9)
#: Most parts of one indivisible access: 16 rows of 8 bytes.
MOST_PARTS = 128
#: How `sift_rows` ends: all rows are done; there is no room; an indivisible access contradicts itself; a
#: filtered byte is not what the access before left there.
DONE, FULL, CONTRADICTS, BROKEN = range(4)
_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_SHIFT, _HALF, _IN_PAGE = np.uint64(PAGE_SHIFT), np.uint64(32), np.uint64((1 << PAGE_SHIFT) - 1)


class Parts(NamedTuple):
    """Parts of operations. granule: int32 (n,). old, new: uint64 (n,). As in `Problem`."""

    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]

    def first(self, n: int) -> Parts:
        """The first n of them."""
        return Parts(self.granule[:n], self.old[:n], self.new[:n])


class Operations(NamedTuple):
    """Operations of a stream. part_ptr: int64 (n + 1,), end_row: int64 (n,). As in `Problem`."""

    part_ptr: NDArray[np.int64]
    end_row: NDArray[np.int64]

    def first(self, n: int) -> Operations:
        """The first n of them."""
        return Operations(self.part_ptr[: n + 1], self.end_row[:n])


@njit(cache=True)
def word_parts(entry, low, size, old, new, at, parts):  # type: ignore[no-untyped-def]
    """Append the unfiltered parts of an access to one word to `Parts`. Returns the new end."""
    granule, olds, news = parts
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
def join_parts(first, at, end, parts):  # type: ignore[no-untyped-def]
    """Join parts at..end to those of their operation, which start at `first`: a granule occurs once.

    Returns the new end, or -1 if the operation contradicts itself (a granule touched twice whose second
    old value is not the first new one).
    """
    granule, old, new = parts
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
def sift_row(row, entries, at, parts, tally):  # type: ignore[no-untyped-def]
    """Append a row's unfiltered parts, count it, and follow its other bytes where that is to be done again.
    Returns (new end of the parts, number in the row of the first byte that breaks its chain, or -1)."""
    turn, pages, words = entries
    word, low = row.addr >> _THREE, row.addr & _SEVEN
    left, old, new = np.uint64(row.size), row.old, row.new
    shared, done, end = False, np.int64(0), at
    while left > _ZERO:
        size = min(left, _EIGHT - low)
        entry = words[find_word(word, turn, pages)]
        marks, bits = entry.marks, byte_bits(low, size)
        cold = bits & ~(lane(marks, SHARED) & lane(marks, WRITTEN))
        if cold != bits:
            end = word_parts(entry, low, size, old, new, end, parts)
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
def pass_filtered(rows, start, entries, tally):  # type: ignore[no-untyped-def]
    """Count rows from `start` on, up to the first that needs more: its word is to be followed again, it goes
    over two words, it is uncached, or indivisible together with another. Returns that row's index."""
    pages, words = entries.pages, entries.words
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
def repeats(first, middle, end, parts):  # type: ignore[no-untyped-def]
    """Whether the parts middle..end are the same pure reads as the parts first..middle."""
    granule, old, new = parts
    if middle - first != end - middle:
        return False
    for i in range(end - middle):
        p, q = first + i, middle + i
        if granule[p] != granule[q] or old[p] != old[q] or new[p] != old[p] or new[q] != old[q]:
            return False
    return True


@njit(cache=True)
def sift_rows(rows, start, breaks, entries, parts, operations, tally):  # type: ignore[no-untyped-def]
    """Sift a piece of a stream from row `start` on: append its unfiltered operations, count all rows. breaks:
    int64, ascending, rows of the stream that are not joined to what came before. Returns (status, row, byte):
    FULL asks for longer arrays and to go on from that row."""
    part_ptr, end_row = operations
    before, cut = tally[BEFORE], tally[BROKEN_OFF]
    ops, part = tally[OPS], tally[PARTS]
    i = pass_filtered(rows, start, entries, tally)
    status, byte = DONE, np.int64(0)
    while i < rows.size:
        if part + MOST_PARTS > parts.granule.size or ops == end_row.size:
            status = FULL
            break
        first, hot_rows = part, 0
        while cut < breaks.size and breaks[cut] <= before + i:
            tally[ENDED] = ops
            cut += 1
        while True:
            row = rows[i]
            if (row.flags & UNCACHED) == 0:
                end, broken = sift_row(row, entries, part, parts, tally)
                if broken >= 0:
                    return BROKEN, i, broken
                if end > part and part > first:
                    end = join_parts(first, part, end, parts)
                    if end < 0:
                        return CONTRADICTS, i, byte
                if end > part:
                    hot_rows += 1
                    part = end
            i += 1
            if (row.flags & GLUED) == 0 or i == rows.size:
                break
        if part > first:
            if ops > tally[ENDED] and repeats(part_ptr[ops - 1], first, part, parts):
                part = first
            else:
                ops += 1
                part_ptr[ops] = part
                tally[KEPT] += hot_rows
            end_row[ops - 1] = before + i
        i = pass_filtered(rows, i, entries, tally)
    tally[OPS], tally[PARTS], tally[BROKEN_OFF] = ops, part, cut
    if status == DONE:
        tally[BEFORE] += rows.size
    return status, i, byte


@njit(cache=True, nogil=True)
def sift_pieces(rows, at, pieces, breaks, entries, gathered, tallies):  # type: ignore[no-untyped-def]
    """Sift the rows of a `Batch`: append their unfiltered operations, those of all streams in one list.

    at: int64 (4,), piece and row of it to go on from, operations and parts so far; left where it ends.
    pieces: `Pieces`. breaks: int64 (n_streams + 1,) and (n,), where the `breaks` of each stream begin in the
    second. gathered: `Parts`, `Operations`, and int64 (n,), which gets the number of operations behind each
    piece. tallies: int64 (n_streams, AT), of which OPS, PARTS and ENDED count those of all streams. Returns
    (status, byte) as `sift_rows` does."""
    parts, operations, behind = gathered
    first, all_breaks = breaks
    k, i, ops, part = at
    status, byte = DONE, np.int64(0)
    while k < pieces.end.size:
        stream, piece = pieces.stream[k], rows[pieces.begin[k] : pieces.end[k]]
        tally, mine = tallies[stream], all_breaks[first[stream] : first[stream + 1]]
        tally[OPS], tally[PARTS] = ops, part
        if i == 0 and not pieces.goes_on[k]:
            tally[ENDED] = ops
        status, i, byte = sift_rows(piece, i, mine, entries, parts, operations, tally)
        ops, part, behind[k] = tally[OPS], tally[PARTS], tally[OPS]
        if status != DONE:
            break
        k, i = k + 1, 0
    at[0], at[1], at[2], at[3] = k, i, ops, part
    return status, byte
