"""Which accesses race, by vector clocks with epochs (FastTrack: Flanagan and Freund, PLDI 2009).

The history is a sequence of operations, each by one thread: accesses to bytes, releases and acquires of
objects, and walls, which everything before precedes and everything behind follows. A thread's clock says how
much of every thread comes before where it stands; it counts its own releases. Bytes that synchronise are not
looked at for races: a read acquires what the write that it reads from has released.

`racing` says by epochs in which bytes anything races: of each the last write, and the reads since, of which
those that a later one follows are forgotten. What it says is exact for the first race of a byte. `races`
lists pairs in those bytes, against the last access of every thread at every place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner

#: What an operation is. CLEAR: of bytes, whatever was known of them is over.
ACCESS, RELEASE, ACQUIRE, CLEAR, WALL = 0, 1, 2, 3, 4
#: What an access does; an UPDATE reads and writes as one.
READS, WRITES, UPDATES = 1, 2, 3
#: Besides, of an update that left the value as it was: it releases nothing.
FAILED = 4
#: Accesses that are kept of a byte for pairs, at most.
MOST_OF_BYTE = 1 << 12
_ROOM = 1 << 16
_FULL_AT = _ROOM - (MOST_OF_BYTE << 3)


class History(NamedTuple):
    """n operations. what: int8. who: int32, threads from 0. does: int8, of accesses, `READS` and so on.
    place: int64, of accesses, where in the program. cell: int64, of accesses and `CLEAR` the number of the
    first byte, of others the object. size: int8, bytes, which are `cell` and those behind it. synchronises:
    bool, of each byte. threads, objects: how many there are."""

    what: NDArray[np.int8]
    who: NDArray[np.int32]
    does: NDArray[np.int8]
    place: NDArray[np.int64]
    cell: NDArray[np.int64]
    size: NDArray[np.int8]
    synchronises: NDArray[np.bool_]
    threads: int
    objects: int


@inner
def join(into, other):  # type: ignore[no-untyped-def]
    """into = max(into, other), both int32 (threads,)."""
    for t in range(into.size):
        if other[t] > into[t]:
            into[t] = other[t]


@inner
def copy_clock(source, target):  # type: ignore[no-untyped-def]
    """target[:] = source."""
    for t in range(target.size):
        target[t] = source[t]


@njit(cache=True)
def synchronise(i, h, clocks, released, slot):  # type: ignore[no-untyped-def]
    """What operation i does to clocks, int32 (threads, threads), and to what objects and bytes have released:
    int32 (some, threads); slot: int64, of each byte that synchronises its row there. Returns whether it is an
    access to bytes that synchronise, at least one of them."""
    t = h.who[i]
    if h.what[i] == RELEASE:
        join(released[h.cell[i]], clocks[t])
        clocks[t, t] += 1
    elif h.what[i] == ACQUIRE:
        join(clocks[t], released[h.cell[i]])
    elif h.what[i] == WALL:
        for u in range(h.threads):
            join(clocks[0], clocks[u])
        for u in range(h.threads):
            copy_clock(clocks[0], clocks[u])
        for u in range(h.threads):
            clocks[u, u] += 1
    elif h.what[i] == ACCESS:
        here = False
        for c in range(h.cell[i], h.cell[i] + h.size[i]):
            if h.synchronises[c]:
                here = True
                if h.does[i] & READS:
                    join(clocks[t], released[slot[c]])
        if here and h.does[i] & WRITES and not h.does[i] & FAILED:
            for c in range(h.cell[i], h.cell[i] + h.size[i]):
                if h.synchronises[c]:
                    copy_clock(clocks[t], released[slot[c]])
            clocks[t, t] += 1
        return here
    return False


@njit(cache=True)
def racing(h, clocks, released, slot, first, writes, nodes):  # type: ignore[no-untyped-def]
    """Which bytes have a race: bool (bytes,). first: int64 (bytes,), -1, the first of the nodes of a byte's
    reads. writes: int32 (bytes, 2), thread and clock of its last write, -1. nodes: int64 (room, 3), thread,
    clock and the next; grown here."""
    found = np.zeros(first.size, np.bool_)
    free, used = np.int64(-1), 0
    for i in range(h.what.size):
        # What an access releases it comes before itself.
        now = clocks[h.who[i], h.who[i]]
        synchronise(i, h, clocks, released, slot)
        if h.what[i] == CLEAR:
            for c in range(h.cell[i], h.cell[i] + h.size[i]):
                writes[c, 0] = -1
                first[c] = -1
        if h.what[i] != ACCESS:
            continue
        t, is_write = h.who[i], h.does[i] & WRITES
        for c in range(h.cell[i], h.cell[i] + h.size[i]):
            if h.synchronises[c] or found[c]:
                continue
            u = writes[c, 0]
            if u >= 0 and u != t and writes[c, 1] > clocks[t, u]:
                found[c] = True
                continue
            # Reads that this one follows are told by it; of the others a write is told.
            before, at, mine = np.int64(-1), first[c], np.int64(-1)
            while at >= 0:
                following, u = nodes[at, 2], nodes[at, 0]
                if u == t:
                    mine = at
                if nodes[at, 1] <= clocks[t, u] and (u != t or is_write):
                    if before < 0:
                        first[c] = following
                    else:
                        nodes[before, 2] = following
                    nodes[at, 2] = free
                    free = at
                else:
                    if is_write and u != t:
                        found[c] = True
                    before = at
                at = following
            if is_write:
                writes[c, 0], writes[c, 1] = t, now
            elif mine >= 0:
                nodes[mine, 1] = now
            else:
                if free >= 0:
                    at, free = free, nodes[free, 2]
                else:
                    if used == nodes.shape[0]:
                        more = np.empty((2 * used, 3), np.int64)
                        more[:used] = nodes
                        nodes = more
                    at = used
                    used += 1
                nodes[at, 0], nodes[at, 1], nodes[at, 2] = t, now, first[c]
                first[c] = at
    return found


@njit(cache=True)
def races(start, h, clocks, released, slot, last, pairs):  # type: ignore[no-untyped-def]
    """List racing pairs from operation `start` on, as long as there is room in pairs: int64 (room, 2), both
    operations, the earlier first. last: (first, nodes, state): int64 (bytes,), -1 for bytes without a race
    -2, the first node; int64 (room, 5), thread, place << 2 | what it does, clock, operation, next; int64
    (2,), nodes that are used, accesses that were not kept. Returns (next start, listed)."""
    first, nodes, state = last
    n = 0
    for i in range(start, h.what.size):
        if n > _FULL_AT:
            return i, n
        # What an access releases it comes before itself.
        now = clocks[h.who[i], h.who[i]]
        synchronise(i, h, clocks, released, slot)
        if h.what[i] == CLEAR:
            for c in range(h.cell[i], h.cell[i] + h.size[i]):
                if first[c] >= 0:
                    first[c] = -1
        if h.what[i] != ACCESS:
            continue
        t, writes, begun = h.who[i], h.does[i] & WRITES, n
        key = h.place[i] << 2 | (h.does[i] & UPDATES)
        for c in range(h.cell[i], h.cell[i] + h.size[i]):
            if first[c] == -2 or h.synchronises[c]:
                continue
            at, mine, length = first[c], np.int64(-1), 0
            while at >= 0:
                length += 1
                u = nodes[at, 0]
                if u == t:
                    if nodes[at, 1] == key:
                        mine = at
                elif (writes or nodes[at, 1] & WRITES) and nodes[at, 2] > clocks[t, u]:
                    other, known = nodes[at, 3], False
                    for k in range(begun, n):
                        known |= pairs[k, 0] == other
                    if not known:
                        pairs[n, 0], pairs[n, 1] = other, i
                        n += 1
                at = nodes[at, 4]
            if mine < 0:
                if length >= MOST_OF_BYTE or state[0] == nodes.shape[0]:
                    state[1] += 1
                    continue
                mine = state[0]
                state[0] += 1
                nodes[mine, 0], nodes[mine, 1], nodes[mine, 4] = t, key, first[c]
                first[c] = mine
            nodes[mine, 2], nodes[mine, 3] = now, i
    return h.what.size, n


def _clocks(h: History) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """(clocks, released, slot) where nothing has happened."""
    clocks = np.zeros((h.threads, h.threads), np.int32)
    np.fill_diagonal(clocks, 1)
    slot = np.full(len(h.synchronises), -1, np.int64)
    n = int(h.synchronises.sum())
    slot[h.synchronises] = h.objects + np.arange(n)
    return clocks, np.zeros((h.objects + n, h.threads), np.int32), slot


def racing_bytes(h: History) -> NDArray[np.bool_]:
    """Which bytes have a race: bool (bytes,)."""
    n = len(h.synchronises)
    writes = np.full((n, 2), -1, np.int32)
    found: NDArray[np.bool_] = racing(
        h, *_clocks(h), np.full(n, -1, np.int64), writes, np.zeros((1024, 3), np.int64)
    )
    return found


def racing_pairs(h: History) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The races, of each with the last access of every other thread at every place: (int64 (n, 2),
    operations; how many accesses have not been kept so far, since there are too many places)."""
    found = racing_bytes(h)
    if not found.any():
        return
    clocks, first = _clocks(h), np.where(found, np.int64(-1), np.int64(-2))
    room = int(min(1 << 24, 64 + int(h.size[h.what == ACCESS].sum(dtype=np.int64))))
    last = first, np.zeros((room, 5), np.int64), np.zeros(2, np.int64)
    start = 0
    while start < len(h.what):
        pairs = np.empty((_ROOM, 2), np.int64)
        start, n = races(start, h, *clocks, last, pairs)
        yield pairs[:n], int(last[2][1])
