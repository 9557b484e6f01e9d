"""The intermediate code that the emulator's translator writes (QEMU: TCG): what ours needs to write some.

A value is named by how far it is from the translator's state (`context`), or by its address. `table.py` knows
of which versions of unicorn the places and numbers are.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import PROCESSOR, RESULT, REVISION, share
from emu.native.unicorn import peek8, peek64, poke64

_ADDRESS, _INT, _VALUE = types.uint64, types.int32, types.int64
#: Of TCGContext: the processor (CPUState), the address of the instruction that is translated, and values: the
#: processor's state, what flags are worked out from, the flags where they are.
_PROCESSOR, _INSTRUCTION, _STATE, _OPERATION, _FLAGS = (
    np.uint64(number) for number in (224, 0xA650, 0x98F0, 0x9990, 0x9980)
)
FIRST_REVISION = np.uint8(2)
#: Bytes of a value.
VALUE_BYTES = np.int64(56)
#: Of a processor's state: the translator, and which value is the address of operands in memory.
TRANSLATOR, OPERAND_PLACE = share("translator"), share("operand_place")
_OPERAND_PLACE = np.uint64(OPERAND_PLACE)
#: And the first value that was made for an instruction, and that instruction's address.
_FIRST, _FIRST_OF = np.uint64(share("first")), np.uint64(share("first_of"))
_NO_INSTRUCTION, _NO_PROCESSOR = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0)
#: Kinds of values; whether they outlive a branch.
SHORT, LONG, NOT_LOCAL, LOCAL = np.int32(0), np.int32(1), np.int32(0), np.int32(1)

new_value = types.ExternalFunction("tcg_temp_new_internal_x86_64", _ADDRESS(_ADDRESS, _INT, _INT))
free_value = types.ExternalFunction("tcg_temp_free_internal_x86_64", types.void(_ADDRESS, _ADDRESS))
write_and = types.ExternalFunction("tcg_gen_andi_i64_x86_64", types.void(_ADDRESS, _VALUE, _VALUE, _VALUE))
#: Operations by their numbers; what they take is named by addresses.
write_one = types.ExternalFunction("tcg_gen_op1_x86_64", types.void(_ADDRESS, _INT, _ADDRESS))
write_two = types.ExternalFunction("tcg_gen_op2_x86_64", types.void(_ADDRESS, _INT, _ADDRESS, _ADDRESS))
write_three = types.ExternalFunction(
    "tcg_gen_op3_x86_64", types.void(_ADDRESS, _INT, _ADDRESS, _ADDRESS, _ADDRESS)
)
SET_LABEL, MOVE_SHORT, SET_SHORT, LOAD_BYTE, STORE_WORD, STORE_SHORT, MOVE_LONG, LOAD_LONG, STORE_BYTE = (
    np.int32(number) for number in (0x01, 0x05, 0x06, 0x09, 0x0F, 0x10, 0x3F, 0x49, 0x4A)
)
STORE_LONG = np.int32(0x4D)
_call = types.ExternalFunction(
    "tcg_gen_callN_x86_64", types.void(_ADDRESS, _ADDRESS, _ADDRESS, _INT, _ADDRESS)
)
_code_byte = types.ExternalFunction("cpu_ldub_code_x86_64", types.uint32(_ADDRESS, _ADDRESS))

#: While code is translated no instruction has a result: room for what a call is given.
_ARGUMENTS, _NO_VALUE, _WORD = np.uint64(RESULT), np.uint64(0), np.uint64(8)
_ONE, _WIDTH, _REPEAT, _REPEAT_NOT = np.uint64(1), 0x66, 0xF3, 0xF2
_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3)


@njit
def state_of(context):
    """The state of the processor of which code is translated."""
    return peek64(context + _PROCESSOR) + np.uint64(PROCESSOR)


@njit
def wanted(context):
    """Whether it is for an engine that is to be right in this."""
    return peek8(state_of(context) + np.uint64(REVISION)) >= FIRST_REVISION


@njit
def instruction_of(context):
    """The address of the instruction that is translated."""
    return peek64(context + _INSTRUCTION)


@njit
def operand_place(context):
    """The value that is the address of an operand in memory."""
    return np.int64(peek64(state_of(context) + _OPERAND_PLACE))


@njit
def begin_block(context):
    """A block begins: what is made next is of no instruction."""
    poke64(context + _INSTRUCTION, _NO_INSTRUCTION)


@njit
def note_value(context, value):
    """A value was made that holds 64 bits and ends with a branch; its address."""
    if peek64(context + _PROCESSOR) == _NO_PROCESSOR:
        return
    state, instruction = state_of(context), peek64(context + _INSTRUCTION)
    if peek64(state + _FIRST_OF) != instruction:
        poke64(state + _FIRST_OF, instruction)
        poke64(state + _FIRST, value)


@njit
def first_value(context):
    """The first such value of the instruction that is translated."""
    return peek64(state_of(context) + _FIRST)


@njit
def state_value(context):
    """The address of the value that is the processor's state."""
    return context + peek64(context + _STATE)


@njit
def operation_value(context):
    """The address of the value that says what flags are worked out from."""
    return context + peek64(context + _OPERATION)


@njit
def flags_value(context):
    """The address of the value that is the flags where they are worked out, and an operand where not."""
    return context + peek64(context + _FLAGS)


@njit
def code_byte(context, place):
    """A byte of code."""
    return np.int64(_code_byte(state_of(context), place))


@njit
def write_call(context, function, first, second):
    """A call of one of the emulator's functions with three arguments, the third one the second again. All but
    the context by their addresses."""
    place = state_of(context) + _ARGUMENTS
    poke64(place, first)
    poke64(place + _WORD, second)
    poke64(place + _WORD + _WORD, second)
    _call(context, function, _NO_VALUE, np.int32(3), place)


@njit
def opcode_place(context):
    """(where the opcode of the instruction that is translated begins; f3 or f2 if it has such a prefix, else
    66, else 0)."""
    place, width, repeat = peek64(context + _INSTRUCTION), 0, 0
    byte = code_byte(context, place)
    while byte in _PREFIXES or byte >> 4 == 4:
        if byte == _WIDTH:
            width = byte
        elif byte in (_REPEAT, _REPEAT_NOT):
            repeat = byte
        place += _ONE
        byte = code_byte(context, place)
    return place, repeat if repeat != 0 else width
