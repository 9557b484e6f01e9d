"""Arithmetic of two numbers as SSE instructions do it: which NaN results, what becomes of tiny results.

The emulator takes the NaN that x87 instructions would, flushes small results of x87 instructions where a
program asks for it of SSE ones, and does not know of exceptions that are not masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.sse.mxcsr import (
    FLUSHED,
    HUGE_TOLD,
    INEXACT,
    INVALID,
    NOTHING,
    OVERFLOW,
    TINY_TOLD,
    UNDERFLOW,
    flag,
)
from emu.hooks.x86_64.helpers.state import FLUSHES, RAISED, at
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke32, poke64

_ADDRESS = types.uint64


class Format:
    """Of numbers: bytes, sign bit, infinity's bits, the bit that makes a NaN a quiet one; how they are read
    and written; one; the smallest normal one, 2**64, and their product; what takes two of them and the modes
    and gives one."""

    def __init__(self, name: str, number: Any, mantissa: int, read: Any, write: Any) -> None:
        self.name, self.size, self.zero = name, number(0).nbytes, number(0)
        self.sign = number(1 << 8 * self.size - 1)
        self.magnitude = number(int(self.sign) - 1)
        self.infinity = number(int(self.magnitude) + 1 - (1 << mantissa))
        self.quiet = number(1 << mantissa - 1)
        self.smallest = number(1 << mantissa)
        bias = int(self.infinity) >> mantissa + 1
        self.one = number(bias << mantissa)
        self.scale = number(bias + 64 << mantissa)
        self.scaled_smallest = number(65 << mantissa)
        self.read, self.write = read, write
        kind = getattr(types, np.dtype(number).name)
        self.binary = kind(kind, kind, _ADDRESS)


SINGLES = Format("float32", np.uint32, 23, peek32, poke32)
DOUBLES = Format("float64", np.uint64, 52, peek64, poke64)


def _emulators(name: str) -> Any:
    """The emulator's own."""
    of = SINGLES if name.startswith(SINGLES.name) else DOUBLES
    return types.ExternalFunction(f"{name}_x86_64", of.binary)


#: The emulator's functions, by the name of their format and their own.
THEIRS = {
    of.name: {name: _emulators(f"{of.name}_{name}") for name in ("add", "sub", "mul", "div")}
    for of in (SINGLES, DOUBLES)
}
NARROWED = types.uint32(types.uint64, _ADDRESS)
_theirs_narrowed = types.ExternalFunction("float64_to_float32_x86_64", NARROWED)


@njit
def _narrowed(a, b, status):
    """A double as a single: an operation like others, whose second operand means nothing."""
    return _theirs_narrowed(a, status)


def _tiny(result: Format, of: Format, name: str, theirs: Any) -> Any:
    """Whether a result that is the smallest normal number was tiny: it is with an exponent that has no limit
    that rounding decides (SDM volume 1, 4.9.1.5). A sum so small is exact."""
    scale, magnitude, scaled_smallest = of.scale, of.magnitude, result.scaled_smallest
    multiply, size = THEIRS[of.name]["mul"], result.magnitude
    sums, multiplies = name in ("add", "sub"), name == "mul"

    @njit
    def tiny(a, b, status):
        if sums:
            return False
        if multiplies and b & magnitude < a & magnitude:
            a, b = b, a
        found = peek8(at(status, RAISED))
        scaled = theirs(multiply(a, scale, status), b, status)
        poke8(at(status, RAISED), found)
        return scaled & size < scaled_smallest

    return tiny


def _inexact(of: Format, name: str, theirs: Any) -> Any:
    """`INEXACT` where a tiny or huge result is not exact even with an exponent that has no limit, else
    `NOTHING`: that is what counts where the limit is told (SDM volume 1, 4.9.1.4, 4.9.1.5)."""
    smallest, magnitude, zero, one = of.smallest, of.magnitude, of.zero, of.one
    sums, fraction = name in ("add", "sub"), of.smallest - type(of.smallest)(1)

    @njit
    def near_one(number):
        number &= magnitude
        while number < smallest:
            number <<= 1
        return (number & fraction) | one

    @njit
    def half(number):
        """Of one far smaller than the other operand any that is not exactly added does."""
        return number - smallest if number & magnitude >= smallest + smallest else number

    @njit
    def inexact(a, b, status):
        poke8(at(status, RAISED), NOTHING)
        if sums:
            theirs(half(a), half(b), status)
        else:
            theirs(near_one(a), near_one(b) if b & magnitude != zero else one, status)
        return peek8(at(status, RAISED)) & INEXACT

    return inexact


def _operation(result: Format, of: Format, name: str, theirs: Any) -> Any:
    """Numbers of one format to one of another, and what becomes of a tiny result: zero, if that is asked
    for (SDM volume 1, 10.2.3.3)."""
    magnitude, sign, smallest, zero = result.magnitude, result.sign, result.smallest, result.zero
    tiny, inexact = _tiny(result, of, name, theirs), _inexact(of, name, theirs)

    @njit
    def told(a, b, status, modes):
        place = at(status, RAISED)
        before = peek8(place)
        poke8(place, NOTHING)
        found = theirs(a, b, status)
        raised, size = peek8(place), found & magnitude
        small = raised & UNDERFLOW != NOTHING or (size < smallest and size != zero)
        small = small or (size == smallest and tiny(a, b, status))
        if small and modes & TINY_TOLD != NOTHING:
            raised = (raised & ~INEXACT) | UNDERFLOW | inexact(a, b, status)
        elif small and modes & FLUSHED != NOTHING:
            raised, found = raised | UNDERFLOW | INEXACT, found & sign
        elif raised & OVERFLOW != NOTHING and modes & HUGE_TOLD != NOTHING:
            raised = (raised & ~INEXACT) | inexact(a, b, status)
        poke8(place, before | raised)
        return found

    @njit
    def ours(a, b, status):
        modes = peek8(at(status, FLUSHES))
        if modes > FLUSHED:
            return told(a, b, status, modes)
        found = theirs(a, b, status)
        size = found & magnitude
        if modes != FLUSHED or size > smallest or size == zero:
            return found
        if size < smallest or tiny(a, b, status):
            flag(status, UNDERFLOW | INEXACT)
            return found & sign
        return found

    return ours


def _arithmetic(of: Format, name: str) -> Any:
    """Of two NaNs, the first, made quiet (SDM volume 1, table 4-7)."""
    operation = _operation(of, of, name, THEIRS[of.name][name])
    magnitude, infinity, quiet, zero = of.magnitude, of.infinity, of.quiet, of.zero

    @njit
    def ours(a, b, status):
        if a & magnitude > infinity and b & magnitude > infinity:
            if a & b & quiet == zero:
                flag(status, INVALID)
            return a | quiet
        return operation(a, b, status)

    return ours


#: Functions of two numbers and the address of a `float_status`.
OF_SINGLES, OF_DOUBLES = (
    {name: _arithmetic(of, name) for name in THEIRS[of.name]} for of in (SINGLES, DOUBLES)
)
_as_single = _operation(SINGLES, DOUBLES, "narrow", _narrowed)


@njit
def narrowed(a, status):
    """A double as a single."""
    return _as_single(a, np.uint64(0), status)
