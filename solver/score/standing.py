"""How many conflicting pairs of a region stand in one order as they do in another.

Two accesses of different processors conflict if they have a byte in common and one of them writes. A pair is
counted at the first byte that both have; of two accesses with a byte in common that is where one of them
begins. So the pairs counted at byte x are those of the accesses that cover x, less those of the accesses that
cover x and begin before it. Pairs that stand the other way round are the inversions of one order in the
other, counted while it is sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.score.shared import WRITES, Accesses


@njit(cache=True, nogil=True)
def inversions(ranks, n, room):  # type: ignore[no-untyped-def]
    """Pairs of ranks[:n] (int64) that stand in falling order. Sorts them. room: int64 of the same length."""
    swaps, width = 0, 1
    while width < n:
        for low in range(0, n - width, 2 * width):
            middle, high = low + width, min(low + 2 * width, n)
            if ranks[middle - 1] <= ranks[middle]:
                continue
            i, j, k = low, middle, low
            while i < middle or j < high:
                if j == high or (i < middle and ranks[i] <= ranks[j]):
                    room[k] = ranks[i]
                    i += 1
                else:
                    room[k] = ranks[j]
                    swaps += middle - i
                    j += 1
                k += 1
            ranks[low:high] = room[low:high]
        width *= 2
    return swaps


@njit(cache=True, nogil=True)
def _some(listed, n, a, before, readers, processor, picked):  # type: ignore[no-untyped-def]
    """Pick of listed[:n] those that begin before a byte (any: -1), only read if `readers`, and are of one
    processor (any: -1). Returns how many."""
    m = 0
    for k in range(n):
        i = listed[k]
        if before >= 0 and np.int64(a.address[i]) >= before:
            continue
        if readers and a.does[i] & WRITES:
            continue
        if processor >= 0 and np.int64(a.processor[i]) != processor:
            continue
        picked[m] = i
        m += 1
    return m


@njit(cache=True, nogil=True)
def _fall(picked, m, rank, ranks, room):  # type: ignore[no-untyped-def]
    """Inversions among picked[:m]."""
    if m < 2:
        return 0
    rising = True
    for k in range(m):
        ranks[k] = rank[picked[k]]
        rising = rising and (k == 0 or ranks[k - 1] < ranks[k])
    return 0 if rising else inversions(ranks, m, room)


@njit(cache=True, nogil=True)
def _pairs_among(listed, n, a, before, n_processors, rank, crossed, work):  # type: ignore[no-untyped-def]
    """(conflicting pairs, of them those that stand the other way round in `rank`) of listed[:n], or of those
    of them that begin before a byte. crossed: whether a processor's own accesses may change places."""
    picked, ranks, room, per = work
    total, other = 0, 0
    for readers in (False, True):
        sign = -1 if readers else 1
        m = _some(listed, n, a, before, readers, -1, picked)
        if m < 2:
            continue
        per[:] = 0
        for k in range(m):
            per[np.int64(a.processor[picked[k]])] += 1
        pairs = m * (m - 1) // 2
        for p in range(n_processors):
            pairs -= per[p] * (per[p] - 1) // 2
        total += sign * pairs
        falls = _fall(picked, m, rank, ranks, room)
        if crossed and falls:
            for p in range(n_processors):
                if per[p] > 1:
                    m = _some(listed, n, a, before, readers, p, picked)
                    falls -= _fall(picked, m, rank, ranks, room)
        other += sign * falls
    return total, other


@njit(cache=True, nogil=True)
def count_pairs(starts, ptr, listed, a, n_processors, rank, crossed):  # type: ignore[no-untyped-def]
    """(conflicting pairs, those that stand the other way round) over all bytes. starts: int64 (m,), bytes at
    which an access begins; listed[ptr[k]:ptr[k + 1]] are the accesses that cover starts[k], in one order;
    rank: int64 (n,), their places in the other."""
    longest = 1
    for k in range(starts.size):
        longest = max(longest, ptr[k + 1] - ptr[k])
    work = (
        np.empty(longest, np.int64), np.empty(longest, np.int64), np.empty(longest, np.int64),
        np.zeros(n_processors, np.int64),
    )  # fmt: skip
    total, other = 0, 0
    for k in range(starts.size):
        here = listed[ptr[k] : ptr[k + 1]]
        pairs, falls = _pairs_among(here, here.size, a, -1, n_processors, rank, crossed, work)
        total, other = total + pairs, other + falls
        if pairs:
            pairs, falls = _pairs_among(here, here.size, a, starts[k], n_processors, rank, crossed, work)
            total, other = total - pairs, other - falls
    return total, other


@njit(cache=True, nogil=True)
def list_cover(order, a, starts, low, ptr, listed):  # type: ignore[no-untyped-def]
    """List the accesses, in `order`, at each of `starts` (ascending) that they cover. low: int64 (n,), the
    first of `starts` that is not before each access. ptr: int64 (m + 1,), where each list begins if `listed`
    has room; otherwise, how many cover each is counted in ptr[1:]."""
    for k in range(order.size):
        i = order[k]
        end = np.int64(a.address[i]) + np.int64(a.size[i])
        j = low[i]
        while j < starts.size and starts[j] < end:
            if listed.size:
                listed[ptr[j]] = i
                ptr[j] += 1
            else:
                ptr[j + 1] += 1
            j += 1


def compare_standing(
    accesses: Accesses,
    true: NDArray[np.int64],
    found: NDArray[np.int64],
    n_processors: int,
    crossed: bool,
) -> tuple[int, int]:
    """(conflicting pairs, of them those that stand in `found` as in `true`). true, found: the accesses in two
    orders, int64 (n,). crossed: whether orders may differ within a processor (under TSO)."""
    if len(true) < 2:
        return 0, 0
    address = accesses.address.astype(np.int64)
    starts = np.unique(address[true])
    low = np.searchsorted(starts, address)
    rank = np.zeros(len(address), np.int64)
    rank[found] = np.arange(len(found))
    ptr = np.zeros(len(starts) + 1, np.int64)
    list_cover(true, accesses, starts, low, ptr, np.empty(0, np.int64))
    ptr = np.cumsum(ptr)
    listed = np.empty(int(ptr[-1]), np.int64)
    list_cover(true, accesses, starts, low, ptr[:-1].copy(), listed)
    total, other = count_pairs(starts, ptr, listed, accesses, n_processors, rank, crossed)
    return int(total), int(total - other)
