"""Holds of pages, told as rows of a replayed core: from a gain to the loss after it, and from the first store
on alone.

Of some pages no access is a row but what became of the core's rights to them (`emu/core/watched_pages.py`),
at a place behind memory that stands for the page (`corebraid.base.hold_places`). What is there is the page's
fingerprint while nobody has it alone, and a number of the hold's own while somebody has: so a hold alone
begins with what the one before it left, nobody else's row fits inside it, and what others read is what was
there all along.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit, types
from corebraid.base.fingerprints import page_fingerprint
from corebraid.base.hold_places import hold_place
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import GETS, GIVES, HAD_IT, OF_HOLD, READ, RMW, SHARES, TAKES, Access
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import DOWNGRADED
from emu.hooks.trace_rows import append_row, last_count, move_to_block
from emu.hooks.watch import ALONE_NOW, BY_HOLDS, HELD_NOW
from emu.native.functions import calling
from emu.native.state import PAGE_SHIFT
from emu.native.unicorn import FLUSH_TLB, pointer, uc_ctl_plain

_ONE, _ZERO, _NO_MARK = np.uint64(1), np.uint64(0), np.uint8(0)
_OWNERS, _MULTIPLIER = np.uint64(8), np.uint64(0x9E3779B97F4A7C15)
#: What nothing leaves behind: a page that is used without a right to it.
_NOBODYS = np.uint64(0)
#: `NativeIsa.forget_page`, by its address.
_forget_page = calling(types.void(types.uint64, types.uint64))


@njit(cache=True)
def _marks(core, page):
    return carray(pointer(core.watched), np.int64(page) + 1, np.uint8)


@njit(cache=True)
def told_by_holds(core, page):
    """Whether a page is one of those of which holds are rows."""
    if core.holds == _ZERO or page >= core.memory_bytes >> PAGE_SHIFT:
        return False
    return _marks(core, page)[page] & BY_HOLDS != _NO_MARK


@njit(cache=True)
def _held(core, page):
    """What stands for the page while the core has it: uint64[page + 1]."""
    return carray(pointer(core.holds), np.int64(page) + 1, np.uint64)


@njit(cache=True)
def _fingerprint(core, page):
    return page_fingerprint(carray(pointer(core.memory + (page << PAGE_SHIFT)), PAGE_BYTES, np.uint8))


@njit(cache=True)
def _tell(core, page, count, old, new, what):
    kind = READ if old == new else RMW
    access = Access(kind, hold_place(core.memory_bytes, page), 8, old, new)
    append_row(core, count, page << PAGE_SHIFT | np.uint64(what), access, OF_HOLD)
    if core.marking != _ZERO:
        # Among all accesses it has no number.
        core.trace_sequence -= _ONE


@njit(cache=True)
def _take_alone(core, page, count, found):
    """The core has a page alone from here on, in which it `found` this."""
    marks = _marks(core, page)
    what = TAKES | HAD_IT if marks[page] & HELD_NOW else TAKES
    marks[page] |= HELD_NOW | ALONE_NOW
    number = ((count << _OWNERS) | (core.core_id + _ONE)) * _MULTIPLIER
    _held(core, page)[page] = number
    _tell(core, page, count, found, number, what)


@njit(cache=True)
def _ask_again(core, page):
    """The emulator is to ask before it uses the page the next time."""
    if core.processor != _ZERO:
        _forget_page(core.forget_page, (core.processor, page << PAGE_SHIFT))
    else:
        uc_ctl_plain(core.handle, FLUSH_TLB)


@njit(cache=True)
def begin_hold(core, page, count, flags):
    """The core has received a page, by a miss with these `flags`."""
    _ask_again(core, page)
    found = _fingerprint(core, page)
    if flags & np.uint8(MISS_WRITE):
        _take_alone(core, page, count, found)
        return
    marks = _marks(core, page)
    marks[page] = (marks[page] | HELD_NOW) & ~ALONE_NOW
    _held(core, page)[page] = found
    _tell(core, page, count, found, found, GETS)


@njit(cache=True)
def end_hold(core, page, way):
    """The core, which stands where it lost a page, or the right to write to it, tells so. way: see
    `emu.bus.losses`."""
    marks, held = _marks(core, page), _held(core, page)
    was, found = held[page], held[page]
    if marks[page] & ALONE_NOW:
        found = _fingerprint(core, page)
    elif way == DOWNGRADED or marks[page] & HELD_NOW == _NO_MARK:
        return
    _ask_again(core, page)
    held[page] = found
    marks[page] &= ~ALONE_NOW
    if way != DOWNGRADED:
        marks[page] &= ~HELD_NOW
    count = max(core.count - min(core.count, _ONE), last_count(core))
    _tell(core, page, count, was, found, SHARES if way == DOWNGRADED else GIVES)


@njit(cache=True)
def use_page(core, page, for_write):
    """The core begins to use a page since it last gained or lost something of it."""
    if not told_by_holds(core, page):
        return
    marks = _marks(core, page)[page]
    if marks & HELD_NOW == _NO_MARK:
        _tell(core, page, core.count, _NOBODYS, _NOBODYS, GETS)
        move_to_block(core)
    elif for_write and marks & ALONE_NOW == _NO_MARK:
        # Nobody else does anything while a block runs; so what begins in it begins with it.
        _take_alone(core, page, core.count, _held(core, page)[page])
        move_to_block(core)
