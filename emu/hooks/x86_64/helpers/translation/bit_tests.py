"""`bt`, `bts`, `btr` and `btc` change CF, and leave alone the flags that are undefined after them (SDM volume
2, BT), as processors do.

The translator does so only where it does not know, as at the beginning of a block, what the flags are to be
worked out from; where it knows it leaves others. So it is made to forget that: what it has put off writing to
the processor's state is written, and flags are worked out there.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import PROCESSOR, at, share
from emu.hooks.x86_64.helpers.translation.intermediate import SET_SHORT, operation_value, write_two
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke32, poke64

_ADDRESS, _INT = types.uint64, types.int32
TRANSLATE = types.void(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT)

#: Of what is known while a block is translated (DisasContext): the operation that flags are worked out from,
#: and whether that is yet to be written. Not known.
_TRANSLATION = share("translation")
_OPERATION, _UNWRITTEN, _UNKNOWN = np.uint64(116), np.uint64(124), np.uint32(0)

_translate = types.ExternalFunction("translator_loop_x86_64", TRANSLATE)


@njit
def translate(operations, known, processor, block, most):
    """`translator_loop`: a block is translated. known: what the translator knows of it."""
    poke64(processor + np.uint64(PROCESSOR + _TRANSLATION), known)
    _translate(operations, known, processor, block, most)


@njit
def forget_operation(env, context):
    """What flags are worked out from is in the processor's state, and not known to the translator."""
    known = peek64(at(env, _TRANSLATION))
    operation = peek32(known + _OPERATION)
    if peek8(known + _UNWRITTEN) != np.uint8(0):
        write_two(context, SET_SHORT, operation_value(context), np.uint64(operation))
        poke8(known + _UNWRITTEN, np.uint8(0))
    poke32(known + _OPERATION, _UNKNOWN)


#: Ours by the emulator's names.
BIT_TESTS = {"translator_loop": (translate, TRANSLATE)}
