"""`pcmpestri`, `pcmpestrm`, `pcmpistri`, `pcmpistrm` (SDM volume 2, 4.1: two strings in registers compared).

QEMU 5 takes lengths from 32 bits even where they have 64, reads before its arrays for a length of -2**31, and
misses a needle that begins at the haystack's end.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit, types
from emu.hooks.x86_64.helpers.state import CC_SRC, REGS, XMM, at
from emu.native.unicorn import peek8, peek16, peek32, peek64, poke8, poke16, poke64

#: void (CPU state, first operand, second operand, immediate byte and whether REX.W was there).
SIGNATURE = types.void(types.uint64, types.uint64, types.uint64, types.uint32)

#: Of the immediate byte: elements are words, not bytes; they are signed; how they are compared; the result is
#: negated, all of it or where the second string is; the last match counts, or the mask has bytes or words.
_WORDS, _SIGNED, _ANY, _RANGES, _EACH, _NEGATED, _VALID_ONLY, _LAST = 1, 2, 0, 1, 2, 0x10, 0x20, 0x40
#: REX.W, as the emulator's translator passes it on.
_LONG = 0x100
_CARRY, _ZERO, _SIGN, _OVERFLOW = 1, 0x40, 0x80, 0x800
_RAX, _RCX, _RDX = 0, 1, 2
_BYTES = 16


@njit(cache=True)
def _element(operand, control, k):
    """Element k of a string, extended to 64 bits."""
    if control & _WORDS:
        word = peek16(operand + np.uint64(2 * k))
        return np.int64(np.int16(word)) if control & _SIGNED else np.int64(word)
    byte = peek8(operand + np.uint64(k))
    return np.int64(np.int8(byte)) if control & _SIGNED else np.int64(byte)


@njit(cache=True)
def _implicit_length(operand, control, n):
    """Elements before the first that is zero."""
    k = 0
    while k < n and _element(operand, control, k) != 0:
        k += 1
    return k


@njit(cache=True)
def _explicit_length(env, register, control, n):
    """The magnitude of what a register holds, at most n."""
    place = at(env, REGS + 8 * register)
    length = np.int64(peek64(place)) if control & _LONG else np.int64(np.int32(peek32(place)))
    return n if length > n or length < -n else abs(length)


@njit(cache=True)
def _is_in(first, first_n, control, value):
    """Whether an element is one of the first string's, or within one of its ranges."""
    if (control >> 2) & 3 == _ANY:
        i = 0
        while i < first_n and _element(first, control, i) != value:
            i += 1
        return i < first_n
    for i in range(0, first_n - 1, 2):
        if _element(first, control, i) <= value <= _element(first, control, i + 1):
            return True
    return False


@njit(cache=True)
def _begins_at(first, first_n, second, second_n, control, j, n):
    """Whether the first string stands in the second at j, as far as the register goes ("equal ordered")."""
    for i in range(min(first_n, n - j)):
        if j + i >= second_n or _element(first, control, i) != _element(second, control, j + i):
            return False
    return True


@njit(cache=True)
def _matches(first, first_n, second, second_n, control, n):
    """A bit for each element of the second string: the comparison's result before it is negated."""
    found = np.int64(0)
    how = (control >> 2) & 3
    for j in range(n):
        if how in (_ANY, _RANGES):
            here = j < second_n and _is_in(first, first_n, control, _element(second, control, j))
        elif how == _EACH:
            both, none = j < first_n and j < second_n, j >= first_n and j >= second_n
            here = none or (both and _element(first, control, j) == _element(second, control, j))
        else:
            here = _begins_at(first, first_n, second, second_n, control, j, n)
        found |= np.int64(here) << j
    return found


@njit(cache=True)
def _compare(env, first, second, control, first_n, second_n, n):
    """The result's bits; sets the flags."""
    found = _matches(first, first_n, second, second_n, control, n)
    if control & _NEGATED:
        found ^= (1 << (second_n if control & _VALID_ONLY else n)) - 1
    flags = _CARRY * (found != 0) | _OVERFLOW * (found & 1)
    flags |= _ZERO * (second_n < n) | _SIGN * (first_n < n)
    poke64(at(env, CC_SRC), np.uint64(flags))
    return found


@njit(cache=True)
def _put_index(env, found, control, n):
    index = np.int64(n)
    for j in range(n):
        if (found >> j) & 1:
            index = np.int64(j)
            if not control & _LAST:
                break
    poke64(at(env, REGS + 8 * _RCX), np.uint64(index))


@njit(cache=True)
def _put_mask(env, found, control, n):
    target = at(env, XMM)
    if not control & _LAST:
        poke64(target, np.uint64(found))
        poke64(target + np.uint64(8), np.uint64(0))
        return
    for j in range(n):
        element = -((found >> j) & 1)
        if control & _WORDS:
            poke16(target + np.uint64(2 * j), np.uint16(element & 0xFFFF))
        else:
            poke8(target + np.uint64(j), np.uint8(element & 0xFF))


@njit(cache=True)
def _explicit(env, first, second, control, n):
    first_n = _explicit_length(env, _RAX, control, n)
    second_n = _explicit_length(env, _RDX, control, n)
    return _compare(env, first, second, control, first_n, second_n, n)


@njit(cache=True)
def _implicit(env, first, second, control, n):
    first_n, second_n = _implicit_length(first, control, n), _implicit_length(second, control, n)
    return _compare(env, first, second, control, first_n, second_n, n)


@njit(cache=True)
def pcmpestri(env, first, second, control):
    control = np.int64(control)
    n = _BYTES >> (control & _WORDS)
    _put_index(env, _explicit(env, first, second, control, n), control, n)


@njit(cache=True)
def pcmpestrm(env, first, second, control):
    control = np.int64(control)
    n = _BYTES >> (control & _WORDS)
    _put_mask(env, _explicit(env, first, second, control, n), control, n)


@njit(cache=True)
def pcmpistri(env, first, second, control):
    control = np.int64(control)
    n = _BYTES >> (control & _WORDS)
    _put_index(env, _implicit(env, first, second, control, n), control, n)


@njit(cache=True)
def pcmpistrm(env, first, second, control):
    control = np.int64(control)
    n = _BYTES >> (control & _WORDS)
    _put_mask(env, _implicit(env, first, second, control, n), control, n)


#: Ours by the emulator's names.
STRINGS = {
    "helper_pcmpestri_xmm": (pcmpestri, SIGNATURE),
    "helper_pcmpestrm_xmm": (pcmpestrm, SIGNATURE),
    "helper_pcmpistri_xmm": (pcmpistri, SIGNATURE),
    "helper_pcmpistrm_xmm": (pcmpistrm, SIGNATURE),
}
