"""FADD, FSUB, FMUL, FDIV, FSQRT and FRNDINT (SDM volume 2): exact, then rounded once.

Modes are those of `rounding`, with the precision control in the place that it has in the control word (SDM
volume 1, 8.1.5.2): these instructions alone round to fewer bits than a register has.
"""

from __future__ import annotations

import math

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    DOWN,
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
from emu.hooks.x86_64.helpers.rounding import fitted, whole
from emu.hooks.x86_64.helpers.wide import (
    ONE,
    ZERO,
    add,
    below,
    leading_zeros,
    leading_zeros64,
    multiply,
    shift_left,
    shift_right_sticky,
    subtract,
)

ROUNDING, _PRECISION_CONTROL = np.uint64(3), np.uint64(0x300)
_SINGLE, _DOUBLE = np.uint64(0), np.uint64(0x200)
_BITS, _TOP = 64, 63
_HALF, _ALL = np.uint64(1 << 63), np.uint64(0xFFFFFFFFFFFFFFFF)
_32, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_TWO_64 = 2.0**64


@njit(cache=True)
def _bits(modes):
    """Of significands of results."""
    control = modes & _PRECISION_CONTROL
    if control == _SINGLE:
        return 24
    return 53 if control == _DOUBLE else _BITS


@njit(cache=True)
def _result(negative, exponent, significand, modes):
    """(number, status) of significand * 2^(exponent - 127); see `rounding.fitted`."""
    bits = _bits(modes)
    kept, biased, status = fitted(negative, exponent, significand, bits, BIAS, modes)
    return (kept << np.uint64(_BITS - bits), np.uint64(biased) | sign_bit(negative)), status


# -- sums ----------------------------------------------------------------------------------------------------


@njit(cache=True)
def _aligned_sum(large, small, same_sign):
    """(exponent, significand) of two that are not zero, the first not the smaller: (exponent, significand)
    each, their magnitudes added or subtracted. The significand is zero if nothing is left."""
    at, first = large[0], (ZERO, large[1])
    second = shift_right_sticky((ZERO, small[1]), np.uint64(at - small[0]))
    if same_sign:
        total, carried = add(first, second)
        if carried:
            halved = shift_right_sticky(total, ONE)
            return at + 1, (halved[0], halved[1] | _HALF)
        return at, total
    total = subtract(first, second)
    shift = leading_zeros(total)
    if shift == np.uint64(2 * _BITS):
        return at, total
    return at - np.int64(shift), shift_left(total, shift)


@njit(cache=True)
def _finite_sum(a, b, negative_b, modes):
    of_a, of_b, negative_a = kind(a), kind(b), is_negative(a)
    nothing = modes & ROUNDING == DOWN
    if of_a == IS_ZERO and of_b == IS_ZERO:
        return zero(negative_a if negative_a == negative_b else nothing), NOTHING
    _, at_a, significand_a = normalised(a)
    _, at_b, significand_b = normalised(b)
    if of_b == IS_ZERO:
        return _result(negative_a, at_a, (ZERO, significand_a), modes)
    if of_a == IS_ZERO:
        return _result(negative_b, at_b, (ZERO, significand_b), modes)
    one, other, negative = (at_a, significand_a), (at_b, significand_b), negative_a
    if at_a < at_b or (at_a == at_b and significand_a < significand_b):
        one, other, negative = other, one, negative_b
    exponent, significand = _aligned_sum(one, other, negative_a == negative_b)
    if significand[0] | significand[1] == ZERO:
        return zero(nothing), NOTHING
    return _result(negative, exponent, significand, modes)


@njit(cache=True)
def _sum(a, b, modes, subtracted):
    special, number, status = without_value(a, b)
    if special:
        return number, status
    negative_b = is_negative(b) != subtracted
    if kind(a) == IS_INFINITE or kind(b) == IS_INFINITE:
        if kind(a) == kind(b) and is_negative(a) != negative_b:
            return INDEFINITE, INVALID
        negative = is_negative(a) if kind(a) == IS_INFINITE else negative_b
        return infinity(negative), small_operand(a) | small_operand(b)
    number, status = _finite_sum(a, b, negative_b, modes)
    return number, status | small_operand(a) | small_operand(b)


@njit(cache=True)
def fadd(a, b, modes):
    """(a + b, status)."""
    return _sum(a, b, modes, False)


@njit(cache=True)
def fsub(a, b, modes):
    """(a - b, status)."""
    return _sum(a, b, modes, True)


@njit(cache=True)
def fsubr(a, b, modes):
    """(b - a, status)."""
    return _sum(b, a, modes, True)


# -- products and quotients ----------------------------------------------------------------------------------


@njit(cache=True)
def fmul(a, b, modes):
    """(a * b, status)."""
    special, number, status = without_value(a, b)
    if special:
        return number, status
    negative, of_a, of_b = is_negative(a) != is_negative(b), kind(a), kind(b)
    status = small_operand(a) | small_operand(b)
    if of_a == IS_INFINITE or of_b == IS_INFINITE:
        if of_a == IS_ZERO or of_b == IS_ZERO:
            return INDEFINITE, INVALID
        return infinity(negative), status
    if of_a == IS_ZERO or of_b == IS_ZERO:
        return zero(negative), status
    _, at_a, significand_a = normalised(a)
    _, at_b, significand_b = normalised(b)
    product, exponent = multiply(significand_a, significand_b), at_a + at_b + 1
    if product[1] & _HALF == ZERO:
        product, exponent = shift_left(product, ONE), exponent - 1
    number, more = _result(negative, exponent, product, modes)
    return number, status | more


@njit(cache=True, error_model="numpy")
def _digit(high, next_digit, divisor):
    """(a digit of 32 bits of a quotient, what is left): of high * 2^32 + next_digit, high below the divisor,
    whose uppermost bit is set (Knuth, The Art of Computer Programming 2, 4.3.1, algorithm D)."""
    upper, lower = divisor >> _32, divisor & _LOW
    digit = high // upper
    rest = high - digit * upper
    while digit > _LOW or digit * lower > (rest << _32 | next_digit):
        digit -= ONE
        rest += upper
        if rest > _LOW:
            break
    return digit, (high << _32 | next_digit) - digit * divisor


@njit(cache=True)
def _divided(high, low, divisor):
    """(quotient, remainder) of high * 2^64 + low; high is below the divisor, whose uppermost bit is set."""
    first, rest = _digit(high, low >> _32, divisor)
    second, rest = _digit(rest, low & _LOW, divisor)
    return first << _32 | second, rest


@njit(cache=True)
def _quotient(dividend, divisor):
    """(how much smaller its exponent is than the difference of theirs, significand (low, high), the lowest
    bit standing for all that follow)."""
    less = 1 if dividend < divisor else 0
    high, low = (dividend, ZERO) if less else (dividend >> ONE, dividend << np.uint64(_TOP))
    quotient, rest = _divided(high, low, divisor)
    if rest == ZERO:
        return less, (ZERO, quotient)
    half = divisor - rest
    if rest >= half:
        return less, (_HALF if rest == half else _HALF | ONE, quotient)
    return less, (ONE, quotient)


@njit(cache=True)
def fdiv(a, b, modes):
    """(a / b, status)."""
    special, number, status = without_value(a, b)
    if special:
        return number, status
    negative, of_a, of_b = is_negative(a) != is_negative(b), kind(a), kind(b)
    if of_a == of_b and of_a in (IS_ZERO, IS_INFINITE):
        return INDEFINITE, INVALID
    if of_b == IS_ZERO and of_a != IS_INFINITE:
        return infinity(negative), ZERO_DIVIDE
    status = small_operand(a) | small_operand(b)
    if of_a == IS_INFINITE:
        return infinity(negative), status
    if of_a == IS_ZERO or of_b == IS_INFINITE:
        return zero(negative), status
    _, at_a, dividend = normalised(a)
    _, at_b, divisor = normalised(b)
    less, significand = _quotient(dividend, divisor)
    number, more = _result(negative, at_a - at_b - less, significand, modes)
    return number, status | more


@njit(cache=True)
def fdivr(a, b, modes):
    """(b / a, status)."""
    return fdiv(b, a, modes)


# -- of one number -------------------------------------------------------------------------------------------


@njit(cache=True)
def _root(square):
    """(the whole square root of (low, high), which has 127 or 128 bits; what is left of it)."""
    root = math.sqrt(float(square[1]) * _TWO_64)
    guess = _ALL if root >= _TWO_64 else np.uint64(root)
    product = multiply(guess, guess)
    # A double is off by some thousands at most: the difference of the squares tells by how many.
    if below(square, product):
        apart = subtract(product, square)
        guess -= np.uint64((float(apart[1]) * _TWO_64 + float(apart[0])) / (2.0 * root))
    else:
        apart = subtract(square, product)
        more = np.uint64((float(apart[1]) * _TWO_64 + float(apart[0])) / (2.0 * root))
        guess = _ALL if more > _ALL - guess else guess + more
    product = multiply(guess, guess)
    while below(square, product):
        guess -= ONE
        product = multiply(guess, guess)
    rest = subtract(square, product)
    while guess != _ALL and below(_twice(guess), rest):
        rest = subtract(subtract(rest, _twice(guess)), (ONE, ZERO))
        guess += ONE
    return guess, rest


@njit(cache=True)
def _twice(a):
    return a << ONE, a >> np.uint64(_TOP)


@njit(cache=True)
def fsqrt(a, modes):
    """(square root, status)."""
    special, number, status = without_value(a, a)
    if special:
        return number, status
    if kind(a) == IS_ZERO:
        return a, NOTHING
    if is_negative(a):
        return INDEFINITE, INVALID
    if kind(a) == IS_INFINITE:
        return a, NOTHING
    _, exponent, significand = normalised(a)
    # Of an even exponent, so that its half is whole: 126 or 127 bits behind the point.
    odd = exponent & 1
    square = (ZERO, significand) if odd else shift_right_sticky((ZERO, significand), ONE)
    root, rest = _root(square)
    after = ZERO
    if rest[0] | rest[1] != ZERO:
        after = _HALF | ONE if below((root, ZERO), rest) else ONE
    number, more = _result(False, (exponent - odd) // 2, (after, root), modes)
    return number, more | small_operand(a)


@njit(cache=True)
def frndint(a, modes):
    """(a whole number, status), whatever the precision control is."""
    special, number, status = without_value(a, a)
    if special:
        return number, status
    if kind(a) == IS_ZERO or kind(a) == IS_INFINITE:
        return a, NOTHING
    negative, exponent, significand = normalised(a)
    if exponent >= _TOP:
        return a, NOTHING
    size, _, status = whole((ZERO, significand), np.uint64(_TOP - exponent), negative, modes & ROUNDING)
    status |= small_operand(a)
    if size == ZERO:
        return zero(negative), status
    shift = leading_zeros64(size)
    return (size << shift, np.uint64(BIAS + _TOP) - shift | sign_bit(negative)), status
