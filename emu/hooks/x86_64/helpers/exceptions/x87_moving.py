"""x87 instructions that move numbers, as they tell of exceptions (SDM volume 2; `x87_exceptions`).

An instruction is one or more of these: one fetches the second operand or makes room, another computes, and a
last one pops. The first that an instruction calls is where it begins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.exceptions.memory import load_ten_bytes, store_ten_bytes
from emu.hooks.x86_64.helpers.exceptions.x87_exceptions import (
    OVERFLOWED,
    UNDERFLOWED,
    answer,
    answer_missing,
    begin,
    fails,
    keeps,
    modes_of,
    settle_now,
    stores,
)
from emu.hooks.x86_64.helpers.extended import C1, CHOP, DENORMAL, INDEFINITE, INVALID, NOTHING, QUIET_BIT
from emu.hooks.x86_64.helpers.formats import of_double, of_single, to_double, to_single
from emu.hooks.x86_64.helpers.integer import fbld, fbstp, fild, fist
from emu.hooks.x86_64.helpers.state import STAYS, at, share
from emu.hooks.x86_64.helpers.x87_state import (
    had_room,
    has_made_room,
    is_empty,
    lower_top,
    make_room,
    number_in,
    pop,
    put,
    raise_top,
    room_is_used,
    rounding_of,
    set_empty,
    set_operand,
    tell,
)
from emu.native.unicorn import peek8, poke8

#: Whether the second operand was a denormal one in memory.
_SMALL_OPERAND, _NO, _YES = share("small_operand"), np.uint8(0), np.uint8(1)


# -- loads ---------------------------------------------------------------------------------------------------


@njit
def push(env, number, status):
    """One more on the stack, unless it is not valid. A denormal number is one that can be loaded."""
    if not is_empty(env, 7):
        number, status = INDEFINITE, OVERFLOWED
    if not fails(env, status & ~DENORMAL, C1):
        lower_top(env)
        put(env, 0, number)
        tell(env, status, C1)


@njit
def push_into(env, number, status):
    """The same where `make_room` has made room. That there is no number comes before that there is no
    room."""
    if not had_room(env) and status != UNDERFLOWED:
        number, status = INDEFINITE, OVERFLOWED
    room_is_used(env)
    if fails(env, status, C1):
        raise_top(env)
    else:
        put(env, 0, number)
        tell(env, status, C1)


@njit
def _fpush(env, caller):
    begin(env, caller)
    make_room(env)


@njit
def _copy_to_top(env, index, caller):
    """`fld st(i)`, after room was made, and `fcmovcc`, which needs none."""
    if has_made_room(env):
        missing = is_empty(env, index)
        number = INDEFINITE if missing else number_in(env, index)
        push_into(env, number, UNDERFLOWED if missing else NOTHING)
        return
    begin(env, caller)
    if is_empty(env, 0) or is_empty(env, index):
        answer_missing(env, 0)
    elif peek8(at(env, STAYS)) == _NO:
        put(env, 0, number_in(env, index))


def _load(convert: Any) -> Any:
    @njit
    def ours(env, raw, caller):
        begin(env, caller)
        number, status = convert(np.uint64(raw))
        push(env, number, status)

    return ours


@njit
def _load_whole(env, value, caller):
    begin(env, caller)
    push(env, fild(value), NOTHING)


@njit
def _load_ten_bytes(env, address, caller):
    begin(env, caller)
    push(env, load_ten_bytes(env, address, caller), NOTHING)


@njit
def _load_decimal(env, address, caller):
    begin(env, caller)
    push(env, fbld(load_ten_bytes(env, address, caller)), NOTHING)


# -- second operands -----------------------------------------------------------------------------------------


@njit
def operand_status(env):
    """What the second operand's conversion leaves if it comes to computing with it."""
    return DENORMAL if peek8(at(env, _SMALL_OPERAND)) != _NO else NOTHING


@njit
def _take_from(env, index, caller):
    begin(env, caller)
    missing = is_empty(env, index)
    poke8(at(env, _SMALL_OPERAND), _NO)
    set_operand(env, number_in(env, index), missing)


def _take(convert: Any) -> Any:
    """From memory, as it is: a signalling NaN stays that."""

    @njit
    def ours(env, raw, caller):
        begin(env, caller)
        (low, high), status = convert(np.uint64(raw))
        if status == INVALID:
            low &= ~QUIET_BIT
        poke8(at(env, _SMALL_OPERAND), _YES if status == DENORMAL else _NO)
        set_operand(env, (low, high), False)

    return ours


@njit
def _take_whole(env, value, caller):
    begin(env, caller)
    poke8(at(env, _SMALL_OPERAND), _NO)
    set_operand(env, fild(value), False)


@njit
def _take_zero(env, caller):
    begin(env, caller)
    poke8(at(env, _SMALL_OPERAND), _NO)
    set_operand(env, (NOTHING, NOTHING), False)


# -- stores --------------------------------------------------------------------------------------------------


def _store(convert: Any) -> Any:
    @njit
    def ours(env, caller):
        begin(env, caller)
        value, status = convert(env)
        stores(env, UNDERFLOWED if is_empty(env, 0) else status)
        return value

    return ours


@njit
def _stored(env):
    return INDEFINITE if is_empty(env, 0) else number_in(env, 0)


def _as_number(convert: Any) -> Any:
    @njit
    def ours(env):
        return convert(_stored(env), modes_of(env))

    return ours


def _as_whole(bits: int, *, chopped: bool) -> Any:
    @njit
    def ours(env):
        return fist(_stored(env), bits, CHOP if chopped else rounding_of(env))

    return ours


@njit
def _store_decimal(env, address, caller):
    """`fbstp`, but for the pop."""
    begin(env, caller)
    decimal, status = fbstp(_stored(env), rounding_of(env))
    stores(env, UNDERFLOWED if is_empty(env, 0) else status)
    if not keeps(env):
        store_ten_bytes(env, address, decimal, caller)


@njit
def _store_register(env, address, caller):
    """`fstp m80fp`, but for the pop."""
    begin(env, caller)
    stores(env, UNDERFLOWED if is_empty(env, 0) else NOTHING)
    if not keeps(env):
        store_ten_bytes(env, address, _stored(env), caller)


@njit
def _copy_from_top(env, index, caller):
    """`fst st(i)`."""
    begin(env, caller)
    if is_empty(env, 0):
        answer_missing(env, index)
    else:
        answer(env, index, number_in(env, 0), NOTHING)


# -- the stack -----------------------------------------------------------------------------------------------


@njit
def _exchange(env, index, caller):
    begin(env, caller)
    first = INDEFINITE if is_empty(env, 0) else number_in(env, 0)
    second = INDEFINITE if is_empty(env, index) else number_in(env, index)
    status = UNDERFLOWED if is_empty(env, 0) or is_empty(env, index) else NOTHING
    if not fails(env, status, C1):
        put(env, index, first)
        put(env, 0, second)
        tell(env, status, C1)


@njit
def _fpop(env, caller):
    settle_now(env)
    if not keeps(env):
        pop(env)


@njit
def _fdecstp(env, caller):
    begin(env, caller)
    lower_top(env)
    tell(env, NOTHING, C1)


@njit
def _fincstp(env, caller):
    begin(env, caller)
    raise_top(env)
    tell(env, NOTHING, C1)


@njit
def _ffree(env, index, caller):
    begin(env, caller)
    set_empty(env, index)
    tell(env, NOTHING, C1)


def _store_wholes() -> dict[str, Any]:
    return {
        f"helper_fist{kind}_ST0": _store(_as_whole(bits, chopped=chopped))
        for bits, size in ((16, ""), (32, "l"), (64, "ll"))
        for kind, chopped in ((size, False), ("t" + size, True))
    }


#: Ours by the emulator's names.
MOVING = {
    "helper_fpush": _fpush,
    "helper_fpop": _fpop,
    "helper_fmov_ST0_STN": _copy_to_top,
    "helper_fmov_STN_ST0": _copy_from_top,
    "helper_fxchg_ST0_STN": _exchange,
    "helper_fdecstp": _fdecstp,
    "helper_fincstp": _fincstp,
    "helper_ffree_STN": _ffree,
    "helper_flds_ST0": _load(of_single),
    "helper_fldl_ST0": _load(of_double),
    "helper_fildl_ST0": _load_whole,
    "helper_fildll_ST0": _load_whole,
    "helper_fldt_ST0": _load_ten_bytes,
    "helper_fbld_ST0": _load_decimal,
    "helper_fmov_FT0_STN": _take_from,
    "helper_flds_FT0": _take(of_single),
    "helper_fldl_FT0": _take(of_double),
    "helper_fildl_FT0": _take_whole,
    "helper_fldz_FT0": _take_zero,
    "helper_fsts_ST0": _store(_as_number(to_single)),
    "helper_fstl_ST0": _store(_as_number(to_double)),
    **_store_wholes(),
    "helper_fbst_ST0": _store_decimal,
    "helper_fstt_ST0": _store_register,
}
