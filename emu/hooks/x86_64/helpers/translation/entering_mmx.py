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

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import ENTERING, REGISTERS, TAGS, TOP
from emu.hooks.x86_64.helpers.translation.intermediate import (
    STORE_SHORT,
    STORE_WORD,
    code_byte,
    free_value,
    opcode_place,
    state_of,
    state_value,
    write_three,
)
from emu.native.unicorn import peek64, poke64

_ONE, _EIGHT, _SIXTEEN = np.uint64(1), np.uint64(8), np.uint64(16)
_THREE, _SIX, _SEVEN = np.uint64(3), np.uint64(6), np.uint64(7)
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
_REGISTERS_ONLY = np.uint64(3)
#: Opcodes that have no operand in memory, and one that has no other; shifts by a number, and which there are,
#: by ModRM.reg; 3DNow!, which there is not.
_OF_REGISTERS, _OF_MEMORY = (0x71, 0x72, 0x73, 0xC5, 0xD6, 0xD7, 0xF7), 0xE7
_SHIFTS, _SHIFTS_THERE, _3DNOW = (0x71, 0x72, 0x73), np.array([0x54, 0x54, 0x44], np.uint8), 0x0F
_FROM_MMX, _TO_MMX = 0x2A, (0x2C, 0x2D)
_MASKED_STORE, _MOVES, _TO_XMM = 0xF7, 0xD6, 0xF3
#: What is waited for: nothing, an access, the call that follows the accesses, the end of a call. Or it does
#: not enter at all: there is no such instruction, or it is a conversion whose MMX operand is in memory and so
#: none of MMX (SDM volume 2, CVTPI2PD).
_NOTHING, _AN_ACCESS, _BEFORE_A_CALL, _A_CALL, _NEVER = range(5)
_ALL_FULL, _FIRST, _UPPER_BITS = np.int32(0), np.int32(0), np.int32(0xFFFF)

_constant = types.ExternalFunction("tcg_const_i32_x86_64", types.uint64(types.uint64, types.int32))


@njit
def is_there(opcode, modrm, in_memory):
    """Whether there is an instruction of an opcode with this ModRM byte, and its operand in memory or not."""
    if opcode == _3DNOW or (opcode == _OF_MEMORY and not in_memory):
        return False
    if opcode in _SHIFTS and _SHIFTS_THERE[opcode - _SHIFTS[0]] >> (modrm >> _THREE & _SEVEN) & 1 == 0:
        return False
    return opcode not in _OF_REGISTERS or not in_memory


@njit
def _what_enters(context):
    """(what is waited for, the register that is written or 8) of the MMX instruction that is translated."""
    place, prefix = opcode_place(context)
    opcode = code_byte(context, place + _ONE)
    modrm = np.uint64(code_byte(context, place + _ONE + _ONE))
    in_memory = modrm >> _SIX != _REGISTERS_ONLY
    if not is_there(opcode, modrm, in_memory):
        return _NEVER, _EIGHT
    if opcode == _MASKED_STORE:
        return _A_CALL, _EIGHT
    if opcode in _TO_MMX:
        return _BEFORE_A_CALL, _EIGHT
    if opcode == _FROM_MMX:
        return _NEVER if in_memory else _NOTHING, _EIGHT
    if opcode == _MOVES and prefix == _TO_XMM:
        return _NOTHING, _EIGHT
    kind, register = _WRITTEN[opcode], _EIGHT
    if kind == _REG:
        register = modrm >> _THREE & _SEVEN
    elif kind == _RM and not in_memory:
        register = modrm & _SEVEN
    return _AN_ACCESS if in_memory else _NOTHING, register


@njit
def _store(context, operation, value, place):
    """Code that stores a number in the processor's state."""
    number = context + _constant(context, value)
    write_three(context, operation, number, state_value(context), np.uint64(place))
    free_value(context, number)


@njit
def _enter(context, register):
    """Code that enters."""
    _store(context, STORE_SHORT, _FIRST, TOP)
    _store(context, STORE_SHORT, _ALL_FULL, TAGS)
    _store(context, STORE_SHORT, _ALL_FULL, TAGS + 4)
    if register != _EIGHT:
        _store(context, STORE_WORD, _UPPER_BITS, np.uint64(REGISTERS) + register * _SIXTEEN + _EIGHT)


@njit
def _come(context, what):
    """What an instruction may wait for has come."""
    place = state_of(context) + np.uint64(ENTERING)
    waiting = peek64(place)
    if waiting & _SEVEN == np.uint64(what):
        poke64(place, np.uint64(0))
        _enter(context, waiting >> _THREE)


@njit
def enters_behind_access(context):
    """The code of an access has been written."""
    _come(context, _AN_ACCESS)


@njit
def enters_before_call(context):
    """The call of what computes is to be written."""
    _come(context, _BEFORE_A_CALL)


@njit
def enters_behind_call(context):
    """It has been written."""
    _come(context, _A_CALL)


@njit
def begins(context):
    """The call has been written that waits for exceptions: an MMX instruction is translated."""
    what, register = _what_enters(context)
    if what == _NOTHING:
        _enter(context, register)
    elif what != _NEVER:
        poke64(state_of(context) + np.uint64(ENTERING), register << _THREE | np.uint64(what))
