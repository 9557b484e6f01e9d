"""`bt`, `bts`, `btr` and `btc` change CF, and leave alone the flags that are undefined after them (SDM volume
2, BT), as processors do.

The translator does so only where it does not know, as at the beginning of a block, what the flags are to be
worked out from; where it knows it leaves others. So it is made to forget that: what it has put off writing to
the processor's state is written, and flags are worked out there.

`lzcnt` and `tzcnt` count, though CPUID does not offer them: programs that were built for them do not ask, and
with `bsr` and `bsf`, which these are to older processors, they would go on with wrong numbers.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import PROCESSOR, REVISION, at, share
from emu.hooks.x86_64.helpers.translation.intermediate import (
    FIRST_REVISION,
    SET_SHORT,
    operation_value,
    write_two,
)
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke32, poke64

_ADDRESS, _INT = types.uint64, types.int32
TRANSLATE = types.void(_ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS, _INT)

#: Of what is known while a block is translated (DisasContext): the operation that flags are worked out from,
#: and whether that is yet to be written. Not known.
_TRANSLATION = share("translation")
_OPERATION, _UNWRITTEN, _UNKNOWN = np.uint64(116), np.uint64(124), np.uint32(0)

#: Of a processor's state: what it has (CPUID leaf 7, ebx: BMI1; leaf 0x80000001, ecx: LZCNT).
_LEAF_7, _BMI1, _LEAF_EXTENDED, _LZCNT = np.uint64(0x1610), np.uint64(8), np.uint64(0x1638), np.uint64(32)

_translate = types.ExternalFunction("translator_loop_x86_64", TRANSLATE)


@njit
def translate(operations, known, processor, block, most):
    """`translator_loop`: a block is translated. known: what the translator knows of it."""
    env = processor + np.uint64(PROCESSOR)
    poke64(at(env, _TRANSLATION), known)
    if peek8(at(env, REVISION)) >= FIRST_REVISION:
        poke64(env + _LEAF_7, peek64(env + _LEAF_7) | _BMI1)
        poke64(env + _LEAF_EXTENDED, peek64(env + _LEAF_EXTENDED) | _LZCNT)
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
