"""Native memory hook of a traced replay: every data access becomes an `EVENT` row."""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_WRITE

from corebraid.base.compiled import carray, njit
from corebraid.base.fingerprints import page_fingerprint
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import (
    EVENT,
    FAILED,
    FENCE,
    FETCH,
    GLUED,
    HELD,
    READ,
    RMW,
    UNCACHED,
    UNCOUNTED,
    WRITE,
    Access,
)
from corebraid.base.rows.record import RECORD
from emu.bus.private_memory import mark_dirty
from emu.bus.store_buffer import drop_newest
from emu.code.blocks import ATOMIC, OFFSET_MASK, block_info, instruction_offset
from emu.hooks.trace_rows import append_row, last_count
from emu.hooks.trace_tso import EVENT_BYTES, event_at, settle_all, settle_due, store_received, trace_store
from emu.hooks.undo import load_bytes, store_bytes
from emu.hooks.watch import is_watched, keep_page, watched_part
from emu.native.registers import read_pc
from emu.native.state import PAGE_SHIFT, STOP_MISPLACED, core_at
from emu.native.unicorn import BLOCK_HOOK, MEMORY_HOOK, hook, peek64, pointer

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
#: Flags of a row that was taken back and is behind the last one.
_BROKEN_OFF = np.uint8(0xFF)


@njit(cache=True)
def trace_fetch(core, address, n, count):
    """The line that an instruction fetch received: reads of 8 bytes each."""
    if core.marking == _ZERO and not is_watched(core, address):
        return
    for k in range(0, n, 8):
        value = load_bytes(core, address + np.uint64(k), 8)
        append_row(
            core, count, core.block_address, Access(READ, address + np.uint64(k), 8, value, value), FETCH
        )


@njit(cache=True)
def trace_gain(core, page, count):
    """What a page held that the core received, changed or not."""
    address = page << PAGE_SHIFT
    value = page_fingerprint(carray(pointer(core.memory + address), PAGE_BYTES, np.uint8))
    append_row(core, count, core.block_address, Access(HELD, address, 8, value, value), FETCH | UNCOUNTED)


@njit(cache=True)
def low_bytes(value, size):
    """The low `size` (1 to 8) bytes of a value."""
    if size < 8:
        value &= (_ONE << np.uint64(8 * size)) - _ONE
    return value


@njit(cache=True)
def store_half_done(core, address, size, value):
    """The instruction at which the core stands has stored these bytes, and then failed (`STORED`)."""
    keep_page(core, address >> PAGE_SHIFT)
    keep_page(core, (address + np.uint64(size) - _ONE) >> PAGE_SHIFT)
    at, part, skipped = watched_part(core, address, size) if core.marking == _ZERO else (address, size, 0)
    if core.trace != _ZERO and part > 0:
        old, new = load_bytes(core, at, part), low_bytes(value >> np.uint64(8 * skipped), part)
        append_row(core, core.count, core.block_address, Access(WRITE, at, part, old, new), FAILED)
    store_bytes(core, address, size, value)
    mark_dirty(core, address >> PAGE_SHIFT)


@njit(cache=True)
def trace_made_alone(core, page, before, flags):
    """What the core made of a page while it was not watched, in words: what it was (uint8[PAGE_BYTES]), and
    what it is. They belong to the last instruction that ran, or to what failed after it. flags: ALONE, and
    perhaps UNCOUNTED."""
    count = max(core.count - min(core.count, _ONE), last_count(core))
    base = page << PAGE_SHIFT
    for at in range(0, PAGE_BYTES, 8):
        old = np.uint64(0)
        for k in range(8):
            old |= np.uint64(before[at + k]) << np.uint64(8 * k)
        new = peek64(core.memory + base + np.uint64(at))
        if old != new:
            access = Access(WRITE, base + np.uint64(at), 8, old, new)
            append_row(core, count, core.block_address, access, flags)
            if core.marking != _ZERO:
                # Among all accesses it has no number.
                core.trace_sequence -= _ONE


@njit(cache=True)
def take_back(core):
    """Drop the rows of an instruction that is about to run a second time: a store into its own block."""
    while core.trace_n > _ZERO:
        last = event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES)
        if last.count != core.count or (last.flags & np.uint8(FETCH | FAILED)) != np.uint8(0):
            return
        last.flags = _BROKEN_OFF
        core.trace_n -= _ONE
        core.trace_sequence -= _ONE
        drop_newest(core, core.count)


@njit(cache=True)
def _old_of_first_try(core, count, address, old):
    """What a store was about to overwrite. One that runs a second time may have stored some of its bytes
    before the one that broke it off; its first row, taken back, is still where the next one goes."""
    row = event_at(core.trace + core.trace_n * EVENT_BYTES)
    again = row.flags == _BROKEN_OFF and row.seq == core.trace_sequence and row.count == count
    return row.old if again and row.addr == address and row.kind == np.uint8(WRITE) else old


@njit(cache=True)
def trace_position(core, pc):
    """How many instructions of the block precede pc, and whether pc's is atomic; pcs only go forward."""
    info = block_info(core)
    offset = pc - info.address
    k = core.trace_cursor
    if k >= info.n or np.uint64(instruction_offset(core, info, k) & OFFSET_MASK) > offset:
        k = _ZERO
    while k + _ONE < info.n and np.uint64(instruction_offset(core, info, k) & OFFSET_MASK) < offset:
        k += _ONE
    core.trace_cursor = k
    return k, (instruction_offset(core, info, k) & ATOMIC) != np.uint16(0)


@njit(cache=True)
def _earlier_read(core, back, count, address, size):
    """Row index of the read `back` rows ago if it is this atomic instruction's read of the place, or -1."""
    index = np.int64(core.trace_n) - back
    if index < 0:
        return -1
    row = carray(pointer(core.trace), np.int64(core.trace_n) + 1, EVENT)[index]
    if (
        row.count == count
        and row.addr == address
        and row.size == np.uint8(size)
        and row.kind == np.uint8(READ)
    ):
        return index
    return -1


@njit(cache=True)
def _trace_atomic(core, is_write, count, pc, address, value, size, old):
    """Join the accesses of an atomic instruction: R then W is one RMW, two halves are glued."""
    rows = carray(pointer(core.trace), np.int64(core.trace_n) + 1, EVENT)
    if is_write:
        if core.received != _ZERO:
            store_received(core, address, size, value)
        for back in (1, 2):
            index = _earlier_read(core, back, count, address, size)
            if index >= 0:
                rows[index].kind = np.uint8(RMW)
                rows[index].new = value
                return
        append_row(core, count, pc, Access(WRITE, address, size, old, value), 0)
        return
    if _earlier_read(core, 1, count, address, size) >= 0:
        return
    if core.trace_n > _ZERO:
        last = rows[np.int64(core.trace_n) - 1]
        if last.count == count and last.pc == pc and last.addr + np.uint64(last.size) == address:
            last.flags |= np.uint8(GLUED)
    append_row(core, count, pc, Access(READ, address, size, old, old), 0)


@njit(cache=True)
def trace_device(core, is_write, count, pc, address, value, size):
    """An access to a device register. value: what was written, or what the register answered."""
    if is_write:
        append_row(core, count, pc, Access(WRITE, address, size, _ZERO, value), UNCACHED)
    else:
        append_row(core, count, pc, Access(READ, address, size, value, value), UNCACHED)


@njit(cache=True)
def _recorded_input(core):
    """What the log says that the next input is."""
    if core.inputs_next >= core.inputs_n:
        return _ZERO
    inputs = carray(pointer(core.inputs), np.int64(core.inputs_next) + 1, RECORD)
    return inputs[np.int64(core.inputs_next)].value


@njit(cache=True)
def trace_data(core, is_write, atomic, count, pc, address, value, size):
    """An access to memory, before it happens."""
    old = load_bytes(core, address, size)
    if atomic:
        _trace_atomic(core, is_write, count, pc, address, value, size, old)
    elif is_write:
        if core.received != _ZERO:
            trace_store(core, address, size, value, count)
        old = _old_of_first_try(core, count, address, old)
        append_row(core, count, pc, Access(WRITE, address, size, old, value), 0)
    else:
        append_row(core, count, pc, Access(READ, address, size, old, old), 0)


@njit(cache=True)
def trace_access(core, pc, is_write, address, size, value):
    """One data access of the replayed core, before it happens."""
    position, atomic = trace_position(core, pc)
    count = core.count + position
    core.accesses += _ONE
    value = low_bytes(value, size)
    if core.buffered != _ZERO:
        if atomic or address >= core.memory_bytes:
            settle_all(core)
        else:
            settle_due(core, count)
    if address >= core.memory_bytes:
        trace_device(core, is_write, count, pc, address, value if is_write else _recorded_input(core), size)
    else:
        trace_data(core, is_write, atomic, count, pc, address, value, size)


@hook(MEMORY_HOOK)
def on_traced_access(handle, kind, address, size, value, user):
    core = core_at(user)
    trace_access(core, read_pc(core), kind == UC_MEM_WRITE, address, size, np.uint64(value))
    core.unlocated = _ZERO


@hook(BLOCK_HOOK)
def on_traced_fence(handle, address, size, user):
    core = core_at(user)
    if core.entered != _ZERO and core.stop_reason != np.uint64(STOP_MISPLACED):
        settle_all(core)
        position, _ = trace_position(core, address)
        append_row(core, core.count + position, address, Access(FENCE, _ZERO, 1, _ZERO, _ZERO), UNCACHED)
