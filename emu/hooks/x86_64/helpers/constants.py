"""Constants to 128 bits, worked out with whole numbers when this is loaded: pi, logarithms, and the
coefficients of series. Kernels have them as rows (low, high, exponent), which
`emu.hooks.x86_64.helpers.real.constant` takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import factorial

import numpy as np
from numpy.typing import NDArray

#: Bits that whole numbers have behind the point here, before they are cut down to 128.
_POINT = 192


def _atan(x: Fraction) -> Fraction:
    """Euler's series, whose terms get smaller by half at least where |x| is not above 1."""
    square = x * x / (1 + x * x)
    term = Fraction(int((x / (1 + x * x)) * (1 << _POINT)))
    total, k = 0, 0
    while term:
        total += int(term)
        k += 1
        term = Fraction(int(term * square * 2 * k / (2 * k + 1)))
    return Fraction(total, 1 << _POINT)


def _log(x: Fraction) -> Fraction:
    """The natural logarithm, by that of (1 + s) / (1 - s)."""
    s = (x - 1) / (x + 1)
    power, total, k = int(s * (1 << _POINT)), 0, 1
    while power:
        total += power // k
        power, k = int(power * s * s), k + 2
    return Fraction(2 * total, 1 << _POINT)


def _row(value: Fraction) -> tuple[int, int, int]:
    """The nearest one of 128 bits. value: above zero."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    significand = round(value * Fraction(2) ** (127 - exponent))
    if significand >> 128:
        significand, exponent = significand >> 1, exponent + 1
    return significand & (1 << 64) - 1, significand >> 64, exponent & (1 << 64) - 1


def _rows(values: Iterable[Fraction]) -> NDArray[np.uint64]:
    return np.array([_row(value) for value in values], np.uint64)


_PI = 16 * _atan(Fraction(1, 5)) - 4 * _atan(Fraction(1, 239))
_LN2 = _log(Fraction(2))
_LN10 = 3 * _LN2 + _log(Fraction(5, 4))

#: What is loaded by name: FLDPI, FLDL2E, FLDL2T, FLDLG2 and FLDLN2 (SDM volume 2, FLD1).
PI, LOG2_E, LOG2_10, LOG10_2, LN2 = _rows([_PI, 1 / _LN2, _LN10 / _LN2, _LN2 / _LN10, _LN2])
ONE = _rows([Fraction(1)])[0]

#: sin x = x * sum of SINE[k] * (-x^2)^k, cos x the same without x; for |x| to pi / 4.
SINE = _rows(Fraction(1, factorial(2 * k + 1)) for k in range(15))
COSINE = _rows(Fraction(1, factorial(2 * k)) for k in range(16))
#: e^x - 1 = x * sum of EXPONENTIAL[k] * x^k; for |x| to ln 2.
EXPONENTIAL = _rows(Fraction(1, factorial(k + 1)) for k in range(33))
#: log2((1 + s) / (1 - s)) = s * sum of LOGARITHM[k] * (s^2)^k; for |s| to 3 - 2 sqrt 2.
LOGARITHM = _rows(2 / _LN2 / (2 * k + 1) for k in range(27))
#: atan x = x * sum of ARCTANGENT[k] * (-x^2)^k; for |x| to 1 / 16.
ARCTANGENT = _rows(Fraction(1, 2 * k + 1) for k in range(17))
#: k / 8 and atan(k / 8) for k = 1 to 8.
EIGHTHS = _rows(Fraction(k, 8) for k in range(1, 9))
ARCTANGENTS = _rows(_atan(Fraction(k, 8)) for k in range(1, 9))
