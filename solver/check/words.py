"""What a walk that begins without memory knows of its words of 8 bytes: what each must have held when it
began, and what it holds now."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.check.progress import TOUCHED
from solver.regions.image import zeros

#: Words that there is room for at first.
_ROOM = 1 << 12
_BYTE, _ALL = np.uint64(0xFF), ~np.uint64(0)


class Words(NamedTuple):
    """The words of a walk. memory: uint64, bytes of the guest. value: uint64[words], what each holds now;
    first: uint64[words], what it held when the walk began; known: uint8[words], bit b set where byte b was
    touched, of which alone the two tell. touched: int64, the words with such bits, as many as
    `progress.TOUCHED` says.
    """

    memory: np.uint64
    value: NDArray[np.uint64]
    first: NDArray[np.uint64]
    known: NDArray[np.uint8]
    touched: NDArray[np.int64]


def unknown_words(memory_bytes: int) -> Words:
    """Of a guest's memory nothing is known."""
    n = (memory_bytes + 7) // 8
    value, first = zeros(8 * n).view(np.uint64), zeros(8 * n).view(np.uint64)
    return Words(np.uint64(memory_bytes), value, first, zeros(n), np.empty(_ROOM, np.int64))


def with_room(words: Words) -> Words:
    """The same with more room for touched words."""
    return words._replace(touched=np.concatenate([words.touched, np.empty_like(words.touched)]))


@njit(cache=True)
def walk_bytes(word, low, size, old, new, words):  # type: ignore[no-untyped-def]
    """As `walk_word`, byte by byte."""
    value, first, known = words.value, words.first, words.known
    for b in range(low, low + size):
        up = np.uint64(8 * b)
        was, becomes = old & _BYTE, new & _BYTE
        if known[word] & (1 << b) == 0:
            known[word] |= np.uint8(1 << b)
            first[word] |= was << up
        elif (value[word] >> up) & _BYTE != was:
            return b - low
        value[word] = (value[word] & ~(_BYTE << up)) | (becomes << up)
        old, new = old >> np.uint64(8), new >> np.uint64(8)
    return -1


@njit(cache=True)
def walk_word(word, low, size, old, new, words):  # type: ignore[no-untyped-def]
    """Compare an access to `size` bytes of a word from byte `low` on with what they hold, where that is
    known, and store its new ones. Returns the number of the first byte that differs, or -1."""
    bits = np.uint8(((1 << size) - 1) << low)
    if words.known[word] & bits != bits:
        return walk_bytes(word, low, size, old, new, words)
    up = np.uint64(8 * low)
    mask = (_ALL >> np.uint64(64 - 8 * size)) << up
    held = words.value[word]
    if (held ^ (old << up)) & mask != 0:
        return walk_bytes(word, low, size, old, new, words)
    words.value[word] = (held & ~mask) | ((new << up) & mask)
    return -1


@njit(cache=True)
def walk_row(row, words, progress):  # type: ignore[no-untyped-def]
    """Walk one row. Words not seen before are entered in `touched`. Returns the number of the first byte that
    differs, or -1."""
    word, low = np.int64(row.addr >> np.uint64(3)), np.int64(row.addr & np.uint64(7))
    size = np.int64(row.size)
    here = min(size, 8 - low)
    if words.known[word] == 0:
        words.touched[progress[TOUCHED]] = word
        progress[TOUCHED] += 1
    byte = walk_word(word, low, here, row.old, row.new, words)
    if byte >= 0 or here == size:
        return byte
    if words.known[word + 1] == 0:
        words.touched[progress[TOUCHED]] = word + 1
        progress[TOUCHED] += 1
    shift = np.uint64(8 * here)
    byte = walk_word(word + 1, 0, size - here, row.old >> shift, row.new >> shift, words)
    return byte + here if byte >= 0 else byte


@njit(cache=True, nogil=True)
def take_words(touched, words, bits, before, after):  # type: ignore[no-untyped-def]
    """Read the touched words out and forget them."""
    for i in range(touched.size):
        w = touched[i]
        bits[i], before[i], after[i] = words.known[w], words.first[w], words.value[w]
        words.known[w] = 0
        words.first[w] = words.value[w] = np.uint64(0)
