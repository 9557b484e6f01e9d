"""FPATAN (SDM volume 2)."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.constants import ARCTANGENT, ARCTANGENTS, EIGHTHS, PI
from emu.hooks.x86_64.helpers.extended import (
    IS_INFINITE,
    IS_ZERO,
    is_negative,
    kind,
    small_operand,
    without_value,
    zero,
)
from emu.hooks.x86_64.helpers.real import (
    Real,
    as_processors_keep,
    constant,
    is_smaller,
    is_zero,
    magnitude,
    negated,
    number_of,
    of_number,
    over,
    plus,
    scaled,
    series,
    times,
)

_UPPER = 11
#: Processors take the quotient for the angle where its exponent is smaller.
_TINY = -40


@njit(cache=True)
def _short(a):
    """Its uppermost bits, as a float64 below 2."""
    return np.float64(a.significand[1] >> np.uint64(_UPPER)) / np.float64(1 << 52)


@njit(cache=True)
def _nearest_eighth(small, large):
    """small / large in eighths: 0 to 8. Neither is zero, and the ratio is not above 1."""
    apart = large.exponent - small.exponent
    if apart > 5:
        return 0
    return np.int64(_short(small) / _short(large) / np.float64(1 << apart) * 8.0 + 0.5)


@njit(cache=True)
def _of_ratio(small, large):
    """atan(small / large), both above zero, small not the larger one."""
    eighth = _nearest_eighth(small, large)
    if eighth == 0:
        rest = as_processors_keep(over(small, large))
        if rest.exponent < _TINY:
            return rest
        return times(rest, series(ARCTANGENT, negated(times(rest, rest))))
    step, start = constant(EIGHTHS[eighth - 1]), constant(ARCTANGENTS[eighth - 1])
    above = plus(small, negated(times(step, large)))
    if is_zero(above):
        return start
    rest = over(above, plus(large, times(step, small)))
    return plus(start, times(rest, series(ARCTANGENT, negated(times(rest, rest)))))


@njit(cache=True)
def _angle(y, x):
    """The angle of a point that is on no axis, y above zero."""
    far = magnitude(x)
    half_pi = scaled(constant(PI), -1)
    if is_smaller(far, y):
        angle = _of_ratio(far, y)
        return plus(half_pi, angle if x.negative else negated(angle))
    angle = _of_ratio(y, far)
    return plus(constant(PI), negated(angle)) if x.negative else angle


@njit(cache=True)
def _eighths_of_turn(y, x):
    """The angle from the positive x axis of a point on an axis, at infinity, or both: in eighths of a turn.
    y's sign is not looked at."""
    if kind(y) == IS_INFINITE and kind(x) == IS_INFINITE:
        return 3 if is_negative(x) else 1
    if kind(y) == IS_INFINITE or (kind(x) == IS_ZERO and kind(y) != IS_ZERO):
        return 2
    return 4 if is_negative(x) else 0


@njit(cache=True)
def _on_axis(y, x, rounding):
    """(result, status) where x or y is 0 or infinite (SDM volume 2, table 3-30)."""
    eighths, status = _eighths_of_turn(y, x), small_operand(x) | small_operand(y)
    if eighths == 0:
        return zero(is_negative(y)), status
    angle = scaled(constant(PI), np.int64(-2 if eighths & 1 else eighths // 2 - 2))
    if eighths == 3:
        angle = plus(angle, scaled(constant(PI), -1))
    number, more = number_of(Real(is_negative(y), angle.exponent, angle.significand), rounding)
    return number, status | more


@njit(cache=True)
def fpatan(x, y, rounding):
    """(the angle of the point (x, y), status), from -pi to pi. x is ST(0), y is ST(1)."""
    special, number, status = without_value(x, y)
    if special:
        return number, status
    if kind(x) in (IS_ZERO, IS_INFINITE) or kind(y) in (IS_ZERO, IS_INFINITE):
        return _on_axis(y, x, rounding)
    angle = _angle(magnitude(of_number(y)), of_number(x))
    number, status = number_of(Real(is_negative(y), angle.exponent, angle.significand), rounding)
    return number, status | small_operand(x) | small_operand(y)
