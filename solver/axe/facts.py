"""What deduction knows (`solver.axe.deduce`), and how it notes that one node comes before another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.axe.chains import UNKNOWN, Chains

#: Words of `Facts.status`.
AGAIN, NEEDED, SETTLED, GROWN, OPEN = 0, 1, 2, 3, 4


class Facts(NamedTuple):
    """What is known. need: as in `Chains`, with what was found. clock: int32 (n, chains). reads_from: int32
    (n,), the write that a node reads, INITIAL or UNKNOWN. first_reader, next_reader: int32 (n,), the list of
    the reads known to read a write, of each chain the last one only; -1 ends it. taker: int32 (n +
    locations,), the atomic known to read write w, or, at n + a, the initial value of location a, else -1.

    order, rank: int32 (n,), an order in which nodes are visited, and a node's place in it. newest: int32
    (n, chains), how far into `writers` of its location the clock of a node reaches. stamp: int64
    (locations,), the number of reads that had been settled anywhere when the last one at a location was;
    done: int64 (n,), when the rules were last applied to a node. status: int64 (5,), the least rank of a
    node that others were noted to come before since the visits of a block began; in this pass, whether any
    node got a new need; reads settled; in this pass, whether a clock grew, and whether a read with several
    candidates was seen."""

    need: NDArray[np.int32]
    clock: NDArray[np.int32]
    reads_from: NDArray[np.int32]
    first_reader: NDArray[np.int32]
    next_reader: NDArray[np.int32]
    taker: NDArray[np.int32]
    order: NDArray[np.int32]
    rank: NDArray[np.int32]
    newest: NDArray[np.int32]
    stamp: NDArray[np.int64]
    done: NDArray[np.int64]
    status: NDArray[np.int64]


def no_facts(chains: Chains) -> Facts:
    """What is known before any rule was applied."""
    n, n_chains = chains.need.shape
    clock = np.zeros_like(chains.need)
    clock[np.arange(n), chains.chain] = np.arange(n) - chains.chain_ptr[chains.chain] + 1
    newest = np.zeros_like(chains.need)
    touching = np.flatnonzero(chains.address >= 0)
    starts = chains.writer_at[:-1].reshape(len(chains.initial), n_chains)
    newest[touching] = starts[chains.address[touching]]
    return Facts(
        chains.need.copy(),
        clock,
        np.full(n, UNKNOWN, np.int32),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int32),
        np.full(n + len(chains.initial), -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        newest,
        np.zeros(len(chains.initial), np.int64),
        np.full(n, -1, np.int64),
        np.zeros(5, np.int64),
    )


@njit(cache=True)
def place(node, ch):  # type: ignore[no-untyped-def]
    """The place of a node in its chain."""
    return node - ch.chain_ptr[ch.chain[node]]


@njit(cache=True)
def comes_before(x, y, ch, f):  # type: ignore[no-untyped-def]
    """Whether x is known to come before y, another node."""
    return f.clock[y, ch.chain[x]] > place(x, ch)


@njit(cache=True)
def require(x, k, count, need, clock, rank, status):  # type: ignore[no-untyped-def]
    """Note that `count` nodes of chain k come before node x, which is not the one being visited."""
    if count > clock[x, k] and count > need[x, k]:
        need[x, k] = count
        status[NEEDED] = 1
        status[AGAIN] = min(status[AGAIN], np.int64(rank[x]))
