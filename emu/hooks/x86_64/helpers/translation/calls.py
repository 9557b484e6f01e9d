"""Calls of functions, as the translator writes them into the code it generates: what stands around them."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.translation.entering_mmx import begins, enters_before_call, enters_behind_call
from emu.hooks.x86_64.helpers.translation.intermediate import wanted
from emu.hooks.x86_64.helpers.translation.rotations import is_rotated
from emu.native.functions import Native

_ADDRESS = types.uint64
CALL = types.void(_ADDRESS, _ADDRESS, _ADDRESS, types.int32, _ADDRESS)
#: Arguments of one that computes, at least. Accesses are followed by one that has less.
_WITH_OPERANDS = 3
_NOTHING = np.uint64(0)

_call = types.ExternalFunction("tcg_gen_callN_x86_64", CALL)


@njit
def call(context, function, value, count, arguments, enter_mmx):
    """`tcg_gen_callN`: a call of a function. enter_mmx: ours of that name."""
    computes = count >= _WITH_OPERANDS and wanted(context)
    if computes:
        enters_before_call(context)
    _call(context, function, value, count, arguments)
    if computes:
        enters_behind_call(context)
        # Hooks are called so, too, but for nothing, and may be before the instruction is known.
        if value != _NOTHING and count == _WITH_OPERANDS:
            is_rotated(context)
    elif function == enter_mmx and wanted(context):
        begins(context)


#: Ours by the emulator's names.
CALLS = {"tcg_gen_callN": Native(call, CALL, beside=("helper_enter_mmx_x86_64",))}
