"""Loads of 16 bytes to an SSE register, wherever they lie: `movups`, `movupd`, `movdqu`, `lddqu`.

The translator writes two loads, and after each that half of the register. A processor changes all of it or
nothing. So the first half waits until the second one is there: what is written to the register between the
two is what it has.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.state import XMM, share
from emu.hooks.x86_64.helpers.translation.intermediate import (
    LOAD_LONG,
    LOCAL,
    LONG,
    MOVE_LONG,
    STORE_LONG,
    code_byte,
    free_value,
    instruction_of,
    new_value,
    opcode_place,
    state_of,
    state_value,
    write_three,
    write_two,
)
from emu.native.unicorn import peek64, poke64

#: In a processor's state while code is translated: the value that waits, or 0.
_WAITING = np.uint64(share("first_half"))
_NOTHING, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
#: Bytes of a register of the state.
_REGISTER = np.uint64(64)
_ESCAPE, _REPEAT, _REPEAT_NOT, _WIDTH = 0x0F, 0xF3, 0xF2, 0x66
_MOVUPS, _MOVDQU, _LDDQU = 0x10, 0x6F, 0xF0
_EXTENDED, _EXTENDS_REGISTER = 4, 4


@njit
def is_whole_load(context):
    """Whether the instruction that is translated is one of these."""
    place, prefix = opcode_place(context)
    if code_byte(context, place) != _ESCAPE:
        return False
    opcode = code_byte(context, place + _ONE)
    return (
        (opcode == _MOVUPS and prefix in (0, _WIDTH))
        or (opcode == _MOVDQU and prefix == _REPEAT)
        or (opcode == _LDDQU and prefix == _REPEAT_NOT)
    )


@njit
def _lower_half(context):
    """Where the state has the lower half of the register. A REX prefix counts wherever it stands."""
    place, (end, _) = instruction_of(context), opcode_place(context)
    extension = 0
    while place < end:
        byte = code_byte(context, place)
        if byte >> 4 == _EXTENDED:
            extension = (byte & _EXTENDS_REGISTER) << 1
        place += _ONE
    register = code_byte(context, end + _TWO) >> 3 & 7 | extension
    return np.uint64(XMM) + np.uint64(register) * _REGISTER


@njit
def first_half_waits(context, value):
    """The first half has been loaded. In its place comes what the register has. value: its address."""
    kept = new_value(context, LONG, LOCAL)
    write_two(context, MOVE_LONG, kept, value)
    write_three(context, LOAD_LONG, value, state_value(context), _lower_half(context))
    poke64(state_of(context) + _WAITING, kept)


@njit
def first_half_comes(context):
    """The second half has been loaded: the first one goes to its register."""
    place = state_of(context) + _WAITING
    kept = peek64(place)
    if kept != _NOTHING:
        poke64(place, _NOTHING)
        write_three(context, STORE_LONG, kept, state_value(context), _lower_half(context))
        free_value(context, kept)
