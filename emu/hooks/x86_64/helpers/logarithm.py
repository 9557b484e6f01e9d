"""FYL2X and FYL2XP1 (SDM volume 2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.constants import LOGARITHM, ONE
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    INDEFINITE,
    INTEGER_BIT,
    INVALID,
    IS_INFINITE,
    IS_ZERO,
    NOTHING,
    PRECISION,
    ZERO_DIVIDE,
    infinity,
    is_negative,
    kind,
    small_operand,
    without_value,
    zero,
)
from emu.hooks.x86_64.helpers.real import (
    as_processors_keep,
    constant,
    is_zero,
    negated,
    number_of,
    of_number,
    over,
    plus,
    real,
    scaled,
    series,
    short_of,
    times,
)
from emu.hooks.x86_64.helpers.wide import ZERO

#: The upper half of the root of 2.
_ROOT = np.uint64(0xB504F333F9DE6484)
#: Logarithms of 1 + x are taken without adding for x of smaller exponents.
_CLOSE = -2


@njit(cache=True)
def _of_ratio(s):
    """log2((1 + s) / (1 - s))."""
    return times(s, series(LOGARITHM, times(s, s)))


@njit(cache=True)
def _whole(number):
    """An int64 as a real."""
    return real(number < 0, np.int64(127), (np.uint64(abs(number)), ZERO))


@njit(cache=True)
def _log2(x):
    """The logarithm of a real above zero."""
    power = x.exponent + (1 if x.significand[1] >= _ROOT else 0)
    fraction = scaled(x, -power)
    over_one = plus(fraction, negated(constant(ONE)))
    if is_zero(over_one):
        # Processors cut off a little less than n for that of 2^-n.
        return _whole(power) if power >= 0 else short_of(_whole(power))
    return plus(_whole(power), _of_ratio(over(over_one, plus(fraction, constant(ONE)))))


@njit(cache=True)
def _log2_of_one_and(x):
    """log2(1 + x), x above -1 and not zero."""
    if x.exponent >= _CLOSE:
        return _log2(plus(x, constant(ONE)))
    return _of_ratio(over(x, plus(x, scaled(constant(ONE), 1))))


@njit(cache=True)
def _times_log(y, logarithm, rounding):
    """(y * logarithm, status), neither of which is zero."""
    return number_of(times(of_number(y), as_processors_keep(logarithm)), rounding)


@njit(cache=True)
def _is_one(number):
    return number[0] == INTEGER_BIT and number[1] == np.uint64(BIAS)


@njit(cache=True)
def _log2_at_edge(x, y):
    """(result, status) of `fyl2x` where x is 0, 1 or infinite, or y 0 or infinite; no x below zero."""
    of_x, of_y = kind(x), kind(y)
    if of_x == IS_ZERO:
        if of_y == IS_ZERO:
            return INDEFINITE, INVALID
        return infinity(not is_negative(y)), NOTHING if of_y == IS_INFINITE else ZERO_DIVIDE
    if of_x == IS_INFINITE:
        return (INDEFINITE, INVALID) if of_y == IS_ZERO else (infinity(is_negative(y)), small_operand(y))
    if _is_one(x):
        return (INDEFINITE, INVALID) if of_y == IS_INFINITE else (zero(is_negative(y)), small_operand(y))
    negative = is_negative(y) != (of_number(x).exponent < 0)
    return (zero(negative) if of_y == IS_ZERO else infinity(negative)), small_operand(x)


@njit(cache=True)
def fyl2x(x, y, rounding):
    """(y * log2 x, status). x is ST(0), y is ST(1)."""
    special, number, status = without_value(x, y)
    if special:
        return number, status
    if is_negative(x) and kind(x) != IS_ZERO:
        return INDEFINITE, INVALID
    if _is_one(x) or kind(x) in (IS_ZERO, IS_INFINITE) or kind(y) in (IS_ZERO, IS_INFINITE):
        return _log2_at_edge(x, y)
    number, status = _times_log(y, _log2(of_number(x)), rounding)
    return number, status | small_operand(x) | small_operand(y)


@njit(cache=True)
def _log2p1_at_edge(x, y):
    """(result, status) of `fyl2xp1` where x or y is 0 or infinite."""
    negative = is_negative(x) != is_negative(y)
    if kind(x) == IS_INFINITE:
        invalid = is_negative(x) or kind(y) == IS_ZERO
        return (INDEFINITE, INVALID) if invalid else (infinity(negative), small_operand(y))
    if kind(y) == IS_INFINITE:
        return (INDEFINITE, INVALID) if kind(x) == IS_ZERO else (infinity(negative), small_operand(x))
    return zero(negative), small_operand(x) | small_operand(y)


@njit(cache=True)
def fyl2xp1(x, y, rounding):
    """(y * log2(1 + x), status). x is ST(0), y is ST(1). For x of -1 and below the manual leaves the result
    open; processors give x."""
    special, number, status = without_value(x, y)
    if special:
        return number, status
    if kind(x) in (IS_ZERO, IS_INFINITE) or kind(y) in (IS_ZERO, IS_INFINITE):
        return _log2p1_at_edge(x, y)
    value = of_number(x)
    if value.negative and value.exponent >= 0:
        return x, PRECISION | small_operand(y)
    number, status = _times_log(y, _log2_of_one_and(value), rounding)
    return number, status | small_operand(x) | small_operand(y)
