"""Private memory and its page table: rights, and which pages changed since the last digest.

Unicorn asks `on_fill` once for each page and kind of access until the TLB is flushed, so this costs
nothing for an access.
"""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_FETCH, UC_MEM_WRITE

from corebraid.base.compiled import carray, njit
from emu.bus.line_state import is_received, mark_received
from emu.bus.private_memory import mark_dirty
from emu.code.blocks import mark_unstable
from emu.hooks.trace_holds import use_page
from emu.hooks.watch import is_device_page, keep_page
from emu.native.state import (
    CODE,
    PADDED,
    PAGE_MASK,
    PAGE_SHIFT,
    RIGHT_EXECUTE,
    RIGHT_READ,
    RIGHT_WRITE,
    WRITTEN,
    core_at,
)
from emu.native.unicorn import FILL_HOOK, TLB_ENTRY, hook, pointer, row_getter

#: What a fill may allow (unicorn.h, uc_prot).
PROT_READ, PROT_WRITE, PROT_EXECUTE = 1, 2, 4

_entry_at = row_getter(TLB_ENTRY)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _rights(core, page):
    if page < core.memory_bytes >> PAGE_SHIFT:
        return np.int64(carray(pointer(core.page_rights), np.int64(page) + 1, np.uint8)[page])
    if is_device_page(core, page):
        return np.int64(RIGHT_READ | RIGHT_WRITE)
    return np.int64(0)


@njit(cache=True)
def _pad_code(core, page, flags):
    """Unreceived lines of a page that is executed from hold an instruction that ends a block. Where whole
    pages are received it stays as it is: what comes is told by how it differs."""
    flags[page] |= np.uint8(PADDED)
    if core.line_shift == PAGE_SHIFT:
        return
    lines = np.int64(1) << (12 - np.int64(core.line_shift))
    n = np.int64(1) << np.int64(core.line_shift)
    for line in range(np.int64(page) * lines, (np.int64(page) + 1) * lines):
        if not is_received(core, np.uint64(line)):
            carray(pointer(core.memory + np.uint64(line * n)), n, np.uint8)[:] = np.uint8(core.entry_fetch)


@njit(cache=True)
def asked_right(core, address, access):
    """(the rights to a page, the one that an access needs); (0, 0), with the fault kept in the core's row,
    where it is not among them."""
    rights = _rights(core, address >> PAGE_SHIFT)
    need = RIGHT_READ
    if access == UC_MEM_WRITE:
        need = RIGHT_WRITE
    elif access == UC_MEM_FETCH:
        need = RIGHT_EXECUTE
    if rights & need == 0:
        core.fault_address = address
        core.fault_access = np.uint64(access)
        return 0, 0
    return rights, need


@njit(cache=True)
def fill_page(core, address, access, entry):
    """Decide a page fill; False when rights do not allow it."""
    page = address >> PAGE_SHIFT
    core.fills += _ONE
    rights, need = asked_right(core, address, access)
    if need == 0:
        return False
    if core.holds != _ZERO and need != RIGHT_EXECUTE:
        use_page(core, page, need == RIGHT_WRITE)
    entry.address = address & ~PAGE_MASK
    allowed = 0
    if rights & RIGHT_READ:
        allowed |= PROT_READ
    if is_device_page(core, page):
        allowed |= PROT_WRITE
    else:
        flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
        if need == RIGHT_WRITE:
            allowed |= PROT_WRITE
            keep_page(core, page)
            flags[page] |= np.uint8(WRITTEN)
            if (flags[page] & np.uint8(CODE)) != np.uint8(0):
                mark_unstable(core, page)
            mark_dirty(core, page)
        elif need == RIGHT_EXECUTE and (flags[page] & np.uint8(PADDED)) == np.uint8(0):
            _pad_code(core, page, flags)
        # Not before the first instruction fetch has asked: its page must have been padded.
        if rights & RIGHT_EXECUTE and (flags[page] & np.uint8(PADDED)) != np.uint8(0):
            allowed |= PROT_EXECUTE
    entry.permissions = np.uint32(allowed)
    return True


@hook(FILL_HOOK)
def on_fill(handle, address, access, result, user):
    core = core_at(user)
    # The second page of an access is filled behind its hook.
    core.unlocated = _ZERO
    return fill_page(core, address, access, _entry_at(result))


@njit(cache=True)
def fill_whole_page(core, address, access, entry):
    """`fill_page` of a core that had all of memory at the beginning: no line of it is missing."""
    page = address >> PAGE_SHIFT
    if access == UC_MEM_FETCH and page < core.memory_bytes >> PAGE_SHIFT and core.line_shift < PAGE_SHIFT:
        lines = _ONE << (PAGE_SHIFT - core.line_shift)
        for line in range(page * lines, (page + _ONE) * lines):
            mark_received(core, np.uint64(line))
    return fill_page(core, address, access, entry)


@hook(FILL_HOOK)
def on_whole_fill(handle, address, access, result, user):
    core = core_at(user)
    core.unlocated = _ZERO
    return fill_whole_page(core, address, access, _entry_at(result))
