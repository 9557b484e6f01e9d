"""A fingerprint of a core's memory as it saw it: every line that it ever received, kept up to date.

The fingerprint is a sum over pages of a hash of the page's received lines, so that only pages that
changed since the last time are hashed again. The set of changed pages may differ between recording and
replay (a store that was taken back, for example); the sum does not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import PAGE_BYTES
from emu.bus.line_state import is_received
from emu.core.changed_pages import ChangedPages
from emu.core.core import Core
from emu.native.state import DIRTY
from emu.native.unicorn import peek64, pointer

_MULTIPLIER = np.uint64(0x9FB21C651E98DF25)
_SHIFT = np.uint64(32)


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
def _update(rows, hashes, total, line_bytes):
    core = rows[0]
    dirty = carray(pointer(core.dirty_pages), np.int64(core.dirty_n), np.uint64)
    flags = carray(pointer(core.page_flags), len(hashes), np.uint8)
    for k in range(np.int64(core.dirty_n)):
        page = np.int64(dirty[k])
        value = hash_page(core, page, line_bytes)
        total[0] += value - hashes[page]
        hashes[page] = value
        flags[page] &= ~np.uint8(DIRTY)
    core.dirty_n = np.uint64(0)


class Fingerprint:
    """The running fingerprint of one core. pages: whoever else wants to know what changes."""

    def __init__(self, core: Core, line_bytes: int, pages: ChangedPages | None = None) -> None:
        self._core, self._line_bytes, self._pages = core, line_bytes, pages
        self._hashes: NDArray[np.uint64] = np.zeros(len(core.memory) // PAGE_BYTES, np.uint64)
        self._total: NDArray[np.uint64] = np.zeros(1, np.uint64)

    def update(self) -> int:
        """The fingerprint now, 64 bits. The core must be stopped."""
        core = self._core
        if self._pages is not None:
            self._pages.note()
        _update(core.rows, self._hashes, self._total, self._line_bytes)
        core.protect_again()
        return int(self._total[0])
