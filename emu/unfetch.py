"""Lines that were fetched for an instruction that does not run after all: they go back to the bus.

An instruction fetch is an event of its own, with its instruction's count. Where the core stops between the
two, others may change the line, or a stratum may end, before the instruction runs: the event would be out of
place, on the far side of both. The line is fetched anew when the instruction is.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from emu.bus import line_states, note_lost
from emu.cache import remove_line
from emu.native import pointer
from emu.record import MISS, MISS_FETCH, MISS_LATE, RECEIVED, RECORD
from emu.state import INVALID, LOST, MESI
from emu.tso_trace import EVENT_BYTES, event_at

_ONE, _ZERO = np.uint64(1), np.uint64(0)
_NO_OWNER = np.uint8(0)


@njit(cache=True)
def _give_back(core, machine, row):
    """The line is where it would be had this core not asked for it: in home memory, or with the others."""
    line = row.addr >> core.line_shift
    states = line_states(core, machine)
    if (states[line] & MESI) == np.uint8(INVALID):
        # A smaller cache has lost it since.
        return
    states[line] = (states[line] & ~MESI) | np.uint8(INVALID)
    if (row.flags & np.uint8(MISS_LATE)) != np.uint8(0):
        # Not to be fetched early: the present run of instructions has used the line before.
        states[line] |= LOST
        note_lost(core, line)
    sharers = carray(pointer(machine.sharers), np.int64(machine.n_lines), np.uint64)
    owner = carray(pointer(machine.owner), np.int64(machine.n_lines), np.uint8)
    sharers[line] &= ~(_ONE << core.core_id)
    if owner[line] == np.uint8(core.core_id + _ONE):
        owner[line] = _NO_OWNER
    if core.sets != _ZERO:
        remove_line(core, line)


@njit(cache=True)
def give_back_fetches(cores, machines):
    """Take the fetches of the instruction at `count`, which did not run, out of the core's log and tap.

    cores: CORE[1], a core that has stopped, with nothing of that instruction in its memory. machines:
    MACHINE[1].
    """
    core, machine = cores[0], machines[0]
    rows = carray(pointer(core.rows), np.int64(core.rows_n) + 1, RECORD)
    kept = np.int64(core.rows_n)
    while kept > 0 and rows[kept - 1].count >= core.count:
        kept -= 1
    fetched = False
    for k in range(kept, np.int64(core.rows_n)):
        row = rows[k]
        if row.kind != np.uint8(RECEIVED):
            fetched = row.kind == np.uint8(MISS) and (row.flags & np.uint8(MISS_FETCH)) != np.uint8(0)
        if not fetched:
            rows[kept] = row
            kept += 1
        elif row.kind == np.uint8(MISS):
            _give_back(core, machine, row)
            core.misses -= _ONE
    core.rows_n = np.uint64(kept)
    core.fetched = _ZERO
    while (
        core.trace_n > _ZERO
        and event_at(core.trace + (core.trace_n - _ONE) * EVENT_BYTES).count >= core.count
    ):
        core.trace_n -= _ONE
        core.trace_sequence -= _ONE
