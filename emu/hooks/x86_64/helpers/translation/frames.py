"""`enter`: once all of a frame is stored, a processor looks whether it could store where the stack ends then,
and fails if it could not (SDM volume 2, ENTER). The emulator does not look: a call that does is written
behind the last store."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.exceptions.memory import try_stack
from emu.hooks.x86_64.helpers.translation.intermediate import (
    LONG,
    NOT_LOCAL,
    VALUE_BYTES,
    code_byte,
    free_value,
    new_value,
    opcode_place,
    operand_place,
    state_value,
    write_call,
)
from emu.native.functions import Native

_ADDRESS, _VALUE = types.uint64, types.int64
_OF_ADDRESS = _ADDRESS(_ADDRESS, _ADDRESS, _ADDRESS)
_ENTER, _LEVELS, _WORD = 0xC8, 31, 8
_ONE = np.uint64(1)

_subtract = types.ExternalFunction("tcg_gen_subi_i64_x86_64", types.void(_ADDRESS, _VALUE, _VALUE, _VALUE))


@njit
def _try_end(env, address, _, caller):
    """Called behind the last store of an `enter`. Its name is that of a helper whose instruction (`bndldx`)
    no processor of ours has."""
    try_stack(env, address, caller)
    return address


@njit
def tries_end_behind_store(context, value, try_end):
    """The code of a store has been written. value: what is stored. try_end: ours of that name.

    The last store of nested frames is that of the new frame pointer, which the translator computes in the
    value before that of the operand's address; the only one of others is that of the old.
    """
    place, _ = opcode_place(context)
    if code_byte(context, place) != _ENTER:
        return
    level = code_byte(context, place + np.uint64(3)) & _LEVELS
    pointer = operand_place(context) - VALUE_BYTES
    if level != 0 and value != pointer:
        return
    size = code_byte(context, place + _ONE) | code_byte(context, place + np.uint64(2)) << 8
    end = new_value(context, LONG, NOT_LOCAL)
    _subtract(context, np.int64(end - context), pointer, size + _WORD * level)
    write_call(context, try_end, state_value(context), end)
    free_value(context, end)


#: Ours by the emulator's names.
FRAMES = {"helper_bndldx32": Native(_try_end, _OF_ADDRESS, caller=True)}
