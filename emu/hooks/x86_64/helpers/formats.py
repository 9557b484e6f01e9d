"""Single and double precision in memory: FLD and FST of m32fp and m64fp (SDM volume 2; volume 1, 4.2.2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    DENORMAL,
    EXPONENT,
    INDEFINITE,
    INTEGER_BIT,
    INVALID,
    IS_INFINITE,
    IS_SIGNALLING,
    IS_UNSUPPORTED,
    IS_ZERO,
    NOTHING,
    QUIET_BIT,
    infinity,
    is_nan,
    is_negative,
    kind,
    normalised,
    quieted,
    sign_bit,
    zero,
)
from emu.hooks.x86_64.helpers.rounding import fitted, rounded
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, leading_zeros64

#: Bits of the significand with its integer bit, and the bias, of each.
_SINGLE, _SINGLE_BIAS = 24, 127
_DOUBLE, _DOUBLE_BIAS = 53, 1023
_SINGLE_SIGN, _DOUBLE_SIGN = np.uint64(31), np.uint64(63)
_WORD = 64


@njit(cache=True)
def _widened(fraction, biased, negative, bits, bias):
    """(number, status) of a fraction (uint64) and biased exponent (int64)."""
    # The fraction as it is in a significand, below the integer bit.
    low = fraction << np.uint64(_WORD - bits)
    if biased == 2 * bias + 1:
        if low == ZERO:
            return infinity(negative), NOTHING
        quiet = low & QUIET_BIT != ZERO
        return quieted((low | INTEGER_BIT, EXPONENT | sign_bit(negative))), NOTHING if quiet else INVALID
    if biased > 0:
        number, _ = rounded(negative, biased - bias, (ZERO, low | INTEGER_BIT), ZERO)
        return number, NOTHING
    if low == ZERO:
        return zero(negative), NOTHING
    shift = leading_zeros64(low)
    number, _ = rounded(negative, 1 - bias - np.int64(shift), (ZERO, low << shift), ZERO)
    return number, DENORMAL


@njit(cache=True)
def of_single(raw):
    """(number, status) of a float32 as a uint64."""
    biased = np.int64(raw >> np.uint64(_SINGLE - 1)) & (2 * _SINGLE_BIAS + 1)
    fraction = raw & ((ONE << np.uint64(_SINGLE - 1)) - ONE)
    return _widened(fraction, biased, raw >> _SINGLE_SIGN & ONE != ZERO, _SINGLE, _SINGLE_BIAS)


@njit(cache=True)
def of_double(raw):
    """(number, status) of a float64 as a uint64."""
    biased = np.int64(raw >> np.uint64(_DOUBLE - 1)) & (2 * _DOUBLE_BIAS + 1)
    fraction = raw & ((ONE << np.uint64(_DOUBLE - 1)) - ONE)
    return _widened(fraction, biased, raw >> _DOUBLE_SIGN & ONE != ZERO, _DOUBLE, _DOUBLE_BIAS)


@njit(cache=True)
def _narrowed(number, bits, bias, rounding):
    """(significand with its integer bit, biased exponent (int64), status) of a number in a format."""
    of = kind(number)
    if of == IS_ZERO:
        return ZERO, 0, NOTHING
    cut = np.uint64(_WORD - bits)
    if of == IS_UNSUPPORTED:
        return INDEFINITE[0] >> cut, 2 * bias + 1, INVALID
    if is_nan(of):
        return quieted(number)[0] >> cut, 2 * bias + 1, INVALID if of == IS_SIGNALLING else NOTHING
    if of == IS_INFINITE:
        return number[0] >> cut, 2 * bias + 1, NOTHING
    negative, exponent, significand = normalised(number)
    return fitted(negative, exponent, (ZERO, significand), bits, bias, rounding)


@njit(cache=True)
def _stored(number, bits, bias, rounding):
    significand, biased, status = _narrowed(number, bits, bias, rounding)
    place = np.uint64(bits - 1)
    fraction = significand & ((ONE << place) - ONE)
    return fraction | np.uint64(biased) << place, status


@njit(cache=True)
def to_single(number, rounding):
    """(float32 as a uint64, status)."""
    raw, status = _stored(number, _SINGLE, _SINGLE_BIAS, rounding)
    negative = is_negative(number) or kind(number) == IS_UNSUPPORTED
    return raw | (ONE << _SINGLE_SIGN if negative else ZERO), status


@njit(cache=True)
def to_double(number, rounding):
    """(float64 as a uint64, status)."""
    raw, status = _stored(number, _DOUBLE, _DOUBLE_BIAS, rounding)
    negative = is_negative(number) or kind(number) == IS_UNSUPPORTED
    return raw | (ONE << _DOUBLE_SIGN if negative else ZERO), status
