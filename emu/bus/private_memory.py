"""A core's private memory: bytes come into it as lines, from the bus or from a log."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.bus.line_state import was_here
from emu.code.blocks import mark_unstable
from emu.code.broken_off import received_before
from emu.native.state import CODE, DIRTY, PADDED, PAGE_SHIFT
from emu.native.unicorn import pointer

_ONE = np.uint64(1)


@njit(cache=True)
def mark_dirty(core, page):
    """List a page as changed since the last digest."""
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if (flags[page] & np.uint8(DIRTY)) == np.uint8(0):
        flags[page] |= np.uint8(DIRTY)
        carray(pointer(core.dirty_pages), np.int64(core.dirty_n) + 1, np.uint64)[core.dirty_n] = page
        core.dirty_n += _ONE


@njit(cache=True)
def put_bytes(core, address, size, value):
    """Put `size` (1 to 8) bytes into the core's memory, as if it had held them before it ran what runs.
    Translations of code there are then marked stale, if they were others. For a core that had all of memory
    at the beginning."""
    mine = carray(pointer(core.memory + address), size, np.uint8)
    changed = False
    for k in range(size):
        byte = np.uint8((value >> np.uint64(8 * k)) & np.uint64(0xFF))
        if mine[k] != byte:
            changed = True
            mine[k] = byte
    if not changed:
        return
    final = address + np.uint64(size) - _ONE
    for page in range(address >> PAGE_SHIFT, (final >> PAGE_SHIFT) + _ONE):
        flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
        if (flags[page] & np.uint8(CODE | PADDED)) != np.uint8(0):
            mark_unstable(core, np.uint64(page))
            core.stale_low = min(core.stale_low, address)
            core.stale_high = max(core.stale_high, final + _ONE)


@njit(cache=True)
def put_line(core, base, line):
    """Copy a line (uint8[line bytes]) to the address `base` of the core's memory. Returns True when its bytes
    were others before; translations of code there are then marked stale."""
    mine = carray(pointer(core.memory + base), line.size, np.uint8)
    changed = False
    for k in range(line.size):
        if line[k] != mine[k]:
            changed = True
            mine[k] = line[k]
    received_before(core, base, np.uint64(line.size))
    page = base >> PAGE_SHIFT
    mark_dirty(core, page)
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if changed and (flags[page] & np.uint8(CODE | PADDED)) != np.uint8(0):
        # No known block holds bytes of a line that never was here: not even the padding.
        if was_here(core, base >> core.line_shift):
            mark_unstable(core, page)
        core.stale_low = min(core.stale_low, base)
        core.stale_high = max(core.stale_high, base + np.uint64(line.size))
    return changed
