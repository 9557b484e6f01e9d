"""Bloom filters over line numbers, as the MICRO 2009 paper gives ReRun: "filters of sizes 32 bytes for read
set and 128 bytes for the write set using Jenkins' hash function".

Which of Jenkins' functions, and how many bits each line sets, it does not say. Here it is lookup3 of the line
number as two 32-bit words, whose two results make four numbers of 16 bits, for up to four bits of a line.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_U1, _M = np.uint64(1), np.uint64(0xFFFFFFFF)


@njit(cache=True)
def _less_turned(into, from_, left):  # type: ignore[no-untyped-def]
    """A step of lookup3's final(): (into ^ from_) - from_ turned left, modulo 2**32."""
    turned = ((from_ << np.uint64(left)) | (from_ >> np.uint64(32 - left))) & _M
    return ((into ^ from_) - turned) & _M


@njit(cache=True)
def jenkins(line):  # type: ignore[no-untyped-def]
    """lookup3 (Bob Jenkins, 2006, public domain) of a uint64 as two words: its results c and b, as c + b *
    2**32."""
    a = b = c = np.uint64(0xDEADBEEF + 8)
    a = (a + (line & _M)) & _M
    b = (b + (line >> np.uint64(32))) & _M
    c = _less_turned(c, b, 14)
    a = _less_turned(a, c, 11)
    b = _less_turned(b, a, 25)
    c = _less_turned(c, b, 16)
    a = _less_turned(a, c, 4)
    b = _less_turned(b, a, 14)
    c = _less_turned(c, b, 24)
    return c | (b << np.uint64(32))


@njit(cache=True)
def has(words, bits, line, hashes):  # type: ignore[no-untyped-def]
    """Whether the filter (uint64[], `bits` of them used) may hold the line."""
    hashed = jenkins(line)
    for k in range(hashes):
        bit = (hashed >> np.uint64(16 * k)) & np.uint64(bits - 1)
        if (words[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & _U1 == 0:
            return False
    return True


@njit(cache=True)
def put(words, bits, line, hashes):  # type: ignore[no-untyped-def]
    """The filter holds the line from now on."""
    hashed = jenkins(line)
    for k in range(hashes):
        bit = (hashed >> np.uint64(16 * k)) & np.uint64(bits - 1)
        words[bit >> np.uint64(6)] |= _U1 << (bit & np.uint64(63))
