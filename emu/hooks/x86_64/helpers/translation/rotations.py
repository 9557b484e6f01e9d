"""`rcl` and `rcr` change the carry flag when their operand has been stored, not before: a store may fail.

What rotates keeps the flags that it has worked out. They become the flags by what is written into the
generated code: behind the store, or at once where the operand is a register.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import CC_SRC, at, share
from emu.hooks.x86_64.helpers.translation.intermediate import (
    LOAD_LONG,
    code_byte,
    flags_value,
    opcode_place,
    state_of,
    state_value,
    write_three,
)
from emu.native.functions import Native
from emu.native.unicorn import peek8, peek64, poke8, poke64

_VALUE = types.uint64
OF_ROTATION = _VALUE(_VALUE, _VALUE, _VALUE)
#: Opcodes of shifts and rotations; in ModRM.reg, of those through the carry flag; the mode of registers.
_ROTATIONS, _THROUGH_CARRY, _REGISTERS = (0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3), (2, 3), 3
_ROTATED, _ROTATED_FLAGS = share("rotated"), share("rotated_flags")
_ONE, _NO, _YES = np.uint64(1), np.uint8(0), np.uint8(1)


def _keeping_flags(name: str) -> Any:
    theirs = types.ExternalFunction(f"{name}_x86_64", OF_ROTATION)

    @njit
    def rotate(env, number, count):
        before = peek64(at(env, CC_SRC))
        result = theirs(env, number, count)
        poke64(at(env, _ROTATED_FLAGS), peek64(at(env, CC_SRC)))
        poke64(at(env, CC_SRC), before)
        return result

    return rotate


@njit
def _become_flags(context):
    """Code by which the flags that were kept become the flags."""
    write_three(context, LOAD_LONG, flags_value(context), state_value(context), np.uint64(_ROTATED_FLAGS))


@njit
def is_rotated(context):
    """The call of what computes has been written."""
    place, _ = opcode_place(context)
    if code_byte(context, place) not in _ROTATIONS:
        return
    modrm = code_byte(context, place + _ONE)
    if modrm >> 3 & 7 not in _THROUGH_CARRY:
        return
    if modrm >> 6 == _REGISTERS:
        _become_flags(context)
    else:
        poke8(state_of(context) + np.uint64(_ROTATED), _YES)


@njit
def rotated_behind_access(context):
    """The code of an access has been written."""
    place = state_of(context) + np.uint64(_ROTATED)
    if peek8(place) != _NO:
        poke8(place, _NO)
        _become_flags(context)


_NAMES = [f"helper_rc{way}{size}" for way in "lr" for size in "bwlq"]
#: Ours by the emulator's names.
ROTATIONS = {name: Native(_keeping_flags(name), OF_ROTATION, since=2) for name in _NAMES}
