"""MMX instructions on the x87's registers (SDM volume 1, 9.2.1, 9.5.1 and 9.6).

Of a register that is written they set the 16 bits above it. The emulator tells us that there is an MMX
instruction, not which: it is looked up in the code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from emu.hooks.x86_64.helpers.exceptions.x87_exceptions import begin
from emu.hooks.x86_64.helpers.sse import packed
from emu.hooks.x86_64.helpers.sse.packed import OF_STATE, OF_TWO, OF_TWO_BY, PACKED
from emu.hooks.x86_64.helpers.state import PROCESSOR, REGISTERS, RIP, at
from emu.native.functions import Native
from emu.native.unicorn import peek64, poke16

_UPPER_BITS, _EIGHT, _SIXTEEN, _SEVEN = np.uint16(0xFFFF), np.uint64(8), np.uint64(16), np.uint64(7)
_THREE, _SIX, _ONE = np.uint64(3), np.uint64(6), np.uint64(1)
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
_ESCAPE, _REPEAT, _TO_XMM = np.uint64(0x0F), np.uint64(0xF3), np.uint64(0xD6)

_find = types.ExternalFunction(
    "cpu_restore_state_x86_64", types.uint8(types.uint64, types.uint64, types.uint8)
)
_code_byte = types.ExternalFunction("cpu_ldub_code_x86_64", types.uint32(types.uint64, types.uint64))


@njit
def _written(env, place):
    """The MMX register that the instruction at an address writes (uint64), or 8."""
    repeated = False
    byte = np.uint64(_code_byte(env, place))
    while byte != _ESCAPE:
        repeated = repeated or byte == _REPEAT
        place += _ONE
        byte = np.uint64(_code_byte(env, place))
    opcode = np.uint64(_code_byte(env, place + _ONE))
    modrm = np.uint64(_code_byte(env, place + _ONE + _ONE))
    kind = _WRITTEN[opcode]
    if kind == _NONE or (opcode == _TO_XMM and repeated):
        return _EIGHT
    if kind == _REG:
        return modrm >> _THREE & _SEVEN
    return modrm & _SEVEN if modrm >> _SIX == _THREE else _EIGHT


@njit
def enter_mmx(env, caller):
    """An MMX instruction begins. caller: address in the generated code, from which the emulator knows the
    instruction."""
    begin(env, caller)
    packed.enter_mmx(env)
    _find(env - np.uint64(PROCESSOR), caller, np.uint8(0))
    register = _written(env, peek64(at(env, RIP)))
    if register != _EIGHT:
        poke16(at(env, REGISTERS) + register * _SIXTEEN + _EIGHT, _UPPER_BITS)


@njit
def _emms(env, caller):
    begin(env, caller)
    packed.emms(env)


def _of_two(name: str) -> Any:
    """Of those that the emulator does not take for MMX instructions."""
    before = PACKED[name][0]

    @njit
    def ours(env, first, second, caller):
        begin(env, caller)
        before(env, first, second)
        poke16(first + _EIGHT, _UPPER_BITS)

    return ours


def _of_two_by(name: str) -> Any:
    before = PACKED[name][0]

    @njit
    def ours(env, first, second, immediate, caller):
        begin(env, caller)
        before(env, first, second, immediate)
        poke16(first + _EIGHT, _UPPER_BITS)

    return ours


def _kernel(name: str, signature: Any) -> Any:
    return _of_two(name) if signature == OF_TWO else _of_two_by(name)


_KERNELS = {
    "helper_enter_mmx": (enter_mmx, OF_STATE),
    "helper_emms": (_emms, OF_STATE),
    **{
        name: (_kernel(name, signature), signature)
        for name, (_, signature) in PACKED.items()
        if name.endswith("_mmx") and signature in (OF_TWO, OF_TWO_BY)
    },
}
#: Ours by the emulator's names.
MMX = {
    name: Native(kernel, signature, True, 2, Native(*PACKED[name]))
    for name, (kernel, signature) in _KERNELS.items()
}
