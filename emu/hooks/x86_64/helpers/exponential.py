"""F2XM1 (SDM volume 2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.constants import EXPONENTIAL, LN2
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    INTEGER_BIT,
    IS_INFINITE,
    IS_ZERO,
    NOTHING,
    PRECISION,
    SIGN,
    is_negative,
    kind,
    small_operand,
    without_value,
)
from emu.hooks.x86_64.helpers.real import (
    as_processors_keep,
    constant,
    negated,
    number_of,
    of_number,
    plus,
    series,
    times,
)

#: What has a smaller exponent has only the first term of the series, and it is small.
_FIRST_TERM, _SMALL = -68, -2
_MINUS_ONE = (INTEGER_BIT, SIGN | np.uint64(BIAS))
_MINUS_HALF = (INTEGER_BIT, SIGN | np.uint64(BIAS - 1))


@njit(cache=True)
def _less_one(x):
    """2^x - 1. Where x is small, the first term of the series has as many bits as processors keep."""
    first = times(x, as_processors_keep(constant(LN2)))
    if x.exponent < _FIRST_TERM:
        return first
    power = times(x, constant(LN2))
    value = times(power, series(EXPONENTIAL, power))
    if x.exponent >= _SMALL:
        return value
    return plus(value, plus(as_processors_keep(first), negated(power)))


@njit(cache=True)
def f2xm1(number, rounding):
    """(2^number - 1, status). Outside of -1 to 1 the manual leaves the result open; processors leave the
    number as it is."""
    special, result, status = without_value(number, number)
    if special:
        return result, status
    if kind(number) == IS_INFINITE:
        return (_MINUS_ONE if is_negative(number) else number), NOTHING
    if kind(number) == IS_ZERO:
        return number, NOTHING
    value = of_number(number)
    if value.exponent >= 0:
        # One itself gives one, minus one a half; both without rounding.
        half = number[0] == INTEGER_BIT and value.exponent == 0 and value.negative
        return (_MINUS_HALF if half else number), PRECISION
    result, status = number_of(_less_one(value), rounding)
    return result, status | small_operand(number)
