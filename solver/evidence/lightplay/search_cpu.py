"""The search on the CPU: all interleavings of a slice, shared out to all processors (LightPlay, section
3)."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.evidence.lightplay.emulate import try_ranks
from solver.evidence.lightplay.found import DEFAULT_TRIES, MOST_LISTED, Found
from solver.evidence.lightplay.interleavings import checked_count, unrank_into
from solver.evidence.lightplay.slice_problem import Instance

#: Interleavings below which one thread does it all.
_SHARE_FROM = 1 << 16
_PIECES = 8


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def search_ranks(
    instance: Instance,
    ways: int,
    *,
    skip: bool = True,
    tries: int = DEFAULT_TRIES,
    threads: int | None = None,
) -> tuple[NDArray[np.uint64], int, int, bool]:
    """Try all `ways` interleavings. Returns (ranks of correct ones, ascending, at most MOST_LISTED; how many
    there are; how many were tried; whether none was left out).

    skip: see `try_ranks`. tries: how many to try at most, about.
    """
    threads = threads or processors()
    if ways <= _SHARE_FROM or threads == 1:
        return _piece(instance, ways, 0, ways, skip, tries)
    # Ranges of ranks go to threads, which hold no lock; what comes back is put together in their order.
    size = max(ways // (threads * _PIECES), _SHARE_FROM)
    share = max(tries * size // ways, 1)
    with ThreadPoolExecutor(threads) as pool:
        jobs = [
            pool.submit(_piece, instance, ways, low, min(low + size, ways), skip, share)
            for low in range(0, ways, size)
        ]
        done = [job.result() for job in jobs]
    ranks = np.concatenate([found for found, _, _, _ in done])[:MOST_LISTED]
    return ranks, sum(n for _, n, _, _ in done), sum(n for _, _, n, _ in done), all(d[3] for d in done)


def _piece(
    instance: Instance, ways: int, low: int, high: int, skip: bool, tries: int
) -> tuple[NDArray[np.uint64], int, int, bool]:
    ranks = np.empty(MOST_LISTED, np.uint64)
    n, tried, end = try_ranks(instance, np.uint64(ways), np.uint64(low), np.uint64(high), skip, tries, ranks)
    return ranks[: min(n, MOST_LISTED)], int(n), int(tried), int(end) == high


def orders_of(ranks: NDArray[np.uint64], ways: int, instance: Instance) -> NDArray[np.int64]:
    """The interleavings of these ranks: int64 (k, n)."""
    orders = np.empty((len(ranks), instance.n), np.int64)
    for k, rank in enumerate(ranks):
        unrank_into(rank, np.uint64(ways), instance.core_ptr, orders[k])
    return orders


def search_cpu(
    instance: Instance, *, skip: bool = True, tries: int = DEFAULT_TRIES, threads: int | None = None
) -> Found:
    """All correct orders of a slice by trying its interleavings. Raises TooLong where they cannot be
    numbered."""
    began = working_time()
    ways = checked_count(instance.sizes)
    ranks, correct, tried, all_of_them = search_ranks(instance, ways, skip=skip, tries=tries, threads=threads)
    orders = orders_of(ranks, ways, instance)
    return Found(orders, correct, all_of_them, tried, working_time() - began, "cpu")
