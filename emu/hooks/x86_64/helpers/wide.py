"""Whole numbers of 128 bits in kernels: (low, high), both uint64.

Nothing here divides in LLVM's own 128 bits: that would call a routine of the compiler's runtime, which
compiled kernels are not linked with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import intrinsic, ir, njit, types

ZERO, ONE = np.uint64(0), np.uint64(1)
_WORD, _TWICE = np.uint64(64), np.uint64(128)
_TOP = np.uint64(63)


@intrinsic
def multiply_high(typing_context: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of a product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        factors = [builder.zext(argument, wide) for argument in arguments]
        product = builder.lshr(builder.mul(*factors), ir.Constant(wide, 64))
        return builder.trunc(product, ir.IntType(64))

    return signature, generate


@intrinsic
def leading_zeros64(typing_context: Any, number: Any) -> Any:
    """How many zero bits a uint64 begins with, 64 for zero."""
    signature = types.uint64(types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return signature, generate


@njit(cache=True)
def leading_zeros(a):
    """How many zero bits the number begins with (uint64), 128 for zero."""
    return leading_zeros64(a[1]) if a[1] != ZERO else _WORD + leading_zeros64(a[0])


@njit(cache=True)
def below(a, b):
    """Whether a < b."""
    return a[1] < b[1] or (a[1] == b[1] and a[0] < b[0])


@njit(cache=True)
def add(a, b):
    """(a + b modulo 2^128, whether it carried)."""
    low = a[0] + b[0]
    carry = ONE if low < a[0] else ZERO
    high = a[1] + b[1]
    total = high + carry
    return (low, total), high < a[1] or total < high


@njit(cache=True)
def subtract(a, b):
    """a - b modulo 2^128."""
    borrow = ONE if a[0] < b[0] else ZERO
    return a[0] - b[0], a[1] - b[1] - borrow


@njit(cache=True)
def shift_left(a, n):
    """a * 2^n modulo 2^128. n: uint64 below 128."""
    if n == ZERO:
        return a
    if n >= _WORD:
        return ZERO, a[0] << (n - _WORD)
    return a[0] << n, a[1] << n | a[0] >> (_WORD - n)


@njit(cache=True)
def shift_right(a, n):
    """a / 2^n, the rest dropped. n: uint64 below 128."""
    if n == ZERO:
        return a
    if n >= _WORD:
        return a[1] >> (n - _WORD), ZERO
    return a[0] >> n | a[1] << (_WORD - n), a[1] >> n


@njit(cache=True)
def shift_right_sticky(a, n):
    """a / 2^n for any n (uint64); the lowest bit is also set when a bit that was set has gone."""
    if n >= _TWICE:
        return ONE if a[0] | a[1] != ZERO else ZERO, ZERO
    shifted = shift_right(a, n)
    back = shift_left(shifted, n)
    return shifted[0] | (ZERO if back[0] == a[0] and back[1] == a[1] else ONE), shifted[1]


@njit(cache=True)
def multiply(a, b):
    """The product of two uint64."""
    return a * b, multiply_high(a, b)


@njit(cache=True)
def multiply_upper(a, b):
    """The upper 128 of the 256 bits of a product."""
    cross, carry = add((a[0] * b[1], multiply_high(a[0], b[1])), (a[1] * b[0], multiply_high(a[1], b[0])))
    cross, more = add(cross, (multiply_high(a[0], b[0]), ZERO))
    upper = (ONE if carry else ZERO) + (ONE if more else ZERO)
    total, _ = add((a[1] * b[1], multiply_high(a[1], b[1])), (cross[1], upper))
    return total


@njit(cache=True)
def divide(a, b, bits):
    """(the first `bits` bits of a / b after the point, what is left of a * 2^bits). a < b, b not 0; bits
    (int64) at most 128."""
    low, high = ZERO, ZERO
    for _ in range(bits):
        carried = a[1] >> _TOP != ZERO
        a = shift_left(a, ONE)
        low, high = low << ONE, high << ONE | low >> _TOP
        if carried or not below(a, b):
            a = subtract(a, b)
            low |= ONE
    return (low, high), a
