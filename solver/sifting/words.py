"""The 8-byte words that a region touches: who touched which bytes, where accesses begin and end, and the
values that accesses pass on from one to the next.

Words lie in pages of 512, which a small hash table finds, so that neighbours are neighbours in memory. The
table serves one region after the other, from its first page on: what is of another turn counts as empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN

#: One word. first, last: values of its known bytes before the first access and after the last. marks: lanes
#: of eight bits, see below. owners, streams: of each byte, whoever touched it last. turn: of the region that
#: the rest is about. base: number of the first unfiltered granule.
WORD = np.dtype(
    [
        ("first", "<u8"),
        ("last", "<u8"),
        ("marks", "<u8"),
        ("owners", "<u8"),
        ("streams", "<u8"),
        ("turn", "<u4"),
        ("base", "<i4"),
    ],
)
assert WORD.itemsize == 48

#: Where the lanes of `marks` begin; all but AGAIN have a bit for every byte of the word. BEGIN: a granule
#: begins here. WRITTEN: some event writes. TOUCHED: some event does. OWNED, SPREAD: those of several owners
#: do, those of several streams do. SHARED: both. KNOWN: bytes that were followed. AGAIN: not 0 if values are
#: to be followed a second time, without the unfiltered bytes.
BEGIN, WRITTEN, TOUCHED, OWNED, SPREAD, SHARED, KNOWN, AGAIN = (np.uint64(8 * k) for k in range(8))
PAGE_SHIFT = 9
_PAGE_WORDS = 1 << PAGE_SHIFT
#: Room for pages and touched words at first.
_LEAST_PAGES, _LEAST_TOUCHED = 1 << 6, 1 << 10
#: Where WordTable.used counts: touched words, pages, rows that are not ordered at all.
WORDS, PAGES, LEFT_OUT = 0, 1, 2

LOW_HALF = np.uint64(0xFFFFFFFF)
#: No page.
NOWHERE = ~np.uint64(0)
_ZERO, _ONE, _THREE, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 8))
_SHIFT, _HALF = np.uint64(PAGE_SHIFT), np.uint64(32)
_IN_PAGE = np.uint64(_PAGE_WORDS - 1)
LANE, ALL = np.uint64(0xFF), ~np.uint64(0)
#: A byte times this is the byte eight times.
EIGHT_TIMES = np.uint64(0x0101010101010101)


@njit(cache=True)
def find_slot(page, turn, pages):  # type: ignore[no-untyped-def]
    """Slot of a page (uint64): the one that holds it, or the one of another turn where it belongs."""
    mask = np.uint64(pages.shape[0] - 1)
    slot = ((page * GOLDEN) >> _HALF) & mask
    while pages[slot, 1] >> _HALF == turn and pages[slot, 0] != page:
        slot = (slot + _ONE) & mask
    return slot


@njit(cache=True)
def find_word(word, turn, pages):  # type: ignore[no-untyped-def]
    """Index (uint64) of the entry of a word whose page is there."""
    number = pages[find_slot(word >> _SHIFT, turn, pages), 1] & LOW_HALF
    return (number << _SHIFT) | (word & _IN_PAGE)


@njit(cache=True)
def add_page(page, turn, pages, used):  # type: ignore[no-untyped-def]
    """Enter a page if it is not there."""
    slot = find_slot(page, turn, pages)
    if pages[slot, 1] >> _HALF != turn:
        pages[slot, 0], pages[slot, 1] = page, (turn << _HALF) | np.uint64(used[PAGES])
        used[PAGES] += 1


@njit(cache=True, nogil=True)
def move_pages(turn, pages, larger):  # type: ignore[no-untyped-def]
    """Enter a table's pages in a larger empty one."""
    for i in range(pages.shape[0]):
        if pages[i, 1] >> _HALF == turn:
            slot = find_slot(pages[i, 0], turn, larger)
            larger[slot, 0], larger[slot, 1] = pages[i, 0], pages[i, 1]


@njit(cache=True)
def lane(marks, begin):  # type: ignore[no-untyped-def]
    """A lane of an entry's marks (uint64)."""
    return (marks >> begin) & LANE


@njit(cache=True)
def byte_bits(low, size):  # type: ignore[no-untyped-def]
    """Bits of the bytes low to low + size - 1 of a word (all uint64)."""
    return ((_ONE << size) - _ONE) << low


@njit(cache=True)
def byte_mask(low, size):  # type: ignore[no-untyped-def]
    """0xFF in the bytes low to low + size - 1 of a word (all uint64)."""
    return ALL >> ((_EIGHT - size) << _THREE) << (low << _THREE)


@njit(cache=True)
def of_others(differs, touched):  # type: ignore[no-untyped-def]
    """Bits of the touched bytes whose owners differ. differs: owners of a word exclusive-or another's."""
    found = _ZERO
    for b in range(8):
        bit = _ONE << np.uint64(b)
        if touched & bit != _ZERO and (differs >> np.uint64(8 * b)) & LANE != _ZERO:
            found |= bit
    return found


@njit(cache=True)
def follow_bytes(entry, bits, low, old, new):  # type: ignore[no-untyped-def]
    """Take the word's bytes `bits` from their old to their new values; old and new begin at byte `low`.
    Returns the number in the word of the first byte whose old value differs, or -1."""
    for b in range(8):
        bit = _ONE << np.uint64(b)
        if bits & bit == _ZERO:
            continue
        up, down = np.uint64(8 * b), np.uint64(8 * (b - np.int64(low)))
        was, becomes = (old >> down) & LANE, (new >> down) & LANE
        if lane(entry.marks, KNOWN) & bit == _ZERO:
            entry.marks |= bit << KNOWN
            entry.first = (entry.first & ~(LANE << up)) | (was << up)
        elif (entry.last >> up) & LANE != was:
            return b
        entry.last = (entry.last & ~(LANE << up)) | (becomes << up)
    return -1


@njit(cache=True)
def follow(entry, bits, low, size, old, new):  # type: ignore[no-untyped-def]
    """As `follow_bytes`; bits: those to follow of the bytes low to low + size - 1."""
    known = lane(entry.marks, KNOWN) & bits
    if bits != byte_bits(low, size) or (known != bits and known != _ZERO):
        return follow_bytes(entry, bits, low, old, new)
    mask, up = byte_mask(low, size), low << _THREE
    if known == _ZERO:
        entry.marks |= bits << KNOWN
        entry.first |= (old << up) & mask
    elif (entry.last ^ (old << up)) & mask != _ZERO:
        return follow_bytes(entry, bits, low, old, new)
    entry.last = (entry.last & ~mask) | ((new << up) & mask)
    return -1


@njit(cache=True, nogil=True)
def list_chains(touched, entries, known, written, first, last):  # type: ignore[no-untyped-def]
    """What `follow` found in all touched words."""
    turn, pages, words = entries
    for n in range(touched.size):
        entry = words[find_word(touched[n], turn, pages)]
        known[n], written[n] = lane(entry.marks, KNOWN), lane(entry.marks, WRITTEN)
        first[n], last[n] = entry.first, entry.last


class Entries(NamedTuple):
    """The entries of a `WordTable`, as kernels see them; turn: uint64."""

    turn: np.uint64
    pages: NDArray[np.uint64]
    words: NDArray[Any]


class WordTable:
    """Entries of all words that a region touches.

    turn: which region the table serves, from 1. pages: uint64 (n, 2), n a power of two: a page's number; turn
    in the upper half and its place in the lower. words: WORD (256 n,), page after page. touched: uint64, the
    words (address / 8) in the order of their first access. used: int64 (3,), see WORDS.
    """

    def __init__(self) -> None:
        self.turn = np.uint64(0)
        self.used = np.zeros(3, np.int64)
        self.touched = np.empty(_LEAST_TOUCHED, np.uint64)
        self.pages: NDArray[np.uint64] = np.zeros((2 * _LEAST_PAGES, 2), np.uint64)
        self.words: NDArray[Any] = np.zeros(_LEAST_PAGES * _PAGE_WORDS, WORD)

    @property
    def entries(self) -> Entries:
        """The entries, for a kernel. They are others once the table has grown."""
        return Entries(self.turn, self.pages, self.words)

    def begin(self) -> None:
        """Serve the next region."""
        self.turn = np.uint64(int(self.turn) + 1)
        self.used[:] = 0

    def grow(self) -> None:
        """Make room for another row."""
        used = int(self.used[PAGES])
        if 2 * used + 4 > len(self.pages):
            pages, words = np.zeros((4 * len(self.pages), 2), np.uint64), np.zeros(4 * len(self.words), WORD)
            move_pages(self.turn, self.pages, pages)
            n = used * _PAGE_WORDS
            words[:n].view(np.uint8)[:] = self.words[:n].view(np.uint8)
            self.pages, self.words = pages, words
        if self.used[WORDS] + 2 > len(self.touched):
            self.touched = np.concatenate([self.touched, np.empty_like(self.touched)])
