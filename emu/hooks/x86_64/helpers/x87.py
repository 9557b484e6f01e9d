"""x87 instructions whose results the emulator computes through double precision, or not by the book."""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers import load_constant
from emu.hooks.x86_64.helpers.arctangent import fpatan
from emu.hooks.x86_64.helpers.exceptions.memory import load_ten_bytes, store_ten_bytes
from emu.hooks.x86_64.helpers.exponential import f2xm1
from emu.hooks.x86_64.helpers.extended import C0, C1, C2, C3, CHOP, CONDITIONS, INDEFINITE, NOTHING, fxam
from emu.hooks.x86_64.helpers.formats import of_double, of_single, to_double, to_single
from emu.hooks.x86_64.helpers.integer import fbld, fbstp, fist
from emu.hooks.x86_64.helpers.logarithm import fyl2x, fyl2xp1
from emu.hooks.x86_64.helpers.remainder import fprem, fprem1
from emu.hooks.x86_64.helpers.scale import fscale, fxtract
from emu.hooks.x86_64.helpers.state import X87_APPROXIMATED, note
from emu.hooks.x86_64.helpers.trigonometric import fcos, fptan, fsin, fsincos
from emu.hooks.x86_64.helpers.x87_state import (
    is_empty,
    number_in,
    overflow,
    pop,
    push,
    push_into,
    put,
    rounding_of,
    tell,
    underflow,
)


def _of_one(operation: Any, conditions: Any) -> Any:
    """ST(0) becomes what comes of it."""

    @njit
    def ours(env):
        if is_empty(env, 0):
            put(env, 0, underflow(env))
            return
        note(env, X87_APPROXIMATED)
        number, status = operation(number_in(env, 0), rounding_of(env))
        put(env, 0, number)
        tell(env, status, conditions)

    return ours


def _of_two_popping(operation: Any) -> Any:
    """ST(1) becomes what comes of ST(0) and it; ST(0) is popped."""

    @njit
    def ours(env):
        if is_empty(env, 0) or is_empty(env, 1):
            number = underflow(env)
        else:
            note(env, X87_APPROXIMATED)
            number, status = operation(number_in(env, 0), number_in(env, 1), rounding_of(env))
            tell(env, status, C1)
        put(env, 1, number)
        pop(env)

    return ours


def _remainder(operation: Any) -> Any:
    @njit
    def ours(env):
        if is_empty(env, 0) or is_empty(env, 1):
            put(env, 0, underflow(env))
            return
        number, status = operation(number_in(env, 0), number_in(env, 1))
        put(env, 0, number)
        tell(env, status, CONDITIONS)

    return ours


@njit
def _fscale(env):
    if is_empty(env, 0) or is_empty(env, 1):
        put(env, 0, underflow(env))
        return
    number, status = fscale(number_in(env, 0), number_in(env, 1), rounding_of(env))
    put(env, 0, number)
    tell(env, status, C1)


@njit
def _both_indefinite(env, number):
    """A stack fault of an instruction that leaves two numbers."""
    put(env, 0, number)
    push(env, number)
    put(env, 0, number)


@njit
def _fptan(env):
    if is_empty(env, 0):
        _both_indefinite(env, underflow(env))
        return
    if not is_empty(env, 7):
        _both_indefinite(env, overflow(env))
        return
    note(env, X87_APPROXIMATED)
    tangent, one, status = fptan(number_in(env, 0), rounding_of(env))
    tell(env, status, C1 | C2)
    if status & C2 == NOTHING:
        put(env, 0, tangent)
        push(env, one)


@njit
def _fsincos(env):
    if is_empty(env, 0):
        _both_indefinite(env, underflow(env))
        return
    if not is_empty(env, 7):
        _both_indefinite(env, overflow(env))
        return
    number, rounding = number_in(env, 0), rounding_of(env)
    note(env, X87_APPROXIMATED)
    sine, cosine, status = fsincos(number, rounding)
    tell(env, status, C1 | C2)
    if status & C2 == NOTHING:
        put(env, 0, sine)
        push(env, cosine)


@njit
def _fxtract(env):
    if is_empty(env, 0):
        _both_indefinite(env, underflow(env))
        return
    if not is_empty(env, 7):
        _both_indefinite(env, overflow(env))
        return
    significand, exponent, status = fxtract(number_in(env, 0))
    tell(env, status, C1)
    put(env, 0, exponent)
    push(env, significand)


@njit
def _fxam(env):
    number = number_in(env, 0)
    conditions = fxam(number)
    if is_empty(env, 0):
        conditions = conditions & C1 | C3 | C0
    tell(env, conditions, CONDITIONS)


def _constant(load: Any) -> Any:
    @njit
    def ours(env):
        push_into(env, load(rounding_of(env)))

    return ours


def _load(convert: Any) -> Any:
    @njit
    def ours(env, raw):
        number, status = convert(np.uint64(raw))
        push(env, number)
        tell(env, status, NOTHING)

    return ours


@njit
def _stored(env):
    """What a store takes. It leaves the status word alone: the store itself, which comes after, may fail, or
    be where a slice ends, and the instruction has not happened then."""
    return INDEFINITE if is_empty(env, 0) else number_in(env, 0)


def _store(convert: Any) -> Any:
    @njit
    def ours(env):
        value, _ = convert(_stored(env), rounding_of(env))
        return value

    return ours


def _store_whole(bits: int, *, chopped: bool) -> Any:
    @njit
    def ours(env):
        value, _ = fist(_stored(env), bits, CHOP if chopped else rounding_of(env))
        return value

    return ours


@njit
def store_decimal(env, address, caller):
    """`fbstp`, but for the pop. caller: address in the generated code, from which the emulator knows the
    instruction should the store fail."""
    decimal, _ = fbstp(_stored(env), rounding_of(env))
    store_ten_bytes(env, address, decimal, caller)


@njit
def store_whole_register(env, address, caller):
    """`fstp m80fp`, but for the pop."""
    store_ten_bytes(env, address, _stored(env), caller)


@njit
def load_decimal(env, address, caller):
    """`fbld`."""
    push(env, fbld(load_ten_bytes(env, address, caller)))


@njit
def load_whole_register(env, address, caller):
    """`fld m80fp`."""
    push(env, load_ten_bytes(env, address, caller))


_CONSTANTS = ("fld1", "fldz", "fldpi", "fldl2e", "fldl2t", "fldlg2", "fldln2")

#: Ours by the emulator's names.
X87 = {
    "helper_f2xm1": _of_one(f2xm1, C1),
    "helper_fsin": _of_one(fsin, C1 | C2),
    "helper_fcos": _of_one(fcos, C1 | C2),
    "helper_fyl2x": _of_two_popping(fyl2x),
    "helper_fyl2xp1": _of_two_popping(fyl2xp1),
    "helper_fpatan": _of_two_popping(fpatan),
    "helper_fprem": _remainder(fprem),
    "helper_fprem1": _remainder(fprem1),
    "helper_fscale": _fscale,
    "helper_fptan": _fptan,
    "helper_fsincos": _fsincos,
    "helper_fxtract": _fxtract,
    "helper_fxam_ST0": _fxam,
    **{f"helper_{name}_ST0": _constant(getattr(load_constant, name)) for name in _CONSTANTS},
    "helper_flds_ST0": _load(of_single),
    "helper_fldl_ST0": _load(of_double),
    "helper_fsts_ST0": _store(to_single),
    "helper_fstl_ST0": _store(to_double),
    "helper_fist_ST0": _store_whole(16, chopped=False),
    "helper_fistl_ST0": _store_whole(32, chopped=False),
    "helper_fistll_ST0": _store_whole(64, chopped=False),
    "helper_fistt_ST0": _store_whole(16, chopped=True),
    "helper_fisttl_ST0": _store_whole(32, chopped=True),
    "helper_fisttll_ST0": _store_whole(64, chopped=True),
}
#: The same that access memory, and are told their caller.
X87_IN_MEMORY = {
    "helper_fbld_ST0": load_decimal,
    "helper_fldt_ST0": load_whole_register,
    "helper_fbst_ST0": store_decimal,
    "helper_fstt_ST0": store_whole_register,
}
