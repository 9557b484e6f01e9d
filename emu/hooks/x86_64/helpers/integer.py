"""FIST, FISTTP, FBSTP, FBLD and FILD: whole numbers and decimal digits (SDM volume 2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    INDEFINITE,
    INVALID,
    IS_INFINITE,
    IS_UNSUPPORTED,
    IS_ZERO,
    NOTHING,
    SIGN,
    is_nan,
    is_negative,
    kind,
    normalised,
    sign_bit,
    zero,
)
from emu.hooks.x86_64.helpers.rounding import rounded, whole
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, leading_zeros64

_TOP = 63
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_DIGIT, _DIGIT_MASK, _TEN = np.uint64(4), np.uint64(15), np.uint64(10)
#: Digits of a packed decimal: in its lower 64 bits, and in all.
_LOW_DIGITS, _DIGITS = 16, 18
_FIRST_TOO_LARGE = np.uint64(10**18)


@njit(cache=True)
def _rounded_size(number, rounding):
    """(whether it is a whole number below 2^64 when rounded, its magnitude (uint64), status)."""
    of = kind(number)
    if of == IS_ZERO:
        return True, ZERO, NOTHING
    if is_nan(of) or of in (IS_INFINITE, IS_UNSUPPORTED):
        return False, ZERO, NOTHING
    negative, exponent, significand = normalised(number)
    if exponent > _TOP:
        return False, ZERO, NOTHING
    size, carried, status = whole((ZERO, significand), np.uint64(_TOP - exponent), negative, rounding)
    return not carried, size, status


@njit(cache=True)
def fist(number, bits, rounding):
    """(the whole number, in two's complement of `bits` (int64): 16, 32 or 64; status). FISTTP is this with
    `CHOP`. What does not fit is the indefinite one, the lowest, and invalid."""
    fits, size, status = _rounded_size(number, rounding)
    negative, lowest = is_negative(number), ONE << np.uint64(bits - 1)
    if not fits or size > lowest or (size == lowest and not negative):
        return lowest, INVALID
    value = ZERO - size if negative else size
    return value & _ALL >> np.uint64(_TOP + 1 - bits), status


@njit(cache=True)
def fild(value):
    """The number of an int64, which is exact."""
    if value == 0:
        return zero(False)
    size = np.uint64(value) if value > 0 else ZERO - np.uint64(value)
    shift = leading_zeros64(size)
    number, _ = rounded(value < 0, _TOP - np.int64(shift), (ZERO, size << shift), ZERO)
    return number


@njit(cache=True)
def fbstp(number, rounding):
    """((low, high) of the packed decimal, status): 18 digits and a sign in 80 bits (SDM volume 1, 4.7). What
    does not fit is the indefinite one, and invalid."""
    fits, size, status = _rounded_size(number, rounding)
    if not fits or size >= _FIRST_TOO_LARGE:
        return INDEFINITE, INVALID
    low, high = ZERO, ZERO
    for place in range(_DIGITS):
        digit, size = size % _TEN, size // _TEN
        if place < _LOW_DIGITS:
            low |= digit << np.uint64(4 * place)
        else:
            high |= digit << np.uint64(4 * (place - _LOW_DIGITS))
    return (low, high | sign_bit(is_negative(number))), status


@njit(cache=True)
def fbld(decimal):
    """The number of a packed decimal (low, high), which is exact. Digits above nine, which the manual leaves
    open, count as what they are."""
    size = ZERO
    for place in range(_DIGITS - 1, -1, -1):
        if place < _LOW_DIGITS:
            digit = decimal[0] >> np.uint64(4 * place)
        else:
            digit = decimal[1] >> np.uint64(4 * (place - _LOW_DIGITS))
        size = size * _TEN + (digit & _DIGIT_MASK)
    negative = decimal[1] & SIGN != ZERO
    if size == ZERO:
        return zero(negative)
    shift = leading_zeros64(size)
    number, _ = rounded(negative, _TOP - np.int64(shift), (ZERO, size << shift), ZERO)
    return number
