"""Where in the guest's program the emulator's own code stands, by where that calls the emulator.

It is looked up in a tree of blocks, and from the block's first instruction on (QEMU: `cpu_restore_state`);
for one place in the code it is always the same, until all of the code is thrown away (`tb_flush`).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit, types
from corebraid.base.golden_ratio import GOLDEN
from emu.native.functions import calling
from emu.native.state import CORE_AT, address_of, words_of
from emu.native.unicorn import pointer

#: `NativeIsa.locate`: of a processor, where its code calls the emulator, and whether the block is left there.
LOCATE = types.uint8(types.uint64, types.uint64, types.uint8)
_locate = calling(LOCATE)
#: Words of a row: a place in the emulator's code, the program counter there; the entry of the block that ran
#: when it was last asked how many of its instructions come before that, and how many do (`emu.code.blocks`).
PLACE, PC, ENTRY, BEFORE, _WORDS = 0, 1, 2, 3, 4
_NO_ENTRY = np.uint64(0xFFFFFFFFFFFFFFFF)
_SLOT_BITS = 12
_SHIFT, _FOLDED = np.uint64(64 - _SLOT_BITS), np.uint64(_SLOT_BITS)
_LOCATED, _STAYS = np.uint64(0), np.uint8(0)


class Positions:
    """What is known of the code of one core's emulator. core: its CORE[1]."""

    def __init__(self, core: np.ndarray) -> None:
        self._rows = np.zeros((1 << _SLOT_BITS, _WORDS), np.uint64)
        words_of(core)[CORE_AT.positions] = address_of(self._rows)


@njit(cache=True)
def _rows(core):
    """Rows (`PLACE` and so on) by a hash of the place: uint64[2^bits, 4]."""
    return carray(pointer(core.positions), (1 << _SLOT_BITS, _WORDS), np.uint64)


@njit(cache=True)
def known_position(core):
    """The row for what waits to be located, and whether it has it."""
    # Places of blocks that are alike lie at even distances, of which the product alone would make few slots.
    mixed = core.unlocated ^ (core.unlocated >> _FOLDED)
    row = _rows(core)[(mixed * GOLDEN) >> _SHIFT]
    return row, row[PLACE] == core.unlocated


@njit(cache=True)
def keep_position(row, place, pc):
    """The row is that of this place from now on."""
    row[PLACE], row[PC], row[ENTRY] = place, pc, _NO_ENTRY


@njit(cache=True)
def forget_positions(core):
    """The emulator's code is thrown away."""
    _rows(core)[:] = _LOCATED


@njit(cache=True)
def locate(core):
    """Inside a hook on an access or an instruction: the emulator's registers are those before the instruction
    that runs, if it waits to be asked for them (`CORE.locate`)."""
    if core.unlocated != _LOCATED:
        _locate(core.locate, (core.processor, core.unlocated, _STAYS))
        core.unlocated = _LOCATED
