"""Granules: accesses of different sizes split so that every event covers whole ones (DESIGN 6.1).

A granule is a maximal segment of bytes of one 8-byte word in which no access of the region begins or
ends. All bytes of a granule are thus accessed by the same events, and what holds for its first byte (who
touched it, was it written) holds for the whole granule.

The same pass follows every word's values, from the first stream to the last. That is all that there is to
know of a word without unfiltered granules.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recorder.event import READ, UNCACHED
from solver.regions import Region
from solver.traces import Events
from solver.words import (
    HASH,
    LOW_HALF,
    PAGE_SHIFT,
    PAGES,
    WORDS,
    WordTable,
    add_page,
    byte_bits,
    find_word,
    follow,
)

_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_SHIFT, _HALF, _IN_PAGE = np.uint64(PAGE_SHIFT), np.uint64(32), np.uint64((1 << PAGE_SHIFT) - 1)
_LOW_BYTE, _ALL = np.uint64(0xFF), ~np.uint64(0)


@njit(cache=True)
def begin_entry(entry, turn, stream):  # type: ignore[no-untyped-def]
    """An entry of another turn begins anew."""
    entry.turn = np.uint32(turn)
    entry.begin = np.uint8(1)
    entry.stream = np.uint8(stream)
    entry.first = entry.last = _ZERO
    entry.written = entry.now = entry.before = entry.shared = entry.known = entry.again = np.uint8(0)


@njit(cache=True)
def mark_entry(entry, low, size, old, new, stream, writes):  # type: ignore[no-untyped-def]
    """Enter an access to `size` bytes of one word from byte `low` on, and follow it."""
    if entry.stream != np.uint8(stream):
        entry.before |= entry.now
        entry.now = np.uint8(0)
        entry.stream = np.uint8(stream)
    bits = byte_bits(low, size)
    entry.begin |= np.uint8(1 << low) | np.uint8((1 << (low + size)) & 0xFF)
    entry.now |= bits
    entry.shared |= bits & entry.before
    if writes:
        entry.written |= bits
    if follow(entry, bits, low, size, old, new) >= 0:
        entry.again = np.uint8(1)


@njit(cache=True)
def mark_row(row, stream, turn, pages, words, touched, used):  # type: ignore[no-untyped-def]
    """Enter a row, whatever it is."""
    word, low = row.addr >> _THREE, np.int64(row.addr & _SEVEN)
    left, old, new = np.int64(row.size), row.old, row.new
    while left > 0:
        size = min(left, 8 - low)
        add_page(word >> _SHIFT, turn, pages, used)
        entry = words[find_word(word, turn, pages)]
        if np.uint64(entry.turn) != turn:
            touched[used[WORDS]] = word
            used[WORDS] += 1
            begin_entry(entry, turn, stream)
        mark_entry(entry, low, size, old, new, stream, row.kind != READ)
        left -= size
        if left > 0:
            old, new = old >> np.uint64(8 * size), new >> np.uint64(8 * size)
            word, low = word + _ONE, 0


@njit(cache=True)
def mark_rows(rows, start, stream, turn, pages, words, touched, used):  # type: ignore[no-untyped-def]
    """Enter a stream's rows from `start` on, as long as there is room; streams must come one after another.
    Returns how many rows are done.

    What nearly every row is, an access to one word of a page that is there, is done here and not by
    `mark_row`, and above all an access of the stream that came last to bytes that are known: a call with
    arrays costs more than all of it.
    """
    mask, mine = np.uint64(pages.shape[0] - 1), np.uint8(stream)
    n_touched = used[WORDS]
    done = rows.size
    for i in range(start, rows.size):
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        if n_touched + 2 > touched.size:
            done = i
            break
        size, low, word = np.uint64(row.size), row.addr & _SEVEN, row.addr >> _THREE
        page = word >> _SHIFT
        slot = ((page * HASH) >> _HALF) & mask
        place = pages[slot, 1]
        if pages[slot, 0] != page or place >> _HALF != turn or low + size > _EIGHT:
            if 2 * used[PAGES] + 4 > pages.shape[0]:
                done = i
                break
            used[WORDS] = n_touched
            mark_row(row, stream, turn, pages, words, touched, used)
            n_touched = used[WORDS]
            continue
        entry = words[((place & LOW_HALF) << _SHIFT) | (word & _IN_PAGE)]
        if np.uint64(entry.turn) != turn:
            touched[n_touched] = word
            n_touched += 1
            begin_entry(entry, turn, stream)
        up = low << _THREE
        bits = np.uint8((((_ONE << size) - _ONE) << low) & _LOW_BYTE)
        byte = _ALL >> ((_EIGHT - size) << _THREE) << up
        known = entry.stream == mine and entry.known & bits == bits
        if known and (entry.last ^ (row.old << up)) & byte == _ZERO:
            entry.begin |= np.uint8(((_ONE << low) | (_ONE << (low + size))) & _LOW_BYTE)
            entry.now |= bits
            entry.shared |= bits & entry.before
            if row.kind != READ:
                entry.written |= bits
            entry.last = (entry.last & ~byte) | ((row.new << up) & byte)
        else:
            mark_entry(entry, np.int64(low), np.int64(size), row.old, row.new, stream, row.kind != READ)
    used[WORDS] = n_touched
    return done


@njit(cache=True)
def number_hot(touched, turn, pages, words):  # type: ignore[no-untyped-def]
    """Number the granules that several streams touch and one writes; forget the values of words that are to
    be followed again. Returns how many granules."""
    count = 0
    for i in range(touched.size):
        entry = words[find_word(touched[i], turn, pages)]
        hot = entry.shared & entry.written & entry.begin
        if hot != 0:
            entry.base = count
            entry.again = np.uint8(1)
            for b in range(8):
                count += (hot >> b) & 1
        if entry.again != 0:
            entry.known = np.uint8(0)
            entry.first = entry.last = _ZERO
    return count


@njit(cache=True)
def list_hot(touched, turn, pages, words, address, size):  # type: ignore[no-untyped-def]
    """Address and size (bytes) of every numbered granule."""
    for i in range(touched.size):
        entry = words[find_word(touched[i], turn, pages)]
        hot = entry.shared & entry.written
        if hot == 0:
            continue
        granule = entry.base - 1
        for b in range(8):
            if hot & entry.begin & (1 << b):
                granule += 1
                address[granule] = (touched[i] << _THREE) + np.uint64(b)
            if hot & (1 << b):
                size[granule] += np.uint8(1)


@dataclass
class Granules:
    """The granules of one region, good until its table serves the next one.

    table: the words that it touches. address (uint64), size (uint8, bytes): the unfiltered granules.
    """

    table: WordTable
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]

    @property
    def touched(self) -> NDArray[np.uint64]:
        """The words that the region touches, address / 8."""
        return self.table.touched[: self.table.used[WORDS]]


def find_granules(region: Region, table: WordTable | None = None) -> Granules:
    """The granules of a region, with the unfiltered ones (neither local nor read-only) numbered. table: one
    that served another region and is no longer needed for it.

    Local and read-only as in MICRO 2009, section 4.3: touched by one stream only; written by none.
    """
    table = table or WordTable()
    table.begin()
    for stream, rows in enumerate(region.streams):
        for piece in rows.pieces():
            _mark(table, piece, stream)
    entries = table.touched[: table.used[WORDS]], table.turn, table.pages, table.words
    count = number_hot(*entries)
    address, size = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
    list_hot(*entries, address, size)
    return Granules(table, address, size)


def _mark(table: WordTable, rows: Events, stream: int) -> None:
    done = 0
    while done < len(rows):
        done = mark_rows(rows, done, stream, table.turn, table.pages, table.words, table.touched, table.used)
        if done < len(rows):
            table.grow()
