"""Granules: accesses of different sizes split so that every event covers whole ones (DESIGN 6.1).

A granule is a maximal segment of bytes of one 8-byte word in which no access of the region begins or
ends. All bytes of a granule are thus accessed by the same events, and what holds for its first byte (who
touched it, was it written) holds for the whole granule.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recorder.event import READ, UNCACHED
from solver.regions import Region
from solver.traces import Events

#: One 8-byte word that a region touches; each u1 but `stream` has a bit for every byte of the word.
#: key: word number + 1, 0 where the slot is empty. begin: a granule begins here. written: some event
#: writes. stream, now: the last stream that came here, and what it touched; before: what others touched
#: before it. shared: touched by several streams. hot: an unfiltered granule begins here; hot_bytes: the
#: bytes of those. base: number of the first of them. known: bytes of filtered accesses, with their value
#: before the first of these (`first`) and after the last (`last`).
WORD = np.dtype(
    [
        ("key", "<u8"),
        ("first", "<u8"),
        ("last", "<u8"),
        ("base", "<i4"),
        ("begin", "u1"),
        ("written", "u1"),
        ("stream", "u1"),
        ("now", "u1"),
        ("before", "u1"),
        ("shared", "u1"),
        ("hot", "u1"),
        ("hot_bytes", "u1"),
        ("known", "u1"),
    ],
    align=True,
)
#: Slots of the smallest table, and of the largest that is made before it is needed.
_LEAST, _MOST_AT_ONCE = 1 << 10, 1 << 16

_HASH = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


@njit(cache=True)
def find_slot(word, table):  # type: ignore[no-untyped-def]
    """Slot of a word in the table: the one that holds it, or the empty one where it belongs."""
    mask = np.uint64(table.size - 1)
    slot = ((word * _HASH) >> np.uint64(32)) & mask
    while table[slot].key != np.uint64(0) and table[slot].key != word + _ONE:
        slot = (slot + _ONE) & mask
    return np.int64(slot)


@njit(cache=True)
def byte_bits(low, size):  # type: ignore[no-untyped-def]
    """Bits of the bytes low to low + size - 1 of a word (uint8)."""
    return np.uint8(((1 << size) - 1) << low)


@njit(cache=True)
def mark_word(table, word, low, size, stream, writes):  # type: ignore[no-untyped-def]
    """Enter an access to `size` bytes of one word from byte `low` on. Returns the slots newly used."""
    entry = table[find_slot(word, table)]
    fresh = 0
    if entry.key == np.uint64(0):
        entry.key = word + _ONE
        entry.begin = np.uint8(1)
        entry.stream = np.uint8(stream)
        fresh = 1
    elif entry.stream != np.uint8(stream):
        entry.before |= entry.now
        entry.now = np.uint8(0)
        entry.stream = np.uint8(stream)
    bits = byte_bits(low, size)
    entry.begin |= np.uint8(1 << low) | np.uint8((1 << (low + size)) & 0xFF)
    entry.now |= bits
    entry.shared |= bits & entry.before
    if writes:
        entry.written |= bits
    return fresh


@njit(cache=True)
def mark_rows(rows, start, stream, table, used):  # type: ignore[no-untyped-def]
    """Enter a stream's rows into the table until it is half full; streams must come one after another.
    Returns (rows done, slots used)."""
    most = table.size // 2 - 2
    for i in range(start, rows.size):
        if used > most:
            return i, used
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        word, low = row.addr >> np.uint64(3), np.int64(row.addr & np.uint64(7))
        size, writes = np.int64(row.size), row.kind != READ
        here = min(size, 8 - low)
        used += mark_word(table, word, low, here, stream, writes)
        if here < size:
            used += mark_word(table, word + _ONE, 0, size - here, stream, writes)
    return rows.size, used


@njit(cache=True)
def rehash(table, larger):  # type: ignore[no-untyped-def]
    """Move a table's entries into a larger empty one."""
    for i in range(table.size):
        if table[i].key != np.uint64(0):
            larger[find_slot(table[i].key - _ONE, larger)] = table[i]


@njit(cache=True)
def mark_hot(table):  # type: ignore[no-untyped-def]
    """Mark the granules that several streams touch and one writes; number them. Returns how many."""
    count = 0
    for slot in range(table.size):
        entry = table[slot]
        hot = entry.shared & entry.written
        if hot == 0:
            continue
        entry.base = count
        inside = False
        for b in range(8):
            bit = np.uint8(1 << b)
            if entry.begin & bit:
                inside = (hot & bit) != 0
                if inside:
                    entry.hot |= bit
                    count += 1
            if inside:
                entry.hot_bytes |= bit
    return count


@njit(cache=True)
def list_hot(table, address, size):  # type: ignore[no-untyped-def]
    """Address and size (bytes) of every numbered granule."""
    for slot in range(table.size):
        entry = table[slot]
        if entry.hot == 0:
            continue
        granule = entry.base - 1
        for b in range(8):
            if entry.hot & (1 << b):
                granule += 1
                address[granule] = ((entry.key - _ONE) << np.uint64(3)) + np.uint64(b)
            if entry.hot_bytes & (1 << b):
                size[granule] += np.uint8(1)


@dataclass
class Granules:
    """The granules of one region: a hash table over the 8-byte words it touches.

    table: WORD (n,), n a power of two. address (uint64), size (uint8, bytes): the unfiltered granules.
    words: how many words are touched.
    """

    table: NDArray[Any]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]
    words: int


class _Table:
    """The table while it grows."""

    def __init__(self, rows: int) -> None:
        self.used = 0
        slots = _LEAST
        while slots < min(rows // 8, _MOST_AT_ONCE):
            slots *= 2
        self.words = np.zeros(slots, WORD)

    def mark(self, rows: Events, stream: int) -> None:
        done = 0
        while True:
            done, self.used = mark_rows(rows, done, stream, self.words, self.used)
            if done == len(rows):
                return
            larger = np.zeros(len(self.words) * 4, WORD)
            rehash(self.words, larger)
            self.words = larger


def find_granules(region: Region) -> Granules:
    """The granules of a region, with the unfiltered ones (neither local nor read-only) numbered.

    Local and read-only as in MICRO 2009, section 4.3: touched by one stream only; written by none.
    """
    return _find((rows.pieces() for rows in region.streams), region.events)


def find_granules_of(groups: list[tuple[Events, Events]], events: int) -> Granules:
    """The same for groups of rows of one stream or core each. events: how many rows there are."""
    return _find(groups, events)


def _find(groups: Iterable[Iterable[Events]], events: int) -> Granules:
    table = _Table(events)
    for number, pieces in enumerate(groups):
        for piece in pieces:
            table.mark(piece, number)
    count = mark_hot(table.words)
    address, size = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
    list_hot(table.words, address, size)
    return Granules(table.words, address, size, table.used)
