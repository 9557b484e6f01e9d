"""Native hooks of `cmpxchg` with 32-bit operands (SDM volume 2): the upper halves that a processor keeps.

Where what is compared is equal, rax stays as it is; where not, a register that was compared does. The
emulator clears the upper half of both. So the one hook keeps them, if there is anything in them, and the
other one, at the next instruction, puts back what should be there.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from unicorn import x86_const as x86

from emu.native.registers import read_register, write_register
from emu.native.state import core_at
from emu.native.unicorn import BLOCK_HOOK, hook, peek8

_NAMES = ("RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI", *(f"R{k}" for k in range(8, 16)))
#: Unicorn's numbers of the registers, by those that instructions have.
_REGISTERS = np.array([getattr(x86, f"UC_X86_REG_{name}") for name in _NAMES], np.int32)
_RAX = _REGISTERS[0]
_LOW, _ZERO, _ONE = np.uint64(0xFFFFFFFF), np.uint64(0), np.uint64(1)
#: `kept_number` of an operand in memory.
_NOWHERE = np.uint64(16)


@njit(cache=True)
def _operand(core, address):
    """The number of the register that is compared, or _NOWHERE."""
    at = core.memory + address
    rex = np.uint64(0)
    while peek8(at) != np.uint8(0x0F):
        rex = np.uint64(peek8(at))
        at += _ONE
    modrm = np.uint64(peek8(at + np.uint64(2)))
    if modrm < np.uint64(0xC0):
        return _NOWHERE
    high = rex & _ONE if rex & np.uint64(0xF0) == np.uint64(0x40) else _ZERO
    return modrm & np.uint64(7) | high << np.uint64(3)


@njit(cache=True)
def _put_back(core):
    """What the instruction before should have kept."""
    core.kept_at = _ZERO
    if read_register(core, _RAX) & _LOW == core.kept_first & _LOW:
        write_register(core, _RAX, core.kept_first)
    elif core.kept_number != _NOWHERE:
        write_register(core, _REGISTERS[core.kept_number], core.kept_operand)


@njit(cache=True)
def settle_exchange(rows, pc):
    """If the core (CORE[1]) stands behind such an instruction: its registers are as they should be."""
    core = rows[0]
    if core.kept_at == pc:
        _put_back(core)


@hook(BLOCK_HOOK)
def on_exchange(handle, address, size, user):
    core = core_at(user)
    core.kept_at = _ZERO
    number, rax, operand = _operand(core, address), read_register(core, _RAX), _ZERO
    if core.entered == _ZERO or number == _ZERO:
        # A stop was asked for; what is compared with itself is equal, and is written.
        return
    if number != _NOWHERE:
        operand = read_register(core, _REGISTERS[number])
    if (rax | operand) > _LOW:
        core.kept_at = address + np.uint64(size)
        core.kept_first, core.kept_number, core.kept_operand = rax, number, operand


@hook(BLOCK_HOOK)
def on_exchanged(handle, address, size, user):
    core = core_at(user)
    if core.kept_at == address:
        _put_back(core)
