"""A fingerprint of a core's memory as it saw it: every line that it ever received, kept up to date.

The fingerprint is a sum over pages of a hash of the page's received lines, so that only pages that
changed since the last time are hashed again. The set of changed pages may differ between recording and
replay (a store that was taken back, for example); the sum does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from corebraid.base.host_memory import host_memory
from corebraid.base.memory import PAGE_BYTES
from emu.bus.line_state import is_received
from emu.core.changed_pages import ChangedPages
from emu.core.core import Core
from emu.native.state import DIRTY, PAGE_SHIFT
from emu.native.unicorn import peek64, pointer

_MULTIPLIER = np.uint64(0x9FB21C651E98DF25)
_SHIFT = np.uint64(32)
_ONE = np.uint64(1)


@njit(cache=True)
def hash_page(core, page, line_bytes):
    """Hash of one page: the sum, over its received lines, of a multiply and xor-shift over 8-byte words.
    Lines are hashed independently, so that the processor overlaps them.

    core: CORE, page: its number, line_bytes: multiple of 8.
    """
    lines = PAGE_BYTES // line_bytes
    words = np.uint64(line_bytes // 8)
    total = np.uint64(0)
    for line in range(page * lines, (page + 1) * lines):
        if not is_received(core, np.uint64(line)):
            continue
        value = np.uint64(line + 1) * _MULTIPLIER
        place = core.memory + np.uint64(line * line_bytes)
        for k in range(words):
            value = (value ^ peek64(place + (k << np.uint64(3)))) * _MULTIPLIER
            value ^= value >> _SHIFT
        total += value
    return total


@njit(cache=True)
def hash_four_pages(core, pages):
    """The same of four pages (uint64[4]) whose lines are pages, all received, at the price of one: a line is
    a chain of operations that wait for one another."""
    a, b, c, d = pages[0], pages[1], pages[2], pages[3]
    at_a, at_b = core.memory + (a << PAGE_SHIFT), core.memory + (b << PAGE_SHIFT)
    at_c, at_d = core.memory + (c << PAGE_SHIFT), core.memory + (d << PAGE_SHIFT)
    a, b = (a + _ONE) * _MULTIPLIER, (b + _ONE) * _MULTIPLIER
    c, d = (c + _ONE) * _MULTIPLIER, (d + _ONE) * _MULTIPLIER
    for at in range(np.uint64(0), np.uint64(PAGE_BYTES), np.uint64(8)):
        a = (a ^ peek64(at_a + at)) * _MULTIPLIER
        b = (b ^ peek64(at_b + at)) * _MULTIPLIER
        c = (c ^ peek64(at_c + at)) * _MULTIPLIER
        d = (d ^ peek64(at_d + at)) * _MULTIPLIER
        a ^= a >> _SHIFT
        b ^= b >> _SHIFT
        c ^= c >> _SHIFT
        d ^= d >> _SHIFT
    return a, b, c, d


@njit(cache=True)
def _all_received(core, pages):
    received = True
    for page in pages:
        received &= is_received(core, page)
    return received


@njit(cache=True)
def _update(rows, hashes, total, line_bytes):
    core = rows[0]
    n = np.int64(core.dirty_n)
    dirty = carray(pointer(core.dirty_pages), n, np.uint64)
    flags = carray(pointer(core.page_flags), len(hashes), np.uint8)
    k = 0
    while k < n:
        four = dirty[k : k + 4]
        if line_bytes == PAGE_BYTES and k + 4 <= n and _all_received(core, four):
            values = hash_four_pages(core, four)
        else:
            four = dirty[k : k + 1]
            value = hash_page(core, np.int64(four[0]), line_bytes)
            values = (value, value, value, value)
        for j in range(four.size):
            page = np.int64(four[j])
            total[0] += values[j] - hashes[page]
            hashes[page] = values[j]
            flags[page] &= ~np.uint8(DIRTY)
        k += four.size
    core.dirty_n = np.uint64(0)


class Fingerprint:
    """The running fingerprint of one core. pages: whoever else wants to know what changes."""

    def __init__(self, core: Core, line_bytes: int, pages: ChangedPages | None = None) -> None:
        self._core, self._line_bytes, self._pages = core, line_bytes, pages
        self._hashes = host_memory(len(core.memory) // PAGE_BYTES * 8).view(np.uint64)
        self._total: NDArray[np.uint64] = np.zeros(1, np.uint64)

    def update(self) -> int:
        """The fingerprint now, 64 bits. The core must be stopped."""
        core = self._core
        if self._pages is not None:
            self._pages.note()
        _update(core.rows, self._hashes, self._total, self._line_bytes)
        core.protect_again()
        return int(self._total[0])
