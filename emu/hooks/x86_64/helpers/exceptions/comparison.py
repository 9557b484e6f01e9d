"""FCOM, FUCOM and their kin: how two numbers are ordered (SDM volume 2, FCOM)."""

from __future__ import annotations

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.extended import (
    C0,
    C2,
    C3,
    INVALID,
    IS_INFINITE,
    IS_SIGNALLING,
    IS_UNSUPPORTED,
    IS_ZERO,
    NOTHING,
    is_nan,
    is_negative,
    kind,
    normalised,
    small_operand,
)

LESS, EQUAL, GREATER, UNORDERED = C0, C3, NOTHING, C0 | C2 | C3


@njit(cache=True)
def _of_magnitudes(a, b):
    """The order of |a| and |b|, which are numbers."""
    of_a, of_b = kind(a), kind(b)
    if of_a == of_b and of_a in (IS_ZERO, IS_INFINITE):
        return EQUAL
    if of_a == IS_ZERO or of_b == IS_INFINITE:
        return LESS
    if of_b == IS_ZERO or of_a == IS_INFINITE:
        return GREATER
    _, at_a, significand_a = normalised(a)
    _, at_b, significand_b = normalised(b)
    if at_a == at_b and significand_a == significand_b:
        return EQUAL
    return LESS if at_a < at_b or (at_a == at_b and significand_a < significand_b) else GREATER


@njit(cache=True)
def compared(a, b, quiet):
    """(condition codes, status). quiet: only signalling NaNs are invalid, and what is no number."""
    of_a, of_b = kind(a), kind(b)
    if of_a == IS_UNSUPPORTED or of_b == IS_UNSUPPORTED:
        return UNORDERED, INVALID
    if is_nan(of_a) or is_nan(of_b):
        signalling = of_a == IS_SIGNALLING or of_b == IS_SIGNALLING
        return UNORDERED, NOTHING if quiet and not signalling else INVALID
    status = small_operand(a) | small_operand(b)
    order = _of_magnitudes(a, b)
    if order == EQUAL and (of_a == IS_ZERO or is_negative(a) == is_negative(b)):
        return EQUAL, status
    if is_negative(a) != is_negative(b):
        return LESS if is_negative(a) else GREATER, status
    if is_negative(a):
        order = LESS if order == GREATER else GREATER
    return order, status
