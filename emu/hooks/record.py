"""Native hooks of a core that is being recorded: thin shims over the bus, the block table and devices.

A memory hook fires after the page fill and before the access (docs/architecture.md lists what was
measured), so an access that faults never reaches the bus.
"""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_WRITE

from corebraid.base.compiled import carray, njit
from emu.bus.cache import touch_line
from emu.bus.commit import commit_some
from emu.bus.line_state import holds, ready
from emu.bus.lines import fetch_code
from emu.bus.runs import end_run
from emu.bus.store_buffer import drop_newest, newest_overlap
from emu.bus.sync_points import ROOM as SYNC_ROOM
from emu.code.blocks import FRAMES, account, instructions_of, probe
from emu.code.plain_blocks import known_block
from emu.hooks.access import access_with_care, stop
from emu.hooks.trace import take_back, trace_fetch
from emu.hooks.undo import ARMED_SLICE, ARMED_UNDO, EDGE
from emu.native.state import (
    CORE,
    PAGE_MASK,
    STOP_DECODE,
    STOP_FLUSH,
    STOP_POWER,
    STOP_SLICE,
    STOP_STALE,
    STOP_STRATUM,
    core_at,
    machine_at,
)
from emu.native.unicorn import (
    BLOCK_HOOK,
    INTERRUPT_HOOK,
    MEMORY_HOOK,
    hook,
    pointer,
    uc_emu_stop,
)

_ONE = np.uint64(1)
_ZERO = np.uint64(0)


@njit(cache=True)
def _lines_held(core, address, size):
    """Whether the core holds every line of the block."""
    line = address >> core.line_shift
    last = (address + size - _ONE) >> core.line_shift
    while line <= last:
        if not holds(core, line, False):
            return False
        line += _ONE
    return True


@njit(cache=True)
def _fetch_block(core, machine, address, size):
    """Instruction fetch through the bus. Returns True when code bytes changed: translate again.

    One line at a time: bytes after a changed line were decoded from stale bytes and may not be needed.
    """
    cores = carray(pointer(core.cores), np.int64(core.n_cores), CORE)
    last = (address + size - _ONE) >> core.line_shift
    line = address >> core.line_shift
    while line <= last:
        if not holds(core, line, False):
            if core.buffered != _ZERO:
                base, n = line << core.line_shift, _ONE << core.line_shift
                commit_some(core, cores, machine, core.count, newest_overlap(core, base, n))
            if holds(core, line, False):
                changed = core.stale_high != _ZERO
            else:
                changed = fetch_code(core, cores, machine, line, core.count)
                if core.trace != _ZERO:
                    trace_fetch(core, line << core.line_shift, np.int64(machine.line_bytes), core.count)
            if changed:
                return True
        elif core.sets != _ZERO:
            touch_line(core, line)
        line += _ONE
    return False


@njit(cache=True)
def wanted_stop(core, machine):
    """Which request for a stop is open, or 0."""
    if machine.power != _ZERO:
        return STOP_POWER
    if machine.want_stratum != _ZERO:
        return STOP_STRATUM
    if core.rows_n >= core.rows_limit or core.blob_n >= core.blob_limit:
        return STOP_FLUSH
    if core.trace_n > core.trace_limit:
        return STOP_FLUSH
    if machine.console_n >= machine.console_limit >> _ONE or core.commits_n >= core.commits_limit:
        return STOP_FLUSH
    if machine.mail_full != _ZERO or machine.sync_n >= np.uint64(SYNC_ROOM // 2):
        return STOP_FLUSH
    if machine.losses_full != _ZERO:
        return STOP_FLUSH
    machine.attention = _ZERO
    return 0


@njit(cache=True, inline="always")
def _held_at_once(core, address, size):
    """Whether the core holds every line of the block, which has no more than two."""
    first = address >> core.line_shift
    last = (address + size - _ONE) >> core.line_shift
    held = holds(core, first, False)
    if last != first:
        held = held and last - first == _ONE and holds(core, last, False)
    return held


@njit(cache=True, inline="always")
def goes_on(core, machine, address, size):
    """Begin the block if nothing at all stands in its way: the common case of `enter_block`, made short.

    Returns False, with nothing changed, when `enter_block` must look.
    """
    entry = probe(core, address, size)
    count = core.count + instructions_of(core.entered)
    special = core.sets | core.lost_n | core.stale_high | machine.attention | (entry & FRAMES)
    if entry == _ZERO or special != _ZERO or count + instructions_of(entry) > core.stop_at:
        return False
    if not _held_at_once(core, address, size):
        return False
    core.count = count
    core.entered = entry
    core.mid_run = _ONE
    core.fetched = _ZERO
    core.armed = _ZERO
    return True


@njit(cache=True)
def leave_block(core, machine, address, size):
    """The block before has ended, and the one at `address` is to begin. Returns whether the slice ends
    here: not where the emulator broke an instruction off, some of whose bytes may be stored by then, and runs
    it again."""
    left, end = core.entered, core.count + instructions_of(core.entered)
    if account(core, address, size):
        core.mid_run = _ZERO
        if core.lost_n != _ZERO:
            end_run(core, machine)
    broken_off = left != _ZERO and core.count != end
    if broken_off:
        # What was fetched for it is to be used yet.
        core.fetched = _ONE
        take_back(core)
    core.block_address = address
    core.block_size = size
    return core.count >= core.stop_at and not broken_off


@njit(cache=True)
def enter_block(core, machine, address, size):
    """Everything that happens between two blocks. Returns why the core must stop, or 0."""
    ends = leave_block(core, machine, address, size)
    if core.buffered != _ZERO:
        # Of an instruction that the emulator broke off and runs again: a store into its own block.
        drop_newest(core, core.count)
    if ends:
        return STOP_SLICE
    # What was fetched for a block is used by its first instruction: no cut comes between them.
    if machine.attention != _ZERO and core.fetched == _ZERO:
        reason = wanted_stop(core, machine)
        if reason != 0:
            return reason
    if core.stale_high != _ZERO:
        return STOP_STALE
    if core.sets != _ZERO or not _lines_held(core, address, size):
        # The run has begun: a line of this very block that the fetch of another evicts counts as lost in it.
        core.mid_run = _ONE
        core.fetched = _ONE
        if _fetch_block(core, machine, address, size):
            return STOP_STALE
    entry = known_block(core, address, size)
    if entry == _ZERO:
        return STOP_DECODE
    core.entered = entry
    core.mid_run = _ONE
    core.fetched = _ZERO
    core.armed = _ZERO
    if core.exact != _ZERO and core.count + instructions_of(entry) > core.stop_at:
        core.armed |= ARMED_SLICE
    if (entry & FRAMES) != _ZERO:
        core.armed |= ARMED_UNDO
    return 0


@hook(BLOCK_HOOK)
def on_block(handle, address, size, user):
    core = core_at(user)
    machine = machine_at(core.machine)
    if goes_on(core, machine, address, np.uint64(size)):
        return
    reason = enter_block(core, machine, address, np.uint64(size))
    if reason != 0:
        stop(core, reason)


@njit(cache=True, inline="always")
def note_access(core, is_write, address, size, value):
    """One data access of the recorded core, before it happens."""
    core.accesses += _ONE
    last_byte = address + np.uint64(size) - _ONE
    line = address >> core.line_shift
    if last_byte < core.memory_bytes and last_byte >> core.line_shift == line:
        easy = ready(core, line, is_write) and (not is_write or (address & PAGE_MASK) < EDGE)
        waits = core.buffering if is_write else core.buffered
        if easy and core.sets | core.armed | waits == _ZERO:
            return
    access_with_care(core, is_write, address, size, value)


@hook(MEMORY_HOOK)
def on_memory(handle, kind, address, size, value, user):
    core = core_at(user)
    note_access(core, kind == UC_MEM_WRITE, address, size, np.uint64(value))
    core.unlocated = _ZERO


@hook(INTERRUPT_HOOK)
def on_exception(handle, number, user):
    core = core_at(user)
    core.exception = np.uint64(number) + _ONE
    uc_emu_stop(core.handle)
