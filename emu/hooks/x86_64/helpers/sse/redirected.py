"""SSE instructions that the emulator computes right, given arithmetic of two numbers, and whose exceptions
it forgets: `addps`, `haddps`, square roots, conversions, `roundps` and their like (SDM volume 2).

It is had to write to a place of ours first, where the result waits until it is known that nothing is raised.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.sse.arithmetic import DOUBLES, SINGLES, Format
from emu.hooks.x86_64.helpers.sse.floats import (
    OF_TWO,
    OF_TWO_BY,
    copy_result,
    denormal_doubles,
    denormal_doubles_divided,
    denormal_singles,
    denormal_singles_divided,
)
from emu.hooks.x86_64.helpers.sse.mxcsr import INEXACT, NOTHING, has_flags, settle
from emu.hooks.x86_64.helpers.sse.packed import was_in_memory
from emu.hooks.x86_64.helpers.state import RAISED, RESULT, SSE_STATUS, at
from emu.native.functions import Native, calling
from emu.native.unicorn import peek8, peek64, poke8, poke16, poke64

_ADDRESS = types.uint64
_EIGHT, _UPPER_BITS = np.uint64(8), np.uint16(0xFFFF)
_EXACTLY = np.uint32(8)
_call_two, _call_two_by = calling(OF_TWO), calling(OF_TWO_BY)


@njit
def _start(env, target):
    """The place of the result, which begins as what is in the target."""
    result = at(env, RESULT)
    poke64(result, peek64(target))
    poke64(result + _EIGHT, peek64(target + _EIGHT))
    return result


def _of_one(of: Format) -> Any:
    """Square roots, and conversions of this format to the other. size: bytes of the result. root: of a
    negative number is invalid, also of a denormal one."""
    read, bytes_, sign, zero = of.read, of.size, of.sign, of.zero
    denormal = denormal_singles if of is SINGLES else denormal_doubles

    @njit
    def ours(env, target, source, caller, theirs, lanes, size, root):
        status, more = at(env, SSE_STATUS), NOTHING
        for lane in range(lanes):
            number = read(source + np.uint64(lane * bytes_))
            if not root or number & sign == zero:
                more |= denormal(number, zero, status)
        _call_two(theirs, (env, _start(env, target), source))
        settle(env, more, caller)
        copy_result(env, target, size)

    return ours


def _of_pairs(of: Format, denormal: Any) -> Any:
    """Arithmetic of all numbers in two registers: of neighbours in one and then in the other, or across."""
    read, size, lanes = of.read, np.uint64(of.size), 16 // of.size

    @njit
    def ours(env, target, source, caller, theirs, neighbours):
        status, more = at(env, SSE_STATUS), NOTHING
        for lane in range(lanes):
            place = np.uint64(lane) * size
            if not neighbours:
                more |= denormal(read(target + place), read(source + place), status)
            elif lane & 1 == 0:
                more |= denormal(read(target + place), read(target + place + size), status)
                more |= denormal(read(source + place), read(source + place + size), status)
        _call_two(theirs, (env, _start(env, target), source))
        settle(env, more, caller)
        copy_result(env, target, 16)

    return ours


@njit
def _converted(env, target, source, caller, theirs, size):
    """Conversions of integers, and to them: no operand is too small. source: an address, or the integer."""
    _call_two(theirs, (env, _start(env, target), np.uint64(source)))
    settle(env, NOTHING, caller)
    copy_result(env, target, size)


@njit
def _converted_to_mmx(env, target, source, caller, theirs):
    # Top and tags of the x87 registers are set by then, also where it raises an exception.
    _call_two(theirs, (env, at(env, RESULT), source))
    settle(env, NOTHING, caller)
    copy_result(env, target, 8)
    poke16(target + _EIGHT, _UPPER_BITS)


@njit
def _converted_of_mmx(env, target, source, caller, theirs):
    """`cvtpi2ps`, `cvtpi2pd`."""
    if not has_flags(env):
        was_in_memory(env, source)
    _call_two(theirs, (env, _start(env, target), source))
    if has_flags(env):
        settle(env, NOTHING, caller)
    copy_result(env, target, 16)


@njit
def _rounded(env, target, source, immediate, caller, theirs, size):
    """`roundps`. Bit 3 of the immediate byte: inexact results are nothing to be told."""
    place = at(env, SSE_STATUS + RAISED)
    before = peek8(place) & INEXACT
    _call_two_by(theirs, (env, _start(env, target), source, immediate))
    if immediate & _EXACTLY:
        poke8(place, (peek8(place) & ~INEXACT) | before)
    settle(env, NOTHING, caller)
    copy_result(env, target, size)


def _to_integer(signature: Any) -> Any:
    call = calling(signature)

    @njit
    def ours(env, source, caller, theirs):
        found = call(theirs, (env, source))
        settle(env, NOTHING, caller)
        return found

    return ours


_TO_INTEGERS = {
    "si": types.int32(_ADDRESS, _ADDRESS),
    "sq": types.int64(_ADDRESS, _ADDRESS),
}
_FROM_INTEGERS = {
    "si": types.void(_ADDRESS, _ADDRESS, types.uint32),
    "sq": types.void(_ADDRESS, _ADDRESS, types.uint64),
}


def _native(kernel: Any, signature: Any, *constants: int) -> Native:
    return Native(kernel, signature, caller=True, since=2, original=True, constants=constants)


def _of_numbers() -> dict[str, Native]:
    singles, doubles = _of_one(SINGLES), _of_one(DOUBLES)
    found: dict[str, tuple[Any, ...]] = {
        "sqrtps": (singles, 4, 16, 1), "sqrtss": (singles, 1, 4, 1), "sqrtpd": (doubles, 2, 16, 1),
        "sqrtsd": (doubles, 1, 8, 1), "cvtps2pd": (singles, 2, 16, 0), "cvtss2sd": (singles, 1, 8, 0),
        "cvtpd2ps": (doubles, 2, 16, 0), "cvtsd2ss": (doubles, 1, 4, 0),
    }  # fmt: skip
    pairs = {"ps": _of_pairs(SINGLES, denormal_singles), "pd": _of_pairs(DOUBLES, denormal_doubles)}
    for kind, kernel in pairs.items():
        found |= {f"{name}{kind}": (kernel, 1) for name in ("hadd", "hsub")}
        found |= {f"{name}{kind}": (kernel, 0) for name in ("add", "sub", "mul", "addsub")}
    found["divps"] = _of_pairs(SINGLES, denormal_singles_divided), 0
    found["divpd"] = _of_pairs(DOUBLES, denormal_doubles_divided), 0
    return {f"helper_{name}": _native(kernel, OF_TWO, *more) for name, (kernel, *more) in found.items()}


def _of_integers() -> dict[str, Native]:
    found = {"cvtdq2ps": _native(_converted, OF_TWO, 16)}
    for name in ("cvtps2dq", "cvtpd2dq", "cvttps2dq", "cvttpd2dq"):
        found[name] = _native(_converted, OF_TWO, 16)
    for name in ("cvtps2pi", "cvtpd2pi", "cvttps2pi", "cvttpd2pi"):
        found[name] = _native(_converted_to_mmx, OF_TWO)
    for name in ("cvtpi2ps", "cvtpi2pd"):
        found[name] = Native(_converted_of_mmx, OF_TWO, caller=True, original=True)
    for to, signature in _TO_INTEGERS.items():
        kernel = _to_integer(signature)
        for how in ("cvtss", "cvtsd", "cvttss", "cvttsd"):
            found[f"{how}2{to}"] = _native(kernel, signature)
    for name, size in (("cvtsi2ss", 4), ("cvtsq2ss", 4), ("cvtsq2sd", 8)):
        found[name] = _native(_converted, _FROM_INTEGERS[name[3:5]], size)
    return {f"helper_{name}": native for name, native in found.items()}


_ROUNDED = {"ps": 16, "pd": 16, "ss": 4, "sd": 8}

#: Ours by the emulator's names.
REDIRECTED = {
    **_of_numbers(),
    **_of_integers(),
    **{f"helper_round{kind}_xmm": _native(_rounded, OF_TWO_BY, size) for kind, size in _ROUNDED.items()},
}
