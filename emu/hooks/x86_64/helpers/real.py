"""Numbers of 128 significant bits in kernels, for what is worked out inside before it is rounded once.

Products and quotients are off by less than two units of the last bit, sums by less than two of their larger
term's. What a sum drops is never lost: it stays as a bit that is set near the end, so that a result a little
below or above a short one is seen to be.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import EXPONENT, NOTHING, PRECISION, UNDERFLOW, normalised
from emu.hooks.x86_64.helpers.rounding import rounded
from emu.hooks.x86_64.helpers.wide import (
    ONE,
    ZERO,
    add,
    below,
    divide,
    leading_zeros,
    multiply_upper,
    shift_left,
    shift_right,
    shift_right_sticky,
    subtract,
)

_TOP_BIT = np.uint64(1 << 63)
_FIRST_THREE = np.uint64(7 << 61)
_BITS = 128


class Real(NamedTuple):
    """significand * 2^(exponent - 127). negative: bool; exponent: int64; significand: (low, high), uint64,
    with the uppermost bit set, or (0, 0) for zero."""

    negative: Any
    exponent: Any
    significand: Any


@njit(cache=True)
def real(negative, exponent, significand):
    """significand * 2^(exponent - 127), any significand."""
    zeros = leading_zeros(significand)
    if zeros == np.uint64(_BITS):
        return Real(negative, np.int64(0), significand)
    return Real(negative, exponent - np.int64(zeros), shift_left(significand, zeros))


@njit(cache=True)
def of_number(number):
    """A finite x87 number that is not zero."""
    negative, exponent, significand = normalised(number)
    return Real(negative, exponent, (ZERO, significand))


@njit(cache=True)
def is_zero(a):
    return a.significand[1] == ZERO


@njit(cache=True)
def negated(a):
    return Real(not a.negative, a.exponent, a.significand)


@njit(cache=True)
def magnitude(a):
    return Real(False, a.exponent, a.significand)


@njit(cache=True)
def scaled(a, power):
    """a * 2^power."""
    return Real(a.negative, a.exponent + power, a.significand)


@njit(cache=True)
def is_smaller(a, b):
    """Whether |a| < |b|; neither is zero."""
    if a.exponent != b.exponent:
        return a.exponent < b.exponent
    return below(a.significand, b.significand)


@njit(cache=True)
def short_of(a):
    """The next real towards zero; a is not zero."""
    return real(a.negative, a.exponent, subtract(a.significand, (ONE, ZERO)))


@njit(cache=True)
def as_processors_keep(a):
    """Its first 67 bits: what Intel's processors keep of some results inside."""
    return Real(a.negative, a.exponent, (a.significand[0] & _FIRST_THREE, a.significand[1]))


@njit(cache=True)
def times(a, b):
    return real(
        a.negative != b.negative, a.exponent + b.exponent + 1, multiply_upper(a.significand, b.significand)
    )


@njit(cache=True)
def over(a, b):
    """a / b; b is not zero."""
    dividend, exponent = a.significand, a.exponent - b.exponent
    if below(dividend, b.significand):
        quotient, rest = divide(dividend, b.significand, _BITS)
        exponent -= 1
    else:
        quotient, rest = divide(subtract(dividend, b.significand), b.significand, _BITS)
        quotient = shift_right_sticky(quotient, ONE)
        quotient = (quotient[0], quotient[1] | _TOP_BIT)
    if rest[0] | rest[1] != ZERO:
        quotient = (quotient[0] | ONE, quotient[1])
    return real(a.negative != b.negative, exponent, quotient)


@njit(cache=True)
def _sum(larger, smaller):
    """Of two of which the first has the larger exponent, or the same one."""
    apart = np.uint64(larger.exponent - smaller.exponent)
    shifted = shift_right_sticky(smaller.significand, apart)
    if larger.negative != smaller.negative:
        if below(larger.significand, shifted):
            return real(smaller.negative, larger.exponent, subtract(shifted, larger.significand))
        return real(larger.negative, larger.exponent, subtract(larger.significand, shifted))
    total, carried = add(larger.significand, shifted)
    if not carried:
        return Real(larger.negative, larger.exponent, total)
    last = total[0] & ONE
    half = shift_right(total, ONE)
    return Real(larger.negative, larger.exponent + 1, (half[0] | last, half[1] | _TOP_BIT))


@njit(cache=True)
def plus(a, b):
    if is_zero(a):
        return b
    if is_zero(b):
        return a
    return _sum(a, b) if a.exponent >= b.exponent else _sum(b, a)


@njit(cache=True)
def constant(row):
    """A row of `emu.hooks.x86_64.helpers.constants`."""
    return Real(False, np.int64(row[2]), (row[0], row[1]))


@njit(cache=True)
def series(coefficients, z):
    """The sum of coefficients[k] * z^k, by Horner's rule. coefficients: rows as `constant` takes them."""
    total = constant(coefficients[len(coefficients) - 1])
    for k in range(len(coefficients) - 2, -1, -1):
        total = plus(constant(coefficients[k]), times(total, z))
    return total


@njit(cache=True)
def inexact(number):
    """The status that a result leaves which is never taken to be exact."""
    return PRECISION | (UNDERFLOW if number[1] & EXPONENT == ZERO else NOTHING)


@njit(cache=True)
def number_of(a, rounding):
    """(the x87 number that it is rounded to, status); a is not zero. Transcendental instructions say that
    they are inexact even where they are not."""
    number, status = rounded(a.negative, a.exponent, a.significand, rounding)
    return number, status | inexact(number)
