"""Event rows packed into 3 or 4 words of 8 bytes instead of 7, for temporary files: what follows from the row
before, or from the file that it is in, is left out.

A row is a head word, then those of the others that it needs: address (if it does not fit the head), number,
count and pc (if they do not follow closely), old bytes, new bytes (if they differ). Head, from bit 0: address
(47), size - 1 (3), kind (3), flags (7), four bits for the words that follow, FAR to NEW.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, GLUED, UNCOUNTED

#: Most words of a row.
MOST_WORDS = 7
#: And of one in a chunk.
CHUNK_WORDS = MOST_WORDS + 2
#: Rows that are unpacked at a time, before what completes an indivisible access.
ROWS = 1 << 12
_MOST_GLUED = 16
_FAR, _JUMP, _LONG, _NEW = 1, 2, 4, 8
_ADDRESS_BITS, _MORE_BITS = np.uint64(47), np.uint64(60)
_PC_BITS = np.uint64(48)
_ONE = np.uint64(1)
_NO_NUMBER, _REGION_SHIFT = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(32)


@njit(cache=True)
def pack_rows(rows, out, last):  # type: ignore[no-untyped-def]
    """Pack rows into `out` (uint64, room for MOST_WORDS a row). last (uint64): number, count of the row
    before in this region, or 2**64 - 1 and 0; updated. Returns the words used."""
    n = 0
    number, count = last[0], last[1]
    for i in range(rows.size):
        row = rows[i]
        at, more = n, 0
        n += 1
        address = row.addr
        if address >> _ADDRESS_BITS:
            more |= _FAR
            out[n], address = address, np.uint64(0)
            n += 1
        if row.seq != number + _ONE:
            more |= _JUMP
            out[n] = row.seq
            n += 1
        step = row.count - count
        if (step >> np.uint64(16)) | (row.pc >> _PC_BITS):
            more |= _LONG
            out[n], out[n + 1] = row.count, row.pc
            n += 2
        else:
            out[n] = (step << _PC_BITS) | row.pc
            n += 1
        out[n] = row.old
        n += 1
        if row.new != row.old:
            more |= _NEW
            out[n] = row.new
            n += 1
        small = (
            np.uint64(row.size - 1)
            | np.uint64(row.kind & 7) << np.uint64(3)
            | np.uint64(row.flags & 127) << np.uint64(6)
        )
        out[at] = address | small << _ADDRESS_BITS | np.uint64(more) << _MORE_BITS
        number, count = row.seq, row.count
    last[0], last[1] = number, count
    return n


@njit(cache=True)
def unpack_rows(words, at, region, core, last, rows, most):  # type: ignore[no-untyped-def]
    """Unpack `most` rows of one region and stream, a core's or the agents', from words[at] on, or as many
    more as an indivisible access needs. last: as for `pack_rows`. Returns (rows, the word behind
    them)."""
    n = 0
    number, count = last[0], last[1]
    glued = False
    while at < words.size and (n < most or (glued and n < rows.size)):
        row = rows[n]
        head = words[at]
        at += 1
        more = np.int64(head >> _MORE_BITS)
        row.addr = head & ((_ONE << _ADDRESS_BITS) - _ONE)
        if more & _FAR:
            row.addr = words[at]
            at += 1
        number += _ONE
        if more & _JUMP:
            number = words[at]
            at += 1
        if more & _LONG:
            count, row.pc = words[at], words[at + 1]
            at += 2
        else:
            count += words[at] >> _PC_BITS
            row.pc = words[at] & ((_ONE << _PC_BITS) - _ONE)
            at += 1
        row.old = words[at]
        at += 1
        if more & _NEW:
            row.new = words[at]
            at += 1
        else:
            row.new = row.old
        row.seq, row.count = number, count
        row.stratum, row.core = np.uint32(region), np.uint8(core)
        small = np.int64(head >> _ADDRESS_BITS)
        row.size = np.uint8((small & 7) + 1)
        row.kind = np.uint8((small >> 3) & 7)
        row.flags = np.uint8((small >> 6) & 127)
        glued = (row.flags & GLUED) != 0
        n += 1
    last[0], last[1] = number, count
    return n, at


@njit(cache=True)
def pack_chunk(rows, out, last):  # type: ignore[no-untyped-def]
    """Pack rows of one stream and any regions into `out` (uint64, room for CHUNK_WORDS a row): of each region
    two words, its number above how many rows, and how many words they take, and those. last: uint64[2], used
    here. Returns the words used."""
    n = first = 0
    while first < rows.size:
        end = first + 1
        while end < rows.size and rows[end].stratum == rows[first].stratum:
            end += 1
        last[0], last[1] = _NO_NUMBER, np.uint64(0)
        used = pack_rows(rows[first:end], out[n + 2 :], last)
        out[n] = np.uint64(rows[first].stratum) << _REGION_SHIFT | np.uint64(end - first)
        out[n + 1] = np.uint64(used)
        n += 2 + used
        first = end
    return n


@njit(cache=True)
def unpack_chunk(words, core, rows, last):  # type: ignore[no-untyped-def]
    """The rows of `pack_chunk`, as many as there are room for. last: uint64[2], used here."""
    at = n = np.int64(0)
    while at < words.size:
        region = np.uint32(words[at] >> _REGION_SHIFT)
        end = at + 2 + np.int64(words[at + 1])
        last[0], last[1] = _NO_NUMBER, np.uint64(0)
        here = rows[n:]
        n += np.int64(unpack_rows(words[at + 2 : end], 0, region, core, last, here, here.size)[0])
        at = end


@njit(cache=True)
def drop_uncounted(rows, number):  # type: ignore[no-untyped-def]
    """Move the rows that are counted to the front, and number them from `number` on. Returns how many there
    are."""
    n = 0
    for k in range(rows.size):
        if rows[k].flags & np.uint8(UNCOUNTED) == np.uint8(0):
            rows[n] = rows[k]
            rows[n].seq = number + np.uint64(n)
            n += 1
    return n


def start_of_region() -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """`last` before the first row of a region."""
    return np.array([_NO_NUMBER, 0], np.uint64)


def room() -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """An array for what `unpack_rows` gives at a time."""
    return np.empty(ROWS + _MOST_GLUED, EVENT)
