"""Granules: accesses of different sizes split so that every event covers whole ones (DESIGN 6.1).

A granule is a maximal segment of bytes of one 8-byte word in which no access of the region begins or
ends. All bytes of a granule are thus accessed by the same events, and what holds for its first byte (who
touched it, was it written) holds for the whole granule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recorder.event import READ, UNCACHED
from solver.regions import Region
from solver.traces import Events

#: `owner` of a byte: the stream that touched it, or one of these.
UNTOUCHED, SHARED = 255, 254

_HASH = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)


@njit(cache=True)
def find_slot(word, keys):  # type: ignore[no-untyped-def]
    """Slot of a word in the table: the one that holds it, or the empty one where it belongs."""
    mask = np.uint64(keys.size - 1)
    slot = ((word * _HASH) >> np.uint64(32)) & mask
    while keys[slot] != np.uint64(0) and keys[slot] != word + _ONE:
        slot = (slot + _ONE) & mask
    return np.int64(slot)


@njit(cache=True)
def mark_rows(rows, start, stream, keys, begin, written, owner, used):  # type: ignore[no-untyped-def]
    """Enter rows into the table until it is half full. Returns (rows done, slots used)."""
    for i in range(start, rows.size):
        if used + 2 > keys.size // 2:
            return i, used
        row = rows[i]
        if row.flags & UNCACHED:
            continue
        first = row.addr
        left = np.int64(row.size)
        while left > 0:
            word = first >> np.uint64(3)
            low = np.int64(first & np.uint64(7))
            high = low + left if low + left < 8 else 8
            slot = find_slot(word, keys)
            if keys[slot] == np.uint64(0):
                keys[slot] = word + _ONE
                begin[slot] = 1
                used += 1
            begin[slot] |= np.uint8(1 << low)
            if high < 8:
                begin[slot] |= np.uint8(1 << high)
            for b in range(low, high):
                if owner[slot, b] == UNTOUCHED:
                    owner[slot, b] = stream
                elif owner[slot, b] != stream:
                    owner[slot, b] = SHARED
                if row.kind != READ:
                    written[slot] |= np.uint8(1 << b)
            first += np.uint64(high - low)
            left -= high - low
    return rows.size, used


@njit(cache=True)
def rehash(keys, begin, written, owner, keys2, begin2, written2, owner2):  # type: ignore[no-untyped-def]
    """Move a table's entries into a larger empty one."""
    for i in range(keys.size):
        if keys[i] != np.uint64(0):
            slot = find_slot(keys[i] - _ONE, keys2)
            keys2[slot] = keys[i]
            begin2[slot] = begin[i]
            written2[slot] = written[i]
            owner2[slot] = owner[i]


@njit(cache=True)
def mark_hot(keys, begin, written, owner, hot, hot_bytes, base):  # type: ignore[no-untyped-def]
    """Mark the granules that several streams touch and one writes; number them. Returns how many."""
    count = 0
    for slot in range(keys.size):
        base[slot] = count
        inside = False
        for b in range(8):
            if begin[slot] & (1 << b):
                inside = owner[slot, b] == SHARED and (written[slot] & (1 << b)) != 0
                if inside:
                    hot[slot] |= np.uint8(1 << b)
                    count += 1
            if inside:
                hot_bytes[slot] |= np.uint8(1 << b)
    return count


@njit(cache=True)
def list_hot(keys, hot, hot_bytes, base, address, size):  # type: ignore[no-untyped-def]
    """Address and size (bytes) of every numbered granule."""
    for slot in range(keys.size):
        granule = base[slot] - 1
        for b in range(8):
            if hot[slot] & (1 << b):
                granule += 1
                address[granule] = ((keys[slot] - _ONE) << np.uint64(3)) + np.uint64(b)
            if hot_bytes[slot] & (1 << b):
                size[granule] += np.uint8(1)


@dataclass
class Granules:
    """The granules of one region: a hash table over the 8-byte words it touches.

    keys: uint64 (n,), word number + 1, 0 where empty; n is a power of two. begin: uint8 (n,), bit b set
    where a granule begins at byte b. written: uint8 (n,), bit per written byte. owner: uint8 (n, 8), the
    stream that touched each byte, SHARED or UNTOUCHED. hot: uint8 (n,), bit b set where an unfiltered
    granule begins; hot_bytes: uint8 (n,), the bytes of those. base: int32 (n,), number of a word's first
    unfiltered granule. address (uint64), size (uint8, bytes): the unfiltered granules.
    """

    keys: NDArray[np.uint64]
    begin: NDArray[np.uint8]
    written: NDArray[np.uint8]
    owner: NDArray[np.uint8]
    hot: NDArray[np.uint8]
    hot_bytes: NDArray[np.uint8]
    base: NDArray[np.int32]
    address: NDArray[np.uint64]
    size: NDArray[np.uint8]


class _Table:
    """The table while it grows."""

    def __init__(self) -> None:
        self.used = 0
        self._allocate(1 << 10)

    def _allocate(self, n: int) -> None:
        self.keys = np.zeros(n, np.uint64)
        self.begin, self.written = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
        self.owner = np.full((n, 8), UNTOUCHED, np.uint8)

    def _arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        return self.keys, self.begin, self.written, self.owner

    def mark(self, rows: Events, stream: int) -> None:
        done = 0
        while done < len(rows):
            done, self.used = mark_rows(rows, done, stream, *self._arrays(), self.used)
            if done < len(rows):
                small = self._arrays()
                self._allocate(len(self.keys) * 4)
                rehash(*small, *self._arrays())


def find_granules(region: Region) -> Granules:
    """The granules of a region, with the unfiltered ones (neither local nor read-only) numbered.

    Local and read-only as in MICRO 2009, section 4.3: touched by one stream only; written by none.
    """
    table = _Table()
    for stream, rows in enumerate(region.streams):
        for piece in rows.pieces():
            table.mark(piece, stream)
    n = len(table.keys)
    hot, hot_bytes, base = np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.zeros(n, np.int32)
    count = mark_hot(table.keys, table.begin, table.written, table.owner, hot, hot_bytes, base)
    address, size = np.zeros(count, np.uint64), np.zeros(count, np.uint8)
    list_hot(table.keys, hot, hot_bytes, base, address, size)
    return Granules(table.keys, table.begin, table.written, table.owner, hot, hot_bytes, base, address, size)
