"""Registers of a core, from hooks and kernels. Numbers are Unicorn's."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from emu.native.positions import PC, keep_position, known_position, locate
from emu.native.unicorn import peek64, pointer, uc_reg_read, uc_reg_write

_NONE = np.uint64(0)


@njit(cache=True)
def read_register(core, register):
    """A 64-bit register; inside a block hook or between runs."""
    uc_reg_read(core.handle, register, pointer(core.scratch))
    return peek64(core.scratch)


@njit(cache=True)
def write_register(core, register, number):
    """Set a 64-bit register of the running core."""
    carray(pointer(core.scratch), 1, np.uint64)[0] = number
    uc_reg_write(core.handle, register, pointer(core.scratch))


@njit(cache=True)
def read_pc(core):
    """The program counter; exact inside memory and instruction hooks."""
    if core.unlocated == _NONE:
        return read_register(core, np.int32(core.pc_register))
    row, known = known_position(core)
    if not known:
        place = core.unlocated
        locate(core)
        keep_position(row, place, read_register(core, np.int32(core.pc_register)))
    return row[PC]
