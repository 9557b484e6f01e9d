"""Cutting a run into slices while it is recorded: the kernels of `recorder/evidence/slices/collector.py`.

LightPlay, sections 2.1 and Figure 4. A location is an 8-byte word here, a checkpoint has the bytes that its
access touches. All values come from the shared accesses of the slice itself: a word that is not among what
these wrote holds what it held when the slice began.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import GLUED, READ, UNCACHED, WRITE
from corebraid.base.varint import put_varint

#: What `SliceState.owner` says of a word that several streams have touched.
SHARED_WORD = np.uint8(255)
#: Indexes of `SliceState.at`: shared accesses in the slice, bytes and entries in `out`, entries in all,
#: slices and kept ones in all; of slices that wait to become one entry: the stream, how many, its events.
N, OUT, ENTRIES, ALL_ENTRIES, ALL_SLICES, ALL_KEPT, RUN_STREAM, RUN_SLICES, RUN_EVENTS, AT = range(10)
#: Flags of an entry on disk: a slice whose accesses follow; a stratum follows it; it ended before it was full
#: since a word was about to be shared; successive slices in which one stream alone went on.
KEEP, STRATUM, EARLY, ALONE = 1, 2, 4, 8
STREAM_SHIFT = 4
#: What happens to a core between two of its turns: it stands between its last shared access and the
#: checkpoint after that, or between a checkpoint and its next shared access.
_BEFORE_AFTER, _AFTER_BEFORE = 0, 1
_U0, _U1, _U3, _U7, _U8 = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_BYTE = np.uint64(0xFF)

#: A shared access of the slice. before, after: its checkpoints. old, new: the bytes before and after it,
#: which only serve to know what a checkpoint finds.
ENTRY = np.dtype(
    [
        ("seq", "<u8"), ("addr", "<u8"), ("old", "<u8"), ("new", "<u8"), ("before", "<u8"), ("after", "<u8"),
        ("stream", "u1"), ("size", "u1"), ("kind", "u1"), ("flags", "u1"),
    ]
)  # fmt: skip


#: A kept slice that is handed over. number: of its entry. rows, values: how many of `Handed` are its.
HANDED = np.dtype([("number", "<u8"), ("rows", "<u4"), ("values", "<u4")])
#: Indexes of `Handed.at`: slices, rows and values that wait.
SLICES_WAIT, ROWS_WAIT, VALUES_WAIT, WAIT = range(4)


class Handed(NamedTuple):
    """Kept slices for whoever searches them while the machine runs; all of size 0 if nobody does. slices:
    HANDED; rows: ENTRY, each slice's stream by stream in program order, so that nothing tells in which order
    streams ran; values: uint64, what it updated, as on disk. at: int64, see SLICES_WAIT."""

    slices: NDArray[Any]
    rows: NDArray[Any]
    values: NDArray[np.uint64]
    at: NDArray[np.int64]


class SliceState(NamedTuple):
    """A collector between two calls.

    owner: uint8, one a word of memory: 0 untouched, 1 + the only stream that touched it, or SHARED_WORD.
    reached, cut, shared: uint64 (streams,), events seen; how many of them lie before the slice; how many up
    to the last shared one. entries: ENTRY, the slice. left: int64 (streams,), entries when the stream's last
    turn ended. pending: int64 (streams,), the access whose checkpoint after it is still to be taken, -1 if
    none. way: uint8 (streams,), what happens to the core now. draw: uint64 (1,), of the coin. at: int64, see
    N. out: uint8, slices that are not written yet. handed: kept ones that nobody has taken over yet.
    """

    owner: NDArray[np.uint8]
    reached: NDArray[np.uint64]
    cut: NDArray[np.uint64]
    shared: NDArray[np.uint64]
    entries: NDArray[Any]
    left: NDArray[np.int64]
    pending: NDArray[np.int64]
    way: NDArray[np.uint8]
    draw: NDArray[np.uint64]
    at: NDArray[np.int64]
    out: NDArray[np.uint8]
    handed: Handed


@njit(cache=True)
def coin(draw):  # type: ignore[no-untyped-def]
    """A seeded bit (xorshift)."""
    x = draw[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    draw[0] = x
    return np.uint8((x >> np.uint64(33)) & _U1)


@njit(cache=True)
def lay_over(value, addr, size, other_value, other_addr, other_size):  # type: ignore[no-untyped-def]
    """`value` of `size` bytes at `addr` with those bytes of another access that overlap it."""
    low, high = max(addr, other_addr), min(addr + np.uint64(size), other_addr + np.uint64(other_size))
    a = low
    while a < high:
        shift = _U8 * (a - addr)
        byte = (other_value >> (_U8 * (a - other_addr))) & _BYTE
        value = (value & ~(_BYTE << shift)) | (byte << shift)
        a += _U1
    return value


@njit(cache=True)
def value_now(s, i):  # type: ignore[no-untyped-def]
    """What is in memory now at entry `i`, which writes."""
    e = s.entries[i]
    value = e.new
    for j in range(i + 1, s.at[N]):
        f = s.entries[j]
        if f.kind != READ:
            value = lay_over(value, e.addr, e.size, f.new, f.addr, f.size)
    return value


@njit(cache=True)
def value_then(s, row, since):  # type: ignore[no-untyped-def]
    """What was in memory at the bytes of `row`, which is about to run, when the slice had `since` entries."""
    value = row.old
    for j in range(s.at[N] - 1, since - 1, -1):
        f = s.entries[j]
        if f.kind != READ:
            value = lay_over(value, row.addr, row.size, f.old, f.addr, f.size)
    return value


@njit(cache=True)
def take_pending(s, stream):  # type: ignore[no-untyped-def]
    """Take the checkpoint that a stream still has to take, if there is one."""
    i = s.pending[stream]
    s.pending[stream] = -1
    while i >= 0:
        if s.entries[i].kind != READ:
            s.entries[i].after = value_now(s, i)
        glued = s.entries[i].flags & GLUED
        i = i + 1 if glued else -1


@njit(cache=True)
def has_race(entries, n):  # type: ignore[no-untyped-def]
    """Whether two of the first n entries are of different streams and overlap, and one of them writes."""
    writes, alone = False, True
    for i in range(n):
        writes = writes or entries[i].kind != READ
        alone = alone and entries[i].stream == entries[0].stream
    if alone or not writes:
        return False
    for i in range(n):
        e = entries[i]
        for j in range(i):
            f = entries[j]
            overlap = e.addr < f.addr + np.uint64(f.size) and f.addr < e.addr + np.uint64(e.size)
            if overlap and e.stream != f.stream and (e.kind != READ or f.kind != READ):
                return True
    return False


@njit(cache=True)
def listed_before(s, i):  # type: ignore[no-untyped-def]
    """Whether an entry before `i`, by stream and then by time, writes the very bytes of entry `i`."""
    e = s.entries[i]
    for j in range(s.at[N]):
        f = s.entries[j]
        first = f.stream < e.stream or (f.stream == e.stream and j < i)
        if first and f.kind != READ and f.addr == e.addr and f.size == e.size:
            return True
    return False


@njit(cache=True)
def put_accesses(s, pos):  # type: ignore[no-untyped-def]
    """Append the slice's accesses and what it updated. Returns the new end."""
    n, out = s.at[N], s.out
    updated = 0
    for i in range(n):
        updated += int(s.entries[i].kind != READ and not listed_before(s, i))
    pos = put_varint(out, pos, np.uint64(updated))
    for stream in range(s.cut.size):
        count = 0
        for i in range(n):
            count += int(s.entries[i].stream == stream)
        pos = put_varint(out, pos, np.uint64(count))
    for stream in range(s.cut.size):
        at = s.cut[stream]
        for i in range(n):
            e = s.entries[i]
            if e.stream != stream:
                continue
            glued = (e.flags & np.uint8(GLUED)) << np.uint8(4)
            out[pos] = e.kind | ((e.size - np.uint8(1)) << np.uint8(2)) | glued
            pos = put_varint(out, pos + 1, e.seq - at)
            at = e.seq + _U1
            if e.kind != WRITE:
                pos = put_varint(out, pos, e.before)
            if e.kind != READ:
                pos = put_varint(out, pos, e.after)
    for stream in range(s.cut.size):
        for i in range(n):
            if s.entries[i].stream == stream and s.entries[i].kind != READ and not listed_before(s, i):
                pos = put_varint(out, pos, value_now(s, i))
    return pos


@njit(cache=True)
def hand_over(s, number):  # type: ignore[no-untyped-def]
    """The slice's accesses and what it updated, for whoever searches it."""
    h, n = s.handed, s.at[N]
    row, value = h.at[ROWS_WAIT], h.at[VALUES_WAIT]
    for stream in range(s.cut.size):
        for i in range(n):
            if s.entries[i].stream != stream:
                continue
            h.rows[row] = s.entries[i]
            row += 1
            if s.entries[i].kind != READ and not listed_before(s, i):
                h.values[value] = value_now(s, i)
                value += 1
    slice_ = h.slices[h.at[SLICES_WAIT]]
    slice_.number, slice_.rows, slice_.values = number, row - h.at[ROWS_WAIT], value - h.at[VALUES_WAIT]
    h.at[SLICES_WAIT] += 1
    h.at[ROWS_WAIT], h.at[VALUES_WAIT] = row, value


@njit(cache=True)
def put_run(s):  # type: ignore[no-untyped-def]
    """The slices that wait become an entry."""
    if s.at[RUN_SLICES] == 0:
        return
    pos = put_varint(s.out, s.at[OUT], np.uint64(ALONE | (s.at[RUN_STREAM] << STREAM_SHIFT)))
    pos = put_varint(s.out, pos, np.uint64(s.at[RUN_SLICES] - 1))
    s.at[OUT] = put_varint(s.out, pos, np.uint64(s.at[RUN_EVENTS]))
    s.at[ENTRIES] += 1
    s.at[ALL_ENTRIES] += 1
    s.at[RUN_SLICES] = s.at[RUN_EVENTS] = 0


@njit(cache=True)
def put_slice(s, flags, kept):  # type: ignore[no-untyped-def]
    """A slice becomes an entry, or waits if one stream alone went on in it."""
    streams, moved, only = s.cut.size, 0, 0
    for stream in range(streams):
        if s.shared[stream] != s.cut[stream]:
            moved += 1
            only = stream
    if moved == 1 and flags == 0 and not kept:
        if s.at[RUN_STREAM] != only:
            put_run(s)
        s.at[RUN_STREAM] = only
        s.at[RUN_SLICES] += 1
        s.at[RUN_EVENTS] += np.int64(s.shared[only] - s.cut[only])
        return
    put_run(s)
    pos = put_varint(s.out, s.at[OUT], np.uint64(flags | (KEEP if kept else 0)))
    for stream in range(streams):
        pos = put_varint(s.out, pos, s.shared[stream] - s.cut[stream])
    s.at[OUT] = put_accesses(s, pos) if kept else pos
    s.at[ENTRIES] += 1
    s.at[ALL_ENTRIES] += 1


@njit(cache=True)
def end_slice(s, flags, everything):  # type: ignore[no-untyped-def]
    """The slice ends here: all checkpoints are taken, and it goes to `out`. everything: all events so far lie
    before the end, and not only those up to each stream's last shared one."""
    streams = s.cut.size
    for stream in range(streams):
        take_pending(s, stream)
        s.shared[stream] = s.reached[stream] if everything else max(s.shared[stream], s.cut[stream])
    kept = has_race(s.entries, s.at[N])
    put_slice(s, flags, kept)
    if kept and s.handed.slices.size:
        hand_over(s, s.at[ALL_ENTRIES] - 1)
    for stream in range(streams):
        s.cut[stream] = s.shared[stream]
        s.left[stream] = 0
    s.at[ALL_SLICES] += 1
    s.at[ALL_KEPT] += int(kept)
    s.at[N] = 0


@njit(cache=True)
def share_words(s, rows, first, end, stream):  # type: ignore[no-untyped-def]
    """Mark the words of the access rows[first:end] as touched by its stream. Returns whether it is shared.

    Where a word was another stream's own so far, all that this one did before it must lie before the slice:
    then the slice ends first.
    """
    mine, shared, owners = np.uint8(stream + 1), False, 0
    for i in range(first, end):
        word, last = rows[i].addr >> _U3, (rows[i].addr + np.uint64(rows[i].size) - _U1) >> _U3
        while word <= last:
            owner = s.owner[word]
            if owner == 0:
                s.owner[word] = mine
            elif owner != mine:
                shared = True
                if owner != SHARED_WORD:
                    other = np.int64(owner) - 1
                    if s.reached[other] > s.cut[other]:
                        s.shared[other] = s.reached[other]
                        owners += 1
                    s.owner[word] = SHARED_WORD
            word += _U1
    if owners:
        end_slice(s, EARLY, False)
    return shared


@njit(cache=True)
def take_rows(s, rows, start, stream, most):  # type: ignore[no-untyped-def]
    """Take a stream's events from row `start` on, until `out` could be too small for one more slice. Returns
    how many rows are done. most: shared accesses in a slice."""
    room = s.out.size // 2
    fresh = s.way[stream] == _AFTER_BEFORE
    i = start
    while i < rows.size:
        if s.at[OUT] > room:
            return i
        row = rows[i]
        end = i + 1
        while rows[end - 1].flags & GLUED and end < rows.size:
            end += 1
        if row.flags & UNCACHED:
            s.reached[stream] = rows[end - 1].seq + _U1
            i = end
            continue
        shared = False
        if end == i + 1 and (row.addr & _U7) + np.uint64(row.size) <= _U8:
            owner = s.owner[row.addr >> _U3]
            if owner == np.uint8(stream + 1):
                s.reached[stream] = row.seq + _U1
                i = end
                continue
            shared = owner == SHARED_WORD
        if not shared:
            shared = share_words(s, rows, i, end, stream)
        if shared:
            for j in range(i, end):
                r = rows[j]
                before = value_then(s, r, s.left[stream]) if fresh and r.kind != WRITE else r.old
                e = s.entries[s.at[N] + j - i]
                e.seq, e.addr, e.old, e.new, e.before, e.after = r.seq, r.addr, r.old, r.new, before, r.new
                e.stream, e.size, e.kind, e.flags = stream, r.size, r.kind, r.flags
            fresh = False
            s.way[stream] = _BEFORE_AFTER
            s.at[N] += end - i
            s.shared[stream] = rows[end - 1].seq + _U1
        s.reached[stream] = rows[end - 1].seq + _U1
        if s.at[N] >= most:
            end_slice(s, 0, False)
        i = end
    return i


@njit(cache=True)
def end_turn(s, stream):  # type: ignore[no-untyped-def]
    """A stream's turn is over: a coin says where between access and checkpoints it stands."""
    began = s.left[stream]
    s.left[stream] = s.at[N]
    s.way[stream] = coin(s.draw)
    if s.way[stream] == _AFTER_BEFORE:
        return
    for last in range(s.at[N] - 1, began - 1, -1):
        if s.entries[last].stream == stream:
            while last > 0 and s.entries[last - 1].stream == stream and s.entries[last - 1].flags & GLUED:
                last -= 1
            s.pending[stream] = last
            return
