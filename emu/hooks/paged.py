"""Native hooks of a core that is recorded on the page bus: nothing is paid for an access.

Rights to pages are asked for by the emulator itself, when it fills its TLB, and kept until another takes them
(`emu.bus.pages`). A slice ends between two blocks.
"""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_WRITE_PROT

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from emu.bus.line_state import holds
from emu.bus.lines import fetch_code, need
from emu.bus.private_memory import mark_dirty
from emu.code.blocks import instructions_of, mark_unstable, probe
from emu.code.plain_blocks import known_block
from emu.hooks.access import device_access, stop
from emu.hooks.fill import PROT_EXECUTE, PROT_READ, PROT_WRITE, asked_right
from emu.hooks.record import leave_block, wanted_stop
from emu.hooks.watch import is_device_page
from emu.native.state import (
    CODE,
    CORE,
    DIRTY,
    PADDED,
    PAGE_MASK,
    PAGE_SHIFT,
    RIGHT_EXECUTE,
    RIGHT_READ,
    RIGHT_WRITE,
    STOP_DECODE,
    STOP_SLICE,
    STOP_STALE,
    WRITTEN,
    core_at,
    machine_at,
)
from emu.native.unicorn import (
    BLOCK_HOOK,
    FILL_HOOK,
    MMIO_READ_HOOK,
    MMIO_WRITE_HOOK,
    REFUSAL_HOOK,
    TLB_ENTRY,
    hook,
    pointer,
    row_getter,
)

_ZERO, _ONE = np.uint64(0), np.uint64(1)
#: Of a page that its core may write to, and whose change since the last digest is known.
_CHANGING = np.uint8(DIRTY | WRITTEN)

_entry_at = row_getter(TLB_ENTRY)


@njit(cache=True)
def _obtain(core, page, right):
    """Get a page from the bus, with a right that the core does not have."""
    machine = machine_at(core.machine)
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    if right == RIGHT_EXECUTE:
        fetch_code(core, cores, machine, page, core.count)
        # What was fetched for a block is used by its first instruction: no cut comes between them.
        core.fetched = _ONE
    else:
        need(core, cores, machine, page, core.count, right == RIGHT_WRITE)


@njit(cache=True)
def fill_held_page(core, address, access, entry):
    """Decide a page fill; False when the page table does not allow it. Else the bus gives the page, unless
    the core holds it as it needs it: that the emulator asks again is nothing to be noted."""
    page = address >> PAGE_SHIFT
    core.fills += _ONE
    rights, right = asked_right(core, address, access)
    if right == 0:
        return False
    entry.address = address & ~PAGE_MASK
    allowed = PROT_READ if rights & RIGHT_READ else 0
    if is_device_page(core, page):
        entry.permissions = np.uint32(allowed | PROT_WRITE)
        return True
    if not holds(core, page, right == RIGHT_WRITE):
        _obtain(core, page, right)
    flags = carray(pointer(core.page_flags), np.int64(page) + 1, np.uint8)
    if right == RIGHT_WRITE:
        allowed |= PROT_WRITE
        flags[page] |= np.uint8(WRITTEN)
        if (flags[page] & np.uint8(CODE)) != np.uint8(0):
            mark_unstable(core, page)
        mark_dirty(core, page)
    elif right == RIGHT_EXECUTE:
        flags[page] |= np.uint8(PADDED)
    executed = (flags[page] & np.uint8(PADDED)) != np.uint8(0)
    if executed and rights & RIGHT_EXECUTE:
        allowed |= PROT_EXECUTE
    elif not executed and rights & RIGHT_WRITE and (flags[page] & _CHANGING) == _CHANGING:
        # What it would ask next.
        allowed |= PROT_WRITE if holds(core, page, True) else 0
    entry.permissions = np.uint32(allowed)
    return True


@hook(FILL_HOOK)
def on_held_fill(handle, address, access, result, user):
    return fill_held_page(core_at(user), address, access, _entry_at(result))


@njit(cache=True, inline="always")
def _goes_on(core, machine, address, size):
    """Begin the block if nothing at all stands in its way. Returns False, with nothing changed, when
    `enter_held_block` must look."""
    entry = probe(core, address, size)
    count = core.count + instructions_of(core.entered)
    if entry == _ZERO or core.lost_n | core.stale_high | machine.attention != _ZERO or count >= core.stop_at:
        return False
    core.count = count
    core.entered = entry
    core.mid_run = _ONE
    core.fetched = _ZERO
    return True


@njit(cache=True)
def enter_held_block(core, machine, address, size):
    """Everything that happens between two blocks. Returns why the core must stop, or 0."""
    if leave_block(core, machine, address, size):
        return STOP_SLICE
    if machine.attention != _ZERO and core.fetched == _ZERO:
        reason = wanted_stop(core, machine)
        if reason != 0:
            return reason
    if core.stale_high != _ZERO:
        return STOP_STALE
    entry = known_block(core, address, size)
    if entry == _ZERO:
        return STOP_DECODE
    core.entered = entry
    core.mid_run = _ONE
    core.fetched = _ZERO
    return 0


@hook(BLOCK_HOOK)
def on_held_block(handle, address, size, user):
    core = core_at(user)
    machine = machine_at(core.machine)
    if _goes_on(core, machine, address, np.uint64(size)):
        return
    reason = enter_held_block(core, machine, address, np.uint64(size))
    if reason != 0:
        stop(core, reason)


@hook(REFUSAL_HOOK)
def on_device_refused(handle, kind, address, size, value, user):
    """Every access to the page of device registers, before it happens: the emulator believes that the page
    can be neither read nor written, and is told otherwise. False: the access fails."""
    core = core_at(user)
    device_access(core, kind == UC_MEM_WRITE_PROT, address, size, np.uint64(value))
    return core.exception == _ZERO


@hook(MMIO_READ_HOOK)
def on_device_bytes(handle, offset, size, user):
    """Some bytes of what a register answered."""
    page = carray(pointer(core_at(user).device_page), PAGE_BYTES, np.uint8)
    found = _ZERO
    for k in range(size):
        found |= np.uint64(page[np.int64(offset) + k]) << np.uint64(8 * k)
    return found


@hook(MMIO_WRITE_HOOK)
def on_device_bytes_written(handle, offset, size, value, user):
    pass
