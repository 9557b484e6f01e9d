"""SSE arithmetic: `addss` and its like, `dpps`, `dppd`, reciprocals (SDM volume 1, chapter 11).

The emulator adds the products of `dpps` one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.sse.arithmetic import (
    DOUBLES,
    NARROWED,
    OF_DOUBLES,
    OF_SINGLES,
    SINGLES,
    THEIRS,
    Format,
    narrowed,
)
from emu.hooks.x86_64.helpers.sse.mxcsr import DENORMAL, NOTHING, has_flags, settle
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
_NO = np.uint8(0)
_EIGHT, _LOWER_HALF = np.uint64(8), np.uint64(0xFFFFFFFF)


def _denormals(of: Format, divides: bool) -> Any:
    """Whether an operation on two numbers finds a denormal one: not where there is a NaN, or a division by
    zero (SDM volume 1, 4.9.2), or small operands are zero."""
    magnitude, infinity, smallest, zero = of.magnitude, of.infinity, of.smallest, of.zero

    @njit
    def counts(a, b, status):
        if a > infinity or b > infinity or (divides and b == zero):
            return NOTHING
        return DENORMAL if peek8(at(status, ZERO_OPERANDS)) == _NO else NOTHING

    @njit(forceinline=True)
    def denormal(a, b, status):
        a, b = a & magnitude, b & magnitude
        if (a < smallest and a != zero) or (b < smallest and b != zero):
            return counts(a, b, status)
        return NOTHING

    return denormal


#: Functions of two numbers and the address of a `float_status`: `DENORMAL` or `NOTHING`.
denormal_singles, denormal_doubles = (_denormals(of, divides=False) for of in (SINGLES, DOUBLES))
denormal_singles_divided, denormal_doubles_divided = (
    _denormals(of, divides=True) for of in (SINGLES, DOUBLES)
)


@njit(forceinline=True)
def copy_result(env, target, size):
    """The result of an instruction, of so many bytes (4, 8 or 16), to where it belongs."""
    result = at(env, RESULT)
    if size == 4:
        poke32(target, peek32(result))
        return
    poke64(target, peek64(result))
    if size == 16:
        poke64(target + _EIGHT, peek64(result + _EIGHT))


def _of_one(of: Format, name: str, operation: Any) -> Any:
    """`addss` and its like. Those of all numbers in a register are in `redirected.py`."""
    read, write = of.read, of.write
    denormal, magnitude = _denormals(of, divides=name == "div"), of.magnitude
    theirs, smallest, normal = THEIRS[of.name][name], of.smallest, of.infinity - of.smallest

    @njit
    def ours(env, target, operand, caller):
        status = at(env, SSE_STATUS)
        a, b = read(target), read(operand)
        p, q = a & magnitude, b & magnitude
        # Almost always: numbers of which nothing is to be said, and exceptions that are masked.
        if p - smallest < normal and q - smallest < normal and peek8(at(status, FLUSHES)) == NOTHING:
            found = theirs(a, b, status)
            settle(env, NOTHING, caller)
        else:
            found = operation(a, b, status)
            settle(env, denormal(a, b, status), caller)
        write(target, found)

    return ours


def _dot_product(of: Format, operations: dict[str, Any], lanes: int) -> Any:
    """`dpps`, `dppd`: products are added by pairs, then the pairs (SDM volume 2, DPPS)."""
    read, write, size, zero = of.read, of.write, of.size, of.zero
    add, multiply = operations["add"], operations["mul"]
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


def _approximated(root: bool) -> Any:
    """What an approximation of a single is, whose source and result are these (uint32): to it a denormal
    number is a zero, and a result that would be one is (SDM volume 2, RCPPS, RSQRTPS)."""
    magnitude, smallest, zero = SINGLES.magnitude, SINGLES.smallest, SINGLES.zero
    infinity, sign = SINGLES.infinity, SINGLES.sign

    @njit
    def ours(source, result):
        size = source & magnitude
        if size != zero and size < smallest:
            return (source & sign) | infinity
        return result & sign if not root and result & magnitude < smallest else result

    return ours


def _reciprocal(name: str) -> Any:
    """The emulator's, exact where a processor has 12 bits. Raises nothing (SDM volume 2, RCPPS)."""
    theirs = types.ExternalFunction(f"{name}_x86_64", OF_TWO)
    approximated, lanes = _approximated(root="rsqrt" in name), 4 if name.endswith("ps") else 1

    @njit
    def ours(env, target, operand):
        note(env, RECIPROCALS)
        place = at(env, SSE_STATUS + RAISED)
        raised = peek8(place)
        # The target may be the operand.
        low = peek64(operand) if lanes == 4 else np.uint64(peek32(operand))
        high = peek64(operand + _EIGHT) if lanes == 4 else np.uint64(0)
        theirs(env, target, operand)
        poke8(place, raised)
        for lane in range(lanes):
            source = (high if lane & 2 else low) >> np.uint64(32 * (lane & 1))
            here = target + np.uint64(4 * lane)
            poke32(here, approximated(np.uint32(source & _LOWER_HALF), peek32(here)))

    return ours


_RECIPROCALS = ("rcpps", "rcpss", "rsqrtps", "rsqrtss")


def _instructions() -> dict[str, Native]:
    kinds = (("ss", SINGLES, OF_SINGLES), ("sd", DOUBLES, OF_DOUBLES))
    return {
        f"helper_{name}{kind}": Native(_of_one(of, name, operations[name]), OF_TWO, caller=True, since=2)
        for kind, of, operations in kinds
        for name in operations
    }


#: Ours by the emulator's names.
FLOATS = {
    **{f"float32_{name}": Native(kernel, SINGLES.binary) for name, kernel in OF_SINGLES.items()},
    **{f"float64_{name}": Native(kernel, DOUBLES.binary) for name, kernel in OF_DOUBLES.items()},
    "float64_to_float32": Native(narrowed, NARROWED),
    **_instructions(),
    "helper_dpps_xmm": Native(_dot_product(SINGLES, OF_SINGLES, 4), OF_TWO_BY, caller=True),
    "helper_dppd_xmm": Native(_dot_product(DOUBLES, OF_DOUBLES, 2), OF_TWO_BY, caller=True),
    **{f"helper_{name}": Native(_reciprocal(f"helper_{name}"), OF_TWO) for name in _RECIPROCALS},
}
