"""A page of memory as one number, so that two can be compared where their bytes are not at hand."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit

_MULTIPLIER, _SHIFT = np.uint64(0x9FB21C651E98DF25), np.uint64(32)
_ONE, _TWO, _THREE, _FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit(cache=True)
def page_fingerprint(page):  # type: ignore[no-untyped-def]
    """64 bits of a page (uint8[n], n a multiple of 32, its words little-endian): of every fourth word a
    multiply and xor-shift, each begun and joined with its number."""
    words = page.view(np.uint64)
    a, b, c, d = _ONE, _TWO, _THREE, _FOUR
    for k in range(0, words.size, 4):
        a = (a ^ words[k]) * _MULTIPLIER
        b = (b ^ words[k + 1]) * _MULTIPLIER
        c = (c ^ words[k + 2]) * _MULTIPLIER
        d = (d ^ words[k + 3]) * _MULTIPLIER
        a ^= a >> _SHIFT
        b ^= b >> _SHIFT
        c ^= c >> _SHIFT
        d ^= d >> _SHIFT
    for lane in (b, c, d):
        a = (a ^ lane) * _MULTIPLIER
        a ^= a >> _SHIFT
    return a


@njit(cache=True)
def fingerprint_beside(page, words):  # type: ignore[no-untyped-def]
    """`page_fingerprint` of a page (uint8[n], n a power of two) as if these words of it were 0: uint64[m],
    their addresses. The page is afterwards as it was."""
    if words.size == 0:
        return page_fingerprint(page)
    there, bits = page.view(np.uint64), np.uint64(page.size - 1)
    kept = np.empty(words.size, np.uint64)
    for k in range(words.size):
        at = (words[k] & bits) >> _THREE
        kept[k], there[at] = there[at], np.uint64(0)
    found = page_fingerprint(page)
    for k in range(words.size):
        there[(words[k] & bits) >> _THREE] = kept[k]
    return found
