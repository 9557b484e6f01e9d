"""The checker by regions: each region's order is walked by itself, and the seams between them compared.

A walk starts without knowing memory: the first access to a byte tells what it must hold when the region
begins, and every later one is checked against the one before it. `Seams` then goes over the regions from
the first to the last and compares what each must find with what the one before it left. Both together say
what `solver.check.checker` says of the whole order, and share no code with granules, filters or engines
either.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.image import FlatMemory, byte_mask, ensure, zeros
from solver.regions.violations import differs, not_final

_BYTE, _ZERO = np.uint64(0xFF), np.uint64(0)
#: Bytes of memory for which one mark says whether any of them was touched: of a large memory little is.
NEAR = 1 << 21
_NEAR_WORDS = np.uint64(18)


class Seam(NamedTuple):
    """What a walked region asks of memory, and what it leaves. rows: how many were walked.

    word: uint64 (n,), address / 8, of all words that it touches. known: uint8 (n,), bit b set if it
    touches byte b. first, last: uint64 (n,), what these bytes must hold before it, and hold after it.
    """

    region: int
    rows: int
    word: NDArray[np.uint64]
    known: NDArray[np.uint8]
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def cross_seam(seam, marks, near, state, loaded, image):  # type: ignore[no-untyped-def]
    """Compare the first values of a region's bytes with memory and store their last ones. near: uint8, set
    for each `NEAR` bytes of memory that have marks. Returns (index, byte) of the first that differs, or
    (-1, 0)."""
    word, known, first, last = seam.word, seam.known, seam.first, seam.last
    words = state.view(np.uint64)
    for i in range(word.size):
        ensure(np.int64(word[i] >> np.uint64(9)), state, loaded, image)
        marks[word[i]] |= known[i]
        near[word[i] >> _NEAR_WORDS] = 1
        mask, held = byte_mask(known[i]), words[word[i]]
        wrong = (held ^ first[i]) & mask
        if wrong != _ZERO:
            for b in range(8):
                if (wrong >> np.uint64(8 * b)) & _BYTE:
                    return i, b
        words[word[i]] = (held & ~mask) | (last[i] & mask)
    return -1, 0


@njit(cache=True)
def first_difference(state, loaded, marks, near, final):  # type: ignore[no-untyped-def]
    """Address of the first touched byte that is not the final image's, or -1."""
    for region in range(near.size):
        if near[region] == 0:
            continue
        first = region * NEAR
        for page in range(first >> 12, min((first + NEAR) >> 12, loaded.size)):
            if loaded[page] == 0:
                continue
            for a in range(page << 12, min((page + 1) << 12, final.size)):
                if (marks[a >> 3] >> (a & 7)) & 1 and state[a] != final[a]:
                    return a
    return -1


class Seams:
    """Memory between the regions, as the walked orders leave it. Call `cross` or `pass_over` once a region,
    from the first to the last, then `finish`."""

    def __init__(self, initial: NDArray[np.uint8]) -> None:
        self._memory = FlatMemory(initial)
        self._marks = zeros(len(self._memory.state) // 8)
        self._near = np.zeros(-(-len(self._memory.state) // NEAR), np.uint8)
        self.events = 0

    def cross(self, seam: Seam) -> None:
        """Go over a walked region. Raises OrderError if it does not begin with what memory holds."""
        memory = self._memory
        i, byte = cross_seam(seam, self._marks, self._near, memory.state, memory.loaded, memory.image)
        if i >= 0:
            address = int(seam.word[i]) * 8 + byte
            held, found = int(memory.state[address]), (int(seam.first[i]) >> (8 * byte)) & 0xFF
            raise differs(address, held, found, f"region {seam.region}")
        self.events += seam.rows

    def pass_over(self, address: NDArray[np.uint64], value: NDArray[np.uint8]) -> None:
        """Go over a region that has no order: give the bytes that it wrote their values after it."""
        self._memory.store(address, np.ones(len(address), np.uint8), value.astype(np.uint64))
        np.bitwise_or.at(
            self._marks, address >> np.uint64(3), np.uint8(1) << (address & np.uint64(7)).astype(np.uint8)
        )
        self._near[address // np.uint64(NEAR)] = 1

    def finish(self, final: NDArray[np.uint8]) -> None:
        """Compare memory with the final image wherever an event touched it. Raises OrderError."""
        final = np.asarray(final)
        a = first_difference(self._memory.state, self._memory.loaded, self._marks, self._near, final)
        if a >= 0:
            raise not_final(int(a), int(final[a]), int(self._memory.state[a]))
