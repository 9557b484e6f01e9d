"""FLDPI, FLDL2E, FLDL2T, FLDLG2, FLDLN2, FLD1 and FLDZ (SDM volume 2, FLD1): by rounding control."""

from __future__ import annotations

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.constants import LN2, LOG2_10, LOG2_E, LOG10_2, ONE, PI
from emu.hooks.x86_64.helpers.extended import zero
from emu.hooks.x86_64.helpers.real import constant
from emu.hooks.x86_64.helpers.rounding import rounded


@njit(cache=True)
def _number(row, rounding):
    value = constant(row)
    number, _ = rounded(False, value.exponent, value.significand, rounding)
    return number


@njit(cache=True)
def fldpi(rounding):
    return _number(PI, rounding)


@njit(cache=True)
def fldl2e(rounding):
    return _number(LOG2_E, rounding)


@njit(cache=True)
def fldl2t(rounding):
    return _number(LOG2_10, rounding)


@njit(cache=True)
def fldlg2(rounding):
    return _number(LOG10_2, rounding)


@njit(cache=True)
def fldln2(rounding):
    return _number(LN2, rounding)


@njit(cache=True)
def fld1(rounding):
    return _number(ONE, rounding)


@njit(cache=True)
def fldz(rounding):
    return zero(False)
