"""A flat memory that starts as an image and is changed page by page, without copying the image."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inlined

PAGE_SHIFT = 12
_PAGE = 1 << PAGE_SHIFT
_EVERY, _ALL = np.uint64(0x0101010101010101), np.uint64(0xFFFFFFFFFFFFFFFF)
#: Python 3.11 does not name it; a flat memory of many GiB must not be counted against the machine's.
_MAP_NORESERVE = 0x4000


@inlined
def ensure(page, state, loaded, image):  # type: ignore[no-untyped-def]
    """Copy a page from the image on its first use."""
    if loaded[page] == 0:
        loaded[page] = 1
        first = page << PAGE_SHIFT
        for a in range(first, min(first + _PAGE, image.size)):
            state[a] = image[a]


@inlined
def byte_mask(bits):  # type: ignore[no-untyped-def]
    """0xFF in every byte of a word (uint64) whose bit of `bits` is set."""
    # One byte for each bit, then the highest bit of each that is not 0, then all of its bits.
    apart = (np.uint64(bits) * _EVERY) & np.uint64(0x8040201008040201)
    return (((apart + np.uint64(0x7F7F7F7F7F7F7F7F)) >> np.uint64(7)) & _EVERY) * np.uint64(0xFF)


@inlined
def in_one_word(address, size):  # type: ignore[no-untyped-def]
    """Whether `size` bytes at an address are all in one aligned word of 8."""
    return np.int64(address & np.uint64(7)) + size <= 8


@njit(cache=True)
def load_values(address, size, state, loaded, image):  # type: ignore[no-untyped-def]
    """The little-endian values (uint64) of `size` bytes (1 to 8) at each address."""
    out, words = np.zeros(address.size, np.uint64), state.view(np.uint64)
    for i in range(address.size):
        if in_one_word(address[i], size[i]):
            ensure(np.int64(address[i]) >> PAGE_SHIFT, state, loaded, image)
            shifted = words[address[i] >> np.uint64(3)] >> ((address[i] & np.uint64(7)) << np.uint64(3))
            out[i] = shifted & (_ALL >> np.uint64(64 - 8 * np.int64(size[i])))
            continue
        for b in range(size[i]):
            a = np.int64(address[i]) + b
            ensure(a >> PAGE_SHIFT, state, loaded, image)
            out[i] |= np.uint64(state[a]) << np.uint64(8 * b)
    return out


@njit(cache=True)
def store_values(address, size, value, state, loaded, image):  # type: ignore[no-untyped-def]
    """Store the low `size` bytes of each value at its address."""
    words = state.view(np.uint64)
    for i in range(address.size):
        if in_one_word(address[i], size[i]):
            ensure(np.int64(address[i]) >> PAGE_SHIFT, state, loaded, image)
            shift = (address[i] & np.uint64(7)) << np.uint64(3)
            mask = (_ALL >> np.uint64(64 - 8 * np.int64(size[i]))) << shift
            word = address[i] >> np.uint64(3)
            words[word] = (words[word] & ~mask) | ((value[i] << shift) & mask)
            continue
        for b in range(size[i]):
            a = np.int64(address[i]) + b
            ensure(a >> PAGE_SHIFT, state, loaded, image)
            state[a] = np.uint8((value[i] >> np.uint64(8 * b)) & np.uint64(0xFF))


def zeros(size: int) -> NDArray[np.uint8]:
    """`size` zero bytes whose pages cost nothing until they are written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    return np.frombuffer(mmap.mmap(-1, max(size, 1), flags=flags), np.uint8, count=size)


class FlatMemory:
    """A changing copy of a memory image. Only pages in use are copied.

    state: uint8, the bytes; meaningful where `loaded` (uint8, one a page) says so. image: uint8 (n,).
    """

    def __init__(self, image: NDArray[np.uint8]) -> None:
        self.image = np.asarray(image)
        pages = (len(image) + _PAGE - 1) >> PAGE_SHIFT
        self.state = zeros(pages << PAGE_SHIFT)
        self.loaded = zeros(pages)

    def load(self, address: NDArray[np.uint64], size: NDArray[np.uint8]) -> NDArray[np.uint64]:
        """Values at the addresses (uint64), each of `size` bytes (1 to 8)."""
        return load_values(address, size, self.state, self.loaded, self.image)

    def store(self, address: NDArray[np.uint64], size: NDArray[np.uint8], value: NDArray[np.uint64]) -> None:
        """Store the low `size` bytes of each value at its address."""
        store_values(address, size, value, self.state, self.loaded, self.image)
