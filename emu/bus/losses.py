"""Losses: when a core lost a line to another, or its right to write it, by the core's own instruction count.

As local as a miss: the core sees that a line is taken from it, and names nobody. Every core but the one that
runs stands between two instructions, and no agent has its turn inside a run, so that the count is exact:
accesses of instructions below it came before the loss, all others after it. What a core evicts or gives
back itself is no loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from emu.native.state import address_of
from emu.native.unicorn import pointer

#: Ways to lose: the line is gone; the right to write it is gone. INSIDE: the loss fell inside the instruction
#: at its count, of whose accesses nothing is known then. No loss that a recorder of ours notes has it.
LOST, DOWNGRADED, INSIDE = 1, 2, 4

#: One loss of a core. line: address of the line's first byte. stratum: how many strata had been cut.
LOSS = np.dtype([("count", "<u8"), ("line", "<u8"), ("stratum", "<u4"), ("way", "u1")])

#: One loss as the bus notes it, of whichever core. count: the core's instruction count and the strata cut so
#: far, together: so it also tells the losses before a cut from those after it, where the core stands still.
LOSS_NOTE = np.dtype([("count", "<u8"), ("line", "<u8"), ("core", "<u4"), ("way", "<u4")])

#: Notes after which they should be taken, and room for them: what one block, or one agent's turn, may add.
LOSS_LIMIT, LOSS_ROOM = 1 << 14, 1 << 18

_ONE, _ZERO = np.uint64(1), np.uint64(0)


@njit(cache=True)
def note_loss(core, machine, line, way):
    """Note that a core, which stands between two instructions, loses line number `line`. One whose
    instruction failed has begun that, and never will again: its loss comes after it."""
    if machine.losses == _ZERO:
        return
    if machine.losses_n < np.uint64(LOSS_ROOM):
        row = carray(pointer(machine.losses), LOSS_ROOM, LOSS_NOTE)[np.int64(machine.losses_n)]
        row.count = core.count + core.failed + core.trace_stratum
        row.line = line << core.line_shift
        row.core = np.uint32(core.core_id)
        row.way = np.uint32(way)
    machine.losses_n += _ONE
    if machine.losses_n >= np.uint64(LOSS_LIMIT):
        machine.losses_full = _ONE
        machine.attention = _ONE


class LossNotes:
    """The losses of all cores of a machine since they were last taken. machine_rows: MACHINE[1]."""

    def __init__(self, machine_rows: NDArray[Any]) -> None:
        self._machine = machine_rows[0]
        self._notes = np.zeros(0, LOSS_NOTE)

    def keep(self) -> None:
        """Note losses from now on."""
        self._notes = np.zeros(LOSS_ROOM, LOSS_NOTE)
        self._machine["losses"] = address_of(self._notes)

    @property
    def full(self) -> bool:
        """Whether there are so many that they should be taken."""
        return bool(self._machine["losses_full"])

    def take(self) -> NDArray[np.void]:
        """The losses since the last call, LOSS_NOTE[n], in the order in which they happened: a view, good
        until the machine goes on. Raises OverflowError if there was no room for all of them."""
        n = int(self._machine["losses_n"])
        if n > LOSS_ROOM:
            raise OverflowError(f"{n} lines were lost at once, more than {LOSS_ROOM}")
        self._machine["losses_n"] = self._machine["losses_full"] = 0
        return self._notes[:n]
