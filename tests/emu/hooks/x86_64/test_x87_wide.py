"""Whole numbers of 128 bits, and reals of 128 significant bits, against Python's own numbers."""

import random
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from x87_twin import exponent_of

from emu.hooks.x86_64.helpers import wide
from emu.hooks.x86_64.helpers.real import Real, over, plus, times

_ALL = 2**128 - 1
Pair = tuple[np.uint64, np.uint64]


def _pair(number: int) -> Pair:
    return np.uint64(number & 2**64 - 1), np.uint64(number >> 64)


def _number(pair: Pair) -> int:
    return int(pair[0]) | int(pair[1]) << 64


def _numbers(rng: random.Random) -> Iterator[int]:
    """Of all lengths, with long runs of ones and zeros among them."""
    while True:
        number = rng.getrandbits(rng.randint(1, 128))
        yield rng.choice(
            [number, number << rng.randint(0, 60) & _ALL, _ALL - number, (1 << rng.randint(0, 127))]
        )


@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_are_python_s(seed: int) -> None:
    rng = random.Random(seed)
    source = _numbers(rng)
    for _ in range(400):
        a, b, n = next(source), next(source), rng.randint(0, 127)
        at = f"seed {seed}: {a:#x} {b:#x} {n}"
        total, carry = wide.add(_pair(a), _pair(b))
        assert (_number(total), carry) == (a + b & _ALL, a + b > _ALL), at
        assert _number(wide.subtract(_pair(a), _pair(b))) == a - b & _ALL, at
        assert wide.below(_pair(a), _pair(b)) == (a < b), at
        assert _number(wide.shift_left(_pair(a), np.uint64(n))) == a << n & _ALL, at
        assert _number(wide.shift_right(_pair(a), np.uint64(n))) == a >> n, at
        assert wide.leading_zeros(_pair(a)) == 128 - a.bit_length(), at
        assert _number(wide.multiply_upper(_pair(a), _pair(b))) == a * b >> 128, at
        low, high = np.uint64(a & 2**64 - 1), np.uint64(b >> 64)
        assert _number(wide.multiply(low, high)) == int(low) * int(high), at


@pytest.mark.parametrize("seed", range(3))
def test_a_sticky_shift_keeps_that_something_went(seed: int) -> None:
    rng = random.Random(seed)
    source = _numbers(rng)
    for _ in range(400):
        a, n = next(source), rng.choice([rng.randint(0, 140), 2**40])
        lost = a & (1 << min(n, 200)) - 1 != 0
        found = _number(wide.shift_right_sticky(_pair(a), np.uint64(n)))
        assert found == a >> min(n, 200) | lost, f"seed {seed}: {a:#x} {n}"


@pytest.mark.parametrize("seed", range(3))
def test_division_gives_digits_and_the_rest(seed: int) -> None:
    rng = random.Random(seed)
    source = _numbers(rng)
    for _ in range(200):
        b = next(source) or 1
        a, bits = next(source) % b, rng.randint(0, 128)
        quotient, rest = wide.divide(_pair(a), _pair(b), bits)
        expected = divmod(a << bits, b)
        assert (_number(quotient), _number(rest)) == expected, f"seed {seed}: {a:#x} {b:#x} {bits}"


def _real(rng: random.Random) -> tuple[Real, Fraction]:
    significand = rng.getrandbits(128) | 1 << 127
    if rng.random() < 0.3:
        significand = significand >> 100 << 100
    exponent, negative = rng.choice([rng.randint(-5, 5), rng.randint(-200, 200)]), rng.random() < 0.5
    value = significand * Fraction(2) ** (exponent - 127)
    return Real(negative, np.int64(exponent), _pair(significand)), -value if negative else value


def _value(real: Real) -> Fraction:
    size = _number(real.significand) * Fraction(2) ** (int(real.exponent) - 127)
    return -size if real.negative else size


@pytest.mark.parametrize("seed", range(3))
def test_reals_are_off_by_two_units_at_most(seed: int) -> None:
    rng = random.Random(seed)
    for k in range(300):
        (a, of_a), (b, of_b) = _real(rng), _real(rng)
        total = plus(a, b)
        for found, expected in ((times(a, b), of_a * of_b), (over(a, b), of_a / of_b), (total, of_a + of_b)):
            if expected == 0:
                assert _value(found) == 0
                continue
            larger = max(a.exponent, b.exponent) if found is total else exponent_of(expected)
            unit = Fraction(2) ** (int(larger) - 127)
            assert abs(_value(found) - expected) < 2 * unit, f"seed {seed}, {k}: {a} {b}"


def test_a_sum_shows_what_it_drops() -> None:
    one, tiny = Real(False, np.int64(0), _pair(1 << 127)), Real(True, np.int64(-500), _pair(1 << 127))
    assert _number(plus(one, tiny).significand) == _ALL - 1
    assert _number(plus(one, Real(False, tiny.exponent, tiny.significand)).significand) == 1 << 127 | 1
