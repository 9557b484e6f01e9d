"""Native hooks of a core that is replayed alone: no memory hook, nothing paid for an access.

A miss record takes effect at the start of the block in which the miss happened: the line was invalid for
the whole run of instructions before it, so no earlier load of the block can have touched it. Records marked
`MISS_LATE` (the line was lost in the middle of the run, or a store buffer answered a load there) and all
other rows are barriers, reached at exactly their instruction count.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import DEVICE_BASE
from corebraid.base.rows.record import (
    INPUT_MMIO,
    LOSES,
    MISS,
    MISS_FETCH,
    MISS_LATE,
    PAGE_LINE,
    PAGE_LINES,
    RECEIVED,
    RECORD,
)
from emu.bus.line_state import mark_received
from emu.bus.pages import put_page
from emu.bus.private_memory import put_line
from emu.code.blocks import (
    OFFSET_MASK,
    account,
    block_info,
    instruction_offset,
    instructions_of,
    probe,
)
from emu.code.plain_blocks import known_block
from emu.hooks.access import stop
from emu.hooks.trace import take_back, trace_fetch, trace_gain
from emu.hooks.trace_holds import begin_hold, end_hold, told_by_holds
from emu.hooks.trace_tso import receive_bytes, settle_until
from emu.native.state import (
    PAGE_SHIFT,
    STOP_BARRIER,
    STOP_DECODE,
    STOP_DIVERGED,
    STOP_FRAME,
    STOP_STALE,
    STOP_TRACE,
    core_at,
)
from emu.native.unicorn import (
    BLOCK_HOOK,
    MMIO_READ_HOOK,
    MMIO_WRITE_HOOK,
    hook,
    pointer,
    row_getter,
)

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_RECORD_BYTES = np.uint64(RECORD.itemsize)

record_at = row_getter(RECORD)


@njit(cache=True)
def _row(core, index):
    return record_at(core.rows + index * _RECORD_BYTES)


@njit(cache=True)
def _apply_page_miss(core, row):
    """The same of a page: those of its lines that were others."""
    source = core.blob + np.uint64(row.offset)
    put_page(core, row.addr, source)
    mark_received(core, row.addr >> PAGE_SHIFT)
    if told_by_holds(core, row.addr >> PAGE_SHIFT):
        begin_hold(core, row.addr >> PAGE_SHIFT, row.count, row.flags)
    elif core.gains != _ZERO:
        trace_gain(core, row.addr >> PAGE_SHIFT, row.count)
    if (row.flags & np.uint8(MISS_FETCH)) != np.uint8(0) and core.trace != _ZERO:
        numbers = carray(pointer(source), 1 + PAGE_LINES, np.uint8)
        for k in range(np.int64(numbers[0])):
            at = row.addr + np.uint64(numbers[1 + k]) * np.uint64(PAGE_LINE)
            trace_fetch(core, at, PAGE_LINE, row.count)


@njit(cache=True)
def apply_miss(core, row):
    """Put the line of a miss record into the core's memory."""
    n = np.int64(row.size)
    source = carray(pointer(core.blob + np.uint64(row.offset)), n, np.uint8)
    if core.line_shift == PAGE_SHIFT:
        _apply_page_miss(core, row)
        return
    if core.received != _ZERO:
        settle_until(core, row.value)
        receive_bytes(core, row.addr, source)
    put_line(core, row.addr, source)
    mark_received(core, row.addr >> core.line_shift)
    if (row.flags & np.uint8(MISS_FETCH)) != np.uint8(0) and core.trace != _ZERO:
        trace_fetch(core, row.addr, n, row.count)


@njit(cache=True)
def _apply_received(core, row):
    """Keep a line as it was received, without the core's buffered stores; only a trace asks for it."""
    if core.received != _ZERO:
        line = carray(pointer(core.blob + np.uint64(row.offset)), np.int64(row.size), np.uint8)
        receive_bytes(core, row.addr, line)


@njit(cache=True, inline="always")
def _exact(core):
    """Flags of miss records that must wait for their instruction. In a trace a fetch is an event of its own;
    the recorder's block may have ended where this one goes on, for the emulator breaks long ones off."""
    return np.uint8(MISS_LATE) if core.trace == _ZERO else np.uint8(MISS_LATE | MISS_FETCH)


@njit(cache=True)
def apply_due(core, before, early):
    """Apply miss records whose count is below `before`, up to the first barrier.

    early: their instructions have not been reached, so those that must wait for it are barriers too.
    """
    while core.rows_next < core.rows_n:
        row = _row(core, core.rows_next)
        is_miss, is_loss = row.kind == np.uint8(MISS), row.kind == np.uint8(LOSES)
        if row.count >= before or not (is_miss or is_loss or row.kind == np.uint8(RECEIVED)):
            return
        told = core.gains != _ZERO or core.holds != _ZERO
        if early and row.count > core.count and (told or (row.flags & _exact(core)) != np.uint8(0)):
            return
        if told and core.trace_n >= core.trace_limit:
            return
        if is_miss:
            apply_miss(core, row)
        elif is_loss:
            end_hold(core, row.addr >> PAGE_SHIFT, np.int64(row.flags))
        else:
            _apply_received(core, row)
        core.rows_next += _ONE


@njit(cache=True)
def note_next(core):
    """Keep the count of the next row, which nearly all blocks end before; 0 when rows must be fed."""
    core.next_due = _ZERO
    if core.rows_next < core.rows_n:
        core.next_due = _row(core, core.rows_next).count


@njit(cache=True)
def _enter_slowly(core, address, size):
    """A row is due in this block, or something else wants attention. Returns why to stop, or 0."""
    apply_due(core, core.count + _ONE, False)
    if core.rows_next >= core.rows_n:
        return STOP_FRAME
    if _row(core, core.rows_next).count <= core.count:
        return STOP_BARRIER
    if core.stale_high != _ZERO:
        return STOP_STALE
    entry = known_block(core, address, size)
    if entry == _ZERO:
        return STOP_DECODE
    end = core.count + instructions_of(entry)
    apply_due(core, end, True)
    if core.rows_next >= core.rows_n:
        return STOP_FRAME
    if core.stale_high != _ZERO:
        return STOP_STALE
    core.entered = entry
    due = _row(core, core.rows_next).count
    if due < end:
        offset = instruction_offset(core, block_info(core), due - core.count) & OFFSET_MASK
        core.barrier_pc = address + np.uint64(offset)
        core.entered = _ZERO
        core.armed = entry
        return STOP_BARRIER
    return 0


@njit(cache=True)
def enter_replayed_block(core, address, size):
    """Everything that happens between two replayed blocks. Returns why the core must stop, or 0."""
    if core.armed != _ZERO:
        # On the way to a barrier inside the block at which the core stopped: only shorter now.
        core.entered = core.armed
        core.armed = _ZERO
        return 0
    account(core, address, size)
    if core.trace_n != _ZERO:
        take_back(core)
    core.block_address = address
    core.block_size = size
    if core.trace_n >= core.trace_limit:
        return STOP_TRACE
    core.barrier_pc = _ZERO
    reason = _enter_slowly(core, address, size)
    note_next(core)
    return reason


@njit(cache=True)
def _next_input(core):
    return record_at(core.inputs + core.inputs_next * _RECORD_BYTES)


@njit(cache=True)
def next_input_is(core, what, count):
    """Whether the next input record is of this kind and count."""
    if core.inputs_next >= core.inputs_n:
        return False
    row = _next_input(core)
    return row.flags == np.uint8(what) and row.count == count


@njit(cache=True)
def last_input(core):
    """The input record that was consumed last."""
    return record_at(core.inputs + (core.inputs_next - _ONE) * _RECORD_BYTES)


@njit(cache=True)
def take_value(core):
    """Consume the next input record; what the core was given."""
    core.inputs_next += _ONE
    return last_input(core).value


@njit(cache=True)
def take_input(core, what, count):
    """Consume the next input record if it is of this kind and count; else the replay has diverged."""
    if not next_input_is(core, what, count):
        stop(core, STOP_DIVERGED)
        return False
    core.inputs_next += _ONE
    return True


@hook(BLOCK_HOOK)
def on_replayed_block(handle, address, size, user):
    core = core_at(user)
    # The common case, made short: a known block that ends before anything is due.
    entry = probe(core, address, np.uint64(size))
    count = core.count + instructions_of(core.entered)
    easy = core.armed == _ZERO and core.trace_n < core.trace_limit
    if entry != _ZERO and easy and count + instructions_of(entry) <= core.next_due:
        core.count = count
        core.entered = entry
        return
    reason = enter_replayed_block(core, address, np.uint64(size))
    if reason != 0:
        stop(core, reason)


@hook(MMIO_READ_HOOK)
def on_replayed_device_read(handle, offset, size, user):
    """A read of 8 bytes arrives in two pieces; `input_piece` is how far the record has been given."""
    core = core_at(user)
    if core.inputs_next >= core.inputs_n:
        stop(core, STOP_DIVERGED)
        return _ZERO
    row = _next_input(core)
    begin = np.uint64(DEVICE_BASE) + offset - core.input_piece
    if row.flags != np.uint8(INPUT_MMIO) or row.addr != begin:
        stop(core, STOP_DIVERGED)
        return _ZERO
    value = row.value >> (np.uint64(8) * core.input_piece)
    core.input_piece += np.uint64(size)
    if core.input_piece >= np.uint64(row.size):
        core.input_piece = _ZERO
        core.inputs_next += _ONE
    return value


@hook(MMIO_WRITE_HOOK)
def on_replayed_device_write(handle, offset, size, value, user):
    pass
