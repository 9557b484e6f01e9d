"""What agents do on the bus, logged whole: an `EVENT` row for each access."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import EVENT
from emu.native.unicorn import pointer

_ZERO, _ONE = np.uint64(0), np.uint64(1)


@njit(cache=True)
def log_agent(machine, n_cores, access, cause, flags):
    """Append an `Access` of the agents, whose stream is the one after the last core's, or count it where
    nobody takes them (`MACHINE.agent_rows` is 0). cause: why it was made. flags: as in `EVENT`."""
    machine.agent_number += _ONE
    if machine.agent_rows == _ZERO:
        return
    row = carray(pointer(machine.agent_rows), np.int64(machine.agent_n) + 1, EVENT)[np.int64(machine.agent_n)]
    row.seq = machine.agent_number - _ONE
    row.count = machine.agent_number - _ONE
    row.pc = np.uint64(cause)
    row.addr = access.address
    row.old = access.old
    row.new = access.new
    row.stratum = np.uint32(0)
    row.core = np.uint8(n_cores)
    row.size = np.uint8(access.size)
    row.kind = np.uint8(access.kind)
    row.flags = np.uint8(flags)
    machine.agent_n += _ONE
