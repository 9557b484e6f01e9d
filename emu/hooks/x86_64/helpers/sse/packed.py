"""Packed integers of SSSE3, and MMX (SDM volume 2).

QEMU 5 writes a part of some results over operands that it has yet to read, where both are one register, and
forgets for some MMX instructions what they do to the x87 stack (SDM volume 1, 9.5.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import MMX_OPERAND, TAGS, TOP, at, share
from emu.native.unicorn import peek32, peek64, poke32, poke64

_ADDRESS = types.uint64
#: void (CPU state), (CPU state, destination and first operand, second operand), and with an immediate byte.
OF_STATE = types.void(_ADDRESS)
OF_TWO = types.void(_ADDRESS, _ADDRESS, _ADDRESS)
OF_TWO_BY = types.void(_ADDRESS, _ADDRESS, _ADDRESS, types.uint32)

_EIGHT = np.uint64(8)
_ALL_EMPTY, _ALL_FULL, _TOP = np.uint64(0x0101010101010101), np.uint64(0), np.uint32(0)
#: Where `enter_mmx` keeps what it changed: the top of the stack, the tags.
_COPY, _KEPT_TOP, _KEPT_TAGS = share("copy"), share("kept_top"), share("kept_tags")


@njit
def _copy(env, operand):
    """A copy of a register that an instruction may write to before it has read all of it."""
    copy = at(env, _COPY)
    poke64(copy, peek64(operand))
    poke64(copy + _EIGHT, peek64(operand + _EIGHT))
    return copy


@njit
def enter_mmx(env):
    """An MMX instruction makes all x87 registers valid, and the first one the top. Keeps how it was."""
    poke32(at(env, _KEPT_TOP), peek32(at(env, TOP)))
    poke64(at(env, _KEPT_TAGS), peek64(at(env, TAGS)))
    poke32(at(env, TOP), _TOP)
    poke64(at(env, TAGS), _ALL_FULL)


@njit
def was_in_memory(env, operand):
    """A conversion whose MMX operand is in memory is no MMX instruction, though the emulator takes it for
    one (SDM volume 2, CVTPI2PD)."""
    if operand == at(env, MMX_OPERAND):
        poke32(at(env, TOP), peek32(at(env, _KEPT_TOP)))
        poke64(at(env, TAGS), peek64(at(env, _KEPT_TAGS)))


@njit
def emms(env):
    poke32(at(env, TOP), _TOP)
    poke64(at(env, TAGS), _ALL_EMPTY)


def _emulators(name: str, signature: Any) -> Any:
    """The emulator's own function."""
    return types.ExternalFunction(f"{name}_x86_64", signature)


def _apart(name: str) -> Any:
    """The emulator's, with a second operand that it does not overwrite."""
    theirs = _emulators(name, OF_TWO)

    @njit
    def ours(env, first, second):
        theirs(env, first, _copy(env, second))

    return ours


def _of_mmx(name: str) -> Any:
    """The same, and an MMX instruction."""
    theirs = _emulators(name, OF_TWO)

    @njit
    def ours(env, first, second):
        enter_mmx(env)
        theirs(env, first, _copy(env, second))

    return ours


def _of_mmx_by(name: str) -> Any:
    theirs = _emulators(name, OF_TWO_BY)

    @njit
    def ours(env, first, second, immediate):
        enter_mmx(env)
        theirs(env, first, second, immediate)

    return ours


_HORIZONTAL = ("phaddw", "phaddd", "phaddsw", "phsubw", "phsubd", "phsubsw")
_SSSE3 = ("pshufb", "pmaddubsw", "pmulhrsw", "psignb", "psignw", "psignd", "pabsb", "pabsw", "pabsd")

#: Ours by the emulator's names.
PACKED = {
    "helper_emms": (emms, OF_STATE),
    "helper_enter_mmx": (enter_mmx, OF_STATE),
    **{f"helper_{name}_xmm": (_apart(f"helper_{name}_xmm"), OF_TWO) for name in _HORIZONTAL},
    **{f"helper_{name}_mmx": (_of_mmx(f"helper_{name}_mmx"), OF_TWO) for name in (*_HORIZONTAL, *_SSSE3)},
    "helper_palignr_mmx": (_of_mmx_by("helper_palignr_mmx"), OF_TWO_BY),
}
