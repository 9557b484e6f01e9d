"""Of a machine that runs step by step under TSO: stores for which the buffer has no room.

The buffer holds so many stores; before another one the oldest leave it. Step by step a core stops before that
store, whether they have left or not: what its steps are depends on what it does itself alone. Of stores to
words that nobody watches nothing is asked: they leave as soon as those before them have.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.bus.store_buffer import ADDRESS, BUFFER_ROWS, COUNT, SIZE, buffer_rows
from emu.bus.watched_words import touches_watched
from emu.hooks.shared_access import event_is_due

#: `MACHINE.stepped` of a machine whose cores wait for room.
WAITS_FOR_ROOM = 2

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_MASK = np.uint64(BUFFER_ROWS - 1)


@njit(cache=True)
def needs_room(core, machine, count):
    """Whether stores that nobody was asked for yet have to have left the buffer before the instruction at
    `count` stores; notes which. It is an event then."""
    if machine.stepped != np.uint64(WAITS_FOR_ROOM) or machine.watched == _ZERO:
        return False
    rows, issued, needs = buffer_rows(core), core.committed + core.buffered, False
    while issued >= core.roomy + core.buffer_limit:
        row = rows[(core.buffer_first - core.committed + core.roomy) & _MASK]
        if row[COUNT] >= count:
            break
        core.roomy += _ONE
        # Below `drains` the core has waited until all had left.
        if row[COUNT] + _ONE >= core.drains and touches_watched(machine, row[ADDRESS], row[SIZE]):
            core.room_for = core.roomy
            needs = True
    if not needs or not event_is_due(core, machine, count):
        return False
    core.room = count + _ONE
    return True
