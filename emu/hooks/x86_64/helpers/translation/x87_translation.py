"""Stores and conditional moves of the x87, as the translator writes them.

A store that fails by an exception that is not masked stores nothing; the exception is raised by the next
instruction that waits (SDM volume 1, 8.5 and 8.6). Whether it fails is known once its helper has computed
what is stored, so the store is passed over where that says so (`x87_exceptions.stores`).

`fcmovcc` finds empty registers and waits for exceptions also where it moves nothing (SDM volume 2, FCMOVcc).
The translator passes over its helper then; ours is always called, and told whether anything is to be moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import KEEPS, STAYS
from emu.hooks.x86_64.helpers.translation.intermediate import (
    LOAD_BYTE,
    LOCAL,
    LONG,
    MOVE_LONG,
    MOVE_SHORT,
    NOT_LOCAL,
    SET_LABEL,
    SHORT,
    STORE_BYTE,
    code_byte,
    first_value,
    free_value,
    new_value,
    opcode_place,
    state_value,
    wanted,
    write_one,
    write_three,
    write_two,
)
from emu.native.unicorn import peek16, poke16

_ADDRESS, _INT, _VALUE = types.uint64, types.int32, types.int64
ACCESS = types.void(_ADDRESS, _VALUE, _VALUE, _VALUE, _INT)
BRANCH_IF = types.void(_ADDRESS, _INT, _VALUE, _VALUE, _ADDRESS)
#: Opcodes with memory that store a number which a helper has computed: which of ModR/M's /0 to /7.
_STORES = np.zeros(256, np.uint8)
for _opcode, _digits in ((0xD9, (2, 3)), (0xDB, (1, 2, 3)), (0xDD, (1, 2, 3)), (0xDF, (1, 2, 3, 7))):
    _STORES[_opcode] = sum(1 << digit for digit in _digits)
#: fcmovcc: these opcodes, with ModR/M from and up to these.
_MOVES, _FIRST_MOVE, _LAST_MOVE = (0xDA, 0xDB), 0xC0, 0xDF
_NOT_EQUAL, _NOTHING = np.int32(9), np.int32(0)
_ONE, _PRESENT = np.uint64(1), np.uint16(1)

_store_long = types.ExternalFunction("tcg_gen_qemu_st_i32_x86_64", ACCESS)
_store_quad = types.ExternalFunction("tcg_gen_qemu_st_i64_x86_64", ACCESS)
_new_label = types.ExternalFunction("gen_new_label_x86_64", _ADDRESS(_ADDRESS))
_branch_if_short = types.ExternalFunction(
    "tcg_gen_brcondi_i32_x86_64", types.void(_ADDRESS, _INT, _VALUE, _INT, _ADDRESS)
)
_branch_if = types.ExternalFunction("tcg_gen_brcondi_i64_x86_64", BRANCH_IF)
_SET = types.void(_ADDRESS, _INT, _VALUE, _VALUE, _VALUE)
_set_condition = types.ExternalFunction("tcg_gen_setcond_i64_x86_64", _SET)
_set_condition_by = types.ExternalFunction("tcg_gen_setcondi_i64_x86_64", _SET)


# -- stores --------------------------------------------------------------------------------------------------


@njit
def is_x87_store(context):
    """Whether the instruction that is translated stores what a helper has computed."""
    place, _ = opcode_place(context)
    digit = code_byte(context, place + _ONE) >> 3 & 7
    return _STORES[code_byte(context, place)] >> digit & 1 != 0


@njit
def _copied(context, value, kind, move):
    """A copy of a value, which outlives a branch. Both by their addresses."""
    copy = new_value(context, kind, LOCAL)
    write_two(context, move, copy, value)
    return copy


@njit
def _skip_if_it_fails(context):
    """What is written from here to the label that is returned is passed over by an instruction that fails."""
    label, failed = _new_label(context), new_value(context, SHORT, NOT_LOCAL)
    write_three(context, LOAD_BYTE, failed, state_value(context), np.uint64(KEEPS))
    _branch_if_short(context, _NOT_EQUAL, np.int64(failed - context), _NOTHING, label)
    free_value(context, failed)
    return label


@njit
def _here_is(context, label):
    poke16(label, peek16(label) | _PRESENT)
    write_one(context, SET_LABEL, label)


def _unless_it_fails(store: Any, kind: Any, move: Any) -> Any:
    @njit
    def ours(context, value, address, index, operation):
        # A branch ends the life of values, but for copies of this kind. The first of an x87 instruction is
        # where its operand is, for the processor to remember behind the store.
        operand = first_value(context)
        kept = _copied(context, operand, LONG, MOVE_LONG)
        number = _copied(context, context + np.uint64(value), kind, move)
        place = _copied(context, context + np.uint64(address), LONG, MOVE_LONG)
        label = _skip_if_it_fails(context)
        store(context, np.int64(number - context), np.int64(place - context), index, operation)
        _here_is(context, label)
        write_two(context, MOVE_LONG, operand, kept)
        for copy in (kept, number, place):
            free_value(context, copy)

    return ours


store_x87_quad = _unless_it_fails(_store_quad, LONG, MOVE_LONG)
_store_x87_long = _unless_it_fails(_store_long, SHORT, MOVE_SHORT)


@njit
def store_long(context, value, address, index, operation):
    """`tcg_gen_qemu_st_i32`: 4 or 2 bytes are written."""
    if wanted(context) and is_x87_store(context):
        _store_x87_long(context, value, address, index, operation)
    else:
        _store_long(context, value, address, index, operation)


# -- conditional moves ---------------------------------------------------------------------------------------


@njit
def is_conditional_move(context):
    """Whether the instruction that is translated is an `fcmovcc`."""
    place, _ = opcode_place(context)
    if code_byte(context, place) not in _MOVES:
        return False
    return _FIRST_MOVE <= code_byte(context, place + _ONE) <= _LAST_MOVE


@njit
def _tell(context, stays):
    write_three(context, STORE_BYTE, stays, state_value(context), np.uint64(STAYS))
    free_value(context, stays)


@njit
def tell_of_move(context, condition, first, second):
    """The helper of an `fcmovcc` is told that nothing moves, if the condition holds of two values."""
    stays = new_value(context, LONG, NOT_LOCAL)
    _set_condition(context, condition, np.int64(stays - context), first, second)
    _tell(context, stays)


@njit
def branch_if(context, condition, value, constant, label):
    """`tcg_gen_brcondi_i64`: by a comparison with a constant."""
    if wanted(context) and is_conditional_move(context):
        stays = new_value(context, LONG, NOT_LOCAL)
        _set_condition_by(context, condition, np.int64(stays - context), value, constant)
        _tell(context, stays)
    else:
        _branch_if(context, condition, value, constant, label)


#: Ours by the emulator's names.
X87_TRANSLATION = {
    "tcg_gen_qemu_st_i32": (store_long, ACCESS),
    "tcg_gen_brcondi_i64": (branch_if, BRANCH_IF),
}
