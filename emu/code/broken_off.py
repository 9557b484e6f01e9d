"""What an instruction stored before the emulator broke it off: taken back where it reads that again.

The emulator makes a store that is not aligned byte by byte. At the first byte that belongs to the block that
executes it, it breaks the instruction off, and runs it again. What is stored by then lies right before the
block. An instruction that stores what it computes from what it read there would compute it twice.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.native.unicorn import peek8, peek64, pointer

_ZERO, _ONE, _THREE = np.uint64(0), np.uint64(1), np.uint64(3)
#: Bytes that an instruction reads and stores at most, and so many before the block are kept.
_KEPT = np.uint64(8)


@njit(cache=True)
def keep_before(core, address):
    """Keep what stands before the block at `address`, which begins, or may begin to change."""
    core.before_of = _ZERO
    if address >= _KEPT:
        core.before = peek64(core.memory + address - _KEPT)
        core.before_of = address


@njit(cache=True)
def received_before(core, address, n):
    """The core received `n` bytes at `address`, which no instruction of its block has read or stored: keep
    those before the block."""
    first = core.before_of - _KEPT
    if core.before_of == _ZERO or address >= core.before_of or address + n <= first:
        return
    for k in range(_KEPT):
        at = first + np.uint64(k)
        if address <= at < address + n:
            shift = np.uint64(8 * k)
            byte = np.uint64(peek8(core.memory + at))
            core.before = core.before & ~(np.uint64(0xFF) << shift) | byte << shift


@njit(cache=True)
def put_before(core, address, size):
    """Lay what stood before the block at `address` where it was: as far as a store of `size` bytes, that had
    one to go at least, can have come. Returns whether that changed anything."""
    if core.before_of != address or size == _ZERO:
        return False
    count, changed = min(size - _ONE, _KEPT), False
    memory = carray(pointer(core.memory + address - count), np.int64(count) + 1, np.uint8)
    for k in range(count):
        byte = np.uint8(core.before >> ((_KEPT - count + np.uint64(k)) << _THREE))
        changed = changed or memory[np.int64(k)] != byte
        memory[np.int64(k)] = byte
    return changed
