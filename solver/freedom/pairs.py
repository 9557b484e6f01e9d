"""Every conflicting pair of operations of different cores: must, may, or undecided
(`solver.freedom.freedom`)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.freedom.freedom import Freedom
from solver.regions.problem import Verdict

_ROOM = 1 << 15


class Order(enum.IntEnum):
    """MUST: the first comes before the second in every legal order. MAY: legal orders of both directions
    exist. UNDECIDED: not settled within the budget."""

    MUST = 0
    MAY = 1
    UNDECIDED = 2


class Pairs(NamedTuple):
    """Pairs of operations. first, second: int64 (n,); if not MUST, by stream. granule: int32 (n,), the first
    one over which they conflict. order: uint8 (n,), an `Order`."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    granule: NDArray[np.int32]
    order: NDArray[np.uint8]


@inner
def seen_before(a, p, b, c):  # type: ignore[no-untyped-def]
    """Whether a part of `a` before p conflicts with b too."""
    for q in range(c.part_ptr[a], p):
        for r in range(c.part_ptr[b], c.part_ptr[b + 1]):
            if c.granule[q] == c.granule[r] and (c.old[q] != c.new[q] or c.old[r] != c.new[r]):
                return True
    return False


@njit(cache=True)
def list_pairs(start, only, n_granules, clocks, c, pairs, counts):  # type: ignore[no-untyped-def]
    """List the pairs of the operations from `start` on with those of later streams, as long as there is
    room in `Pairs`. only: bits of the orders to list; all are counted in counts (int64 (3,), by `Order`).
    clocks: `Freedom.must` and `Freedom.low`. n_granules: those that are memory, and do not only tell order.
    Returns (next start, listed)."""
    must, low = clocks
    first, second, granule, order = pairs
    n = 0
    for a in range(start, must.shape[0]):
        s = c.op_stream[a]
        most = 0
        for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
            g = c.granule[p]
            most += c.access_ptr[c.segment_ptr[g + 1]] - c.access_ptr[c.segment_ptr[g]]
        if only and n > 0 and n + most > first.size:
            return a, n
        for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
            g = c.granule[p]
            if g >= n_granules:
                continue
            for k in range(c.segment_ptr[g], c.segment_ptr[g + 1]):
                t = c.segment_stream[k]
                if t <= s or c.core[t] == c.core[s]:
                    continue
                for j in range(c.access_ptr[k], c.access_ptr[k + 1]):
                    b = c.access_op[j]
                    if c.old[p] == c.new[p] and c.access_old[j] == c.access_new[j]:
                        continue
                    if p > c.part_ptr[a] and seen_before(a, p, b, c):
                        continue
                    x, y, what = np.int64(a), np.int64(b), 2
                    if must[b, s] > a:
                        what = 0
                    elif must[a, t] > b:
                        x, y, what = np.int64(b), np.int64(a), 0
                    elif low[a, t] <= b and low[b, s] <= a:
                        what = 1
                    counts[what] += 1
                    if (only >> what) & 1:
                        first[n], second[n], granule[n], order[n] = x, y, g, what
                        n += 1
    return must.shape[0], n


def _room(freedom: Freedom) -> int:
    """Room for the pairs of any one operation at least."""
    chains = freedom.chains
    per_granule = np.diff(chains.access_ptr[chains.segment_ptr])
    per_op = np.bincount(
        np.repeat(np.arange(len(chains.part_ptr) - 1), np.diff(chains.part_ptr)),
        per_granule[chains.granule],
        len(chains.op_stream),
    )
    return max(_ROOM, int(per_op.max(initial=0)))


def iter_pairs(freedom: Freedom, only: frozenset[Order] = frozenset(Order)) -> Iterator[Pairs]:
    """The conflicting pairs of a region that has a legal order, in chunks; none if it has no legal order.
    Pairs come by the operation of the lower stream, then by that of the other."""
    if freedom.verdict is Verdict.ILLEGAL or not only:
        return
    bits, start, room = sum(1 << order for order in only), 0, _room(freedom)
    counts = np.zeros(3, np.int64)
    while start < len(freedom.must):
        pairs, clocks = _room_for(room), (freedom.must, freedom.low)
        start, n = list_pairs(start, bits, freedom.granules, clocks, freedom.chains, pairs, counts)
        if n:
            yield Pairs(pairs.first[:n], pairs.second[:n], pairs.granule[:n], pairs.order[:n])


def _room_for(n: int) -> Pairs:
    return Pairs(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.uint8))


def tally(freedom: Freedom) -> dict[Order, int]:
    """How many conflicting pairs of each kind there are; all zero if there is no legal order."""
    counts = np.zeros(3, np.int64)
    if freedom.verdict is not Verdict.ILLEGAL:
        clocks = freedom.must, freedom.low
        list_pairs(0, 0, freedom.granules, clocks, freedom.chains, _room_for(0), counts)
    return {order: int(counts[order]) for order in Order}
