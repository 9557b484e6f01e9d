"""The rows of a replayed core's trace, one behind the other."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import ALONE, EVENT, FAILED, FETCH, HELD, UNCOUNTED
from emu.hooks.trace_tso import EVENT_BYTES, event_at
from emu.hooks.watch import watched_part
from emu.native.unicorn import pointer

_ONE, _ZERO = np.uint64(1), np.uint64(0)
#: Flags of rows that stand before the accesses of a block at its first count.
_BEFORE = np.uint8(FETCH | FAILED)


@njit(cache=True)
def append_row(core, count, pc, access, flags):
    """A row of the trace: what an `Access` did, at an instruction count, by the instruction at pc."""
    row = event_at(core.trace + core.trace_n * EVENT_BYTES)
    row.seq = core.trace_sequence
    row.count = count
    row.pc = pc
    row.addr = access.address
    row.old = access.old
    row.new = access.new
    row.stratum = np.uint32(core.trace_stratum)
    row.core = np.uint8(core.core_id)
    row.size = np.uint8(access.size)
    row.kind = np.uint8(access.kind)
    row.flags = np.uint8(flags)
    if (
        core.marking != _ZERO
        and flags & ALONE == 0
        and watched_part(core, access.address, access.size)[1] == 0
    ):
        row.flags |= np.uint8(UNCOUNTED)
    core.trace_n += _ONE
    core.trace_sequence += _ONE


@njit(cache=True)
def move_to_block(core, n):
    """Move the last n rows before all others of accesses in the block that runs, whose first count they
    have."""
    rows = carray(pointer(core.trace), np.int64(core.trace_n), EVENT)
    end = rows.size - n
    at = end
    while at > 0 and rows[at - 1].count >= core.count and rows[at - 1].flags & _BEFORE == np.uint8(0):
        at -= 1
    if at == end:
        return
    last = rows[end:].copy()
    number = rows[at].seq
    for k in range(rows.size - 1, at + n - 1, -1):
        rows[k] = rows[k - n]
        if core.marking == _ZERO:
            rows[k].seq += np.uint64(n)
    for k in range(n):
        rows[at + k] = last[k]
        rows[at + k].seq = number + np.uint64(k) if core.marking == _ZERO else number


@njit(cache=True)
def last_count(core):
    """The instruction count of the last row that is still in the trace, but for what pages held; 0 if there
    is none."""
    last = core.trace_n
    while last > _ZERO and event_at(core.trace + (last - _ONE) * EVENT_BYTES).kind == np.uint8(HELD):
        last -= _ONE
    return event_at(core.trace + (last - _ONE) * EVENT_BYTES).count if last > _ZERO else _ZERO
