"""Lines that a core lost in the middle of a straight run of instructions.

Replay applies the misses of a run before its first instruction, so a line that the run misses on again must
wait for its instruction (`MISS_LATE`).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.bus.line_state import INVALID, LOST, MESI, line_states
from emu.native.unicorn import peek8, pointer

#: Lines a core can lose in the middle of one run before the run counts as having lost all of them.
LOST_LIMIT = 4096

_ONE, _ZERO = np.uint64(1), np.uint64(0)


@njit(cache=True)
def note_lost(core, line):
    """Remember a line that the core lost in the middle of a run of instructions (`MISS_LATE`)."""
    if core.lost_n < np.uint64(LOST_LIMIT):
        carray(pointer(core.lost), LOST_LIMIT, np.uint64)[core.lost_n] = line
    core.lost_n += _ONE


@njit(cache=True)
def note_forwarded(core, line):
    """The store buffer has answered a load from a line that the core does not hold. Should the line come in
    this run, it may bring what a later store of the run has buffered (`MISS_LATE`)."""
    states = carray(pointer(core.line_state), np.int64(line) + 1, np.uint8)
    if (states[line] & (MESI | LOST)) == np.uint8(INVALID):
        states[line] |= LOST
        note_lost(core, line)


@njit(cache=True)
def end_run(core, machine):
    """A new run of instructions begins: what was lost in the last one matters no longer."""
    core.mid_run = _ZERO
    if core.lost_n != _ZERO:
        states = line_states(core, machine)
        lost = carray(pointer(core.lost), LOST_LIMIT, np.uint64)
        n = min(int(core.lost_n), LOST_LIMIT)
        for k in range(n):
            states[lost[k]] &= ~LOST
        core.lost_n = _ZERO


@njit(cache=True)
def begin_run(cores, machines, number):
    """`end_run` of a core, called from outside hooks. cores: CORE[n], machines: MACHINE[1]."""
    end_run(cores[number], machines[0])


@njit(cache=True)
def came_late(core, line):
    """Whether a miss on the line may come in a run that has lost it."""
    lost = (peek8(core.line_state + line) & LOST) != np.uint8(0)
    return lost or core.lost_n > np.uint64(LOST_LIMIT)
