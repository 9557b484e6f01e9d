"""x87 instructions that compute, as they tell of exceptions (SDM volume 2; `x87_exceptions`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers import load_constant
from emu.hooks.x86_64.helpers.arctangent import fpatan
from emu.hooks.x86_64.helpers.exceptions import arithmetic
from emu.hooks.x86_64.helpers.exceptions.comparison import compared
from emu.hooks.x86_64.helpers.exceptions.x87_exceptions import (
    OVERFLOWED,
    UNDERFLOWED,
    answer,
    answer_missing,
    begin,
    fails,
    modes_of,
    unmasked,
)
from emu.hooks.x86_64.helpers.exceptions.x87_moving import operand_status, push_into
from emu.hooks.x86_64.helpers.exponential import f2xm1
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    C0,
    C1,
    C2,
    C3,
    CONDITIONS,
    INDEFINITE,
    INVALID,
    NOTHING,
    SIGN,
    UNDERFLOW,
    ZERO_DIVIDE,
    fxam,
    is_nan,
    is_small,
    kind,
    normalised,
    sign_bit,
)
from emu.hooks.x86_64.helpers.logarithm import fyl2x, fyl2xp1
from emu.hooks.x86_64.helpers.remainder import fprem, fprem1
from emu.hooks.x86_64.helpers.scale import fscale, fxtract
from emu.hooks.x86_64.helpers.state import CC_SRC, X87_APPROXIMATED, at, note
from emu.hooks.x86_64.helpers.trigonometric import fcos, fptan, fsin, fsincos
from emu.hooks.x86_64.helpers.x87_state import (
    is_empty,
    lower_top,
    number_in,
    operand,
    operand_is_missing,
    pop,
    put,
    rounding_of,
    tell,
)
from emu.native.unicorn import poke64

#: ZF, PF and CF.
_EQUAL, _UNORDERED, _LESS = np.uint64(0x40), np.uint64(0x04), np.uint64(0x01)
_ADJUSTMENT = 24576


# -- arithmetic ----------------------------------------------------------------------------------------------


@njit
def _with_operand(env, first, status):
    """The status of an operation on the second operand: that it was a denormal one counts where there is
    something to compute."""
    if status & (INVALID | ZERO_DIVIDE) != NOTHING or is_nan(kind(first)):
        return status
    return status | operand_status(env)


def _into_top(operation: Any) -> Any:
    """ST(0) becomes what comes of it and the second operand."""

    @njit
    def ours(env, caller):
        if is_empty(env, 0) or operand_is_missing(env):
            answer_missing(env, 0)
            return
        first = number_in(env, 0)
        number, status = operation(first, operand(env), modes_of(env))
        answer(env, 0, number, _with_operand(env, first, status))

    return ours


def _into_register(operation: Any) -> Any:
    """ST(index) becomes what comes of it and ST(0)."""

    @njit
    def ours(env, index, caller):
        begin(env, caller)
        if is_empty(env, 0) or is_empty(env, index):
            answer_missing(env, index)
        else:
            number, status = operation(number_in(env, index), number_in(env, 0), modes_of(env))
            answer(env, index, number, status)

    return ours


def _of_top(operation: Any) -> Any:
    """ST(0) becomes what comes of it."""

    @njit
    def ours(env, caller):
        begin(env, caller)
        if is_empty(env, 0):
            answer_missing(env, 0)
        else:
            number, status = operation(number_in(env, 0), modes_of(env))
            answer(env, 0, number, status)

    return ours


@njit
def _negated(number, modes):
    return (number[0], number[1] ^ SIGN), NOTHING


@njit
def _absolute(number, modes):
    return (number[0], number[1] & ~SIGN), NOTHING


@njit
def _fscale(env, caller):
    begin(env, caller)
    if is_empty(env, 0) or is_empty(env, 1):
        answer_missing(env, 0)
    else:
        number, status = fscale(number_in(env, 0), number_in(env, 1), modes_of(env))
        answer(env, 0, number, status)


@njit
def _tiny_remainder(env, number, status):
    """A remainder is exact; if it is a denormal one that is underflow where that is not masked."""
    if not is_small(kind(number)) or unmasked(env, UNDERFLOW) == NOTHING:
        return number, status
    negative, exponent, significand = normalised(number)
    biased = np.uint64(exponent + BIAS + _ADJUSTMENT)
    return (significand, biased | sign_bit(negative)), status | UNDERFLOW


def _remainder(operation: Any) -> Any:
    @njit
    def ours(env, caller):
        begin(env, caller)
        number, status = INDEFINITE, UNDERFLOWED
        if not is_empty(env, 0) and not is_empty(env, 1):
            number, status = operation(number_in(env, 0), number_in(env, 1))
        if fails(env, status, NOTHING):
            tell(env, NOTHING, C2)
            return
        number, status = _tiny_remainder(env, number, status)
        put(env, 0, number)
        # Of a NaN there is no quotient.
        tell(env, status, C1 | C2 if is_nan(kind(number)) else CONDITIONS)

    return ours


# -- comparisons ---------------------------------------------------------------------------------------------
# Codes and flags are set also where the exception is not masked; what fails then is the pop.


@njit
def _order(env, quiet):
    """(condition codes, status) of ST(0) and the second operand. What is not there has no order."""
    if is_empty(env, 0) or operand_is_missing(env):
        return C0 | C2 | C3, UNDERFLOWED
    first = number_in(env, 0)
    codes, status = compared(first, operand(env), quiet)
    return codes, status if codes & C2 != NOTHING else status | operand_status(env)


def _comparison(*, quiet: bool) -> Any:
    @njit
    def ours(env, caller):
        codes, status = _order(env, quiet)
        fails(env, status, C1)
        tell(env, status | codes, CONDITIONS)

    return ours


def _comparison_to_flags(*, quiet: bool) -> Any:
    """Flags that are no answer are cleared."""

    @njit
    def ours(env, caller):
        codes, status = _order(env, quiet)
        fails(env, status, C1)
        tell(env, status, C1)
        flags = _EQUAL if codes & C3 != NOTHING else NOTHING
        flags |= _UNORDERED if codes & C2 != NOTHING else NOTHING
        flags |= _LESS if codes & C0 != NOTHING else NOTHING
        poke64(at(env, CC_SRC), flags)

    return ours


@njit
def _fxam(env, caller):
    begin(env, caller)
    conditions = fxam(number_in(env, 0))
    if is_empty(env, 0):
        conditions = conditions & C1 | C3 | C0
    tell(env, conditions, CONDITIONS)


# -- functions -----------------------------------------------------------------------------------------------


def _function(operation: Any) -> Any:
    """ST(0) becomes what comes of it, or C2 says that it is beyond what the instruction can do."""

    @njit
    def ours(env, caller):
        begin(env, caller)
        number, status = INDEFINITE, UNDERFLOWED
        if not is_empty(env, 0):
            note(env, X87_APPROXIMATED)
            number, status = operation(number_in(env, 0), modes_of(env))
        if fails(env, status, C1):
            tell(env, NOTHING, C2)
        else:
            put(env, 0, number)
            tell(env, status, C1 | C2)

    return ours


@njit
def _f2xm1(env, caller):
    begin(env, caller)
    if is_empty(env, 0):
        answer_missing(env, 0)
        return
    note(env, X87_APPROXIMATED)
    number, status = f2xm1(number_in(env, 0), modes_of(env))
    answer(env, 0, number, status)


def _function_of_two(operation: Any) -> Any:
    """ST(1) becomes what comes of ST(0) and it; ST(0) is popped."""

    @njit
    def ours(env, caller):
        begin(env, caller)
        number, status = INDEFINITE, UNDERFLOWED
        if not is_empty(env, 0) and not is_empty(env, 1):
            note(env, X87_APPROXIMATED)
            number, status = operation(number_in(env, 0), number_in(env, 1), modes_of(env))
        if not fails(env, status, C1):
            put(env, 1, number)
            tell(env, status, C1)
            pop(env)

    return ours


@njit
def _replace_and_push(env, numbers, status, conditions):
    """ST(0) becomes the first number, and the second is pushed, unless the instruction fails or says by C2
    that it does nothing."""
    if fails(env, status, C1):
        tell(env, NOTHING, conditions & C2)
        return
    tell(env, status, conditions)
    if status & C2 == NOTHING:
        put(env, 0, numbers[0])
        lower_top(env)
        put(env, 0, numbers[1])


def _two_results(operation: Any, conditions: Any, approximated: int) -> Any:
    @njit
    def ours(env, caller):
        begin(env, caller)
        if is_empty(env, 0):
            _replace_and_push(env, (INDEFINITE, INDEFINITE), UNDERFLOWED, conditions)
        elif not is_empty(env, 7):
            _replace_and_push(env, (INDEFINITE, INDEFINITE), OVERFLOWED, conditions)
        else:
            note(env, approximated)
            first, second, status = operation(number_in(env, 0), modes_of(env))
            _replace_and_push(env, (first, second), status, conditions)

    return ours


@njit
def _exponent_first(number, modes):
    significand, exponent, status = fxtract(number)
    return exponent, significand, status


def _constant(load: Any) -> Any:
    @njit
    def ours(env, caller):
        push_into(env, load(rounding_of(env)), NOTHING)

    return ours


_CONSTANTS = ("fld1", "fldz", "fldpi", "fldl2e", "fldl2t", "fldlg2", "fldln2")
_OPERATIONS = ("fadd", "fmul", "fsub", "fsubr", "fdiv", "fdivr")

#: Ours by the emulator's names.
COMPUTING = {
    **{f"helper_{name}_ST0_FT0": _into_top(getattr(arithmetic, name)) for name in _OPERATIONS},
    **{f"helper_{name}_STN_ST0": _into_register(getattr(arithmetic, name)) for name in _OPERATIONS},
    "helper_fsqrt": _of_top(arithmetic.fsqrt),
    "helper_frndint": _of_top(arithmetic.frndint),
    "helper_fchs_ST0": _of_top(_negated),
    "helper_fabs_ST0": _of_top(_absolute),
    "helper_fscale": _fscale,
    "helper_fprem": _remainder(fprem),
    "helper_fprem1": _remainder(fprem1),
    "helper_fcom_ST0_FT0": _comparison(quiet=False),
    "helper_fucom_ST0_FT0": _comparison(quiet=True),
    "helper_fcomi_ST0_FT0": _comparison_to_flags(quiet=False),
    "helper_fucomi_ST0_FT0": _comparison_to_flags(quiet=True),
    "helper_fxam_ST0": _fxam,
    "helper_f2xm1": _f2xm1,
    "helper_fsin": _function(fsin),
    "helper_fcos": _function(fcos),
    "helper_fyl2x": _function_of_two(fyl2x),
    "helper_fyl2xp1": _function_of_two(fyl2xp1),
    "helper_fpatan": _function_of_two(fpatan),
    "helper_fptan": _two_results(fptan, C1 | C2, X87_APPROXIMATED),
    "helper_fsincos": _two_results(fsincos, C1 | C2, X87_APPROXIMATED),
    "helper_fxtract": _two_results(_exponent_first, C1, 0),
    **{f"helper_{name}_ST0": _constant(getattr(load_constant, name)) for name in _CONSTANTS},
}
