"""Arithmetic of SSE (SDM volume 1, chapter 11): which NaN results, small numbers as zero, `dpps`, `dppd`.

The emulator takes the NaN that x87 instructions would, flushes small results of x87 instructions where a
program asks for it of SSE ones, and adds the products of `dpps` one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from emu.hooks.x86_64.helpers.mxcsr import (
    DENORMAL,
    FLUSHED,
    INEXACT,
    INVALID,
    KEPT,
    NOTHING,
    TOLD,
    UNDERFLOW,
    flag,
    has_flags,
    settle,
)
from emu.hooks.x86_64.helpers.state import (
    FLUSHES,
    RAISED,
    RECIPROCALS,
    RESULT,
    SSE_STATUS,
    ZERO_OPERANDS,
    at,
    note,
)
from emu.native.functions import Native
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke32, poke64

_ADDRESS = types.uint64
OF_TWO = types.void(_ADDRESS, _ADDRESS, _ADDRESS)
OF_TWO_BY = types.void(_ADDRESS, _ADDRESS, _ADDRESS, types.uint32)
_NO, _SINGLES_ZERO = np.uint8(0), np.uint32(0)
_EIGHT = np.uint64(8)


class Format:
    """Of numbers: bytes, sign bit, infinity's bits, the bit that makes a NaN a quiet one; how they are read
    and written; the smallest normal one, 2**64, and their product; what takes two of them and the modes and
    gives one."""

    def __init__(self, name: str, number: Any, mantissa: int, read: Any, write: Any) -> None:
        self.name, self.size, self.zero = name, number(0).nbytes, number(0)
        self.sign = number(1 << 8 * self.size - 1)
        self.magnitude = number(int(self.sign) - 1)
        self.infinity = number(int(self.magnitude) + 1 - (1 << mantissa))
        self.quiet = number(1 << mantissa - 1)
        self.smallest = number(1 << mantissa)
        bias = int(self.infinity) >> mantissa + 1
        self.scale = number(bias + 64 << mantissa)
        self.scaled_smallest = number(65 << mantissa)
        self.read, self.write = read, write
        kind = from_dtype(np.dtype(number))
        self.binary = kind(kind, kind, _ADDRESS)


SINGLES = Format("float32", np.uint32, 23, peek32, poke32)
DOUBLES = Format("float64", np.uint64, 52, peek64, poke64)


@njit
def flushed(status):
    """Notes that a result is tiny (not where that is told of inexact results alone). Returns whether it is zero
    instead (SDM volume 1, 10.2.3.3)."""
    if peek8(at(status, FLUSHES)) == TOLD:
        flag(status, UNDERFLOW)
        return False
    flag(status, UNDERFLOW | INEXACT)
    return True


def _tiny(of: Format, name: str, theirs: Any) -> Any:
    """Whether a result that is the smallest normal number was tiny: it is with an exponent that has no limit
    that rounding decides (SDM volume 1, 4.9.1.5). A sum so small is exact."""
    scale, magnitude, scaled_smallest = of.scale, of.magnitude, of.scaled_smallest
    multiply = types.ExternalFunction(f"{of.name}_mul_x86_64", of.binary)
    divides, multiplies = name == "div", name == "mul"

    @njit
    def tiny(a, b, status):
        if multiplies and b & magnitude < a & magnitude:
            a, b = b, a
        if multiplies or divides:
            found = peek8(at(status, RAISED))
            scaled = theirs(multiply(a, scale, status), b, status)
            poke8(at(status, RAISED), found)
            return scaled & magnitude < scaled_smallest
        return False

    return tiny


def _arithmetic(of: Format, name: str) -> Any:
    """Of two NaNs, the first, made quiet (SDM volume 1, table 4-7); of a tiny result, zero, if that is asked
    for (10.2.3.3)."""
    theirs = types.ExternalFunction(f"{of.name}_{name}_x86_64", of.binary)
    magnitude, infinity, quiet, sign, smallest = of.magnitude, of.infinity, of.quiet, of.sign, of.smallest
    tiny, zero = _tiny(of, name, theirs), of.zero

    @njit
    def ours(a, b, status):
        if a & magnitude > infinity and b & magnitude > infinity:
            if a & b & quiet == zero:
                flag(status, INVALID)
            return a | quiet
        found = theirs(a, b, status)
        size = found & magnitude
        if size <= smallest and size != zero and peek8(at(status, FLUSHES)) != KEPT:
            if size < smallest or tiny(a, b, status):
                return found & sign if flushed(status) else found
        return found

    return ours


_NAMES = ("add", "sub", "mul", "div")
_OF_SINGLES = {name: _arithmetic(SINGLES, name) for name in _NAMES}
_OF_DOUBLES = {name: _arithmetic(DOUBLES, name) for name in _NAMES}
_NARROWED = types.uint32(types.uint64, _ADDRESS)
_narrowed = types.ExternalFunction("float64_to_float32_x86_64", _NARROWED)
_scaled = types.ExternalFunction("float64_mul_x86_64", DOUBLES.binary)
_SIGN, _MAGNITUDE, _SMALLEST, _SCALED = (
    SINGLES.sign, SINGLES.magnitude, SINGLES.smallest, SINGLES.scaled_smallest,
)  # fmt: skip
_SCALE = DOUBLES.scale


@njit
def _narrowed_is_tiny(a, status):
    found = peek8(at(status, RAISED))
    scaled = _narrowed(_scaled(a, _SCALE, status), status)
    poke8(at(status, RAISED), found)
    return scaled & _MAGNITUDE < _SCALED


@njit
def narrowed(a, status):
    """A double as a single."""
    found = _narrowed(a, status)
    size = found & _MAGNITUDE
    if size <= _SMALLEST and size != _SINGLES_ZERO and peek8(at(status, FLUSHES)) != KEPT:
        if size < _SMALLEST or _narrowed_is_tiny(a, status):
            return found & _SIGN if flushed(status) else found
    return found


def _denormals(of: Format, divides: bool) -> Any:
    """Whether an operation on two numbers finds a denormal one: not where there is a NaN, or a division by
    zero (SDM volume 1, 4.9.2), or small operands are zero."""
    magnitude, infinity, smallest, zero = of.magnitude, of.infinity, of.smallest, of.zero

    @njit
    def counts(a, b, status):
        if a > infinity or b > infinity or (divides and b == zero):
            return NOTHING
        return DENORMAL if peek8(at(status, ZERO_OPERANDS)) == _NO else NOTHING

    @njit
    def denormal(a, b, status):
        a, b = a & magnitude, b & magnitude
        if (a < smallest and a != zero) or (b < smallest and b != zero):
            return counts(a, b, status)
        return NOTHING

    return denormal


#: Functions of two numbers and the address of a `float_status`: `DENORMAL` or `NOTHING`.
denormal_singles, denormal_doubles = (_denormals(of, divides=False) for of in (SINGLES, DOUBLES))


@njit
def copy_result(env, target, size):
    """The result of an instruction, of so many bytes (4, 8 or 16), to where it belongs."""
    result = at(env, RESULT)
    if size == 4:
        poke32(target, peek32(result))
        return
    poke64(target, peek64(result))
    if size == 16:
        poke64(target + _EIGHT, peek64(result + _EIGHT))


def _instruction(of: Format, name: str, operation: Any, lanes: int) -> Any:
    """`addss` and its like."""
    read, write, size = of.read, of.write, of.size
    denormal = _denormals(of, divides=name == "div")

    @njit
    def of_one(env, target, operand, caller):
        status = at(env, SSE_STATUS)
        a, b = read(target), read(operand)
        found = operation(a, b, status)
        settle(env, denormal(a, b, status), caller)
        write(target, found)

    @njit
    def of_all(env, target, operand, caller):
        status, result, more = at(env, SSE_STATUS), at(env, RESULT), NOTHING
        for lane in range(lanes):
            place = np.uint64(lane * size)
            a, b = read(target + place), read(operand + place)
            write(result + place, operation(a, b, status))
            more |= denormal(a, b, status)
        settle(env, more, caller)
        copy_result(env, target, 16)

    return of_one if lanes == 1 else of_all


def _dot_product(of: Format, add: Any, multiply: Any, lanes: int) -> Any:
    """`dpps`, `dppd`: products are added by pairs, then the pairs (SDM volume 2, DPPS)."""
    read, write, size, zero = of.read, of.write, of.size, of.zero
    denormal = denormal_singles if of is SINGLES else denormal_doubles

    @njit
    def product(first, second, lane, immediate, status):
        if (immediate >> (4 + lane)) & 1 == 0:
            return zero
        place = np.uint64(lane * size)
        return multiply(read(first + place), read(second + place), status)

    @njit
    def total(a, b, c, d, status):
        return add(a, b, status) if lanes == 2 else add(add(a, b, status), add(c, d, status), status)

    @njit
    def products_denormal(first, second, immediate, status):
        more = NOTHING
        for lane in range(lanes):
            if (immediate >> (4 + lane)) & 1:
                place = np.uint64(lane * size)
                more |= denormal(read(first + place), read(second + place), status)
        return more

    @njit
    def sums_denormal(a, b, c, d, status):
        return denormal(a, b, status) | (denormal(c, d, status) if lanes == 4 else NOTHING)

    @njit
    def ours(env, first, second, immediate, caller):
        status, immediate, result = at(env, SSE_STATUS), np.int64(immediate), at(env, RESULT)
        a = product(first, second, 0, immediate, status)
        b = product(first, second, 1, immediate, status)
        c = product(first, second, 2, immediate, status) if lanes == 4 else zero
        d = product(first, second, 3, immediate, status) if lanes == 4 else zero
        flags = has_flags(env)
        if flags:
            # Each step may raise: the SDM has exceptions "determined separately" for each.
            settle(env, products_denormal(first, second, immediate, status), caller)
            p, q = add(a, b, status), add(c, d, status) if lanes == 4 else zero
            settle(env, sums_denormal(a, b, c, d, status), caller)
            if lanes == 4:
                add(p, q, status)
                settle(env, denormal(p, q, status), caller)
        for lane in range(lanes):
            # Every lane adds its own product and its neighbour's: of two NaNs each takes another.
            swapped = (lane & 1 == 0) == (lanes == 4)
            p, q = (b, a) if swapped else (a, b)
            r, s = (d, c) if swapped else (c, d)
            here = total(r, s, p, q, status) if lane & 2 else total(p, q, r, s, status)
            write(result + np.uint64(lane * size), here if (immediate >> lane) & 1 else zero)
        copy_result(env, first, 16)

    return ours


def _reciprocal(name: str) -> Any:
    """The emulator's, exact where a processor has 12 bits. Raises nothing (SDM volume 2, RCPPS)."""
    theirs = types.ExternalFunction(f"{name}_x86_64", OF_TWO)

    @njit
    def ours(env, target, operand):
        note(env, RECIPROCALS)
        place = at(env, SSE_STATUS + RAISED)
        found = peek8(place)
        theirs(env, target, operand)
        poke8(place, found)

    return ours


_RECIPROCALS = ("rcpps", "rcpss", "rsqrtps", "rsqrtss")


def _instructions() -> dict[str, Native]:
    kinds = (("ps", SINGLES, _OF_SINGLES), ("pd", DOUBLES, _OF_DOUBLES))
    return {
        f"helper_{name}{kind[0] if packed else 's'}{kind[1]}": Native(
            _instruction(of, name, operations[name], 16 // of.size if packed else 1),
            OF_TWO,
            caller=True,
            since=2,
        )
        for kind, of, operations in kinds
        for name in _NAMES
        for packed in (True, False)
    }


#: Ours by the emulator's names.
FLOATS = {
    **{f"float32_{name}": Native(kernel, SINGLES.binary) for name, kernel in _OF_SINGLES.items()},
    **{f"float64_{name}": Native(kernel, DOUBLES.binary) for name, kernel in _OF_DOUBLES.items()},
    "float64_to_float32": Native(narrowed, _NARROWED),
    **_instructions(),
    "helper_dpps_xmm": Native(_dot_product(SINGLES, _OF_SINGLES["add"], _OF_SINGLES["mul"], 4), OF_TWO_BY, True),
    "helper_dppd_xmm": Native(_dot_product(DOUBLES, _OF_DOUBLES["add"], _OF_DOUBLES["mul"], 2), OF_TWO_BY, True),
    **{f"helper_{name}": Native(_reciprocal(f"helper_{name}"), OF_TWO) for name in _RECIPROCALS},
}
