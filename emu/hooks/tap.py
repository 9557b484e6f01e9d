"""The tap: a recorded core's accesses as `EVENT` rows while it runs, for evidence streams.

The rows are those that a traced replay of the core gives later (`emu/hooks/trace.py`), number for number, so
that evidence can be told of an event by its core and `seq`. Only a machine that records evidence has taps; a
core without one runs the hooks of `emu/hooks/record.py` as they are.
"""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_WRITE

from corebraid.base.compiled import njit
from corebraid.base.rows.event import FETCH
from emu.hooks.record import note_access
from emu.hooks.trace import low_bytes, trace_data, trace_device, trace_position
from emu.hooks.trace_tso import EVENT_BYTES, event_at
from emu.native.registers import read_pc
from emu.native.state import core_at, machine_at
from emu.native.unicorn import MEMORY_HOOK, hook, peek64

#: Rows after which a tap must be emptied, and what one block may add after the last check.
TAP_ROWS, TAP_SLACK = 1 << 14, 1 << 16

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def tap_access(core, is_write, address, size, value):
    """Keep an access that `note_access` has dealt with. Should the core stop before it, `drop_unretired`
    takes the row away again."""
    pc = read_pc(core)
    position, atomic = trace_position(core, pc)
    count = core.count + position
    if address < core.memory_bytes:
        trace_data(core, is_write, atomic, count, pc, address, low_bytes(value, size), size)
    else:
        if not is_write:
            value = peek64(core.device_page + (address & np.uint64(0xFF8))) >> (
                np.uint64(8) * (address & np.uint64(7))
            )
        trace_device(core, is_write, count, pc, address, low_bytes(value, size), size)
    if core.trace_n > core.trace_limit:
        machine_at(core.machine).attention = _ONE


@njit(cache=True)
def drop_unretired(rows):
    """Drop the events of an instruction at which the core (CORE[1]) was stopped before it retired; it runs
    again, or failed. What was fetched for it stays."""
    core = rows[0]
    while core.trace_n > _ZERO:
        last = event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES)
        if last.count < core.count or (last.flags & np.uint8(FETCH)) != np.uint8(0):
            return
        core.trace_n -= _ONE
        core.trace_sequence -= _ONE


@hook(MEMORY_HOOK)
def on_tapped_memory(handle, kind, address, size, value, user):
    core = core_at(user)
    is_write = kind == UC_MEM_WRITE
    note_access(core, is_write, address, size, np.uint64(value))
    tap_access(core, is_write, address, size, np.uint64(value))
    core.unlocated = _ZERO
