"""What a region's sync points say of the nodes: what lies before one comes before what lies after it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY
from solver.tenures.clocks import Clocks, learn


@njit(cache=True, nogil=True)
def nodes_below(c, s, row):  # type: ignore[no-untyped-def]
    """How many nodes of stream s have a row below `row`."""
    low, high = c.ptr[s], c.ptr[s + 1]
    while low < high:
        middle = (low + high) // 2
        if c.row[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low - c.ptr[s]


@njit(cache=True, nogil=True)
def walk_points(table, agents, buffered, c):  # type: ignore[no-untyped-def]
    """Go through the sync points (`sync_order.places`), whose order is total, with one clock: how many nodes
    of each stream lie behind the agents. agents: their stream. buffered: whether each core has a stream of
    stores too, behind theirs."""
    behind = np.zeros(c.clock.shape[1], np.int64)
    for i in range(table.shape[0]):
        s, q = table[i, CORE], table[i, CORE] + agents + 1
        here, there = nodes_below(c, s, table[i, CORE_ROW]), nodes_below(c, agents, table[i, AGENT_ROW])
        stored = nodes_below(c, q, table[i, STORE_ROW]) if buffered else 0
        behind[agents] = max(behind[agents], there)
        if table[i, WAY] & ENTER:
            behind[s] = max(behind[s], here)
            if buffered:
                behind[q] = max(behind[q], stored)
            _wait(c, agents, there, behind)
        if table[i, WAY] & LEAVE:
            _wait(c, s, here, behind)
            if buffered:
                _wait(c, q, stored, behind)


@njit(cache=True, nogil=True)
def _wait(c, t, j, behind):  # type: ignore[no-untyped-def]
    """Node j of stream t, if there is one, comes after what is behind the agents."""
    if c.ptr[t] + j < c.ptr[t + 1]:
        for u in range(behind.size):
            if u != t and behind[u] > 0:
                learn(c, u, behind[u] - 1, t, j)


def learn_syncs(table: NDArray[np.int64], agents: int, clocks: Clocks, *, buffered: bool = False) -> None:
    """Tell the clocks what the sync points say. table: `Region.places`. agents: their stream. buffered:
    whether the cores' stores are streams of their own, the ones behind it."""
    walk_points(table, agents, buffered, clocks)
