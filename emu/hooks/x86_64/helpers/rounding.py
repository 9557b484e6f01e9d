"""Rounding to a format, once (SDM volume 1, 4.8.4 and 4.9.1): overflow, underflow and their masked results.

Tiny is what is below the smallest normal number after rounding as if exponents had no bound.

Modes are a rounding control, and `OVERFLOW` and `UNDERFLOW` where these exceptions are not masked: then a
number keeps its significand, and its exponent is brought near the middle of those that there are (8.5.4 and
8.5.5).
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    BIAS,
    C1,
    CHOP,
    DOWN,
    NEAREST,
    NOTHING,
    OVERFLOW,
    PRECISION,
    UNDERFLOW,
    UP,
    sign_bit,
)
from emu.hooks.x86_64.helpers.wide import ONE, ZERO, shift_right_sticky

_HALF = np.uint64(1 << 63)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_BITS = 64
_ROUNDING = np.uint64(3)
#: By how much exponents of x87 numbers are changed.
_ADJUSTMENT = 24576


@njit(cache=True)
def away(kept, rest, negative, rounding):
    """Whether rounding adds one to the magnitude `kept`. rest: what comes after it, in units of 2^-64 of its
    last place, of which the last bit may stand for all that follow."""
    if rounding == NEAREST:
        return rest > _HALF or (rest == _HALF and kept & ONE != ZERO)
    if rounding == CHOP:
        return False
    return rest != ZERO and negative == (rounding == DOWN)


@njit(cache=True)
def whole(significand, shift, negative, rounding):
    """(significand / 2^(64 + shift) rounded, whether it carried out of 64 bits, its status). significand:
    (low, high); shift: uint64."""
    rest, kept = significand if shift == ZERO else shift_right_sticky(significand, shift)
    if rest == ZERO:
        return kept, False, NOTHING
    if not away(kept, rest, negative, rounding):
        return kept, False, PRECISION
    return kept + ONE, kept == _ALL, PRECISION | C1


@njit(cache=True)
def _too_large(negative, bits, bias, rounding):
    if rounding == NEAREST or rounding == (DOWN if negative else UP):
        return ONE << np.uint64(bits - 1), 2 * bias + 1, OVERFLOW | PRECISION | C1
    return _ALL >> np.uint64(_BITS - bits), 2 * bias, OVERFLOW | PRECISION


@njit(cache=True)
def fitted(negative, exponent, significand, bits, bias, modes):
    """A number rounded to a format: (significand with its integer bit, biased exponent (int64), status).

    The number is significand * 2^(exponent - 127), significand (low, high) with its uppermost bit set; the
    lowest may stand for all that follow. The format has `bits` of significand and exponents of that bias.
    """
    spare, lowest, rounding = _BITS - bits, 1 - bias, modes & _ROUNDING
    kept, carried, status = whole(significand, np.uint64(spare), negative, rounding)
    at = exponent
    if carried or kept >> np.uint64(bits - 1) > ONE:
        kept, at = ONE << np.uint64(bits - 1), exponent + 1
    if at > bias:
        # What is too large even so (FSCALE alone) is answered as if masked.
        if modes & OVERFLOW == ZERO or at - _ADJUSTMENT > bias:
            return _too_large(negative, bits, bias, rounding)
        return kept, at - _ADJUSTMENT + bias, status | OVERFLOW
    if at >= lowest:
        return kept, at + bias, status
    if modes & UNDERFLOW != ZERO and at + _ADJUSTMENT >= lowest:
        return kept, at + _ADJUSTMENT + bias, status | UNDERFLOW
    kept, _, status = whole(significand, np.uint64(spare + lowest - exponent), negative, rounding)
    if status != NOTHING:
        status |= UNDERFLOW
    return kept, np.int64(kept >> np.uint64(bits - 1)), status


@njit(cache=True)
def rounded(negative, exponent, significand, modes):
    """(number, status) of significand * 2^(exponent - 127); see `fitted`."""
    kept, biased, status = fitted(negative, exponent, significand, _BITS, BIAS, modes)
    return (kept, np.uint64(biased) | sign_bit(negative)), status
