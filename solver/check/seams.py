"""The checker by regions: each region's order is walked by itself, and the seams between them compared.

A walk starts without knowing memory: the first access to a byte tells what it must hold when the region
begins, and every later one is checked against the one before it. `Seams` then goes over the regions from
the first to the last and compares what each must find with what the one before it left. Both together say
what `solver.check.checker` says of the whole order, and share no code with granules, filters or engines
either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import GLUED, UNCACHED
from solver.check.sync_walk import BEHIND, SyncWalk, pass_syncs, sync_walk
from solver.check.windows import Windows
from solver.regions.image import FlatMemory, byte_mask, ensure, zeros
from solver.regions.region import Region
from solver.regions.violations import (
    LEFT_OUT,
    differs,
    misplaced,
    name_row,
    not_as_held,
    not_final,
    outside_memory,
    split_access,
    too_many,
    unfinished_access,
)

#: Rows of a run that are walked where they are, and words that there is room for at first.
_LONG, _WORDS = 1 << 10, 1 << 12
_OK, _REFILL, _ROOM, _OLD, _PLACE, _SPLIT, _RANGE, _BEHIND = range(8)
_BYTE, _ALL = np.uint64(0xFF), ~np.uint64(0)
_ZERO, _ONE, _THREE, _SEVEN, _EIGHT = (np.uint64(n) for n in (0, 1, 3, 7, 8))
_NO_END = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Bytes of memory for which one mark says whether any of them was touched: of a large memory little is.
NEAR = 1 << 21
_NEAR_WORDS = np.uint64(18)


@dataclass(frozen=True)
class Seam:
    """What a walked region asks of memory, and what it leaves. rows: how many were walked.

    word: uint64 (n,), address / 8, of all words that it touches. known: uint8 (n,), bit b set if it
    touches byte b. first, last: uint64 (n,), what these bytes must hold before it, and hold after it.
    """

    region: int
    rows: int
    word: NDArray[np.uint64]
    known: NDArray[np.uint8]
    first: NDArray[np.uint64]
    last: NDArray[np.uint64]


@njit(cache=True)
def walk_bytes(word, low, size, old, new, value, first, known):  # type: ignore[no-untyped-def]
    """As `walk_word`, byte by byte."""
    for b in range(low, low + size):
        up = np.uint64(8 * b)
        was, becomes = old & _BYTE, new & _BYTE
        if known[word] & (1 << b) == 0:
            known[word] |= np.uint8(1 << b)
            first[word] |= was << up
        elif (value[word] >> up) & _BYTE != was:
            return b - low
        value[word] = (value[word] & ~(_BYTE << up)) | (becomes << up)
        old, new = old >> np.uint64(8), new >> np.uint64(8)
    return -1


@njit(cache=True)
def walk_word(word, low, size, old, new, value, first, known):  # type: ignore[no-untyped-def]
    """Compare an access to `size` bytes of a word from byte `low` on with what they hold, where that is
    known, and store its new ones. Returns the number of the first byte that differs, or -1."""
    bits = np.uint8(((1 << size) - 1) << low)
    if known[word] & bits != bits:
        return walk_bytes(word, low, size, old, new, value, first, known)
    up = np.uint64(8 * low)
    mask = (_ALL >> np.uint64(64 - 8 * size)) << up
    held = value[word]
    if (held ^ (old << up)) & mask != 0:
        return walk_bytes(word, low, size, old, new, value, first, known)
    value[word] = (held & ~mask) | ((new << up) & mask)
    return -1


@njit(cache=True)
def walk_row(row, value, first, known, touched, now):  # type: ignore[no-untyped-def]
    """Walk one row. Words not seen before are entered in `touched`, now[2] of them. Returns the number of
    the first byte that differs, or -1."""
    word, low = np.int64(row.addr >> np.uint64(3)), np.int64(row.addr & np.uint64(7))
    size = np.int64(row.size)
    here = min(size, 8 - low)
    if known[word] == 0:
        touched[now[2]] = word
        now[2] += 1
    byte = walk_word(word, low, here, row.old, row.new, value, first, known)
    if byte >= 0 or here == size:
        return byte
    if known[word + 1] == 0:
        touched[now[2]] = word + 1
        now[2] += 1
    shift = np.uint64(8 * here)
    byte = walk_word(word + 1, 0, size - here, row.old >> shift, row.new >> shift, value, first, known)
    return byte + here if byte >= 0 else byte


#: Rows of `bounds_of`: places at a region's two ends, and those between which a stream's rows may be walked
#: now.
_BEGIN, _END, _FROM, _BELOW = range(4)


def bounds_of(low: NDArray[np.uint64], high: NDArray[np.uint64], syncs: SyncWalk) -> NDArray[np.uint64]:
    """Bounds of the rows of a region, uint64 (4, n_streams): the places at its two ends, and those until the
    next sync point that a stream waits for."""
    bounds = np.stack([low, high, low, high])
    _narrow(bounds, syncs)
    return bounds


@njit(cache=True, nogil=True)
def _narrow(bounds, syncs):  # type: ignore[no-untyped-def]
    for k in range(syncs.bar.size):
        bounds[_FROM, k] = max(bounds[_BEGIN, k], syncs.floor[k])
        bounds[_BELOW, k] = min(bounds[_END, k], syncs.bar[k])


@njit(cache=True, nogil=True)
def admit(row, s, region, bounds, syncs):  # type: ignore[no-untyped-def]
    """Whether a row outside of the narrower bounds may be walked: _OK once the sync points that it waits for
    are passed, else what is wrong with its place."""
    outside = row.count < bounds[_BEGIN, s] or row.count >= bounds[_END, s]
    if np.int64(row.stratum) != region or outside:
        return _PLACE
    if not pass_syncs(s, row.count, syncs):
        return _BEHIND
    _narrow(bounds, syncs)
    return _OK


@njit(cache=True, nogil=True)
def walk_span(rows, at, end, s, place, memory, value, first, known, touched, now):  # type: ignore[no-untyped-def]
    """Walk rows at..end of stream s. place: int64 region, and its `bounds_of`.
    now: [stream of an unfinished indivisible access or -1, rows walked, words touched]. Returns (index of the
    first row that is not walked, status, byte).

    What nearly every row is, an access to bytes of one word that are all known or all new, is done here and
    not by `walk_row`: a call costs more than all of it.
    """
    region, low, high = place[0], place[1][_FROM, s], place[1][_BELOW, s]
    if at < end and now[0] >= 0 and now[0] != s:
        return at, _SPLIT, 0
    status, byte, done, n_touched = _OK, 0, end, now[2]
    for i in range(at, end):
        row = rows[i]
        if np.int64(row.stratum) != region or row.count < low or row.count >= high:
            status, done = _PLACE, i
            break
        if row.flags & UNCACHED:
            continue
        address, size = row.addr, np.uint64(row.size)
        if address > memory or address + size > memory or size < _ONE or size > _EIGHT:
            status, done = _RANGE, i
            break
        if n_touched + 2 > touched.size:
            status, done = _ROOM, i
            break
        offset = address & _SEVEN
        if offset + size <= _EIGHT:
            word, up = address >> _THREE, offset << _THREE
            bits = ((_ONE << size) - _ONE) << offset
            mask = _ALL >> ((_EIGHT - size) << _THREE) << up
            held, before = value[word], np.uint64(known[word])
            if before & bits == bits:
                if (held ^ (row.old << up)) & mask == _ZERO:
                    value[word] = (held & ~mask) | ((row.new << up) & mask)
                    continue
            elif before & bits == _ZERO:
                if before == _ZERO:
                    touched[n_touched] = np.int64(word)
                    n_touched += 1
                known[word] = np.uint8(before | bits)
                first[word] |= (row.old << up) & mask
                value[word] = (held & ~mask) | ((row.new << up) & mask)
                continue
        now[2] = n_touched
        byte = walk_row(row, value, first, known, touched, now)
        n_touched = now[2]
        if byte >= 0:
            status, done = _OLD, i
            break
    now[1] += done - at
    now[2] = n_touched
    if done > at:
        now[0] = s if rows[done - 1].flags & GLUED else -1
    return done, status, byte


@njit(cache=True, nogil=True)
def walk_runs(stream, left, run, windows, place, syncs, memory, value, first, known, touched, now):  # type: ignore[no-untyped-def]
    """Walk runs from `run` on: of each, the next left[run] rows of stream[run]; place, now: see `walk_span`.
    syncs: `sync_check.SyncWalk`. Returns (run, status, stream, byte): _REFILL asks for rows of that stream,
    _ROOM for room for words; the violations name the row at that stream's position."""
    window, at, fill = windows
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            begin = at[s]
            if begin == fill[s]:
                return run, _REFILL, s, 0
            end = min(fill[s], begin + left[run])
            at[s], status, byte = walk_span(
                window[s], begin, end, s, place, memory, value, first, known, touched, now
            )
            left[run] -= at[s] - begin
            if status == _PLACE:
                status = admit(window[s, at[s]], s, place[0], place[1], syncs)
            if status != _OK:
                return run, status, s, byte
        run += 1
    return run, _OK, 0, 0


@njit(cache=True, nogil=True)
def take_words(touched, value, first, known, bits, before, after):  # type: ignore[no-untyped-def]
    """Read the touched words out and forget them."""
    for i in range(touched.size):
        w = touched[i]
        bits[i], before[i], after[i] = known[w], first[w], value[w]
        known[w] = 0
        first[w] = value[w] = np.uint64(0)


class RegionWalker:
    """Walks regions, one at a time, in any order. memory_bytes: of the guest. strata: see `Traces`."""

    def __init__(self, memory_bytes: int, strata: NDArray[np.uint64], n_streams: int) -> None:
        words = (memory_bytes + 7) // 8
        self._memory = np.uint64(memory_bytes)
        self._value, self._first = zeros(8 * words).view(np.uint64), zeros(8 * words).view(np.uint64)
        self._known = zeros(words)
        self._touched = np.empty(_WORDS, np.int64)
        edge = np.ascontiguousarray(strata, np.uint64).reshape(-1, n_streams)
        self._edges = np.concatenate(
            [np.zeros((1, n_streams), np.uint64), edge, np.full((1, n_streams), _NO_END)]
        )

    def walk(self, region: Region, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Seam:
        """Walk all rows of a region in the order that the runs (stream and rows of each, int64) say.

        Raises OrderError at the first violation, also if a row is left out or the order ends inside an
        indivisible access.
        """
        windows, index = Windows([rows.pieces() for rows in region.streams]), region.index
        now, left = np.array([-1, 0, 0], np.int64), rows.copy()
        syncs = sync_walk(region.syncs.points, len(region.streams) - 1)
        place = index, bounds_of(self._edges[index], self._edges[index + 1], syncs)
        run = 0
        try:
            while run < len(stream):
                run, status, s, byte = walk_runs(
                    stream, left, run, (windows.rows, windows.at, windows.fill), place, syncs,
                    *self._state(now),
                )  # fmt: skip
                if status == _REFILL and left[run] >= _LONG:
                    left[run] -= self._walk_long(windows, s, int(left[run]), place, syncs, now)
                elif status == _REFILL:
                    if not windows.refill(s):
                        raise too_many(f"stream {s}, region {index}")
                elif status == _ROOM:
                    self._make_room()
                elif status != _OK:
                    raise self._violation(windows.rows[s, windows.at[s]], now, status, s, byte)
            self._expect_end(windows, now, index)
        finally:
            seam = self._seam(index, int(now[1]), self._touched[: now[2]])
        return seam

    def _state(self, now: NDArray[np.int64]) -> tuple[Any, ...]:
        return self._memory, self._value, self._first, self._known, self._touched, now

    def _make_room(self) -> None:
        self._touched = np.concatenate([self._touched, np.empty_like(self._touched)])

    def _walk_long(
        self, windows: Windows, s: int, most: int, place: Any, syncs: SyncWalk, now: NDArray[np.int64]
    ) -> int:
        """Walk up to `most` rows that follow a window, where they are: to copy them costs as much."""
        rows = windows.rest(s)
        if not len(rows):
            raise too_many(f"stream {s}, region {place[0]}")
        done, status, byte = walk_span(rows, 0, min(len(rows), most), s, place, *self._state(now))
        if status == _PLACE:
            status = admit(rows[done], s, *place, syncs)
        if status == _ROOM:
            self._make_room()
        elif status != _OK:
            raise self._violation(rows[done], now, status, s, byte)
        windows.skip(s, done)
        return int(done)

    def _expect_end(self, windows: Windows, now: NDArray[np.int64], index: int) -> None:
        for s in range(len(windows.at)):
            if windows.at[s] < windows.fill[s] or windows.refill(s):
                raise OrderError(LEFT_OUT, where=name_row(s, windows.rows[s, windows.at[s]]))
        if now[0] >= 0:
            raise unfinished_access(f"stream {now[0]}, region {index}")

    def _violation(self, row: np.void, now: NDArray[np.int64], status: int, s: int, byte: int) -> OrderError:
        where = name_row(s, row)
        if status == _PLACE:
            return misplaced(where)
        if status == _BEHIND:
            return OrderError(BEHIND, where=where)
        if status == _SPLIT:
            return split_access(int(now[0]), where)
        if status == _RANGE:
            return outside_memory(where)
        return not_as_held(row, byte, self.held(int(row["addr"]) + byte), where)

    def held(self, address: int) -> int:
        """What the walk so far left at an address that it touched."""
        return (int(self._value[address // 8]) >> (8 * (address % 8))) & 0xFF

    def _seam(self, index: int, rows: int, touched: NDArray[np.int64]) -> Seam:
        """Read the touched words out and forget them."""
        bits = np.empty(len(touched), np.uint8)
        first, last = np.empty(len(touched), np.uint64), np.empty(len(touched), np.uint64)
        take_words(touched, self._value, self._first, self._known, bits, first, last)
        return Seam(index, rows, touched.astype(np.uint64), bits, first, last)


@njit(cache=True, nogil=True)
def cross_seam(word, known, first, last, marks, near, state, loaded, image):  # type: ignore[no-untyped-def]
    """Compare the first values of a region's bytes with memory and store their last ones. near: uint8, set
    for each `NEAR` bytes of memory that have marks. Returns (index, byte) of the first that differs, or
    (-1, 0)."""
    words = state.view(np.uint64)
    for i in range(word.size):
        ensure(np.int64(word[i] >> np.uint64(9)), state, loaded, image)
        marks[word[i]] |= known[i]
        near[word[i] >> _NEAR_WORDS] = 1
        mask, held = byte_mask(known[i]), words[word[i]]
        wrong = (held ^ first[i]) & mask
        if wrong != _ZERO:
            for b in range(8):
                if (wrong >> np.uint64(8 * b)) & _BYTE:
                    return i, b
        words[word[i]] = (held & ~mask) | (last[i] & mask)
    return -1, 0


@njit(cache=True)
def first_difference(state, loaded, marks, near, final):  # type: ignore[no-untyped-def]
    """Address of the first touched byte that is not the final image's, or -1."""
    for region in range(near.size):
        if near[region] == 0:
            continue
        first = region * NEAR
        for page in range(first >> 12, min((first + NEAR) >> 12, loaded.size)):
            if loaded[page] == 0:
                continue
            for a in range(page << 12, min((page + 1) << 12, final.size)):
                if (marks[a >> 3] >> (a & 7)) & 1 and state[a] != final[a]:
                    return a
    return -1


class Seams:
    """Memory between the regions, as the walked orders leave it. Call `cross` or `pass_over` once a region,
    from the first to the last, then `finish`."""

    def __init__(self, initial: NDArray[np.uint8]) -> None:
        self._memory = FlatMemory(initial)
        self._marks = zeros(len(self._memory.state) // 8)
        self._near = np.zeros(-(-len(self._memory.state) // NEAR), np.uint8)
        self.events = 0

    def cross(self, seam: Seam) -> None:
        """Go over a walked region. Raises OrderError if it does not begin with what memory holds."""
        memory = self._memory
        i, byte = cross_seam(
            seam.word,
            seam.known,
            seam.first,
            seam.last,
            self._marks,
            self._near,
            memory.state,
            memory.loaded,
            memory.image,
        )
        if i >= 0:
            address = int(seam.word[i]) * 8 + byte
            held, found = int(memory.state[address]), (int(seam.first[i]) >> (8 * byte)) & 0xFF
            raise differs(address, held, found, f"region {seam.region}")
        self.events += seam.rows

    def pass_over(self, address: NDArray[np.uint64], value: NDArray[np.uint8]) -> None:
        """Go over a region that has no order: give the bytes that it wrote their values after it."""
        self._memory.store(address, np.ones(len(address), np.uint8), value.astype(np.uint64))
        np.bitwise_or.at(
            self._marks, address >> np.uint64(3), np.uint8(1) << (address & np.uint64(7)).astype(np.uint8)
        )
        self._near[address // np.uint64(NEAR)] = 1

    def finish(self, final: NDArray[np.uint8]) -> None:
        """Compare memory with the final image wherever an event touched it. Raises OrderError."""
        final = np.asarray(final)
        a = first_difference(self._memory.state, self._memory.loaded, self._marks, self._near, final)
        if a >= 0:
            raise not_final(int(a), int(final[a]), int(self._memory.state[a]))
