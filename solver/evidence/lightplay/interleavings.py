"""The interleavings of a slice that keep each core's order, numbered as LightPlay numbers them (section 3.1).

An interleaving is an order of the operations 0..n-1, which are numbered core by core. All that begin with an
operation of the first core come before those that begin with one of the second, and so on: rank 0 runs core
after core. Figures 9 and 10 of the paper are tests.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase

#: The paper's largest slice: its GPU's shared memory allows no more.
PAPER_LIMIT = 18
#: Ranks are uint64, and a count of interleavings times the length of a slice must be one too.
_MOST = 1 << 64
#: What helps where a slice is too long.
SHORTER = Phrase("record with fewer ", Option("slice_accesses"))
SMALLER = Phrase("use ", Option("backend", "cut"), ", or ", *SHORTER.parts)


class TooLong(UsageError):
    """A slice with more interleavings than can be numbered."""


def count(sizes: Sequence[int]) -> int:
    """perm_count: how many interleavings cores of these sizes have, exactly."""
    ways, total = 1, 0
    for size in sizes:
        total += size
        ways *= math.comb(total, size)
    return ways


def checked_count(sizes: Sequence[int], where: str = "") -> int:
    """`count`, if ranks fit into 64 bits. Raises TooLong."""
    ways = count(sizes)
    if ways * max(sum(sizes), 1) >= _MOST:
        raise TooLong(
            "a slice has more interleavings than can be numbered",
            expected=f"below 2**64 / {sum(sizes)}",
            found=f"{sum(sizes)} accesses, {ways:.3g} interleavings",
            where=where or None,
            remedy=SMALLER,
        )
    return ways


@njit(cache=True)
def first_step(rank, ways, left, remaining):  # type: ignore[no-untyped-def]
    """One step of Figure 10: which core's operation comes next. left: int64 (cores,), operations of each core
    that are left, `remaining` in all, with `ways` interleavings. Returns (core, rank among those that go on
    so, how many they are)."""
    for core in range(left.size):
        here = ways * np.uint64(left[core]) // np.uint64(remaining)
        if rank < here:
            return core, rank, here
        rank -= here
    return -1, rank, np.uint64(0)


@njit(cache=True)
def unrank_into(rank, ways, core_ptr, order):  # type: ignore[no-untyped-def]
    """Fill `order` (int64) with the interleaving of this rank (uint64, below `ways`)."""
    cores = core_ptr.size - 1
    left = np.empty(cores, np.int64)
    for core in range(cores):
        left[core] = core_ptr[core + 1] - core_ptr[core]
    for step in range(order.size):
        core, rank, ways = first_step(rank, ways, left, order.size - step)
        order[step] = core_ptr[core + 1] - left[core]
        left[core] -= 1


@njit(cache=True)
def rank_of(order, ways, core_ptr):  # type: ignore[no-untyped-def]
    """The rank (uint64) of an interleaving."""
    cores = core_ptr.size - 1
    left = np.empty(cores, np.int64)
    for core in range(cores):
        left[core] = core_ptr[core + 1] - core_ptr[core]
    rank = np.uint64(0)
    for step in range(order.size):
        remaining = np.uint64(order.size - step)
        for core in range(cores):
            here = ways * np.uint64(left[core]) // remaining
            if core_ptr[core] <= order[step] and order[step] < core_ptr[core + 1]:
                left[core] -= 1
                ways = here
                break
            rank += here
    return rank


def pointers(sizes: Sequence[int]) -> NDArray[np.int64]:
    """core_ptr of cores of these sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def unrank(rank: int, sizes: Sequence[int]) -> NDArray[np.int64]:
    """The interleaving of a rank: int64 (n,). Raises UsageError for a rank that there is not, TooLong."""
    ways = checked_count(sizes)
    if not 0 <= rank < ways:
        raise UsageError("no interleaving of this rank", expected=f"0 to {ways - 1}", found=rank)
    order = np.empty(sum(sizes), np.int64)
    unrank_into(np.uint64(rank), np.uint64(ways), pointers(sizes), order)
    return order


def rank(order: NDArray[np.int64], sizes: Sequence[int]) -> int:
    """The rank of an interleaving, the inverse of `unrank`. Raises TooLong."""
    ways = checked_count(sizes)
    return int(rank_of(np.asarray(order, np.int64), np.uint64(ways), pointers(sizes)))


@dataclass(frozen=True)
class Step:
    """A row of Figure 10. left: operations left of each core. rank, ways: among how many interleavings of
    what is left, which. order: what has been placed."""

    left: tuple[int, ...]
    rank: int
    ways: int
    order: tuple[int, ...]


def steps(rank: int, sizes: Sequence[int]) -> list[Step]:
    """The rows of Figure 10 for a rank: how the interleaving comes about, step by step."""
    ways, r = np.uint64(checked_count(sizes)), np.uint64(rank)
    left, ends, order = np.array(sizes, np.int64), pointers(sizes)[1:], []
    found = [Step(tuple(left.tolist()), int(r), int(ways), ())]
    while (remaining := int(left.sum())) > 0:
        core, r, ways = first_step(r, ways, left, remaining)
        order.append(int(ends[core] - left[core]))
        left[core] -= 1
        found.append(Step(tuple(left.tolist()), int(r), int(ways), tuple(order)))
    return found
