"""Arithmetic of SSE (SDM volume 1, chapter 11): which NaN results, small numbers as zero, `dpps`, `dppd`.

The emulator takes the NaN that x87 instructions would, flushes small results of x87 instructions where a
program asks for it of SSE ones, does not take small operands of `min` and `max` for zero, and adds the
products of `dpps` one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import from_dtype, njit, types

from emu.hooks.x86_64.helpers.segments import settle
from emu.hooks.x86_64.helpers.state import (
    FLUSH_RESULTS,
    FLUSHES,
    MXCSR,
    PROGRAM,
    RECIPROCALS,
    SSE_STATUS,
    X87_STATUS,
    at,
    note,
)
from emu.native.unicorn import peek8, peek32, peek64, poke8, poke32, poke64

_ADDRESS = types.uint64
OF_STATE = types.void(_ADDRESS)
OF_TWO = types.void(_ADDRESS, _ADDRESS, _ADDRESS)
OF_TWO_BY = types.void(_ADDRESS, _ADDRESS, _ADDRESS, types.uint32)
#: MXCSR: small operands are zero; tiny results are zero, if they raise nothing; no bits but these may be set.
_DENORMALS_ARE_ZERO, _FLUSH, _KNOWN = 1 << 6, np.uint32(1 << 15 | 1 << 11), 0xFFFF
_NO, _SINGLES_ZERO = np.uint8(0), np.uint32(0)
_GENERAL_PROTECTION = np.int32(13)
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


_SINGLES = Format("float32", np.uint32, 23, peek32, poke32)
_DOUBLES = Format("float64", np.uint64, 52, peek64, poke64)


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
            return theirs(multiply(a, scale, status), b, status) & magnitude < scaled_smallest
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
            return a | quiet
        found = theirs(a, b, status)
        size = found & magnitude
        if size <= smallest and size != zero and peek8(at(status, FLUSHES)) != _NO:
            return found & sign if size < smallest or tiny(a, b, status) else found
        return found

    return ours


_NAMES = ("add", "sub", "mul", "div")
_OF_SINGLES = {name: _arithmetic(_SINGLES, name) for name in _NAMES}
_OF_DOUBLES = {name: _arithmetic(_DOUBLES, name) for name in _NAMES}
_NARROWED = types.uint32(types.uint64, _ADDRESS)
_narrowed = types.ExternalFunction("float64_to_float32_x86_64", _NARROWED)
_scaled = types.ExternalFunction("float64_mul_x86_64", _DOUBLES.binary)
_SIGN, _MAGNITUDE, _SMALLEST, _SCALED = (
    _SINGLES.sign, _SINGLES.magnitude, _SINGLES.smallest, _SINGLES.scaled_smallest,
)  # fmt: skip
_SCALE = _DOUBLES.scale


@njit
def narrowed(a, status):
    """A double as a single."""
    found = _narrowed(a, status)
    size = found & _MAGNITUDE
    if size <= _SMALLEST and size != _SINGLES_ZERO and peek8(at(status, FLUSHES)) != _NO:
        tiny = size < _SMALLEST or _narrowed(_scaled(a, _SCALE, status), status) & _MAGNITUDE < _SCALED
        return found & _SIGN if tiny else found
    return found


@njit
def update_mxcsr(env):
    """MXCSR has changed: rounding, small operands, small results. A program's processor has begun so, too."""
    _theirs_of_mxcsr(env)
    poke8(at(env, X87_STATUS + FLUSH_RESULTS), _NO)
    flush = peek32(at(env, MXCSR)) & _FLUSH == _FLUSH
    poke8(at(env, SSE_STATUS + FLUSHES), np.uint8(flush))
    if peek8(at(env, PROGRAM)) != _NO:
        settle(env)


_theirs_of_mxcsr = types.ExternalFunction("update_mxcsr_status_x86_64", OF_STATE)
_load_mxcsr = types.ExternalFunction("helper_ldmxcsr_x86_64", types.void(_ADDRESS, types.uint32))
_raise = types.ExternalFunction(
    "raise_exception_err_ra_x86_64", types.void(_ADDRESS, types.int32, types.int32, _ADDRESS)
)


@njit
def load_mxcsr(env, value, caller):
    """`ldmxcsr`. caller: address in the generated code, from which the emulator knows the instruction."""
    if np.int64(value) & ~_KNOWN:
        _raise(env, _GENERAL_PROTECTION, np.int32(0), caller)
    _load_mxcsr(env, value)


def _extreme(of: Format, least: bool, lanes: int) -> Any:
    """`min` or `max` of so many lanes: the second where neither is less (SDM volume 2, MINPS)."""
    sign, magnitude, infinity, smallest = of.sign, of.magnitude, of.infinity, of.infinity & ~of.infinity
    read, write, size, zero, exponent = of.read, of.write, of.size, of.zero, of.infinity

    @njit
    def less(a, b):
        if (a | b) & magnitude == zero or a & magnitude > infinity or b & magnitude > infinity:
            return False
        if (a ^ b) & sign != zero:
            return a & sign != zero
        return (a < b) == (a & sign == zero) and a != b

    @njit
    def ours(env, first, second):
        small = peek32(at(env, MXCSR)) & np.uint32(_DENORMALS_ARE_ZERO) != np.uint32(0)
        for lane in range(lanes):
            place = np.uint64(lane * size)
            a, b = read(first + place), read(second + place)
            if small and a & exponent == zero:
                a &= sign
            if small and b & exponent == zero:
                b &= sign
            ahead = less(a, b) if least else less(b, a)
            write(first + place, a if ahead else b)

    assert smallest == zero
    return ours


def _dot_product(of: Format, add: Any, multiply: Any, lanes: int) -> Any:
    """`dpps`, `dppd`: products are added by pairs, then the pairs (SDM volume 2, DPPS)."""
    read, write, size, zero = of.read, of.write, of.size, of.zero

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
    def ours(env, first, second, immediate):
        status, immediate = at(env, SSE_STATUS), np.int64(immediate)
        a = product(first, second, 0, immediate, status)
        b = product(first, second, 1, immediate, status)
        c = product(first, second, 2, immediate, status) if lanes == 4 else zero
        d = product(first, second, 3, immediate, status) if lanes == 4 else zero
        for lane in range(lanes):
            # Every lane adds its own product and its neighbour's: of two NaNs each takes another.
            swapped = (lane & 1 == 0) == (lanes == 4)
            p, q = (b, a) if swapped else (a, b)
            r, s = (d, c) if swapped else (c, d)
            here = total(r, s, p, q, status) if lane & 2 else total(p, q, r, s, status)
            write(first + np.uint64(lane * size), here if (immediate >> lane) & 1 else zero)

    return ours


def _reciprocal(name: str) -> Any:
    """The emulator's, exact where a processor has 12 bits (SDM volume 2, RCPPS)."""
    theirs = types.ExternalFunction(f"{name}_x86_64", OF_TWO)

    @njit
    def ours(env, target, operand):
        note(env, RECIPROCALS)
        theirs(env, target, operand)

    return ours


def _extremes() -> dict[str, tuple[Any, Any]]:
    kinds = {"ps": (_SINGLES, 4), "ss": (_SINGLES, 1), "pd": (_DOUBLES, 2), "sd": (_DOUBLES, 1)}
    return {
        f"helper_{name}{kind}": (_extreme(of, least, lanes), OF_TWO)
        for name, least in (("min", True), ("max", False))
        for kind, (of, lanes) in kinds.items()
    }


_RECIPROCALS = ("rcpps", "rcpss", "rsqrtps", "rsqrtss")

#: Ours by the emulator's names.
FLOATS = {
    **{f"float32_{name}": (kernel, _SINGLES.binary) for name, kernel in _OF_SINGLES.items()},
    **{f"float64_{name}": (kernel, _DOUBLES.binary) for name, kernel in _OF_DOUBLES.items()},
    "float64_to_float32": (narrowed, _NARROWED),
    **_extremes(),
    "helper_dpps_xmm": (_dot_product(_SINGLES, _OF_SINGLES["add"], _OF_SINGLES["mul"], 4), OF_TWO_BY),
    "helper_dppd_xmm": (_dot_product(_DOUBLES, _OF_DOUBLES["add"], _OF_DOUBLES["mul"], 2), OF_TWO_BY),
    **{f"helper_{name}": (_reciprocal(f"helper_{name}"), OF_TWO) for name in _RECIPROCALS},
    "update_mxcsr_status": (update_mxcsr, OF_STATE),
}
