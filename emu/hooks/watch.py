"""Which pages of a replayed core are traced, where not all are; and what others held before it changed them.

A page that is not watched is the core's own for the time being. Once it is watched, what it has become
meanwhile is told by rows of its own (`trace_made_alone`), for which the bytes from before the first change
are kept.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.memory import DEVICE_BASE, PAGE_BYTES
from emu.native.state import PAGE_SHIFT
from emu.native.unicorn import pointer

#: Marks of a page. WATCHED: accesses to it are traced. LATER: they will be. KEPT: its bytes are kept, and the
#: core may have changed it since. BY_HOLDS: of it holds are rows, not accesses; HELD_NOW: the core may use
#: it; ALONE_NOW: and has stored to it while nobody else had it (`emu/hooks/trace_holds.py`).
WATCHED, LATER, KEPT = np.uint8(1), np.uint8(2), np.uint8(4)
BY_HOLDS, HELD_NOW, ALONE_NOW = np.uint8(32), np.uint8(64), np.uint8(128)

_DEVICE_PAGE = np.uint64(DEVICE_BASE >> 12)
_ONE, _ZERO, _NO_MARK = np.uint64(1), np.uint64(0), np.uint8(0)


@njit(cache=True)
def is_device_page(core, page):
    """Whether it is the page of device registers."""
    return page == _DEVICE_PAGE and core.devices != _ZERO


@njit(cache=True)
def _mark(core, page):
    """Marks of a page; device registers are always watched."""
    if page < core.memory_bytes >> PAGE_SHIFT:
        return carray(pointer(core.watched), np.int64(page) + 1, np.uint8)[page]
    return WATCHED if is_device_page(core, page) else _NO_MARK


@njit(cache=True)
def is_watched(core, address):
    """Whether accesses to the page of an address are traced."""
    return core.watched == _ZERO or _mark(core, address >> PAGE_SHIFT) & WATCHED != _NO_MARK


@njit(cache=True)
def watched_part(core, address, size):
    """(address, size, how many bytes come before it) of what is to be a row of an access: of one over two
    pages it may be a part, whose other bytes nobody follows. Size 0: nothing."""
    border = (address + np.uint64(size) - _ONE) >> PAGE_SHIFT << PAGE_SHIFT
    if border <= address:
        return address, size if is_watched(core, address) else 0, 0
    before = np.int64(border - address)
    here, there = is_watched(core, address), is_watched(core, border)
    if here and there:
        return address, size, 0
    if here:
        return address, before, 0
    return border, size - before if there else 0, before


@njit(cache=True)
def keep_page(core, page):
    """The core is about to change a page of its memory, perhaps: keep its bytes if somebody will ask."""
    if core.watched == _ZERO or page >= core.memory_bytes >> PAGE_SHIFT:
        return
    marks = carray(pointer(core.watched), np.int64(page) + 1, np.uint8)
    if marks[page] & (WATCHED | LATER | KEPT) != LATER:
        return
    marks[page] |= KEPT
    n = np.int64(core.kept_n)
    carray(pointer(core.kept_pages), n + 1, np.uint64)[n] = page
    source = carray(pointer(core.memory + (page << PAGE_SHIFT)), PAGE_BYTES, np.uint8)
    carray(pointer(core.kept + np.uint64(n * PAGE_BYTES)), PAGE_BYTES, np.uint8)[:] = source
    core.kept_n += _ONE
