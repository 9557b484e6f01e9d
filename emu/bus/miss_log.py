"""Miss records: every fetch on a read or write miss, with the line as received (MICRO 2009, 3.1)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.record import MISS, RECEIVED, RECORD
from emu.bus.store_buffer import lay_over
from emu.native.unicorn import pointer

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def _log_line(core, kind, flags, count, base, value, line):
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    row = rows[np.int64(core.rows_n)]
    row.count = count
    row.addr = base
    row.value = value
    row.offset = np.uint32(core.blob_n)
    row.size = np.uint16(line.size)
    row.kind = np.uint8(kind)
    row.flags = np.uint8(flags)
    core.rows_n += _ONE
    blob = carray(pointer(core.blob + core.blob_n), line.size, np.uint8)
    blob[:] = line
    core.blob_n += np.uint64(line.size)


@njit(cache=True)
def log_miss(core, machine, line, count, flags):
    """Append a miss record with the line as the core's memory holds it before the instruction at `count`,
    which replay begins with it; and one with the line as received where buffered stores make them differ."""
    base = line << core.line_shift
    n = np.int64(machine.line_bytes)
    if core.buffered == _ZERO:
        mine = carray(pointer(core.memory + base), n, np.uint8)
        _log_line(core, MISS, flags, count, base, core.committed, mine)
    else:
        home = carray(pointer(machine.home + base), n, np.uint8)
        before = home.copy()
        lay_over(core, base, before, count)
        _log_line(core, MISS, flags, count, base, core.committed, before)
        differs = False
        for k in range(n):
            differs = differs or home[k] != before[k]
        if differs:
            _log_line(core, RECEIVED, 0, count, base, _ZERO, home)
    if core.rows_n >= core.rows_limit or core.blob_n >= core.blob_limit:
        machine.attention = _ONE
