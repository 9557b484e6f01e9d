"""Which write each byte that a read saw comes from, in a given order: the last one before it, or under TSO
its core's own newest store that it overlaps, while that has not committed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.image import zeros
from solver.score.shared import READS, WRITES, Accesses

#: Where a byte was last written in a region whose order is not known.
UNKNOWN = ~np.uint64(0)


#: No processor.
NOBODY = -1


class Walk(NamedTuple):
    """What a walk goes by. first_store: the first stream of stores, of which there are `buffered`. changed:
    whether only writes that changed a byte count. apart: a processor whose writes do not, or `NOBODY`."""

    first_store: int
    buffered: int
    changed: bool
    apart: int = NOBODY


@njit(cache=True, nogil=True)
def newest_buffered(i, a, core, first_store, at):  # type: ignore[no-untyped-def]
    """The newest store of the core before access i in program order that overlaps it and has not committed,
    or -1. at: int64 (n_streams,), the next access of each stream."""
    stream = first_store + core
    low, high = at[stream], a.begin[stream + 1]
    while low < high:
        middle = (low + high) // 2
        if a.number[middle] < a.number[i]:
            low = middle + 1
        else:
            high = middle
    first, end = a.address[i], a.address[i] + np.uint64(a.size[i])
    for j in range(low - 1, at[stream] - 1, -1):
        if a.address[j] < end and first < a.address[j] + np.uint64(a.size[j]):
            return j
    return -1


@njit(cache=True, nogil=True)
def follow_sources(order, a, walk, at, last, begin, source):  # type: ignore[no-untyped-def]
    """Walk accesses (`Accesses`) in `order`.

    at: int64 (n_streams,), the first access of each stream. last: uint64[memory], the number of each byte's
    last write; both are changed. begin: int64 (n,), where each access's bytes begin in `source` (uint64),
    which is filled in, also for those that only write: whose write they overwrite.
    """
    first_store, buffered, changed, apart = walk
    for k in range(order.size):
        i = order[k]
        first, size = np.int64(a.address[i]), np.int64(a.size[i])
        core = np.int64(a.processor[i])
        loads = buffered > 0 and core < buffered and a.does[i] == READS
        own = newest_buffered(i, a, core, first_store, at) if loads else -1
        for b in range(size):
            source[begin[i] + b] = last[first + b]
        if own >= 0:
            low = max(first, np.int64(a.address[own]))
            high = min(first + size, np.int64(a.address[own]) + np.int64(a.size[own]))
            for b in range(low - first, high - first):
                source[begin[i] + b] = a.number[own]
        if a.does[i] & WRITES and core != apart:
            for b in range(size):
                if not changed or a.changes[i] & (1 << b):
                    last[first + b] = a.number[i]
        if buffered > 0 and i >= a.begin[first_store]:
            at[first_store + core] = i + 1


@njit(cache=True, nogil=True)
def compare_sources(a, placed, begin, true, found, unknown):  # type: ignore[no-untyped-def]
    """(reads with the same source for every byte, with another, with none that is known)."""
    same, other, none = 0, 0, 0
    for s in range(placed.size):
        for i in range(a.begin[s], placed[s]):
            if not a.does[i] & READS:
                continue
            differs, open_ = False, False
            for b in range(begin[i], begin[i] + np.int64(a.size[i])):
                open_ = open_ or found[b] == unknown
                differs = differs or found[b] != true[b]
            if open_:
                none += 1
            elif differs:
                other += 1
            else:
                same += 1
    return same, other, none


@njit(cache=True, nogil=True)
def forget_writes(a, placed, last, unknown):  # type: ignore[no-untyped-def]
    """Nobody knows which write to these bytes was the last: it is `unknown` (uint64)."""
    for s in range(placed.size):
        for i in range(a.begin[s], placed[s]):
            if a.does[i] & WRITES:
                first = np.int64(a.address[i])
                for b in range(np.int64(a.size[i])):
                    last[first + b] = unknown


class Sources:
    """The last write to every byte in the order walked so far, region by region; if `changed` the last one
    that changed the byte."""

    def __init__(self, memory_bytes: int, n_streams: int, buffered: int, changed: bool) -> None:
        self._last = zeros(8 * memory_bytes).view(np.uint64)
        self._walk = Walk(n_streams - buffered, buffered, changed)

    def walk(
        self, accesses: Accesses, order: NDArray[np.int64], begin: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        """The number of the write that each byte of each access comes from (uint64; `begin`, int64 (n + 1,),
        says where an access's bytes begin), 0 for memory as it was before the first event."""
        source = np.zeros(int(begin[-1]), np.uint64)
        at = accesses.begin[:-1].copy()
        follow_sources(order, accesses, self._walk, at, self._last, begin, source)
        return source

    def pass_over(self, accesses: Accesses, begin: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A region without an order: all sources are UNKNOWN."""
        forget_writes(accesses, accesses.placed, self._last, UNKNOWN)
        return np.full(int(begin[-1]), UNKNOWN, np.uint64)
