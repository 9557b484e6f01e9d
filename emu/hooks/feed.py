"""Native memory hook of a partial replay: a core whose loads are answered from a value log.

An entry says what the access of a given number read. The access itself says where, so the log needs no
addresses (OPR, section 4.1 and Algorithm 4).
"""

from __future__ import annotations

import numpy as np
from unicorn.unicorn_const import UC_MEM_WRITE

from corebraid.base.compiled import njit
from corebraid.base.rows.event import READ
from emu.hooks.trace import trace_access
from emu.hooks.trace_tso import EVENT_BYTES, event_at
from emu.hooks.undo import store_bytes
from emu.native.registers import read_pc
from emu.native.state import core_at
from emu.native.unicorn import MEMORY_HOOK, hook, row_getter

#: An entry of a value log: the access with sequence number `seq` in the trace reads `value`.
FED = np.dtype([("seq", "<u8"), ("value", "<u8")])

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FED_BYTES = np.uint64(FED.itemsize)

fed_at = row_getter(FED)


@njit(cache=True)
def feed_access(core, is_write, address, size, value):
    """One access of the core, before it happens: traced, and given its value if the log has one for it.

    Only an access that makes a new row is numbered: an atomic instruction may read a place twice.
    """
    number = core.trace_sequence
    trace_access(core, read_pc(core), is_write, address, size, value)
    if core.trace_sequence == number or core.fed_next >= core.fed_n:
        return
    entry = fed_at(core.fed + core.fed_next * _FED_BYTES)
    row = event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES)
    if entry.seq != number or row.kind != np.uint8(READ) or address >= core.memory_bytes:
        return
    store_bytes(core, address, size, entry.value)
    row.old = entry.value
    row.new = entry.value
    core.fed_next += _ONE


@hook(MEMORY_HOOK)
def on_fed_access(handle, kind, address, size, value, user):
    core = core_at(user)
    feed_access(core, kind == UC_MEM_WRITE, address, size, np.uint64(value))
    core.unlocated = _ZERO
