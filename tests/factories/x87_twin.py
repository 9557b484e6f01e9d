"""What x87 kernels work out, naively: fractions, and decimals of 110 digits for transcendental functions."""

from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from math import floor

BIAS = 16383
INVALID, DENORMAL, ZERO_DIVIDE, OVERFLOW, UNDERFLOW, PRECISION = 1, 2, 4, 8, 16, 32
C0, C1, C2, C3 = 0x100, 0x200, 0x400, 0x4000
NEAREST, DOWN, UP, CHOP = range(4)

_DIGITS = Context(prec=110, Emax=10**8, Emin=-(10**8))


def value_of(number: tuple[int, int]) -> Fraction:
    """The value of a finite number."""
    low, high = int(number[0]), int(number[1])
    size = low * Fraction(2) ** (max(high & 0x7FFF, 1) - BIAS - 63)
    return -size if high & 0x8000 else size


def exponent_of(value: Fraction) -> int:
    """That of the power of two which is at or next below |value|."""
    size = abs(value)
    guess = size.numerator.bit_length() - size.denominator.bit_length()
    return guess if size >= Fraction(2) ** guess else guess - 1


def rounded_whole(value: Fraction, rounding: int) -> int:
    """It as a whole number. Halves go to the even one."""
    if rounding == NEAREST:
        return round(value)
    if rounding == DOWN or (rounding == CHOP and value > 0):
        return floor(value)
    return -floor(-value)


def _at(value: Fraction, last: int, rounding: int) -> Fraction:
    """The multiple of 2^last that it is rounded to."""
    return rounded_whole(value / Fraction(2) ** last, rounding) * Fraction(2) ** last


def rounded_to(value: Fraction, rounding: int, bits: int, bias: int) -> tuple[Fraction | None, int]:
    """(the value in a format, None for infinity; status). value: not zero."""
    sized = _at(value, exponent_of(value) - bits + 1, rounding)
    if abs(sized) >= Fraction(2) ** (bias + 1):
        largest = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** bias
        if rounding == NEAREST or rounding == (UP if value > 0 else DOWN):
            return None, OVERFLOW | PRECISION | C1
        return largest if value > 0 else -largest, OVERFLOW | PRECISION
    tiny = abs(sized) < Fraction(2) ** (1 - bias)
    result = _at(value, max(exponent_of(value), 1 - bias) - bits + 1, rounding)
    if result == value:
        return result, 0
    status = PRECISION | (UNDERFLOW if tiny else 0) | (C1 if abs(result) > abs(value) else 0)
    return result, status


def encoded(value: Fraction | None, negative: bool) -> tuple[int, int]:
    """A value, or infinity, as a number."""
    sign = 0x8000 if negative else 0
    if value is None:
        return 1 << 63, sign | 0x7FFF
    if value == 0:
        return 0, sign
    exponent = max(exponent_of(value), 1 - BIAS)
    low = int(abs(value) / Fraction(2) ** (exponent - 63))
    return low, sign | (exponent + BIAS if low >> 63 else 0)


def number_of(value: Fraction, rounding: int) -> tuple[tuple[int, int], int]:
    """(the number that a value, not zero, is rounded to; status)."""
    result, status = rounded_to(value, rounding, 64, BIAS)
    return encoded(result, value < 0), status


# -- transcendental functions --------------------------------------------------------------------------------


def _is_power(value: Fraction) -> bool:
    return abs(value) == Fraction(2) ** exponent_of(value)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _sum(first: Decimal, next_term: Callable[[Decimal, int], Decimal]) -> Decimal:
    """The sum of terms, until they no longer count: next_term(term, k) gives the one after the k-th."""
    total, term, k = first, first, 0
    while term and term.adjusted() > total.adjusted() - 112:
        term, k = next_term(term, k), k + 1
        total += term
    return total


def _exp_minus_1(t: Decimal) -> Decimal:
    return _sum(t, lambda term, k: term * t / (k + 2))


def _sine(t: Decimal) -> Decimal:
    return _sum(t, lambda term, k: -term * t * t / ((2 * k + 2) * (2 * k + 3)))


def _cosine(t: Decimal) -> Decimal:
    return _sum(Decimal(1), lambda term, k: -term * t * t / ((2 * k + 1) * (2 * k + 2)))


def _log_1_plus(t: Decimal) -> Decimal:
    if abs(t) > Decimal("0.001"):
        return (1 + t).ln()
    return _sum(t, lambda term, k: -term * t * (k + 1) / (k + 2))


def _arctangent(t: Decimal) -> Decimal:
    halved = 0
    while abs(t) > Decimal("0.01"):
        t, halved = t / (1 + (1 + t * t).sqrt()), halved + 1
    return 2**halved * _sum(t, lambda term, k: -term * t * t * (2 * k + 1) / (2 * k + 3))


#: The pi that processors reduce by.
_PI = Fraction(0xC90FDAA22168C234C, 1 << 66)
#: Processors cut the first term of a power's series, and in tangents sine and cosine, for smaller exponents.
_SMALL = -2
#: Smaller exponents than these leave processors no trace of what follows the first term.
_TINY_SINE, _TINY_ANGLE, _FIRST_TERM = -68, -40, -68


def _at_angle(x: Fraction, more: int) -> Decimal:
    """The sine of x and so many quarter turns: turns by the pi of processors, the rest by the true one."""
    quarters = round(2 * x / _PI)
    rest, quarter = _decimal(x - quarters * _PI / 2), (quarters + more) % 4
    value = _cosine(rest) if quarter % 2 else _sine(rest)
    return -value if quarter > 1 else value


def f2xm1(x: Fraction) -> Fraction:
    with localcontext(_DIGITS):
        power = _decimal(x) * Decimal(2).ln()
        value, first = Fraction(_exp_minus_1(power)), x * _as_processors_keep(Fraction(Decimal(2).ln()))
        if exponent_of(x) < _FIRST_TERM:
            return first
        if exponent_of(x) >= _SMALL:
            return value
        return value - Fraction(power) + _as_processors_keep(first)


def fsin(x: Fraction) -> Fraction:
    if exponent_of(x) < _TINY_SINE:
        return x
    with localcontext(_DIGITS):
        return Fraction(_at_angle(x, 0))


def fcos(x: Fraction) -> Fraction:
    if exponent_of(x) < _TINY_SINE:
        return Fraction(1)
    with localcontext(_DIGITS):
        return Fraction(_at_angle(x, 1))


def fptan(x: Fraction) -> Fraction:
    if exponent_of(x) < _TINY_SINE:
        return x
    with localcontext(_DIGITS):
        sine, cosine = Fraction(_at_angle(x, 0)), Fraction(_at_angle(x, 1))
    if exponent_of(x - round(2 * x / _PI) * _PI / 2) < _SMALL:
        return _as_processors_keep(sine) / _as_processors_keep(cosine)
    return sine / cosine


def _as_processors_keep(value: Fraction) -> Fraction:
    """Cut down to 67 bits."""
    return _at(value, exponent_of(value) - 66, CHOP) if value else value


def fyl2x(x: Fraction, y: Fraction) -> Fraction:
    exponent = exponent_of(x)
    if x == Fraction(2) ** exponent:
        # A little short of a whole number below zero.
        return y * _as_processors_keep(
            exponent * (1 - Fraction(1, 1 << 120) if exponent < 0 else Fraction(1))
        )
    with localcontext(_DIGITS):
        return y * _as_processors_keep(Fraction(_decimal(x).ln() / Decimal(2).ln()))


def fyl2xp1(x: Fraction, y: Fraction) -> Fraction:
    if _is_power(1 + x):
        return fyl2x(1 + x, y)
    with localcontext(_DIGITS):
        return y * _as_processors_keep(Fraction(_log_1_plus(_decimal(x)) / Decimal(2).ln()))


def _acute(ratio: Fraction) -> Fraction:
    """The angle of a ratio, not above 1, which processors cut where it is small."""
    if ratio < Fraction(1, 16):
        ratio = _as_processors_keep(ratio)
    return ratio if exponent_of(ratio) < _TINY_ANGLE else Fraction(_arctangent(_decimal(ratio)))


def fpatan(x: Fraction, y: Fraction) -> Fraction:
    ratio = abs(y / x)
    with localcontext(_DIGITS):
        quarter_turn = 2 * _arctangent(Decimal(1))
        angle = _acute(ratio) if ratio <= 1 else Fraction(quarter_turn) - _acute(1 / ratio)
        angle = angle if x > 0 else Fraction(2 * quarter_turn) - angle
        return angle if y > 0 else -angle
