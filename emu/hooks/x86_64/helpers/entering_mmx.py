"""An MMX instruction makes all x87 registers valid, and the first one the top; of a register that it writes
it sets the 16 bits above it (SDM volume 1, 9.5.1 and 9.6). Nothing of it happens before an access that may
fail, or be where a slice ends.

The translator has a function called for it before the operand is fetched, which is not told the register.
Ours waits there for exceptions that are due, and no more: what changes is written into the generated code, by
functions of the translator that are ours, behind the access. Most instructions access memory once.
Conversions may fetch an operand in two parts, and are followed by the call of what converts; `maskmovq` is
such a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from emu.hooks.x86_64.helpers.state import ENTERING, REGISTERS, REVISION, TAGS, TOP
from emu.hooks.x86_64.helpers.translator import LAST_READ, state_of
from emu.native.functions import Native
from emu.native.unicorn import peek8, peek64, poke64

_ADDRESS, _INT, _VALUE = types.uint64, types.int32, types.int64
CALL = types.void(_ADDRESS, _ADDRESS, _ADDRESS, _INT, _ADDRESS)
ACCESS = types.void(_ADDRESS, _VALUE, _VALUE, _ADDRESS, _INT)

_ONE, _FOUR, _EIGHT, _FIFTEEN, _SIXTEEN = (np.uint64(number) for number in (1, 4, 8, 15, 16))
_THREE, _SIX, _SEVEN = np.uint64(3), np.uint64(6), np.uint64(7)
_FIRST_REVISION = np.uint8(2)
#: Which operand an opcode of the two-byte map writes, if that is an MMX register: none, that in ModRM.reg,
#: that in ModRM.rm. Conversions, which may fail, do it themselves (`sse.redirected`).
_NONE, _REG, _RM = 0, 1, 2
_WRITTEN = np.zeros(256, np.uint8)
for _first, _last in (
    (0x60, 0x6B), (0x6E, 0x70), (0x74, 0x76), (0xC4, 0xC4), (0xD1, 0xD6), (0xD8, 0xE5),
    (0xE8, 0xEF), (0xF1, 0xF6), (0xF8, 0xFE),
):  # fmt: skip
    _WRITTEN[_first : _last + 1] = _REG
for _opcode in (0x71, 0x72, 0x73, 0x7F):
    _WRITTEN[_opcode] = _RM
_ESCAPE, _REGISTERS_ONLY = 0x0F, np.uint64(3)
#: Opcodes that have no operand in memory, and one that has no other; shifts by a number, and which there are,
#: by ModRM.reg; 3DNow!, which there is not.
_OF_REGISTERS, _OF_MEMORY = (0x71, 0x72, 0x73, 0xC5, 0xD6, 0xD7, 0xF7), 0xE7
_SHIFTS, _SHIFTS_THERE, _3DNOW = (0x71, 0x72, 0x73), np.array([0x54, 0x54, 0x44], np.uint8), 0x0F
_FROM_MMX, _TO_MMX = 0x2A, (0x2C, 0x2D)
_MASKED_STORE, _MOVES, _MOVES_TO_XMM, _MOVES_FROM_XMM = 0xF7, 0xD6, 0xF3, 0xF2
#: What is waited for: nothing, an access, the call that follows the accesses, the end of a call. Or it does
#: not enter at all: there is no such instruction, or it is a conversion whose MMX operand is in memory and so
#: none of MMX (SDM volume 2, CVTPI2PD).
_NOTHING, _AN_ACCESS, _BEFORE_A_CALL, _A_CALL, _NEVER = range(5)
#: Arguments of a call that computes, at least; accesses are followed by one that has less.
_WITH_OPERANDS = 3
#: Operations of the translator's intermediate code (tcg-opc.h): stores of 16 and of 32 bits.
_STORE_16, _STORE_32 = np.int32(15), np.int32(16)
_ALL_FULL, _FIRST, _UPPER_BITS = np.int32(0), np.int32(0), np.int32(0xFFFF)

_call = types.ExternalFunction("tcg_gen_callN_x86_64", CALL)
_code_byte = types.ExternalFunction("cpu_ldub_code_x86_64", types.uint32(_ADDRESS, _ADDRESS))
_constant = types.ExternalFunction("tcg_const_i32_x86_64", _ADDRESS(_ADDRESS, _INT))
_free_value = types.ExternalFunction("tcg_temp_free_internal_x86_64", types.void(_ADDRESS, _ADDRESS))
_operation = types.ExternalFunction(
    "tcg_gen_op3_x86_64", types.void(_ADDRESS, _INT, _ADDRESS, _ADDRESS, _ADDRESS)
)


@njit
def _is_to_xmm(env, place):
    """Whether `f3` stands before the escape byte at an address: one of `f2` and `f3` does."""
    while True:
        place -= _ONE
        byte = _code_byte(env, place)
        if byte in (_MOVES_TO_XMM, _MOVES_FROM_XMM):
            return byte == _MOVES_TO_XMM


@njit
def is_there(opcode, modrm, in_memory):
    """Whether there is an instruction of an opcode with this ModRM byte, and its operand in memory or not."""
    if opcode == _3DNOW or (opcode == _OF_MEMORY and not in_memory):
        return False
    if opcode in _SHIFTS and _SHIFTS_THERE[opcode - _SHIFTS[0]] >> (modrm >> _THREE & _SEVEN) & 1 == 0:
        return False
    return opcode not in _OF_REGISTERS or not in_memory


@njit
def what_enters(env, last):
    """(what is waited for, the register that is written or 8) of an MMX instruction, of which the byte at
    address `last` was read last: its opcode, or its ModRM."""
    place = last if _code_byte(env, last - _ONE) == _ESCAPE else last - _ONE
    opcode, modrm = _code_byte(env, place), np.uint64(_code_byte(env, place + _ONE))
    in_memory = modrm >> _SIX != _REGISTERS_ONLY
    if not is_there(opcode, modrm, in_memory):
        return _NEVER, _EIGHT
    if opcode == _MASKED_STORE:
        return _A_CALL, _EIGHT
    if opcode in _TO_MMX:
        return _BEFORE_A_CALL, _EIGHT
    if opcode == _FROM_MMX:
        return _NEVER if in_memory else _NOTHING, _EIGHT
    if opcode == _MOVES and _is_to_xmm(env, place - _ONE):
        return _NOTHING, _EIGHT
    kind, register = _WRITTEN[opcode], _EIGHT
    if kind == _REG:
        register = modrm >> _THREE & _SEVEN
    elif kind == _RM and not in_memory:
        register = modrm & _SEVEN
    return _AN_ACCESS if in_memory else _NOTHING, register


@njit
def _store(context, operation, value, processor, place):
    """Code that stores a number in the processor's state."""
    number = _constant(context, value)
    _operation(context, operation, context + number, processor, np.uint64(place))
    _free_value(context, context + number)


@njit
def _enter(context, processor, register):
    """Code that enters. processor: the value that is the address of its state."""
    _store(context, _STORE_32, _FIRST, processor, TOP)
    _store(context, _STORE_32, _ALL_FULL, processor, TAGS)
    _store(context, _STORE_32, _ALL_FULL, processor, TAGS + 4)
    if register != _EIGHT:
        place = np.uint64(REGISTERS) + register * _SIXTEEN + _EIGHT
        _store(context, _STORE_16, _UPPER_BITS, processor, place)


@njit
def _enter_if(context, what):
    """What was waited for has come."""
    waiting = state_of(context) + np.uint64(ENTERING)
    word = peek64(waiting)
    if word & _FIFTEEN == np.uint64(what):
        poke64(waiting, np.uint64(0))
        _enter(context, context + (word >> _EIGHT), word >> _FOUR & _FIFTEEN)


@njit
def call(context, function, value, count, arguments, enter_mmx):
    """`tcg_gen_callN`: a call of a function is written. enter_mmx: ours of that name."""
    if count >= _WITH_OPERANDS:
        _enter_if(context, _BEFORE_A_CALL)
    _call(context, function, value, count, arguments)
    _enter_if(context, _A_CALL)
    state = state_of(context)
    if function != enter_mmx or peek8(state + np.uint64(REVISION)) < _FIRST_REVISION:
        return
    what, register = what_enters(state, peek64(state + np.uint64(LAST_READ)))
    processor = peek64(arguments)
    if what == _NOTHING:
        _enter(context, processor, register)
    elif what != _NEVER:
        word = (processor - context) << _EIGHT | register << _FOUR | np.uint64(what)
        poke64(state + np.uint64(ENTERING), word)


def _then_enters(name: str) -> Any:
    """The translator's function that writes an access, and what waits for it."""
    theirs = types.ExternalFunction(f"{name}_x86_64", ACCESS)

    @njit
    def access(context, value, place, index, operation):
        theirs(context, value, place, index, operation)
        _enter_if(context, _AN_ACCESS)

    return access


_ACCESSES = [f"tcg_gen_qemu_{way}_{size}" for way in ("ld", "st") for size in ("i32", "i64")]
#: Ours by the emulator's names.
ENTERING_MMX = {
    **{name: Native(_then_enters(name), ACCESS) for name in _ACCESSES},
    "tcg_gen_callN": Native(call, CALL, beside="helper_enter_mmx_x86_64"),
}
