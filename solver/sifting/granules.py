"""Granules: accesses of different sizes split so that every event covers whole ones.

A granule is a maximal segment of bytes of one 8-byte word in which no access of the region begins or
ends. All bytes of a granule are thus accessed by the same events, and what holds for its first byte (who
touched it, was it written) holds for the whole granule.

Events have owners: a stream, or a thread wherever it runs, with what the kernel does for it
(`solver.regions.sync_order`); one owner's events are in one order. The same pass follows every word's values,
in an order in which each owner's events stand in theirs. That is all that there is to know of a word without
unfiltered granules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.rows.event import READ, UNCACHED
from solver.regions.batches import Batch
from solver.regions.region import Region
from solver.sifting.words import (
    AGAIN,
    BEGIN,
    EIGHT_TIMES,
    KNOWN,
    LANE,
    LEFT_OUT,
    LOW_HALF,
    NOWHERE,
    OWNED,
    PAGE_SHIFT,
    PAGES,
    SHARED,
    SPREAD,
    TOUCHED,
    WORDS,
    WRITTEN,
    WordTable,
    add_page,
    byte_bits,
    byte_mask,
    find_word,
    follow,
    lane,
    of_others,
)

_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_SHIFT, _HALF, _IN_PAGE = np.uint64(PAGE_SHIFT), np.uint64(32), np.uint64((1 << PAGE_SHIFT) - 1)


@njit(cache=True)
def begin_entry(entry, turn):  # type: ignore[no-untyped-def]
    """An entry of another turn begins anew."""
    entry.turn = np.uint32(turn)
    entry.first = entry.last = entry.owners = entry.streams = _ZERO
    entry.marks = _ONE << BEGIN


@njit(cache=True)
def marks_of(low, size, writes):  # type: ignore[no-untyped-def]
    """The marks that an access to `size` bytes of a word from byte `low` on adds."""
    bits = byte_bits(low, size)
    ends = ((_ONE << low) | (_ONE << (low + size))) & LANE
    more = (ends << BEGIN) | (bits << TOUCHED)
    return more | (bits << WRITTEN) if writes else more


@njit(cache=True)
def mark_entry(entry, low, size, old, new, owner, stream, writes):  # type: ignore[no-untyped-def]
    """Enter an access to `size` bytes of one word from byte `low` on, and follow it."""
    marks, bits, mask = entry.marks, byte_bits(low, size), byte_mask(low, size)
    differs = (entry.owners ^ (owner * EIGHT_TIMES)) & mask
    if differs != _ZERO:
        marks |= of_others(differs, lane(marks, TOUCHED) & bits) << OWNED
        entry.owners ^= differs
    differs = (entry.streams ^ (stream * EIGHT_TIMES)) & mask
    if differs != _ZERO:
        marks |= of_others(differs, lane(marks, TOUCHED) & bits) << SPREAD
        entry.streams ^= differs
    entry.marks = marks | marks_of(low, size, writes)
    if follow(entry, bits, low, size, old, new) >= 0:
        entry.marks |= _ONE << AGAIN


@njit(cache=True)
def mark_row(row, owner, stream, entries, touched, used):  # type: ignore[no-untyped-def]
    """Enter a row, whatever it is."""
    turn, pages, words = entries
    word, low = row.addr >> _THREE, row.addr & _SEVEN
    left, old, new = np.uint64(row.size), row.old, row.new
    while left > _ZERO:
        size = min(left, _EIGHT - low)
        add_page(word >> _SHIFT, turn, pages, used)
        entry = words[find_word(word, turn, pages)]
        if np.uint64(entry.turn) != turn:
            touched[used[WORDS]] = word
            used[WORDS] += 1
            begin_entry(entry, turn)
        mark_entry(entry, low, size, old, new, owner, stream, row.kind != READ)
        left -= size
        if left > _ZERO:
            old, new = old >> (size << _THREE), new >> (size << _THREE)
            word, low = word + _ONE, _ZERO


@njit(cache=True)
def mark_rows(rows, start, owner, stream, entries, touched, used):  # type: ignore[no-untyped-def]
    """Enter an owner's rows of one stream (uint64, both below 256) from `start` on, as long as there is room.
    Returns how many rows are done.

    What nearly every row is, an access to one word of a page that is there, is done here and not by
    `mark_row`, and above all an access to bytes that are known and the owner's own: a call with arrays costs
    more than all of it.
    """
    turn, pages, words = entries
    mask = np.uint64(pages.shape[0] - 1)
    here, base = NOWHERE, _ZERO
    owners, streams = owner * EIGHT_TIMES, stream * EIGHT_TIMES
    n_touched, left_out, done = used[WORDS], 0, rows.size
    for i in range(start, rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            left_out += 1
            continue
        if n_touched + 2 > touched.size:
            done = i
            break
        size, low, word = np.uint64(row.size), row.addr & _SEVEN, row.addr >> _THREE
        page = word >> _SHIFT
        if page != here:
            slot = ((page * GOLDEN) >> _HALF) & mask
            while pages[slot, 0] != page and pages[slot, 1] >> _HALF == turn:
                slot = (slot + _ONE) & mask
            base = (pages[slot, 1] & LOW_HALF) << _SHIFT
            here = page if pages[slot, 1] >> _HALF == turn else NOWHERE
        if here == NOWHERE or low + size > _EIGHT:
            if 2 * used[PAGES] + 4 > pages.shape[0]:
                done = i
                break
            used[WORDS] = n_touched
            mark_row(row, owner, stream, entries, touched, used)
            n_touched = used[WORDS]
            continue
        entry = words[base | (word & _IN_PAGE)]
        if np.uint64(entry.turn) != turn:
            touched[n_touched] = word
            n_touched += 1
            begin_entry(entry, turn)
        marks, writes = entry.marks, row.kind != READ
        bits, byte, up = byte_bits(low, size), byte_mask(low, size), low << _THREE
        changed = (entry.last ^ (row.old << up)) | (entry.owners ^ owners) | (entry.streams ^ streams)
        if (marks >> KNOWN) & bits == bits and changed & byte == _ZERO:
            entry.marks = marks | marks_of(low, size, writes)
            entry.last = (entry.last & ~byte) | ((row.new << up) & byte)
        else:
            mark_entry(entry, low, size, row.old, row.new, owner, stream, writes)
    used[WORDS] = n_touched
    used[LEFT_OUT] += left_out
    return done


@njit(cache=True, nogil=True)
def mark_pieces(rows, at, pieces, entries, touched, used):  # type: ignore[no-untyped-def]
    """Enter the rows of a `Batch`, as long as there is room. at: int64 (2,), piece and row to go on from;
    left where it ends. pieces: its `Pieces`. Returns whether all are done."""
    k, i = at
    while k < pieces.end.size:
        begin, end = pieces.begin[k], pieces.end[k]
        owner, stream = np.uint64(pieces.owner[k]), np.uint64(pieces.stream[k])
        i = mark_rows(rows[:end], max(i, begin), owner, stream, entries, touched, used)
        if i < end:
            break
        k, i = k + 1, 0
    at[0], at[1] = k, i
    return k == pieces.end.size


@njit(cache=True, nogil=True)
def number_hot(touched, entries):  # type: ignore[no-untyped-def]
    """Number the granules that several owners in several streams touch and one writes; forget the values of
    words that are to be followed again. Returns (how many granules, whether every word is one owner's own and
    followed)."""
    turn, pages, words = entries
    count, plain = 0, True
    for i in range(touched.size):
        entry = words[find_word(touched[i], turn, pages)]
        marks = entry.marks | ((entry.marks >> OWNED) & (entry.marks >> SPREAD) & LANE) << SHARED
        entry.marks = marks
        if marks & ((LANE << SHARED) | (LANE << AGAIN)) == _ZERO:
            continue
        plain = False
        hot = lane(marks, SHARED) & lane(marks, WRITTEN) & lane(marks, BEGIN)
        if hot != _ZERO:
            entry.base = count
            marks |= _ONE << AGAIN
            for b in range(8):
                count += int((hot >> np.uint64(b)) & _ONE)
        if lane(marks, AGAIN) != _ZERO:
            entry.marks = marks & ~(LANE << KNOWN)
            entry.first = entry.last = _ZERO
    return count, plain


@njit(cache=True, nogil=True)
def list_hot(touched, entries, address, size):  # type: ignore[no-untyped-def]
    """Address and size (bytes) of every numbered granule."""
    turn, pages, words = entries
    for i in range(touched.size):
        entry = words[find_word(touched[i], turn, pages)]
        hot = lane(entry.marks, SHARED) & lane(entry.marks, WRITTEN)
        if hot == _ZERO:
            continue
        begin = hot & lane(entry.marks, BEGIN)
        granule = entry.base - 1
        for b in range(8):
            bit = np.uint64(b)
            if (begin >> bit) & _ONE:
                granule += 1
                address[granule] = (touched[i] << _THREE) + bit
            if (hot >> bit) & _ONE:
                size[granule] += np.uint8(1)


@dataclass
class Granules:
    """The granules of one region, good until its table serves the next one.

    table: the words that it touches. address (uint64), size (uint8, bytes): the unfiltered granules. plain:
    every word is one owner's own, and its accesses follow from one another.
    """

    table: WordTable
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    plain: bool

    @property
    def touched(self) -> NDArray[np.uint64]:
        """The words that the region touches, address / 8."""
        return self.table.touched[: self.table.used[WORDS]]


def find_granules(region: Region, table: WordTable | None = None) -> Granules:
    """The granules of a region, with the unfiltered ones (neither local nor read-only) numbered. table: one
    that served another region and is no longer needed for it.

    Local and read-only as in MICRO 2009, section 4.3: touched by one owner, or one stream, only; written by
    none.
    """
    return find_granules_of(region.in_order(), table)


def find_granules_of(pieces: Iterable[Batch], table: WordTable | None = None) -> Granules:
    """The same for rows in an order that each owner's rows keep. Owners: below 256."""
    table = table or WordTable()
    table.begin()
    for batch in pieces:
        at, done = np.zeros(2, np.int64), False
        while not done:
            done = mark_pieces(batch.rows, at, batch.pieces, table.entries, table.touched, table.used)
            if not done:
                table.grow()
    touched, entries = table.touched[: table.used[WORDS]], table.entries
    count, plain = number_hot(touched, entries)
    address, size = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
    list_hot(touched, entries, address, size)
    return Granules(table, address, size, plain)
