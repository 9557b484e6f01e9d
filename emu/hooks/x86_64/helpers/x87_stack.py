"""x87 instructions that the emulator computes right but for empty registers and full ones (SDM volume 1,
8.5.1.1): what moves numbers, and arithmetic.

An instruction of two operands is two helpers: one fetches the second operand, the other computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.extended import CONDITIONS
from emu.hooks.x86_64.helpers.integer import fild
from emu.hooks.x86_64.helpers.state import CC_SRC, at
from emu.hooks.x86_64.helpers.unless import SUFFIX
from emu.hooks.x86_64.helpers.x87_signatures import X87_SIGNATURES
from emu.hooks.x86_64.helpers.x87_state import (
    condition_bits,
    has_made_room,
    is_empty,
    make_room,
    number_in,
    operand_is_missing,
    operand_is_there,
    push,
    push_into,
    put,
    set_operand,
    tell,
    underflow,
)
from emu.native.unicorn import peek64, poke64

#: ZF, PF and CF.
_ORDER = np.uint64(0x45)


@njit
def _fpush(env):
    make_room(env)


@njit
def _copy_to_top(env, index):
    """`fld st(i)`, after room was made, and `fcmovcc`, which needs none."""
    missing = is_empty(env, index) or (is_empty(env, 0) and not has_made_room(env))
    push_into(env, underflow(env) if missing else number_in(env, index))


@njit
def _take_from(env, index):
    """The second operand is ST(index)."""
    missing = is_empty(env, index)
    set_operand(env, underflow(env) if missing else number_in(env, index), missing)


@njit
def _copy_from_top(env, index):
    put(env, index, underflow(env) if is_empty(env, 0) else number_in(env, 0))


@njit
def _exchange(env, index):
    first = underflow(env) if is_empty(env, 0) else number_in(env, 0)
    second = underflow(env) if is_empty(env, index) else number_in(env, index)
    put(env, index, first)
    put(env, 0, second)


@njit
def _load_whole(env, value):
    push(env, fild(value))


def _emulators(name: str) -> Any:
    """The emulator's own."""
    return types.ExternalFunction(name + SUFFIX, X87_SIGNATURES[name])


_theirs_of_control = _emulators("helper_fldcw")


@njit
def _load_control(env, word):
    """`fldcw`: reserved bits are as they always are (SDM volume 1, 8.1.5)."""
    _theirs_of_control(env, word & np.uint32(0x1F3F) | np.uint32(0x40))


def _fetched(name: str) -> Any:
    """The second operand comes from memory, or is a constant."""
    theirs = _emulators(name)
    if len(X87_SIGNATURES[name].args) == 1:

        @njit
        def ours(env):
            operand_is_there(env)
            theirs(env)

        return ours

    @njit
    def ours_of_value(env, value):
        operand_is_there(env)
        theirs(env, value)

    return ours_of_value


def _into_top(name: str) -> Any:
    """ST(0) becomes what comes of it and the second operand."""
    theirs = _emulators(name)

    @njit
    def ours(env):
        if is_empty(env, 0) or operand_is_missing(env):
            put(env, 0, underflow(env))
        else:
            theirs(env)

    return ours


def _into_register(name: str) -> Any:
    """ST(index) becomes what comes of it and ST(0)."""
    theirs = _emulators(name)

    @njit
    def ours(env, index):
        if is_empty(env, 0) or is_empty(env, index):
            put(env, index, underflow(env))
        else:
            theirs(env, index)

    return ours


def _compared(name: str) -> Any:
    """What is not there has no order."""
    theirs = _emulators(name)

    @njit
    def ours(env):
        if is_empty(env, 0) or operand_is_missing(env):
            set_operand(env, underflow(env), missing=False)
        theirs(env)

    return ours


def _compared_to_flags(name: str) -> Any:
    """The same, and flags that are no answer are cleared."""
    compared = _compared(name)

    @njit
    def ours(env):
        compared(env)
        poke64(at(env, CC_SRC), peek64(at(env, CC_SRC)) & _ORDER)

    return ours


_OPERATIONS = ("fadd", "fmul", "fsub", "fsubr", "fdiv", "fdivr")
_COMPARISONS, _TO_FLAGS = ("fcom", "fucom"), ("fcomi", "fucomi")
_ALONE = ("fchs_ST0", "fabs_ST0", "fsqrt", "frndint")


def _of_top_alone(name: str) -> Any:
    theirs = _emulators(name)

    @njit
    def ours(env):
        if is_empty(env, 0):
            put(env, 0, underflow(env))
            return
        conditions = condition_bits(env)
        theirs(env)
        tell(env, conditions, CONDITIONS)

    return ours


_FETCHES = ("helper_flds_FT0", "helper_fldl_FT0", "helper_fildl_FT0", "helper_fldz_FT0")

#: Ours by the emulator's names.
STACK = {
    "helper_fldcw": _load_control,
    "helper_fpush": _fpush,
    "helper_fmov_ST0_STN": _copy_to_top,
    "helper_fmov_FT0_STN": _take_from,
    "helper_fmov_STN_ST0": _copy_from_top,
    "helper_fxchg_ST0_STN": _exchange,
    "helper_fildl_ST0": _load_whole,
    "helper_fildll_ST0": _load_whole,
    **{name: _fetched(name) for name in _FETCHES},
    **{name: _into_top(name) for name in (f"helper_{one}_ST0_FT0" for one in _OPERATIONS)},
    **{name: _into_register(name) for name in (f"helper_{one}_STN_ST0" for one in _OPERATIONS)},
    **{name: _compared(name) for name in (f"helper_{one}_ST0_FT0" for one in _COMPARISONS)},
    **{name: _compared_to_flags(name) for name in (f"helper_{one}_ST0_FT0" for one in _TO_FLAGS)},
    **{name: _of_top_alone(name) for name in (f"helper_{one}" for one in _ALONE)},
}
