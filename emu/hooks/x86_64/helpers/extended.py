"""Numbers as the x87 holds them: classes, NaNs and the status word (SDM volume 1, 4.2, 4.8 and 8.1.3).

A number is (low, high), both uint64: the significand with its explicit integer bit; sign and exponent.
Kernels return the number and bits for the status word: exceptions, all of them masked, and condition codes.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, leading_zeros64

#: Bits of the status word (SDM volume 1, 8.1.3).
INVALID, DENORMAL, ZERO_DIVIDE = np.uint64(0x01), np.uint64(0x02), np.uint64(0x04)
OVERFLOW, UNDERFLOW, PRECISION = np.uint64(0x08), np.uint64(0x10), np.uint64(0x20)
C0, C1, C2, C3 = np.uint64(0x100), np.uint64(0x200), np.uint64(0x400), np.uint64(0x4000)
CONDITIONS = C0 | C1 | C2 | C3
NOTHING = np.uint64(0)

#: Rounding control (SDM volume 1, 8.1.5.3).
NEAREST, DOWN, UP, CHOP = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)

#: Classes of numbers. Of unsupported ones are unnormals, pseudo-NaNs and pseudo-infinities.
IS_ZERO, IS_DENORMAL, IS_PSEUDO_DENORMAL, IS_NORMAL, IS_INFINITE, IS_QUIET, IS_SIGNALLING, IS_UNSUPPORTED = (
    range(8)
)

SIGN, EXPONENT = np.uint64(0x8000), np.uint64(0x7FFF)
INTEGER_BIT, QUIET_BIT = np.uint64(1 << 63), np.uint64(1 << 62)
BIAS = 0x3FFF
#: The default NaN, "real indefinite".
INDEFINITE = (np.uint64(0xC000000000000000), np.uint64(0xFFFF))


@njit(cache=True)
def kind(number):
    """The number's class, `IS_ZERO` and so on."""
    low, exponent = number[0], number[1] & EXPONENT
    if exponent == ZERO:
        if low == ZERO:
            return IS_ZERO
        return IS_DENORMAL if low & INTEGER_BIT == ZERO else IS_PSEUDO_DENORMAL
    if low & INTEGER_BIT == ZERO:
        return IS_UNSUPPORTED
    if exponent != EXPONENT:
        return IS_NORMAL
    if low == INTEGER_BIT:
        return IS_INFINITE
    return IS_QUIET if low & QUIET_BIT != ZERO else IS_SIGNALLING


@njit(cache=True)
def is_negative(number):
    return number[1] & SIGN != ZERO


@njit(cache=True)
def sign_bit(negative):
    return SIGN if negative else ZERO


@njit(cache=True)
def zero(negative):
    return ZERO, sign_bit(negative)


@njit(cache=True)
def infinity(negative):
    return INTEGER_BIT, sign_bit(negative) | EXPONENT


@njit(cache=True)
def is_nan(kind_of):
    return kind_of in (IS_QUIET, IS_SIGNALLING)


@njit(cache=True)
def is_small(kind_of):
    """Whether it is below all normal ones, but not zero."""
    return kind_of in (IS_DENORMAL, IS_PSEUDO_DENORMAL)


@njit(cache=True)
def normalised(number):
    """(negative, exponent, significand) of a finite number that is not zero: int64 without bias; uint64 with
    its uppermost bit set."""
    low, biased = number[0], np.int64(number[1] & EXPONENT)
    # A denormal has the exponent of the smallest normal one.
    exponent = (biased if biased != 0 else 1) - BIAS
    shift = leading_zeros64(low)
    return is_negative(number), exponent - np.int64(shift), low << shift


@njit(cache=True)
def as_normal(number):
    """A finite number, with the exponent that it has in arithmetic: a pseudo-denormal's is 1, not 0."""
    if kind(number) == IS_PSEUDO_DENORMAL:
        return number[0], number[1] | ONE
    return number


@njit(cache=True)
def quieted(number):
    return number[0] | QUIET_BIT, number[1]


@njit(cache=True)
def nan_of(a, b):
    """The NaN that an operation on two operands gives, at least one of which is a NaN (SDM volume 1, table
    4-7): a QNaN rather than an SNaN; of two alike the one of the larger significand, of two equal ones the
    positive one."""
    of_a, of_b = kind(a), kind(b)
    if not is_nan(of_b) or (of_a == IS_QUIET and of_b == IS_SIGNALLING):
        return quieted(a)
    if not is_nan(of_a) or of_a != of_b:
        return quieted(b)
    if a[0] == b[0]:
        return quieted(b if is_negative(a) else a)
    return quieted(a if a[0] > b[0] else b)


@njit(cache=True)
def without_value(a, b):
    """(whether an operand is no number at all, the result then, its status): a NaN, or an unsupported one,
    which is invalid. An operation on one operand gives it twice."""
    of_a, of_b = kind(a), kind(b)
    if of_a == IS_UNSUPPORTED or of_b == IS_UNSUPPORTED:
        return True, INDEFINITE, INVALID
    if is_nan(of_a) or is_nan(of_b):
        signalling = of_a == IS_SIGNALLING or of_b == IS_SIGNALLING
        return True, nan_of(a, b), INVALID if signalling else NOTHING
    return False, INDEFINITE, NOTHING


@njit(cache=True)
def small_operand(number):
    """The status that a denormal operand leaves."""
    return DENORMAL if is_small(kind(number)) else NOTHING


@njit(cache=True)
def fxam(number):
    """Condition codes for the class of a register that is not empty (SDM volume 2, FXAM)."""
    of, codes = kind(number), C1 if is_negative(number) else NOTHING
    if of == IS_ZERO:
        return codes | C3
    if is_small(of):
        return codes | C2 | C3
    if of == IS_NORMAL:
        return codes | C2
    if of == IS_INFINITE:
        return codes | C0 | C2
    return codes | (NOTHING if of == IS_UNSUPPORTED else C0)
