"""FPREM and FPREM1: remainders, exact (SDM volume 2).

Exponents that are 64 or more apart take a partial step: the dividend's goes down by 32 to 63, as many as
leave a multiple of 32. The manual leaves that number to the processor (at most 63); processors take this one.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    C0,
    C1,
    C2,
    C3,
    INDEFINITE,
    INVALID,
    IS_INFINITE,
    IS_ZERO,
    NOTHING,
    as_normal,
    kind,
    normalised,
    small_operand,
    without_value,
    zero,
)
from emu.hooks.x86_64.helpers.rounding import rounded
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, divide, leading_zeros64

_APART, _STEP = 64, 32
_FOUR, _TWO = np.uint64(4), np.uint64(2)


@njit(cache=True)
def _quotient_codes(quotient):
    """Its lowest three bits: C0, C3 and C1."""
    codes = C0 if quotient & _FOUR != ZERO else NOTHING
    codes |= C3 if quotient & _TWO != ZERO else NOTHING
    return codes | (C1 if quotient & ONE != ZERO else NOTHING)


@njit(cache=True)
def _exact(negative, exponent, significand):
    """The number significand * 2^(exponent - 63), which has one."""
    if significand == ZERO:
        return zero(negative)
    shift = leading_zeros64(significand)
    number, _ = rounded(negative, exponent - np.int64(shift), (ZERO, significand << shift), ZERO)
    return number


@njit(cache=True)
def _long_division(dividend, divisor, steps):
    """(whole quotient modulo 2^64, remainder) of dividend * 2^steps by divisor; both uint64 with their
    uppermost bit set, steps (int64) below 64."""
    first = ONE if dividend >= divisor else ZERO
    left = dividend - divisor if dividend >= divisor else dividend
    quotient, rest = divide((left, ZERO), (divisor, ZERO), steps)
    # The first digit is beyond 64 bits only where nobody looks at it.
    return quotient[0] | first << np.uint64(steps), rest[0]


@njit(cache=True)
def _is_nearer_above(rest, divisor, quotient):
    """Whether the next multiple is nearer than `rest` is to this one, or as near and even."""
    gap = divisor - rest
    return rest > gap or (rest == gap and quotient & ONE != ZERO)


@njit(cache=True)
def _whole_step(a, b, nearest):
    """The remainder itself: exponents are less than 64 apart."""
    negative, exponent_a, dividend = normalised(a)
    _, exponent_b, divisor = normalised(b)
    apart = exponent_a - exponent_b
    if apart < (-1 if nearest else 0):
        return as_normal(a), NOTHING
    if apart < 0:
        # The quotient is 0 or 1.
        if dividend <= divisor:
            return as_normal(a), NOTHING
        gap = divisor - (dividend - divisor)
        return _exact(not negative, exponent_a, gap), C1
    quotient, rest = _long_division(dividend, divisor, apart)
    if nearest and rest != ZERO and _is_nearer_above(rest, divisor, quotient):
        quotient, rest, negative = quotient + ONE, divisor - rest, not negative
    return _exact(negative, exponent_b, rest), _quotient_codes(quotient)


@njit(cache=True)
def _partial_step(a, b):
    """What is left of a after some digits of the quotient."""
    negative, exponent_a, dividend = normalised(a)
    _, exponent_b, divisor = normalised(b)
    apart = exponent_a - exponent_b
    steps = _STEP + apart % _STEP
    _, rest = _long_division(dividend, divisor, steps)
    return _exact(negative, exponent_b + apart - steps, rest), C2


@njit(cache=True)
def _remainder(a, b, nearest):
    special, number, status = without_value(a, b)
    if special:
        return number, status
    if kind(a) == IS_INFINITE or kind(b) == IS_ZERO:
        return INDEFINITE, INVALID
    status = small_operand(a) | small_operand(b)
    if kind(a) == IS_ZERO or kind(b) == IS_INFINITE:
        return as_normal(a), status
    apart = normalised(a)[1] - normalised(b)[1]
    number, codes = _partial_step(a, b) if apart >= _APART else _whole_step(a, b, nearest)
    return number, status | codes


@njit(cache=True)
def fprem(a, b):
    """(remainder of a by b with the quotient chopped, status). a is ST(0), b is ST(1). C2: it is partial;
    otherwise C0, C3 and C1 are the quotient's lowest three bits."""
    return _remainder(a, b, False)


@njit(cache=True)
def fprem1(a, b):
    """As `fprem`, with the quotient rounded to nearest even: IEEE 754's remainder."""
    return _remainder(a, b, True)
