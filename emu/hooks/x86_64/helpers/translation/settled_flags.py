"""Flags of an instruction that is broken off: `setcc` to memory and rotations of memory through the carry
flag at an access, `fcmovcc` by an exception of the x87. They work flags out before that.

What sets flags is remembered by the emulator as an operation and its operands, and they are worked out when
somebody asks (QEMU: CC_OP). An instruction that asks and then fails, or is taken back since a slice ends,
gets the operation back that was known before it, while its operands are the worked-out flags by then. Which
conditions ask follows from the operation and the condition, as the translator has it.

A core that is stopped before a block gets the operation back as well. Nothing of the block has run.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import CORE_ROW, MEMORY, MEMORY_BYTES, OPERATION, at
from emu.native.state import core_at
from emu.native.unicorn import peek8, peek64, poke32

_ADDRESS = types.uint64
RESTORE = types.void(_ADDRESS, _ADDRESS, _ADDRESS)
_EIGHT, _ONE, _LONGEST = np.uint64(8), np.uint64(1), np.uint64(32)
_ESCAPE, _FIRST, _CONDITIONS, _REGISTERS = 0x0F, 0x90, 16, 3
#: By a number, by one and by cl, and in ModRM.reg.
_ROTATIONS, _THROUGH_CARRY = (0xC0, 0xC1, 0xD0, 0xD1, 0xD2, 0xD3), (2, 3)
_PREFIXES = (0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF2, 0xF3)
#: `fcmovcc`: opcodes, ModR/M from and up to these, and conditions by the two bits from the fourth on.
_MOVES, _FIRST_MOVE, _LAST_MOVE = (0xDA, 0xDB), 0xC0, 0xDF
#: Operations: known when it runs; flags that are worked out; subtractions; those whose overflow is known.
_DYNAMIC, _WORKED_OUT, _SUBTRACTED, _SUBTRACTED_LAST = 0, np.uint32(1), 14, 17
_OVERFLOW_KNOWN = (47, 48, 49, 50)
#: Pairs of conditions: o, b, z, be, s, p, l, le.
_O, _B, _Z, _BE, _S, _P, _L, _LE = range(8)
_MOVED_IF = (_B, _Z, _BE, _P)

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
def _worked_out(place, operation):
    """Whether the instruction at an address in this process has worked the flags out: it is one of these, and
    the operation was that before it."""
    byte = np.int64(peek8(place))
    while byte in _PREFIXES or byte >> 4 == 4:
        place += _ONE
        byte = np.int64(peek8(place))
    if byte in _ROTATIONS:
        modrm = np.int64(peek8(place + _ONE))
        return modrm >> 6 != _REGISTERS and modrm >> 3 & 7 in _THROUGH_CARRY
    if byte in _MOVES:
        modrm = np.int64(peek8(place + _ONE))
        return _FIRST_MOVE <= modrm <= _LAST_MOVE and works_out(operation, _MOVED_IF[modrm >> 3 & 3])
    opcode = np.int64(peek8(place + _ONE)) - _FIRST
    if byte != _ESCAPE or opcode < 0 or opcode >= _CONDITIONS:
        return False
    in_memory = np.int64(peek8(place + _ONE + _ONE)) >> 6 != _REGISTERS
    return in_memory and works_out(operation, opcode >> 1)


@njit
def restore(env, block, known):
    """`restore_state_to_opc`: an instruction is broken off. known: two words, its address and the operation
    before it."""
    _restore(env, block, known)
    row = peek64(at(env, CORE_ROW))
    if row != np.uint64(0) and core_at(row).entered == np.uint64(0):
        return
    address, operation = peek64(known), np.int64(np.int32(peek64(known + _EIGHT)))
    if address + _LONGEST > peek64(at(env, MEMORY_BYTES)):
        return
    if _worked_out(peek64(at(env, MEMORY)) + address, operation):
        poke32(at(env, OPERATION), _WORKED_OUT)


#: Ours by the emulator's names.
SETTLED_FLAGS = {"restore_state_to_opc": (restore, RESTORE)}
