"""FSCALE and FXTRACT: the exponent, added to and taken out (SDM volume 2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    INDEFINITE,
    INVALID,
    IS_INFINITE,
    IS_ZERO,
    NOTHING,
    ZERO_DIVIDE,
    infinity,
    is_negative,
    kind,
    normalised,
    sign_bit,
    small_operand,
    without_value,
    zero,
)
from emu.hooks.x86_64.helpers.rounding import rounded
from emu.hooks.x86_64.helpers.wide import ZERO, leading_zeros64

#: Beyond any difference of two exponents, those of denormals too.
_FAR = 0x10000
#: A number of this exponent, or more, is beyond that.
_FAR_EXPONENT = 17
_TOP = 63


@njit(cache=True)
def _chopped(number):
    """Its whole part (int64), or as far from zero as makes no difference. The number is finite."""
    if kind(number) == IS_ZERO:
        return 0
    negative, exponent, significand = normalised(number)
    if exponent < 0:
        return 0
    size = _FAR if exponent >= _FAR_EXPONENT else np.int64(significand >> np.uint64(_TOP - exponent))
    return -size if negative else size


@njit(cache=True)
def fscale(a, b, rounding):
    """(a * 2^(b chopped), status). a is ST(0), b is ST(1). It is rounded only where it is denormal or too
    large, whatever the precision control is (SDM volume 2, table 3-32)."""
    special, number, status = without_value(a, b)
    if special:
        return number, status
    if kind(b) == IS_INFINITE:
        if kind(a) == (IS_INFINITE if is_negative(b) else IS_ZERO):
            return INDEFINITE, INVALID
        status = small_operand(a)
        return (zero(is_negative(a)) if is_negative(b) else infinity(is_negative(a))), status
    status = small_operand(a) | small_operand(b)
    if kind(a) == IS_ZERO or kind(a) == IS_INFINITE:
        return a, status
    negative, exponent, significand = normalised(a)
    number, inexact = rounded(negative, exponent + _chopped(b), (ZERO, significand), rounding)
    return number, status | inexact


@njit(cache=True)
def whole_number(number):
    """An int64 as a number; its magnitude is below 2^63."""
    if number == 0:
        return zero(False)
    size = np.uint64(abs(number))
    shift = leading_zeros64(size)
    return size << shift, np.uint64(BIAS + _TOP - np.int64(shift)) | sign_bit(number < 0)


@njit(cache=True)
def fxtract(number):
    """(significand, exponent, status): what ST(0) and ST(1) are afterwards (SDM volume 2, FXTRACT)."""
    special, result, status = without_value(number, number)
    if special:
        return result, result, status
    if kind(number) == IS_INFINITE:
        return number, infinity(False), NOTHING
    if kind(number) == IS_ZERO:
        return number, infinity(True), ZERO_DIVIDE
    negative, exponent, significand = normalised(number)
    return (significand, np.uint64(BIAS) | sign_bit(negative)), whole_number(exponent), small_operand(number)
