"""Comparisons of SSE: `cmpps`, `comiss`, `ucomiss`, `minps`, `maxps` and their like (SDM volume 2).

The emulator does not take small operands of `min` and `max` for zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corebraid.base.compiled import njit
from emu.hooks.x86_64.helpers.sse.arithmetic import DOUBLES, SINGLES, Format
from emu.hooks.x86_64.helpers.sse.floats import OF_TWO, copy_result
from emu.hooks.x86_64.helpers.sse.mxcsr import DENORMAL, INVALID, NOTHING, has_flags, settle
from emu.hooks.x86_64.helpers.state import CC_SRC, RESULT, SSE_STATUS, ZERO_OPERANDS, at
from emu.native.functions import Native
from emu.native.unicorn import peek8, poke64

_NO = np.uint8(0)
#: How two numbers compare (first those that are at most), and what `comiss` makes of it: ZF, PF and CF.
_EQUAL, _LESS, _GREATER, _UNORDERED = range(4)
_AS_EQUAL, _AS_LESS, _AS_GREATER, _AS_UNORDERED = (np.uint64(flags) for flags in (0x40, 0x01, 0x00, 0x45))


def _relation(of: Format) -> Any:
    """How two numbers compare, and which exception they raise. strictly: also a quiet NaN is invalid."""
    sign, magnitude, infinity, quiet = of.sign, of.magnitude, of.infinity, of.quiet
    smallest, zero, normal = of.smallest, of.zero, of.infinity - of.smallest

    @njit
    def unusual(a, b, strictly):
        p, q = a & magnitude, b & magnitude
        if p > infinity or q > infinity:
            signals = (p > infinity and p & quiet == zero) or (q > infinity and q & quiet == zero)
            return _UNORDERED, INVALID if strictly or signals else NOTHING
        more = DENORMAL if (p < smallest and p != zero) or (q < smallest and q != zero) else NOTHING
        if p | q == zero:
            return _EQUAL, more
        return ordered(a, b), more

    @njit(forceinline=True)
    def ordered(a, b):
        if a == b:
            return _EQUAL
        if (a ^ b) & sign != zero:
            return _LESS if a & sign != zero else _GREATER
        return _LESS if (a < b) == (a & sign == zero) else _GREATER

    @njit(forceinline=True)
    def compared(a, b, strictly):
        if (a & magnitude) - smallest <= normal and (b & magnitude) - smallest <= normal:
            return ordered(a, b), NOTHING
        return unusual(a, b, strictly)

    return compared


def _operand(of: Format) -> Any:
    """A number as an instruction takes it: a small one is zero where that is asked for."""
    read, sign, exponent, zero = of.read, of.sign, of.infinity, of.zero

    @njit(forceinline=True)
    def operand(place, small):
        number = read(place)
        return number & sign if small and number & exponent == zero else number

    return operand


@njit(forceinline=True)
def _zero_operands(env):
    return peek8(at(env, SSE_STATUS + ZERO_OPERANDS)) != _NO


def _comparison(of: Format) -> Any:
    """`cmpps`. predicate: the immediate byte's three bits."""
    compared, operand, size, write = _relation(of), _operand(of), of.size, of.write
    yes, no = of.sign | of.magnitude, of.zero

    @njit(forceinline=True)
    def holds(predicate, relation):
        kind = predicate & 3
        if kind == 0:
            found = relation == _EQUAL
        elif kind == 1:
            found = relation == _LESS
        elif kind == 2:
            found = relation <= _LESS
        else:
            found = relation == _UNORDERED
        return found != (predicate >= 4)

    @njit
    def ours(env, target, source, caller, predicate, lanes):
        result, small, more = at(env, RESULT), _zero_operands(env), NOTHING
        wants_order = predicate & 3 == 1 or predicate & 3 == 2
        for lane in range(lanes):
            place = np.uint64(lane * size)
            a, b = operand(target + place, small), operand(source + place, small)
            relation, raised = compared(a, b, wants_order)
            more |= raised
            write(result + place, yes if holds(predicate, relation) else no)
        settle(env, more, caller)
        copy_result(env, target, lanes * size)

    return ours


def _flag_comparison(of: Format) -> Any:
    """`comiss`, `ucomiss`. strictly: a quiet NaN is an invalid operand, too."""
    compared, operand = _relation(of), _operand(of)

    @njit
    def ours(env, first, second, caller, strictly):
        small = _zero_operands(env)
        relation, raised = compared(operand(first, small), operand(second, small), strictly)
        settle(env, raised, caller)
        flags = _AS_GREATER
        if relation == _LESS:
            flags = _AS_LESS
        elif relation == _EQUAL:
            flags = _AS_EQUAL
        elif relation == _UNORDERED:
            flags = _AS_UNORDERED
        poke64(at(env, CC_SRC), flags)

    return ours


def _extreme(of: Format) -> Any:
    """`min` or `max` of so many lanes: the second where neither is less (SDM volume 2, MINPS)."""
    compared, operand, size, write = _relation(of), _operand(of), of.size, of.write

    @njit
    def ours(env, target, source, caller, wanted, lanes):
        result, small, more = at(env, RESULT), _zero_operands(env), NOTHING
        for lane in range(lanes):
            place = np.uint64(lane * size)
            a, b = operand(target + place, small), operand(source + place, small)
            relation, raised = compared(a, b, True)
            more |= raised
            write(result + place, a if relation == wanted else b)
        if has_flags(env):
            settle(env, more, caller)
        copy_result(env, target, lanes * size)

    return ours


#: In the order of their numbers.
_PREDICATES = ("eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord")
#: Suffixes of instructions: formats, how many lanes.
_KINDS = {"ps": (SINGLES, 4), "ss": (SINGLES, 1), "pd": (DOUBLES, 2), "sd": (DOUBLES, 1)}


def _comparisons() -> dict[str, Native]:
    kernels = {of.name: (_comparison(of), _extreme(of), _flag_comparison(of)) for of in (SINGLES, DOUBLES)}
    found = {}
    for kind, (of, lanes) in _KINDS.items():
        compare, extreme, compare_flags = kernels[of.name]
        for number, predicate in enumerate(_PREDICATES):
            found[f"helper_cmp{predicate}{kind}"] = Native(
                compare, OF_TWO, caller=True, since=2, constants=(number, lanes)
            )
        for name, wanted in (("min", _LESS), ("max", _GREATER)):
            found[f"helper_{name}{kind}"] = Native(extreme, OF_TWO, caller=True, constants=(wanted, lanes))
        if lanes == 1:
            for name, strictly in (("comi", 1), ("ucomi", 0)):
                found[f"helper_{name}{kind}"] = Native(
                    compare_flags, OF_TWO, caller=True, since=2, constants=(strictly,)
                )
    return found


#: Ours by the emulator's names.
COMPARISONS = _comparisons()
