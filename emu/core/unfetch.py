"""Lines that were fetched for an instruction which then did not run: they are given back.

A fetch and the first instruction of its block belong together: no cut and no other core's slice comes between
them, in the log and in the truth. Where a core stops before that very instruction (another task is to run
first, or its page is not there) the lines are fetched anew when it runs.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import EVENT
from corebraid.base.rows.record import MISS, MISS_FETCH, RECORD
from emu.bus.lines import give_back
from emu.native.unicorn import pointer

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FETCH = np.uint8(MISS_FETCH)


@njit(cache=True)
def give_back_fetch(cores, machines):
    """To be called when a core has stopped inside a slice. cores: CORE[1], machines: MACHINE[1].

    What it received stays in its log as a plain miss; the rows of a tap go.
    """
    core, machine = cores[0], machines[0]
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    given, k = False, np.int64(core.rows_n) - 1
    while k >= 0 and rows[k].count == core.count:
        if rows[k].kind == np.uint8(MISS) and (rows[k].flags & _FETCH) != np.uint8(0):
            rows[k].flags &= ~_FETCH
            give_back(core, machine, rows[k].addr >> core.line_shift)
            given = True
        k -= 1
    if given and core.trace != _ZERO:
        events = carray(pointer(core.trace), np.int64(core.trace_n) + 1, EVENT)
        while core.trace_n > _ZERO and events[np.int64(core.trace_n) - 1].count == core.count:
            core.trace_n -= _ONE
            core.trace_sequence -= _ONE
