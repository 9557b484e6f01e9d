"""Stores that may have to be taken back, because the instruction that made them fails later or is stopped."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from emu.native.state import PAGE_MASK, PAGE_SHIFT, RIGHT_WRITE
from emu.native.unicorn import peek8, peek64, pointer

_ONE = np.uint64(1)
_ZERO = np.uint64(0)

#: `armed`, why every access of the block needs a look: it may be the slice's end; its store may have to be
#: undone. In a replay `armed` is an entry instead (emu/hooks/replay.py).
ARMED_SLICE, ARMED_UNDO = np.uint64(1), np.uint64(2)

#: An instruction's stores reach at most this far into the next page: `xsave`.
EDGE = np.uint64(PAGE_BYTES - 832)
#: Rows of the stores that may have to be undone: address, size, old bytes.
EDGE_ROWS = 256


@njit(cache=True)
def load_bytes(core, address, size):
    """The `size` (1 to 8) bytes at `address` in the core's memory, little-endian."""
    if size == 8:
        return peek64(core.memory + address)
    value = _ZERO
    for k in range(size):
        value |= np.uint64(peek8(core.memory + address + np.uint64(k))) << np.uint64(8 * k)
    return value


@njit(cache=True)
def store_bytes(core, address, size, value):
    """Put the low `size` bytes of `value` into the core's memory."""
    memory = carray(pointer(core.memory + address), size, np.uint8)
    for k in range(size):
        memory[k] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(0xFF))


@njit(cache=True)
def may_be_undone(core, address):
    """Whether the instruction that stores to `address` may still fail.

    `movups`, `fstp` of 10 bytes and `fxsave` may in the page above, if that cannot be written; `enter`, whose
    block is armed for it, at a frame pointer that it copies, in the page below, or where the stack ends then.
    """
    if (core.armed & ARMED_UNDO) != _ZERO:
        return True
    if (address & PAGE_MASK) < EDGE:
        return False
    page = (address >> PAGE_SHIFT) + _ONE
    inside = page < core.memory_bytes >> PAGE_SHIFT
    return not (inside and (peek8(core.page_rights + page) & np.uint8(RIGHT_WRITE)) != np.uint8(0))


@njit(cache=True)
def note_store(core, address, size, count):
    """Keep what the store of the instruction at `count` overwrites, for `undo_stores`."""
    if core.edge_count != count:
        core.edge_count = count
        core.edge_n = _ZERO
    if core.edge_n < np.uint64(EDGE_ROWS):
        rows = carray(pointer(core.edge), (EDGE_ROWS, 3), np.uint64)
        rows[core.edge_n, 0] = address
        rows[core.edge_n, 1] = np.uint64(size)
        rows[core.edge_n, 2] = load_bytes(core, address, size)
        core.edge_n += _ONE


@njit(cache=True)
def undo_stores(core):
    """Put back what the stores of an instruction that failed have overwritten. Others have lost these lines
    then, and nobody has written to them: `undone` counts that."""
    if core.edge_count != core.count:
        return
    if core.edge_n != _ZERO:
        core.undone += _ONE
    rows = carray(pointer(core.edge), (EDGE_ROWS, 3), np.uint64)
    while core.edge_n != _ZERO:
        core.edge_n -= _ONE
        row = rows[core.edge_n]
        store_bytes(core, row[0], np.int64(row[1]), row[2])
