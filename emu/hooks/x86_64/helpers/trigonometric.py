"""FSIN, FCOS, FSINCOS and FPTAN (SDM volume 2).

Operands are reduced by the processor's pi, which has 66 bits, exactly (SDM volume 1, 8.3.8); those of 2^63
and more are left as they are, with C2 set.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.constants import COSINE, SINE
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    C2,
    INDEFINITE,
    INTEGER_BIT,
    INVALID,
    IS_INFINITE,
    IS_ZERO,
    NOTHING,
    PRECISION,
    as_normal,
    kind,
    normalised,
    small_operand,
    without_value,
)
from emu.hooks.x86_64.helpers.real import (
    Real,
    as_processors_keep,
    inexact,
    negated,
    number_of,
    of_number,
    over,
    real,
    series,
    times,
)
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, below, divide, shift_left, subtract

#: Half of the processor's pi, times 2^65: (low, high).
_HALF_PI = (np.uint64(0x243F6A8885A308D3), np.uint64(3))
_HALF_PI_POINT = 65
#: Its uppermost bit's place counted from the uppermost of 128.
_HALF_PI_SHIFT = 62
#: The largest exponent that is reduced, and the largest with no need to.
_LARGEST, _NO_NEED = 62, -2
#: What has a smaller exponent is tiny.
_TINY = -68
#: In tangents of what has a smaller exponent, processors cut sine and cosine.
_SMALL = -2
_THREE = np.uint64(3)
_NUMBER_ONE = (INTEGER_BIT, np.uint64(BIAS))


@njit(cache=True)
def _reduced(number):
    """(rest, quarter): the magnitude of the number is quarter (modulo 4, uint64) * pi / 2 + rest, and |rest|
    at most pi / 4. Its exponent is at most 62."""
    _, exponent, significand = normalised(number)
    if exponent <= _NO_NEED:
        return Real(False, exponent, (ZERO, significand)), ZERO
    scaled = shift_left((significand, ZERO), np.uint64(exponent + 2))
    divisor = shift_left(_HALF_PI, np.uint64(_HALF_PI_SHIFT))
    quarter = ZERO
    if not below(scaled, divisor):
        scaled, quarter = subtract(scaled, divisor), ONE
    # Digits of the quotient after the first; the rest comes out shifted as the divisor is.
    digits, rest = divide(scaled, divisor, _HALF_PI_SHIFT)
    quarter = (quarter << np.uint64(_HALF_PI_SHIFT)) + digits[0]
    negative = False
    other = subtract(divisor, rest)
    if below(other, rest):
        rest, quarter, negative = other, quarter + ONE, True
    return real(negative, np.int64(127 - _HALF_PI_POINT - _HALF_PI_SHIFT), rest), quarter & _THREE


@njit(cache=True)
def _is_tiny(number):
    """Whether processors give the number itself for its sine and tangent, and 1 for its cosine, whichever way
    is rounded; it is not zero."""
    return normalised(number)[1] < _TINY


@njit(cache=True)
def _tiny(number):
    """(sine or tangent of a tiny number, status)."""
    result = as_normal(number)
    return result, inexact(result) | small_operand(number)


@njit(cache=True)
def _sine(rest):
    return times(rest, series(SINE, negated(times(rest, rest))))


@njit(cache=True)
def _cosine(rest):
    return series(COSINE, negated(times(rest, rest)))


@njit(cache=True)
def _sine_at(rest, quarter):
    value = _sine(rest) if quarter & ONE == ZERO else _cosine(rest)
    return value if quarter < np.uint64(2) else negated(value)


@njit(cache=True)
def _refused(number):
    """(whether there is nothing to work out, result, status)."""
    special, result, status = without_value(number, number)
    if special:
        return True, result, status
    if kind(number) == IS_INFINITE:
        return True, INDEFINITE, INVALID
    if kind(number) != IS_ZERO and normalised(number)[1] > _LARGEST:
        return True, number, C2
    return False, number, NOTHING


@njit(cache=True)
def fsin(number, rounding):
    """(sine, status)."""
    refused, result, status = _refused(number)
    if refused or kind(number) == IS_ZERO:
        return result, status
    if _is_tiny(number):
        return _tiny(number)
    rest, quarter = _reduced(number)
    value = _sine_at(rest, quarter)
    result, status = number_of(negated(value) if of_number(number).negative else value, rounding)
    return result, status | small_operand(number)


@njit(cache=True)
def fcos(number, rounding):
    """(cosine, status)."""
    refused, result, status = _refused(number)
    if refused:
        return result, status
    if kind(number) == IS_ZERO:
        return _NUMBER_ONE, NOTHING
    if _is_tiny(number):
        return _NUMBER_ONE, PRECISION | small_operand(number)
    rest, quarter = _reduced(number)
    result, status = number_of(_sine_at(rest, quarter + ONE & _THREE), rounding)
    return result, status | small_operand(number)


@njit(cache=True)
def fsincos(number, rounding):
    """(sine, cosine, status): the cosine is pushed after the sine; nothing is with C2."""
    sine, status = fsin(number, rounding)
    cosine, more = fcos(number, rounding)
    return sine, cosine, status | more


@njit(cache=True)
def _tangent(number):
    """That of a number which is not tiny, as a real."""
    rest, quarter = _reduced(number)
    sine, cosine = _sine(rest), _cosine(rest)
    if rest.exponent < _SMALL:
        sine, cosine = as_processors_keep(sine), as_processors_keep(cosine)
    tangent = over(sine, cosine) if quarter & ONE == ZERO else negated(over(cosine, sine))
    return negated(tangent) if of_number(number).negative else tangent


@njit(cache=True)
def fptan(number, rounding):
    """(tangent, what is pushed after it, status): 1 is pushed, a NaN again if there is one, nothing
    with C2."""
    refused, result, status = _refused(number)
    if refused:
        return result, result, status
    if kind(number) == IS_ZERO:
        return number, _NUMBER_ONE, NOTHING
    if _is_tiny(number):
        result, status = _tiny(number)
        return result, _NUMBER_ONE, status
    result, status = number_of(_tangent(number), rounding)
    return result, _NUMBER_ONE, status | small_operand(number)
