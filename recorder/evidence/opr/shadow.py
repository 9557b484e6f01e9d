"""Value logging by shadow memory (OPR, Algorithm 1): what a member reads is logged at its first read, and
when it is not what the member last read or wrote there.

Shadow memory is a hash table of blocks of 64 bytes (section 7), here with a bit for each byte that says
whether the member knows it. Pages from which code may run are kept otherwise: there any access, or fetch,
takes whole units of the recorder's line (64 bytes or more), since instructions are read without being
accesses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.hash_table import Table, find, find_or_insert, grow, has_room, new_table
from corebraid.base.kernels import inner
from corebraid.base.rows.event import FETCH, READ, UNCACHED, WRITE
from recorder.evidence.opr.rows import CODE, OPR_ROW, VALUE, Rows, joined

BLOCK_BYTES = 64
_PAGE_SHIFT = np.uint64(12)
_BLOCK_SHIFT, _WORD_SHIFT, _WORD_MASK = np.uint64(6), np.uint64(3), np.uint64(7)
_BLOCK_MASK = np.uint64(BLOCK_BYTES - 1)
_ZERO, _ONE, _EIGHT = np.uint64(0), np.uint64(1), np.uint64(8)
_BYTE = np.uint64(0xFF)
#: The longest line, 256 bytes, and an access across two of them: blocks and rows that one event may need.
_MOST_BLOCKS, MOST_ROWS = 16, 80
_FIRST_BLOCKS = 1 << 6
#: Blocks of a page.
_PAGE_BLOCKS = 64


class Shadow(NamedTuple):
    """A member's shadow memory. content: uint64[blocks, 8], little-endian words. known: uint64[blocks], a
    bit for each byte."""

    table: Table
    content: npt.NDArray[np.uint64]
    known: npt.NDArray[np.uint64]

    @property
    def bytes(self) -> int:
        """Bytes that shadow memory takes."""
        return self.table.bytes + self.content.nbytes + self.known.nbytes


class CodePages(NamedTuple):
    """Pages from which code may run. page: uint8[pages], 1 for those. image: uint8[memory], what they hold
    now. unit: bytes that are taken at once, a power of two, 64 to 256. whole: whether the image has the other
    pages too, which may yet come to hold code."""

    page: npt.NDArray[np.uint8]
    image: npt.NDArray[np.uint8]
    unit: np.uint64
    whole: bool


def new_shadow() -> Shadow:
    """A member that knows nothing."""
    content = np.zeros((_FIRST_BLOCKS, BLOCK_BYTES // 8), np.uint64)
    return Shadow(new_table(2 * _FIRST_BLOCKS), content, np.zeros(_FIRST_BLOCKS, np.uint64))


def grow_shadow(shadow: Shadow) -> Shadow:
    """The same, with room for twice as many blocks."""
    n = 2 * len(shadow.known)
    content, known = np.zeros((n, BLOCK_BYTES // 8), np.uint64), np.zeros(n, np.uint64)
    content[: n // 2], known[: n // 2] = shadow.content, shadow.known
    return Shadow(grow(shadow.table, n), content, known)


@inner
def ones(n):  # type: ignore[no-untyped-def]
    """The lowest n (1 to 64) bits."""
    return (_ONE << np.uint64(n - 1)) | ((_ONE << np.uint64(n - 1)) - _ONE)


@inner
def _knows_part(shadow, address, size, value):  # type: ignore[no-untyped-def]
    """`knows` of bytes that lie in one word."""
    slot, place = find(shadow.table, address >> _BLOCK_SHIFT), address & _BLOCK_MASK
    if slot < 0 or ((shadow.known[slot] >> place) & ones(size)) != ones(size):
        return False
    word = shadow.content[slot, np.int64(place >> _WORD_SHIFT)] >> (_EIGHT * (place & _WORD_MASK))
    return (word ^ value) & ones(8 * size) == _ZERO


@inner
def _learn_part(shadow, address, size, value):  # type: ignore[no-untyped-def]
    """`learn` of bytes that lie in one word."""
    slot, place = find_or_insert(shadow.table, address >> _BLOCK_SHIFT), address & _BLOCK_MASK
    shift, word = _EIGHT * (place & _WORD_MASK), np.int64(place >> _WORD_SHIFT)
    mask = ones(8 * size) << shift
    shadow.known[slot] |= ones(size) << place
    shadow.content[slot, word] = (shadow.content[slot, word] & ~mask) | ((value << shift) & mask)


@inner
def first_part(address, size):  # type: ignore[no-untyped-def]
    """How many of the bytes from `address` on lie in its word."""
    return min(size, 8 - np.int64(address & _WORD_MASK))


@inner
def knows(shadow, address, size, value):  # type: ignore[no-untyped-def]
    """Whether the member knows `value` at [address, address + size), size 1 to 8."""
    n = first_part(address, size)
    if not _knows_part(shadow, address, n, value):
        return False
    rest = value >> (_EIGHT * np.uint64(n & 7))
    return n == size or _knows_part(shadow, address + np.uint64(n), size - n, rest)


@inner
def learn(shadow, address, size, value):  # type: ignore[no-untyped-def]
    """The member knows `value` at [address, address + size) from now on."""
    n = first_part(address, size)
    _learn_part(shadow, address, n, value)
    if n < size:
        _learn_part(shadow, address + np.uint64(n), size - n, value >> (_EIGHT * np.uint64(n)))


@inner
def known_byte(shadow, address):  # type: ignore[no-untyped-def]
    """The byte at `address`, or -1 if the member does not know it."""
    slot, place = find(shadow.table, address >> _BLOCK_SHIFT), address & _BLOCK_MASK
    if slot < 0 or (shadow.known[slot] >> place) & _ONE == _ZERO:
        return np.int64(-1)
    word = shadow.content[slot, np.int64(place >> _WORD_SHIFT)]
    return np.int64((word >> (_EIGHT * (place & _WORD_MASK))) & _BYTE)


@inner
def _knows_any(shadow, address):  # type: ignore[no-untyped-def]
    """Whether the member knows any of the 8 bytes at `address`, which are aligned."""
    slot = find(shadow.table, address >> _BLOCK_SHIFT)
    return slot >= 0 and (shadow.known[slot] >> (address & _BLOCK_MASK)) & _BYTE != _ZERO


@inner
def _word_of(image, address):  # type: ignore[no-untyped-def]
    value = _ZERO
    for k in range(8):
        value |= np.uint64(image[np.int64(address) + k]) << (_EIGHT * np.uint64(k))
    return value


@inner
def _put(out, n, member, kind, sn, value, place, size):  # type: ignore[no-untyped-def]
    row = out[n]
    row.member, row.kind, row.sn, row.value = member, kind, sn, value
    row.place, row.size, row.peer, row.unused = place, size, 0, 0
    return n + 1


@inner
def _take_units(shadow, code, row, member, out, n):  # type: ignore[no-untyped-def]
    """Log whatever the member does not know of the units of code that the event touches, as they are before
    it."""
    at = row.addr & ~(code.unit - _ONE)
    last = row.addr + np.uint64(row.size) - _ONE
    while at <= last:
        words = np.int64(code.unit) // 8 if code.page[np.int64(at >> _PAGE_SHIFT)] else 0
        for k in range(words):
            place = at + np.uint64(8 * k)
            value = _word_of(code.image, place)
            if not knows(shadow, place, 8, value):
                late = 1 if _knows_any(shadow, place) else 0
                n = _put(out, n, member, CODE, row.count, value, place, late)
                learn(shadow, place, 8, value)
        at += code.unit
    return n


@inner
def _in_code(code, row):  # type: ignore[no-untyped-def]
    last = row.addr + np.uint64(row.size) - _ONE
    return code.page[np.int64(row.addr >> _PAGE_SHIFT)] | code.page[np.int64(last >> _PAGE_SHIFT)]


@inner
def keep_image(code, row):  # type: ignore[no-untyped-def]
    """A store into a page of code."""
    for k in range(np.int64(row.size)):
        byte = (row.new >> (_EIGHT * np.uint64(k))) & _BYTE
        code.image[np.int64(row.addr) + k] = np.uint8(byte)


@njit(cache=True)
def follow_stores(rows, code):  # type: ignore[no-untyped-def]
    """Stores of somebody who is no member. rows: EVENT[n]."""
    for i in range(rows.shape[0]):
        row = rows[i]
        if row.kind != READ and (row.flags & UNCACHED) == 0 and (code.whole or _in_code(code, row)):
            keep_image(code, row)


@njit(cache=True)
def log_values(rows, start, shadow, code, member, sn, fresh, out):  # type: ignore[no-untyped-def]
    """Algorithm 1 over rows[start:] (EVENT[n]) of a member whose accesses so far are `sn` (uint64).

    fresh: uint8[n], set to 1 where an access read something new. out: OPR_ROW[], filled from its beginning.
    Returns (first row not done, SN, rows put); it stops early where shadow memory or `out` must grow.
    """
    n = 0
    for i in range(start, rows.shape[0]):
        row = rows[i]
        fresh[i] = 0
        if (row.flags & UNCACHED) != 0:
            sn += _ONE
            continue
        full = not has_room(shadow.table, _MOST_BLOCKS)
        full = full or shadow.table.used[0] + _MOST_BLOCKS > shadow.known.shape[0]
        if full or n + MOST_ROWS > out.shape[0]:
            return i, sn, n
        fetch = (row.flags & FETCH) != 0
        if not fetch:
            sn += _ONE
        size = np.int64(row.size)
        before, reads = n, not fetch and row.kind != WRITE
        if _in_code(code, row):
            n = _take_units(shadow, code, row, member, out, n)
            if row.kind != READ:
                keep_image(code, row)
        elif code.whole and row.kind != READ:
            keep_image(code, row)
        if reads and not knows(shadow, row.addr, size, row.old):
            n = _put(out, n, member, VALUE, sn, row.old, _ZERO, row.size)
            learn(shadow, row.addr, size, row.old)
        if reads and n != before:
            fresh[i] = 1
        if row.kind != READ:
            learn(shadow, row.addr, size, row.new)
    return rows.shape[0], sn, n


@njit(cache=True)
def log_page(page, shadow, code, member, count, out):  # type: ignore[no-untyped-def]
    """A page comes to hold code when the member may hold lines of it as data, and will fetch none of those:
    log what it does not know of units of which it knows some, for the instructions from `count` (uint64) on.

    out: OPR_ROW[], with room for a page's words. Returns the rows put, or -1 if shadow memory must grow."""
    if (
        not has_room(shadow.table, _PAGE_BLOCKS)
        or shadow.table.used[0] + _PAGE_BLOCKS > shadow.known.shape[0]
    ):
        return -1
    n, at, words = 0, np.uint64(page) << _PAGE_SHIFT, np.int64(code.unit) // 8
    for _ in range(4096 // np.int64(code.unit)):
        some = False
        for k in range(words):
            some = some or _knows_any(shadow, at + np.uint64(8 * k))
        for k in range(words if some else 0):
            place = at + np.uint64(8 * k)
            value = _word_of(code.image, place)
            if not knows(shadow, place, 8, value):
                late = 1 if _knows_any(shadow, place) else 0
                n = _put(out, n, member, CODE, count, value, place, late)
                learn(shadow, place, 8, value)
        at += code.unit
    return n


class ValueLogger:
    """Algorithm 1 for one member: shadow memory and its SN."""

    def __init__(self, member: int, code: CodePages) -> None:
        self.member, self._code = member, code
        self.shadow = new_shadow()
        self.sn = self._count = 0
        self._owed: list[int] = []
        self._out = np.zeros(1 << 12, OPR_ROW)

    def take(self, rows: Rows) -> tuple[Rows, npt.NDArray[np.uint8]]:
        """The rows to log for the member's next events (EVENT[n]), OPR_ROW[]; and which of the events read
        something new, uint8[n]."""
        fresh, done = np.empty(len(rows), np.uint8), 0
        pieces = [self.settle(int(rows["count"][0]))] if self._owed and len(rows) else []
        if len(rows):
            self._count = int(rows["count"][-1]) + 1
        while done < len(rows):
            start = done
            done, sn, n = log_values(
                rows, start, self.shadow, self._code, self.member, np.uint64(self.sn), fresh, self._out
            )
            self.sn = int(sn)
            if n:
                pieces.append(self._out[:n].copy())
            if done == start:
                self.shadow = grow_shadow(self.shadow)
        return joined(pieces), fresh

    def come_to_hold_code(self, pages: list[int]) -> None:
        """Pages (numbers) may be executed from now on."""
        self._owed += pages

    def settle(self, before: int) -> Rows:
        """The rows for pages that have come to hold code since the member's last event: OPR_ROW[n]. before:
        the count of its next one."""
        pieces, owed, self._owed = [], self._owed, []
        count = np.uint64(min(self._count, before))
        for page in owed:
            while (n := log_page(page, self.shadow, self._code, self.member, count, self._out)) < 0:
                self.shadow = grow_shadow(self.shadow)
            pieces.append(self._out[:n].copy())
        return joined(pieces)
