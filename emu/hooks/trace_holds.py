"""Holds of pages, told as rows of a replayed core: from a gain to the loss after it, and from the first store
on alone.

Of some pages no access is a row but what became of the core's rights to them (`emu/core/watched_pages.py`),
at a place behind memory that stands for the page (`corebraid.base.hold_places`). What is there is the page's
fingerprint while nobody has it alone, and a number of the hold's own while somebody has: so a hold alone
begins with what the one before it left, nobody else's row fits inside it, and what others read is what was
there all along.

Words of the page that agents use (the word on which a thread sleeps) are left out of the fingerprint, and
each has a row of its own at its address, indivisible with the page's: what agents read and write there stands
between holds as their values tell.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit, types
from corebraid.base.fingerprints import fingerprint_beside
from corebraid.base.hold_places import hold_place
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import (
    ALONE,
    BESIDE_AGENTS,
    GETS,
    GIVES,
    GLUED,
    HAD_IT,
    OF_HOLD,
    OF_WORD,
    READ,
    RMW,
    SHARES,
    TAKES,
    WRITE,
    Access,
)
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import DOWNGRADED
from emu.hooks.trace_rows import append_row, last_count, move_to_block
from emu.hooks.watch import ALONE_NOW, BY_HOLDS, HELD_NOW, LATER
from emu.native.functions import calling
from emu.native.state import PAGE_SHIFT
from emu.native.unicorn import FLUSH_TLB, peek64, pointer, uc_ctl_plain

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
def _agents_words(core, page):
    """Addresses of the words of a page that agents use: uint64[n]."""
    words = carray(pointer(core.agents_words), np.int64(core.agents_words_n), np.uint64)
    first = np.searchsorted(words, page << PAGE_SHIFT)
    end = first
    while end < words.size and words[end] >> PAGE_SHIFT == page:
        end += 1
    return words[first:end]


@njit(cache=True)
def _fingerprint(core, page):
    """Of what nobody but cores uses."""
    there = carray(pointer(core.memory + (page << PAGE_SHIFT)), PAGE_BYTES, np.uint8)
    return fingerprint_beside(there, _agents_words(core, page))


@njit(cache=True)
def _tell_row(core, count, pc, access, flags):
    append_row(core, count, pc, access, flags)
    if core.marking != _ZERO:
        # Among all accesses it has no number.
        core.trace_sequence -= _ONE


@njit(cache=True)
def _tell(core, page, count, old, new, what):
    """Add the rows of what becomes of a page. Returns how many that are."""
    words, pc = _agents_words(core, page), page << PAGE_SHIFT | np.uint64(what)
    kind, flags = READ if old == new else RMW, OF_HOLD
    if words.size:
        pc |= np.uint64(BESIDE_AGENTS)
        flags |= GLUED
    _tell_row(core, count, pc, Access(kind, hold_place(core.memory_bytes, page), 8, old, new), flags)
    told = np.int64(what) & 3
    for k in range(words.size):
        value = peek64(core.memory + words[k])
        before = old if told >= SHARES and kind == RMW and what & HAD_IT == 0 else value
        after = new if told == TAKES else value
        access = Access(READ if before == after else RMW, words[k], 8, before, after)
        if k == words.size - 1:
            flags = OF_HOLD
        _tell_row(core, count, pc | np.uint64(OF_WORD), access, flags)
    return 1 + words.size


@njit(cache=True)
def _take_alone(core, page, count, found):
    """The core has a page alone from here on, in which it `found` this. Returns how many rows tell so."""
    marks = _marks(core, page)
    what = TAKES | HAD_IT if marks[page] & HELD_NOW else TAKES
    marks[page] |= HELD_NOW | ALONE_NOW
    number = ((count << _OWNERS) | (core.core_id + _ONE)) * _MULTIPLIER
    _held(core, page)[page] = number
    return _tell(core, page, count, found, number, what)


@njit(cache=True)
def _ask_again(core, page):
    """The emulator is to ask before it uses the page the next time."""
    if core.forget_page != _ZERO and core.processor != _ZERO:
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
    if marks[page] & BY_HOLDS == _NO_MARK:
        return
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
def resume_hold(core, page):
    """The core, which begins here, has a page, not alone."""
    _marks(core, page)[page] |= HELD_NOW
    _held(core, page)[page] = _fingerprint(core, page)


@njit(cache=True)
def _move_page(core, page, to_place):
    """What a page holds, but for words that agents use, is taken away from its addresses, or put there. A row
    of a hold must follow: these are of no instruction that is run a second time."""
    words = _agents_words(core, page)
    for at in range(0, PAGE_BYTES, 8):
        address = (page << PAGE_SHIFT) + np.uint64(at)
        k, value = np.searchsorted(words, address), peek64(core.memory + address)
        if value == _ZERO or (k < words.size and words[k] == address):
            continue
        old, new = (value, _ZERO) if to_place else (_ZERO, value)
        _tell_row(core, core.count, core.block_address, Access(WRITE, address, 8, old, new), ALONE)


@njit(cache=True)
def open_spell(core, page, mine):
    """From here on holds of a page are rows, of which accesses were. mine: the core has it, and nobody else:
    it tells what is there, and takes it away from where accesses told it, so that nothing is told twice."""
    marks = _marks(core, page)
    marks[page] = (marks[page] | BY_HOLDS) & ~(LATER | HELD_NOW | ALONE_NOW)
    if not mine:
        return
    _move_page(core, page, to_place=True)
    found = _fingerprint(core, page)
    marks[page] |= HELD_NOW
    _held(core, page)[page] = found
    _tell(core, page, core.count, _NOBODYS, found, GETS | HAD_IT)


@njit(cache=True)
def close_spell(core, page, mine):
    """From here on accesses to a page are rows again. mine: as of `open_spell`, whose way is gone back."""
    marks = _marks(core, page)
    if mine:
        _move_page(core, page, to_place=False)
        found = _fingerprint(core, page)
        if marks[page] & ALONE_NOW:
            _tell(core, page, core.count, _held(core, page)[page], found, SHARES)
        _tell(core, page, core.count, found, _NOBODYS, GIVES | HAD_IT)
    marks[page] = (marks[page] | LATER) & ~(BY_HOLDS | HELD_NOW | ALONE_NOW)


@njit(cache=True)
def use_page(core, page, for_write):
    """The core begins to use a page since it last gained or lost something of it."""
    if not told_by_holds(core, page):
        return
    marks = _marks(core, page)[page]
    if marks & HELD_NOW == _NO_MARK:
        move_to_block(core, _tell(core, page, core.count, _NOBODYS, _NOBODYS, GETS))
    elif for_write and marks & ALONE_NOW == _NO_MARK:
        # Nobody else does anything while a block runs; so what begins in it begins with it.
        move_to_block(core, _take_alone(core, page, core.count, _held(core, page)[page]))
