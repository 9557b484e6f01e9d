"""Flags of an instruction that is broken off at its store: `setcc` to memory, which works them out before it.

What sets flags is remembered by the emulator as an operation and its operands, and they are worked out when
somebody asks (QEMU: CC_OP). An instruction that asks and then fails, or is taken back since a slice ends,
gets the operation back that was known before it, while its operands are the worked-out flags by then. Which
conditions ask follows from the operation and the condition, as the translator has it.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from emu.hooks.x86_64.helpers.state import MEMORY, MEMORY_BYTES, OPERATION, at
from emu.native.unicorn import peek8, peek64, poke32

_ADDRESS = types.uint64
RESTORE = types.void(_ADDRESS, _ADDRESS, _ADDRESS)
_EIGHT, _ONE, _LONGEST = np.uint64(8), np.uint64(1), np.uint64(32)
_ESCAPE, _FIRST, _CONDITIONS, _REGISTERS = 0x0F, 0x90, 16, 3
_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF2, 0xF3)
#: Operations: known when it runs; flags that are worked out; subtractions; those whose overflow is known.
_DYNAMIC, _WORKED_OUT, _SUBTRACTED, _SUBTRACTED_LAST = 0, np.uint32(1), 14, 17
_OVERFLOW_KNOWN = (47, 48, 49, 50)
#: Pairs of conditions: o, b, z, be, s, p, l, le.
_O, _B, _Z, _BE, _S, _P, _L, _LE = range(8)

_restore = types.ExternalFunction("restore_state_to_opc_x86_64", RESTORE)


@njit
def works_out(operation, condition):
    """Whether `setcc` of a pair of conditions replaces the operands of an operation by the flags."""
    if operation == np.int64(_WORKED_OUT) or condition == _B:
        return False
    if operation == _DYNAMIC:
        return True
    if condition == _O:
        return operation not in _OVERFLOW_KNOWN
    if condition in (_Z, _S):
        return False
    return not (_SUBTRACTED <= operation <= _SUBTRACTED_LAST and condition != _P)


@njit
def _pair_of_conditions(env, address):
    """Of the `setcc` to memory at an address, or -1."""
    if address + _LONGEST > peek64(at(env, MEMORY_BYTES)):
        return -1
    place = peek64(at(env, MEMORY)) + address
    byte = np.int64(peek8(place))
    while byte in _PREFIXES or byte >> 4 == 4:
        place += _ONE
        byte = np.int64(peek8(place))
    opcode = np.int64(peek8(place + _ONE)) - _FIRST
    if byte != _ESCAPE or opcode < 0 or opcode >= _CONDITIONS:
        return -1
    if np.int64(peek8(place + _ONE + _ONE)) >> 6 == _REGISTERS:
        return -1
    return opcode >> 1


@njit
def restore(env, block, known):
    """`restore_state_to_opc`: an instruction is broken off. known: two words, its address and the operation
    before it."""
    _restore(env, block, known)
    condition = _pair_of_conditions(env, peek64(known))
    if condition >= 0 and works_out(np.int64(np.int32(peek64(known + _EIGHT))), condition):
        poke32(at(env, OPERATION), _WORKED_OUT)


#: Ours by the emulator's names.
SETTLED_FLAGS = {"restore_state_to_opc": (restore, RESTORE)}
