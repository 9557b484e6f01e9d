"""FADD, FSUB, FMUL, FDIV, FSQRT, FRNDINT and comparisons: kernels against fractions, in all modes."""

import random
from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
import x87_twin as twin
from engine_suite import SOAK
from x87_operands import Number, anything, finite, kernel_number, near, shown

from emu.hooks.x86_64.helpers.exceptions import arithmetic
from emu.hooks.x86_64.helpers.exceptions.comparison import compared
from emu.hooks.x86_64.helpers.formats import to_double, to_single

#: Precision control, and the bits that it asks for; exceptions that are not masked.
_PRECISIONS = {0: 24, 0x200: 53, 0x300: 64}
_UNMASKED = (0, twin.OVERFLOW, twin.UNDERFLOW, twin.OVERFLOW | twin.UNDERFLOW)
_EXACT: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fsubr": lambda a, b: b - a,
    "fmul": lambda a, b: a * b,
    "fdiv": lambda a, b: a / b,
    "fdivr": lambda a, b: b / a,
}


def _scaled(value: Fraction, rounding: int, bits: int, unmasked: int) -> tuple[Fraction, int]:
    """(the value to be rounded, the status that changing its exponent leaves)."""
    unbounded, _ = twin.rounded_to(value, rounding, bits, 1 << 20)
    assert unbounded is not None
    if unmasked & twin.OVERFLOW and abs(unbounded) >= Fraction(2) ** (twin.BIAS + 1):
        return value / Fraction(2) ** 24576, twin.OVERFLOW
    if unmasked & twin.UNDERFLOW and abs(unbounded) < Fraction(2) ** (1 - twin.BIAS):
        return value * Fraction(2) ** 24576, twin.UNDERFLOW
    return value, 0


def _expected(value: Fraction, rounding: int, bits: int, unmasked: int) -> tuple[Number, int]:
    value, status = _scaled(value, rounding, bits, unmasked)
    result, more = twin.rounded_to(value, rounding, bits, twin.BIAS)
    return twin.encoded(result, value < 0), status | more


def _small(*numbers: Number) -> int:
    return twin.DENORMAL if any(high & 0x7FFF == 0 and low for low, high in numbers) else 0


def _pair(rng: random.Random) -> tuple[Number, Number]:
    ranges = rng.choice([(-4, 4), (-70, 70), (-16445, -16300), (16300, 16383), (-16445, 16383)])
    a = finite(rng, *ranges)
    return a, near(rng, a, rng.choice([0, 1, 3, 66, 130])) if rng.random() < 0.7 else finite(rng, *ranges)


def _modes(rng: random.Random) -> tuple[int, int, int, np.uint64]:
    rounding, (control, bits) = rng.randrange(4), rng.choice([*_PRECISIONS.items()])
    unmasked = rng.choice(_UNMASKED)
    return rounding, bits, unmasked, np.uint64(rounding | control | unmasked)


@pytest.mark.parametrize("name", _EXACT)
@pytest.mark.sampled(1)
def test_arithmetic_is_exact_and_rounded_once(name: str) -> None:
    rng, kernel = random.Random(name), getattr(arithmetic, name)
    for k in range(500 * SOAK):
        (a, b), (rounding, bits, unmasked, modes) = _pair(rng), _modes(rng)
        number, status = kernel(kernel_number(a), kernel_number(b), modes)
        value = _EXACT[name](twin.value_of(a), twin.value_of(b))
        if value == 0:
            assert (int(number[0]), int(number[1])) == (0, 0x8000 if rounding == twin.DOWN else 0)
            continue
        expected = _expected(value, rounding, bits, unmasked)
        found = (int(number[0]), int(number[1])), int(status) & ~twin.DENORMAL
        assert found == expected, f"{name} {k}: {shown(a)} {shown(b)} modes {int(modes):#x}"
        assert int(status) & twin.DENORMAL == _small(a, b)


@pytest.mark.soak
def test_square_roots_are_rounded_once() -> None:
    rng = random.Random(1)
    for k in range(500 * SOAK):
        a, (rounding, bits, unmasked, modes) = _pair(rng)[0], _modes(rng)
        a = (a[0], a[1] & 0x7FFF)
        if rng.random() < 0.3:
            root = rng.getrandbits(32) | 1 << 31
            a = root * root << (1 if root * root < 1 << 63 else 0), 0x3FFF + 2 * rng.randrange(9)
        number, status = arithmetic.fsqrt(kernel_number(a), modes)
        value, exact = _root(twin.value_of(a))
        expected, more = _expected(value, rounding, bits, unmasked)
        if not exact:
            more |= twin.PRECISION
        found = (int(number[0]), int(number[1])), int(status)
        assert found == (expected, more | _small(a)), f"{k}: {shown(a)} modes {int(modes):#x}"


def _root(value: Fraction) -> tuple[Fraction, bool]:
    """(a root cut behind 200 bits, with one more bit for what was cut; whether nothing was)."""
    shift = 400 - 2 * (twin.exponent_of(value) // 2)
    scaled = value * Fraction(2) ** shift
    assert scaled.denominator == 1
    whole = isqrt(scaled.numerator)
    exact = whole * whole == scaled.numerator
    return Fraction(2 * whole + (not exact), 2) / Fraction(2) ** (shift // 2), exact


@pytest.mark.parametrize("rounding", range(4))
def test_whole_numbers_are_rounded_to(rounding: int) -> None:
    rng = random.Random(rounding)
    for k in range(250 * SOAK):
        a = finite(rng, *rng.choice([(-3, 66), (-16445, 16383)]))
        if rng.random() < 0.3:
            whole = rng.getrandbits(62) | 1 << 61
            a = (2 * whole + 1) << 1, 0x3FFF + 61
        number, status = arithmetic.frndint(kernel_number(a), np.uint64(rounding))
        value = twin.value_of(a)
        expected = Fraction(twin.rounded_whole(value, rounding))
        more = twin.PRECISION if expected != value else 0
        more |= twin.C1 if abs(expected) > abs(value) else 0
        found = (int(number[0]), int(number[1])), int(status)
        assert found == (twin.encoded(expected, value < 0), more | _small(a)), f"{k}: {shown(a)}"


def test_numbers_are_ordered() -> None:
    rng = random.Random(3)
    for k in range(700 * SOAK):
        a, b = _pair(rng) if k % 2 else (anything(rng), anything(rng))
        if any(high & 0x7FFF == 0x7FFF or (high & 0x7FFF and not low >> 63) for low, high in (a, b)):
            continue
        x, y = twin.value_of(a), twin.value_of(b)
        codes = twin.C3 if x == y else twin.C0 if x < y else 0
        assert compared(kernel_number(a), kernel_number(b), False) == (codes, _small(a, b)), (
            f"{k}: {shown(a)} {shown(b)}"
        )


@pytest.mark.parametrize(("bits", "bias", "store"), [(24, 127, to_single), (53, 1023, to_double)])
def test_a_store_that_is_tiny_says_so_where_that_is_not_masked(
    bits: int, bias: int, store: Callable[..., tuple[np.uint64, np.uint64]]
) -> None:
    """Also where it is exact (SDM volume 1, 8.5.5)."""
    tiny, normal = (1 << 63, 16383 - bias), (1 << 63, 16384 - bias)
    for number, expected in ((tiny, twin.UNDERFLOW), (normal, 0)):
        assert int(store(kernel_number(number), np.uint64(0))[1]) == 0
        assert int(store(kernel_number(number), np.uint64(twin.UNDERFLOW))[1]) == expected
