"""What a data access of a recorded core does before it happens: lines, devices, stops, the store buffer.

A memory hook fires after the page fill and before the access (docs/architecture.md lists what was
measured), so an access that faults never reaches the bus.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import INPUT, INPUT_MMIO, RECORD
from emu.bus.cache import touch_line
from emu.bus.commit import (
    FORCED_DRAIN,
    FORCED_FULL,
    FORCED_PART,
    commit_all,
    commit_due,
    commit_some,
    note_forced,
    store_home,
)
from emu.bus.line_state import holds, is_watched
from emu.bus.lines import need
from emu.bus.runs import note_forwarded
from emu.bus.store_buffer import append_store, covers, newest_overlap
from emu.code.blocks import ATOMIC, HELPED, block_info, instruction_offset, position_here
from emu.devices.registers import device_read, device_write
from emu.hooks.room import needs_room
from emu.hooks.shared_access import AHEAD, drain_is_due, end_is_due, end_is_due_at_device, holds_back
from emu.hooks.undo import ARMED_SLICE, load_bytes, may_be_undone, note_store
from emu.native.registers import read_pc
from emu.native.state import CORE, STOP_SLICE, machine_at
from emu.native.unicorn import pointer, uc_emu_stop

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True)
def stop(core, reason):
    """Stop the core; `reason` says why to the code around uc_emu_start."""
    core.stop_reason = np.uint64(reason)
    uc_emu_stop(core.handle)


@njit(cache=True)
def stop_before(core, address, count):
    """End the slice before the instruction at `address`, which is the core's at `count`; from a hook that
    stands before it."""
    core.stop_at = count
    core.stop_pc = address
    core.undo_size = _ZERO
    stop(core, STOP_SLICE)


@njit(cache=True)
def log_input(core, what, count, address, value, size):
    """Append an input record."""
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    row = rows[np.int64(core.rows_n)]
    row.count = count
    row.addr = address
    row.value = value
    row.offset = np.uint32(core.blob_n)
    row.size = np.uint16(size)
    row.kind = np.uint8(INPUT)
    row.flags = np.uint8(what)
    core.rows_n += _ONE


@njit(cache=True)
def _position(core):
    """How many instructions of the block come before the one that accesses."""
    return position_here(core, read_pc(core))


@njit(cache=True)
def _preempt(core, is_write, address, size):
    """End the slice before this access, if the access is at or past the slice's end. Returns whether it does.

    Stopping in a read hook takes the instruction back. In a write hook the store has happened, registers
    roll back, so the bytes are kept here and put back afterwards (`run_core`). An instruction that the
    emulator executes in a helper (one that saves a floating-point unit, say) cannot be taken back: the slice
    goes on to the next access. Should one that is not known as such be stopped, the stop takes hold at an
    access after it.
    """
    pc = read_pc(core)
    position = position_here(core, pc)
    if pc == core.stop_pc or core.count + position < core.stop_at:
        return False
    if (instruction_offset(core, block_info(core), position) & HELPED) != np.uint16(0):
        return False
    core.stop_pc = pc
    core.undo_size = _ZERO
    if is_write:
        core.undo_size = np.uint64(size)
        core.undo_address = address
        core.undo_old = load_bytes(core, address, size)
    stop(core, STOP_SLICE)
    return True


@njit(cache=True)
def _slow_access(core, is_write, first, last, held):
    machine = machine_at(core.machine)
    if held:
        if core.sets != _ZERO:
            touch_line(core, first)
            touch_line(core, last)
        return
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    count = core.count + _position(core)
    need(core, cores, machine, first, count, is_write)
    if last != first:
        need(core, cores, machine, last, count, is_write)


@njit(cache=True)
def _ends_before_device(core, address, size):
    """Count an access to a device register, of a machine that runs step by step. Returns whether the core
    stops before it. What a store has left of its page, which is plain memory, nobody reads."""
    count = core.count + _position(core)
    if not end_is_due_at_device(core, machine_at(core.machine), count):
        return False
    core.stop_at = count
    return _preempt(core, False, address, size)


@njit(cache=True)
def _drain(core):
    """All stores commit, before the core goes on within a step."""
    machine = machine_at(core.machine)
    note_forced(machine, FORCED_DRAIN)
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    commit_all(core, cores, machine, core.count + _position(core))


@njit(cache=True)
def device_access(core, is_write, address, size, value):
    """Device registers are plain memory of the core: a read hook fills in what the load will see."""
    # A device acts once: an instruction that touched one must not be taken back and run again, and one that
    # is being taken back (the stop came in a helper before it) must not touch it.
    if core.stop_pc != _ZERO or _ends_before_device(core, address, size):
        return
    if core.buffered != _ZERO:
        _drain(core)
    if (address & (np.uint64(size) - _ONE)) != _ZERO:
        core.exception = core.unaligned
        uc_emu_stop(core.handle)
        return
    core.armed &= ~ARMED_SLICE
    ahead = core.shared_at == AHEAD
    core.shared_at = core.count + _position(core) + _ONE
    _use_device(core, is_write, address, size, value)
    if ahead:
        core.shared_at = AHEAD


@njit(cache=True)
def _use_device(core, is_write, address, size, value):
    machine = machine_at(core.machine)
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    register = address & np.uint64(0xFFF)
    if is_write:
        device_write(core, cores, machine, register, value)
        return
    answer = device_read(core, machine, register)
    page = carray(pointer(core.device_page), PAGE_BYTES, np.uint8)
    for k in range(size):
        if np.int64(register) + k < PAGE_BYTES:
            page[np.int64(register) + k] = np.uint8((answer >> np.uint64(8 * k)) & np.uint64(0xFF))
    count = core.count + _position(core)
    log_input(core, INPUT_MMIO, count, address, answer & _mask(size), size)


@njit(cache=True)
def _obtain_lines(core, is_write, address, size):
    first = address >> core.line_shift
    last = (address + np.uint64(size) - _ONE) >> core.line_shift
    held = holds(core, first, is_write)
    if last != first:
        held = held and holds(core, last, is_write)
    if not held or core.sets != _ZERO:
        _slow_access(core, is_write, first, last, held)


@njit(cache=True)
def _is_atomic(core, position):
    info = block_info(core)
    return position < info.n and (instruction_offset(core, info, position) & ATOMIC) != np.uint16(0)


@njit(cache=True)
def _buffered_access(core, is_write, address, size, value):
    """A data access under TSO. A store waits in the buffer, unless its instruction is atomic. A load is
    answered by the newest buffered store that it overlaps if that covers it, as processors do it; else it
    waits until that store has committed."""
    machine = machine_at(core.machine)
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    position = _position(core)
    count = core.count + position
    if _is_atomic(core, position):
        if core.buffered != _ZERO:
            note_forced(machine, FORCED_DRAIN)
            commit_all(core, cores, machine, count)
        _obtain_lines(core, is_write, address, size)
        if is_write:
            store_home(machine, address, np.uint64(size), value)
        return
    if core.buffered != _ZERO and not holds_back(core, machine):
        commit_due(core, cores, machine, count)
    if is_write:
        if core.buffered >= core.buffer_limit:
            committed = core.committed
            commit_some(core, cores, machine, count, core.buffered - core.buffer_limit + _ONE)
            # What one instruction stores may be more than fits, and none of it commits.
            if core.committed != committed:
                note_forced(machine, FORCED_FULL)
        append_store(core, address, np.uint64(size), value, count, _ZERO)
        return
    newest = newest_overlap(core, address, np.uint64(size))
    if newest != _ZERO and covers(core, newest, address, np.uint64(size)):
        note_forwarded(core, address >> core.line_shift)
        note_forwarded(core, (address + np.uint64(size) - _ONE) >> core.line_shift)
        return
    if newest != _ZERO:
        note_forced(machine, FORCED_PART)
        commit_some(core, cores, machine, count, newest)
    _obtain_lines(core, False, address, size)


@njit(cache=True)
def _ends_before(core, is_write, address, size):
    """Count an access to a watched word. Returns whether the core stops before it: the slice ends there."""
    first, last = address >> core.line_shift, (address + np.uint64(size) - _ONE) >> core.line_shift
    if not (is_watched(core, first) or is_watched(core, last)):
        return False
    count = core.count + _position(core)
    if not end_is_due(core, machine_at(core.machine), is_write, address, np.uint64(size), count):
        return False
    core.stop_at = count
    core.armed |= ARMED_SLICE
    _preempt(core, is_write, address, size)
    return core.stop_reason == np.uint64(STOP_SLICE)


@njit(cache=True)
def _ends_before_buffer(core, is_write, address, size):
    """The same under TSO of an access to any word that waits for the store buffer: an atomic instruction's
    until that is empty, a store until there is room in it. Of a machine that runs step by step before each,
    of others where the slice is to end before the next event."""
    machine = machine_at(core.machine)
    if machine.stepped == _ZERO and core.buffered == _ZERO:
        return False
    position = _position(core)
    count = core.count + position
    if machine.stepped == _ZERO:
        if not (is_write and core.buffered >= core.buffer_limit) and not _is_atomic(core, position):
            return False
        if not drain_is_due(core, machine):
            return False
    elif _is_atomic(core, position):
        if not end_is_due_at_device(core, machine, count):
            return False
    elif not is_write or not needs_room(core, machine, count):
        return False
    core.stop_at = count
    core.armed |= ARMED_SLICE
    _preempt(core, is_write, address, size)
    return core.stop_reason == np.uint64(STOP_SLICE)


@njit(cache=True)
def access_with_care(core, is_write, address, size, value):
    """Any access that is not to a single line held with the right that it needs."""
    if address + np.uint64(size) > core.memory_bytes:
        if address >= core.memory_bytes:
            if core.buffered != _ZERO and machine_at(core.machine).stepped == _ZERO:
                _drain(core)
            device_access(core, is_write, address, size, value)
        return
    if core.buffering != _ZERO and _ends_before_buffer(core, is_write, address, size):
        return
    if _ends_before(core, is_write, address, size):
        return
    # An access that is taken back obtains nothing: a line that a core loses was written to.
    if (core.armed & ARMED_SLICE) == _ZERO or not _preempt(core, is_write, address, size):
        if core.buffering != _ZERO:
            _buffered_access(core, is_write, address, size, value)
        else:
            _obtain_lines(core, is_write, address, size)
    # Only now does the core have what the store overwrites.
    if is_write and may_be_undone(core, address):
        note_store(core, address, size, core.count + _position(core))


@njit(cache=True)
def _mask(size):
    if size >= 8:
        return ~_ZERO
    return (_ONE << np.uint64(8 * size)) - _ONE
