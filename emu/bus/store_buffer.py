"""A core's store buffer under TSO: first in, first out (Sewell et al., x86-TSO, CACM 53(7), 2010, section
3.1).

A store goes into the core's private memory at once, so that its own loads see it, and into the buffer. When
it leaves the buffer it *commits*: the core obtains the line, and the bytes go to home memory, where the
others find them. A line that arrives meanwhile gets the buffered bytes laid over it.

In a traced replay the same buffer holds stores that have not been seen to commit (emu/hooks/trace_tso.py).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import pointer

#: Rows of the ring, a power of two: the largest capacity, and the stores of one instruction (`fxsave`) more.
BUFFER_ROWS = 256
MOST_BUFFERED = 64
#: Words of a row: address, size, new bytes, instruction count; in a traced replay the row of its event.
ADDRESS, SIZE, VALUE, COUNT, ROW, _WORDS = 0, 1, 2, 3, 4, 5
#: A store commits at the latest when its core accesses memory so many instructions later.
OLDEST = np.uint64(512)

_ZERO, _ONE, _BYTE = np.uint64(0), np.uint64(1), np.uint64(0xFF)
_MASK = np.uint64(BUFFER_ROWS - 1)


def new_buffer() -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """The rows of an empty buffer: uint64[BUFFER_ROWS, 5]."""
    return np.zeros((BUFFER_ROWS, _WORDS), np.uint64)


@njit(cache=True)
def buffer_rows(core):
    """The ring, uint64[BUFFER_ROWS, 5]."""
    return carray(pointer(core.buffer), (BUFFER_ROWS, _WORDS), np.uint64)


@njit(cache=True, inline="always")
def nth(core, k):
    """Row in the ring of the k-th oldest buffered store."""
    return (core.buffer_first + k) & _MASK


@njit(cache=True)
def append_store(core, address, size, value, count, event):
    """Append a store. One that the emulator runs a second time (a store into its own block) replaces
    itself."""
    rows = buffer_rows(core)
    at = nth(core, core.buffered)
    if core.buffered != _ZERO:
        last = nth(core, core.buffered - _ONE)
        row = rows[last]
        if row[COUNT] == count and row[ADDRESS] == address and row[SIZE] == size:
            at = last
            core.buffered -= _ONE
    rows[at, ADDRESS] = address
    rows[at, SIZE] = size
    rows[at, VALUE] = value
    rows[at, COUNT] = count
    rows[at, ROW] = event
    core.buffered += _ONE


@njit(cache=True)
def drop_oldest(core):
    """Forget the oldest store: it has committed."""
    core.buffer_first = nth(core, _ONE)
    core.buffered -= _ONE
    core.committed += _ONE


@njit(cache=True)
def drop_newest(core, count):
    """Forget the stores of the instruction at `count`: it is taken back."""
    rows = buffer_rows(core)
    while core.buffered != _ZERO and rows[nth(core, core.buffered - _ONE), COUNT] == count:
        core.buffered -= _ONE


@njit(cache=True)
def newest_overlap(core, address, size):
    """How many stores from the oldest to the newest that overlaps [address, address + size); 0 if none
    does."""
    rows = buffer_rows(core)
    k = core.buffered
    while k != _ZERO:
        row = rows[nth(core, k - _ONE)]
        if row[ADDRESS] < address + size and address < row[ADDRESS] + row[SIZE]:
            return k
        k -= _ONE
    return _ZERO


@njit(cache=True)
def covers(core, k, address, size):
    """Whether the k-th store (1: the oldest) writes all of [address, address + size)."""
    row = buffer_rows(core)[nth(core, k - _ONE)]
    return row[ADDRESS] <= address and address + size <= row[ADDRESS] + row[SIZE]


@njit(cache=True)
def lay_over(core, base, line, count):
    """Lay the bytes that instructions before `count` have buffered over `line` (uint8[n]), which begins at
    address `base`."""
    rows = buffer_rows(core)
    end = base + np.uint64(line.size)
    for k in range(core.buffered):
        row = rows[nth(core, np.uint64(k))]
        if row[COUNT] >= count or row[ADDRESS] >= end or row[ADDRESS] + row[SIZE] <= base:
            continue
        for b in range(row[SIZE]):
            at = row[ADDRESS] + np.uint64(b)
            if base <= at < end:
                line[np.int64(at - base)] = np.uint8((row[VALUE] >> np.uint64(8 * b)) & _BYTE)
