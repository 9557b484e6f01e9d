"""Operands of SSE instructions in memory, as the translator writes their loads and stores.

It takes 16 bytes, wherever they lie, for most of them. Of an operand that must be aligned
(`isa.x86_64.operands`) the first of two accesses says so, which costs nothing: where an access lies is
compared at any rate. One that is not aligned is a general-protection fault, before anything else is looked
at. Of an operand of 8 or 4 bytes no more than these are read. `ins` stores once. One of 16 bytes that need
not be aligned is stored by two stores: where nobody could take the first one back, both are tried before. It
is loaded as a whole (`whole_loads.py`).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.segments import GENERAL_PROTECTION, fault
from emu.hooks.x86_64.helpers.state import PROCESSOR, PROCESSOR_CLASS, TRIES, share
from emu.hooks.x86_64.helpers.translation.entering_mmx import enters_behind_access
from emu.hooks.x86_64.helpers.translation.frames import tries_end_behind_store
from emu.hooks.x86_64.helpers.translation.intermediate import (
    VALUE_BYTES,
    code_byte,
    instruction_of,
    opcode_place,
    operand_place,
    state_of,
    state_value,
    wanted,
    write_and,
    write_call,
)
from emu.hooks.x86_64.helpers.translation.rotations import rotated_behind_access
from emu.hooks.x86_64.helpers.translation.whole_loads import (
    first_half_comes,
    first_half_waits,
    is_whole_load,
)
from emu.hooks.x86_64.helpers.translation.x87_translation import ACCESS, is_x87_store, store_x87_quad
from emu.native.functions import Native, native_table
from emu.native.unicorn import peek8, peek64, poke64
from isa.x86_64.operands import (
    ALIGNED,
    ANY,
    EIGHT,
    FOUR,
    MEMORY_OPERANDS,
    NO_PREFIX,
    P66,
    PF2,
    PF3,
    THREE_BYTES_3A,
    THREE_BYTES_38,
    TWO_BYTES,
)

_ADDRESS, _INT = types.uint64, types.int32
MISALIGNED = types.void(_ADDRESS, _ADDRESS, _INT, _INT, _ADDRESS)
#: Kinds of accesses (MemOp): of 8 bytes, of 4; what makes it one at a multiple of 16.
_QUAD, _LONG, _AT_SIXTEEN = np.int32(3), np.int32(2), np.int32(4 << 4)
#: Among a block's first values, how far the one that has half of an operand, and the address of the second
#: half, are behind the address of the first.
_HALF, _SECOND = 2 * VALUE_BYTES, VALUE_BYTES
#: In what the emulator knows of a kind of processor: what is called where an access is not aligned.
_UNALIGNED = np.uint64(24)
_ESCAPE, _ONE = 0x0F, np.uint64(1)
_PORT_TO_STRING, _TRIED = (0x6C, 0x6D), share("tried")
#: `movups` and `movupd`, `movdqu`: opcodes of stores, and where in a state it says that these are tried.
_MOVUPS, _MOVDQU, _TRIES, _NEVER = 0x11, 0x7F, np.uint64(TRIES), np.uint8(0)

_load = types.ExternalFunction("tcg_gen_qemu_ld_i64_x86_64", ACCESS)
_store = types.ExternalFunction("tcg_gen_qemu_st_i64_x86_64", ACCESS)


@njit
def _misaligned(processor, address, access, index, caller):
    """`CPUClass.do_unaligned_access`."""
    fault(processor + np.uint64(PROCESSOR), GENERAL_PROTECTION, 0, caller)


_put_misaligned = native_table([(Native(_misaligned, MISALIGNED), None)])


@njit
def check_alignment(context):
    """From now on the processor of which code is translated has a fault where an operand is not aligned."""
    if wanted(context):
        _put_misaligned(peek64(state_of(context) - np.uint64(PROCESSOR_CLASS)) + _UNALIGNED)


@njit
def operand_kind(context):
    """What the instruction that is translated takes from memory (`isa.x86_64.operands`)."""
    place, prefix = opcode_place(context)
    if code_byte(context, place) != _ESCAPE:
        return ANY
    opcode, of = code_byte(context, place + _ONE), TWO_BYTES
    if opcode in (0x38, 0x3A):
        of = THREE_BYTES_38 if opcode == 0x38 else THREE_BYTES_3A
        opcode = code_byte(context, place + _ONE + _ONE)
    column = NO_PREFIX
    if prefix == 0x66:
        column = P66
    elif prefix != 0:
        column = PF3 if prefix == 0xF3 else PF2
    return np.int64(MEMORY_OPERANDS[of, column, opcode])


@njit
def _behind(context):
    """What has waited for an access."""
    enters_behind_access(context)
    rotated_behind_access(context)


@njit
def load(context, value, address, index, operation):
    """`tcg_gen_qemu_ld_i64`: 8 bytes are read, or fewer."""
    if operation == _QUAD and wanted(context):
        place = operand_place(context)
        if value == place + _HALF and address in (place, place + _SECOND):
            kind, first = operand_kind(context), address == place
            if kind in (EIGHT, FOUR) and not first:
                write_and(context, value, value, 0)
                return
            if kind == FOUR:
                operation = _LONG
            elif kind == ALIGNED and first:
                operation |= _AT_SIXTEEN
            elif kind == ANY and is_whole_load(context):
                _load(context, value, address, index, operation)
                if first:
                    first_half_waits(context, context + np.uint64(value))
                else:
                    first_half_comes(context)
                return
    _load(context, value, address, index, operation)
    _behind(context)


@njit
def _only_tries(context):
    """Whether the store to be written is the first one of an `ins`, by which the translator tries if there
    may be one. Ours fails no later: what is read from a port there, nothing, can be read again."""
    if code_byte(context, opcode_place(context)[0]) not in _PORT_TO_STRING:
        return False
    tried, instruction = state_of(context) + np.uint64(_TRIED), instruction_of(context)
    first = peek64(tried) != instruction
    poke64(tried, instruction if first else np.uint64(0))
    return first


@njit
def _is_sixteen(context):
    """Whether the instruction that is translated stores 16 bytes, wherever they lie."""
    place, prefix = opcode_place(context)
    if code_byte(context, place) != _ESCAPE:
        return False
    opcode = code_byte(context, place + _ONE)
    return (opcode == _MOVUPS and prefix in (0, 0x66)) or (opcode == _MOVDQU and prefix == 0xF3)


@njit
def store(context, value, address, index, operation, try_sixteen, try_end):
    """`tcg_gen_qemu_st_i64`: 8 bytes are written, or fewer. try_sixteen, try_end: ours of these names."""
    if wanted(context) and _only_tries(context):
        return
    if operation == _QUAD and wanted(context):
        place = operand_place(context)
        if value == place + _HALF and address == place:
            if is_x87_store(context):
                store_x87_quad(context, value, address, index, operation)
                return
            if operand_kind(context) == ALIGNED:
                operation |= _AT_SIXTEEN
            elif peek8(state_of(context) + _TRIES) != _NEVER and _is_sixteen(context):
                write_call(context, try_sixteen, state_value(context), context + np.uint64(address))
    _store(context, value, address, index, operation)
    _behind(context)
    if operation == _QUAD and wanted(context):
        tries_end_behind_store(context, value, try_end)


#: Ours by the emulator's names.
ACCESSES = {
    "tcg_gen_qemu_ld_i64": Native(load, ACCESS),
    "tcg_gen_qemu_st_i64": Native(store, ACCESS, beside=("helper_bndldx64_x86_64", "helper_bndldx32_x86_64")),
}
