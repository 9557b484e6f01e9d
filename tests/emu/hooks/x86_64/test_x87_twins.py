"""Kernels of x87 arithmetic against naive twins: fractions, and decimals of 110 digits."""

import random
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import x87_twin as twin
from x87_instructions import LOADS, REMAINDERS, SCALING, STORES, TRANSCENDENTAL, Instruction
from x87_operands import Number, finite, kernel_number, near, shown

from emu.hooks.x86_64.helpers import load_constant
from emu.hooks.x86_64.helpers.extended import nan_of
from emu.hooks.x86_64.helpers.rounding import rounded

_NAMED = {str(one): one for one in (*REMAINDERS, *SCALING, *TRANSCENDENTAL, *STORES, *LOADS)}


def _small(number: Number) -> int:
    return twin.DENORMAL if number[1] & 0x7FFF == 0 and number[0] else 0


# -- rounding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", range(4))
def test_rounding_is_once_and_to_the_format(rounding: int) -> None:
    rng = random.Random(rounding)
    for k in range(1000):
        exponent = rng.choice([rng.randint(-16460, -16370), rng.randint(16370, 16390), rng.randint(-5, 5)])
        significand = rng.getrandbits(128) | 1 << 127
        zeros = rng.choice([0, 20, 62, 63, 64, 65, 90])
        significand = rng.choice([significand >> zeros << zeros, 2**128 - (1 << zeros), significand])
        negative = rng.random() < 0.5
        value = significand * Fraction(2) ** (exponent - 127) * (-1 if negative else 1)
        halves = np.uint64(significand & 2**64 - 1), np.uint64(significand >> 64)
        number, status = rounded(negative, np.int64(exponent), halves, np.uint64(rounding))
        expected = twin.number_of(value, rounding)
        assert ((int(number[0]), int(number[1])), int(status)) == expected, (
            f"{k}: {significand:#x} {exponent}"
        )


# -- NaNs ----------------------------------------------------------------------------------------------------

_QUIET, _QUIET_LARGER, _SIGNALLING, _SIGNALLING_LARGER = (
    (0xC000000000000001, 0x7FFF),
    (0xC000000000000002, 0xFFFF),
    (0x8000000000000001, 0x7FFF),
    (0x8000000000000003, 0xFFFF),
)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (_QUIET, _SIGNALLING_LARGER, _QUIET),
        (_SIGNALLING, _SIGNALLING_LARGER, (0xC000000000000003, 0xFFFF)),
        (_SIGNALLING, _QUIET_LARGER, _QUIET_LARGER),
        (_SIGNALLING, (1 << 63, 0x3FFF), (0xC000000000000001, 0x7FFF)),
        (_QUIET, _QUIET_LARGER, _QUIET_LARGER),
        (_QUIET, (_QUIET[0], 0xFFFF), _QUIET),
        (_QUIET, (1 << 63, 0x7FFF), _QUIET),
    ],
)
def test_the_nan_of_two_operands(a: Number, b: Number, expected: Number) -> None:
    """SDM volume 1, table 4-7."""
    for first, second in ((a, b), (b, a)):
        assert nan_of(kernel_number(first), kernel_number(second)) == expected


# -- remainders and scaling ----------------------------------------------------------------------------------


def _remainder(a: Number, b: Number, nearest: bool) -> tuple[Number, int]:
    dividend, divisor = abs(twin.value_of(a)), abs(twin.value_of(b))
    apart = twin.exponent_of(dividend) - twin.exponent_of(divisor)
    status, whole = _small(a) | _small(b), apart < 64
    if whole:
        quotient = round(dividend / divisor) if nearest else dividend // divisor
        for bit, code in enumerate((twin.C1, twin.C3, twin.C0)):
            status |= code if quotient >> bit & 1 else 0
        rest = dividend - quotient * divisor
    else:
        status |= twin.C2
        rest = dividend % (divisor * 2 ** (apart - 32 - apart % 32))
    negative = bool(a[1] & 0x8000) != (rest < 0)
    return twin.encoded(rest, negative), status


@pytest.mark.parametrize("name", ["fprem", "fprem1"])
def test_remainders_are_exact(name: str) -> None:
    rng = random.Random(name)
    for k in range(1500):
        b = finite(rng, -16445 if k % 3 else -300, 16383 if k % 3 else 300)
        a = near(rng, b, rng.choice([1, 3, 66, 140, 20000]))
        found, _, status = _NAMED[name].of_kernel((b, a), 0)
        expected = _remainder(a, b, name == "fprem1")
        assert (found, status) == expected, f"{name} seed {name!r}, {k}: {shown(a)} by {shown(b)}"


@pytest.mark.parametrize("rounding", range(4))
def test_scaling_rounds_only_what_does_not_fit(rounding: int) -> None:
    rng = random.Random(rounding)
    for k in range(400):
        a, b = finite(rng), finite(rng, -3, 15)
        whole = int(twin.value_of(b))
        expected, status = twin.number_of(twin.value_of(a) * Fraction(2) ** whole, rounding)
        found, _, given = _NAMED["fscale"].of_kernel((b, a), rounding)
        assert (found, given) == (expected, status | _small(a) | _small(b)), f"{k}: {shown(a)} {shown(b)}"


def test_significand_and_exponent_make_the_number_again() -> None:
    rng = random.Random(0)
    for _ in range(300):
        number = finite(rng)
        significand, exponent, status = _NAMED["fxtract"].of_kernel((number, number), 0)
        assert exponent is not None
        value = twin.value_of(significand)
        assert 1 <= abs(value) < 2
        assert value * Fraction(2) ** int(twin.value_of(exponent)) == twin.value_of(number), shown(number)
        assert status == _small(number)


# -- formats -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", range(4))
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_whole_numbers_fit_or_are_indefinite(bits: int, rounding: int) -> None:
    rng = random.Random(bits + rounding)
    for _ in range(300):
        number = finite(rng, -3, bits + 1)
        value = twin.value_of(number)
        whole = twin.rounded_whole(value, rounding)
        found, _, status = _NAMED[f"fistp m{bits}"].of_kernel((number, number), rounding)
        if -(1 << bits - 1) <= whole < 1 << bits - 1:
            inexact = twin.PRECISION | (twin.C1 if abs(whole) > abs(value) else 0)
            expected = whole & (1 << bits) - 1, 0 if whole == value else inexact
        else:
            expected = 1 << bits - 1, twin.INVALID
        assert (found[0], status) == expected, f"{shown(number)} to {bits} bits"


@pytest.mark.parametrize("rounding", range(4))
def test_decimals_are_digits_and_come_back(rounding: int) -> None:
    rng = random.Random(rounding)
    for _ in range(300):
        number = finite(rng, -2, 61)
        whole = twin.rounded_whole(twin.value_of(number), rounding)
        found, _, status = _NAMED["fbstp"].of_kernel((number, number), rounding)
        if abs(whole) >= 10**18:
            assert (found, status) == ((0xC000000000000000, 0xFFFF), twin.INVALID)
            continue
        digits = int(str(abs(whole)), 16)
        assert found == (digits & 2**64 - 1, digits >> 64 | number[1] & 0x8000), shown(number)
        again, _, _ = _NAMED["fbld"].of_kernel((found, found), rounding)
        assert again == twin.encoded(Fraction(whole), bool(number[1] & 0x8000))


@pytest.mark.parametrize("rounding", range(4))
@pytest.mark.parametrize(("width", "bits", "bias"), [(32, 24, 127), (64, 53, 1023)])
def test_narrower_formats_round_once(width: int, bits: int, bias: int, rounding: int) -> None:
    rng = random.Random(width + rounding)
    for _ in range(400):
        number = finite(rng, *rng.choice([(-3, 3), (-bias - bits - 3, 2 - bias), (bias - 2, bias + 2)]))
        value = twin.value_of(number)
        result, status = twin.rounded_to(value, rounding, bits, bias)
        found, _, given = _NAMED[f"fstp m{width}"].of_kernel((number, number), rounding)
        raw = np.array([found[0]], f"<u{width // 8}").view(f"<f{width // 8}")[0]
        expected = None if np.isinf(raw) else Fraction(float(raw))
        assert (expected, given, bool(np.signbit(raw))) == (result, status, value < 0), shown(number)
        if result:
            again, _, _ = _NAMED[f"fld m{width}"].of_kernel((found, found), rounding)
            assert again == twin.encoded(result, value < 0)


# -- transcendental functions --------------------------------------------------------------------------------


def _angle(rng: random.Random) -> Number:
    """Often close to a multiple of a quarter turn."""
    if rng.random() < 0.3:
        turns = rng.randint(1, 1 << rng.randint(1, 60)) * Fraction(0xC90FDAA22168C234C, 1 << 67)
        number, _ = twin.number_of(turns, rng.randint(0, 3))
        return number
    return finite(rng, *rng.choice([(-4, 4), (-75, 62), (-16445, 0)]))


def _close_to_one(rng: random.Random) -> Number:
    offset = Fraction(rng.getrandbits(rng.randint(1, 60)) + 1, 1 << 63)
    return twin.number_of(1 + offset if rng.random() < 0.5 else 1 - offset / 2, 0)[0]


def _logarithm(rng: random.Random) -> Number:
    low, high = (
        _close_to_one(rng) if rng.random() < 0.3 else finite(rng, *rng.choice([(-3, 3), (-16445, 16383)]))
    )
    return low, high & 0x7FFF


def _one_and(rng: random.Random) -> Number:
    number = finite(rng, *rng.choice([(-3, -1), (-80, 70), (-16445, 0)]))
    return number if twin.value_of(number) > -1 else (number[0], number[1] & 0x7FFF)


def _power(rng: random.Random) -> Number:
    return finite(rng, *rng.choice([(-3, -1), (-70, -1), (-16445, -1)]))


def _any(rng: random.Random) -> Number:
    return finite(rng, *rng.choice([(-3, 3), (-100, 100), (-16445, 16383)]))


_OPERANDS: dict[str, tuple[Callable[[random.Random], Number], Callable[..., Fraction]]] = {
    "f2xm1": (_power, twin.f2xm1),
    "fsin": (_angle, twin.fsin),
    "fcos": (_angle, twin.fcos),
    "fptan": (_angle, twin.fptan),
    "fyl2x": (_logarithm, twin.fyl2x),
    "fyl2xp1": (_one_and, twin.fyl2xp1),
    "fpatan": (_any, twin.fpatan),
}


def _is_rounded_once(instruction: Instruction, seed: int, n: int) -> None:
    source, function = _OPERANDS[str(instruction)]
    rng = random.Random(seed)
    for k in range(n):
        st0, rounding = source(rng), rng.randint(0, 3)
        st1 = near(rng, st0, 4) if str(instruction) == "fpatan" and k % 2 else _any(rng)
        at = f"{instruction} seed {seed}, {k}: {shown(st0)} {shown(st1)} rounding {rounding}"
        operands = [twin.value_of(number) for number in (st0, st1)][: instruction.loaded]
        value = function(*operands)
        if value == 0:
            continue
        expected, status = twin.number_of(value, rounding)
        status |= twin.PRECISION | (0 if expected[1] & 0x7FFF else twin.UNDERFLOW)
        status |= _small(st0) | (_small(st1) if instruction.loaded == 2 else 0)
        first, second, given = instruction.of_kernel((st1, st0), rounding)
        assert (first if second is None else second, given) == (expected, status), at


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", _OPERANDS)
def test_transcendental_functions_are_rounded_once(name: str) -> None:
    _is_rounded_once(_NAMED[name], 1, 150)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("name", _OPERANDS)
def test_transcendental_functions_are_rounded_once_at_length(name: str, seed: int) -> None:
    _is_rounded_once(_NAMED[name], seed, 3000)


@pytest.mark.parametrize("rounding", range(4))
def test_constants_are_rounded_as_asked(rounding: int) -> None:
    pi = twin.fpatan(Fraction(1), Fraction(1)) * 4
    to_e = twin.fyl2x(Fraction(10), Fraction(1))
    for kernel, value in (
        (load_constant.fldpi, pi),
        (load_constant.fldl2t, to_e),
        (load_constant.fldlg2, 1 / to_e),
    ):
        number, _ = twin.number_of(value, rounding)
        assert kernel(np.uint64(rounding)) == number


@pytest.mark.parametrize("rounding", range(4))
def test_sine_and_cosine_together_are_those_of_each(rounding: int) -> None:
    rng = random.Random(rounding)
    for _ in range(100):
        number = _angle(rng)
        sine, cosine = (_NAMED[name].of_kernel((number, number), rounding) for name in ("fsin", "fcos"))
        both = _NAMED["fsincos"].of_kernel((number, number), rounding)
        assert both == (cosine[0], sine[0], sine[2] | cosine[2]), shown(number)
