"""What a region's sync points say of its operations: which must come before which, in few edges.

A sync point is a place in the agents' order. Walking through them with one clock, how many operations of each
stream lie behind the agents (Fidge, Mattern: vector clocks), gives for each operation that follows one all
that must come before it. What another edge implies is left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY


@njit(cache=True)
def _flush(s, clock, target, knows, last, found, edges):  # type: ignore[no-untyped-def]
    """Edges to operation `target` of stream s from what `clock` says comes before it, as far as the stream
    does not know. knows: int64 (n, n), operations of other streams that precede what follows `last` (int64
    (n,)) of each stream. Returns how many edges there are then."""
    n = clock.size
    for t in range(n):
        if t == s or clock[t] <= knows[s, t]:
            continue
        implied = False
        for u in range(n):
            # The operation of u that is waited for came after u knew of t.
            by_way = u not in (s, t) and clock[u] > knows[s, u] and last[u] < clock[u]
            implied = implied or (by_way and knows[u, t] >= clock[t])
        if not implied:
            edges[found, 0], edges[found, 1] = t, clock[t] - 1
            edges[found, 2], edges[found, 3] = s, target
            found += 1
    for t in range(n):
        if t != s:
            knows[s, t] = max(knows[s, t], clock[t])
    last[s] = target
    return found


@njit(cache=True)
def walk_syncs(core, way, own, stores, agents, n_ops, n_cores, edges):  # type: ignore[no-untyped-def]
    """Find the edges of a region. core, way: int64 (n,), of each sync point. own, stores, agents: int64 (n,),
    how many operations of the core's stream, of its stores' stream and of the agents' stand before it. n_ops:
    int64 (n_streams,). edges: int64 (room, 4), filled: stream and operation that come first, stream and
    operation that wait. Returns how many."""
    n = n_ops.size
    clock, knows = np.zeros(n, np.int64), np.zeros((n, n), np.int64)
    last = np.full(n, -1, np.int64)
    waits, asked = np.zeros((n, n), np.int64), np.full(n, -1, np.int64)
    found, entered = 0, False
    buffered = n > n_cores + 1
    for i in range(core.size):
        c = core[i]
        if agents[i] > clock[n_cores]:
            # The agents have gone on since they last met somebody.
            if entered:
                found = _flush(n_cores, clock, clock[n_cores], knows, last, found, edges)
                entered = False
            clock[n_cores] = agents[i]
        for half in range(2 if buffered else 1):
            s = c + half * (n_cores + 1)
            here = stores[i] if half else own[i]
            if asked[s] >= 0 and here > asked[s]:
                found = _flush(s, waits[s], asked[s], knows, last, found, edges)
                asked[s] = -1
            if way[i] & ENTER and here > clock[s]:
                clock[s] = here
                entered = True
            if way[i] & LEAVE:
                asked[s] = here if here < n_ops[s] else -1
        if way[i] & LEAVE:
            for half in range(2 if buffered else 1):
                waits[c + half * (n_cores + 1)] = clock
    for s in range(n):
        if s != n_cores and asked[s] >= 0:
            found = _flush(s, waits[s], asked[s], knows, last, found, edges)
    if entered and clock[n_cores] < n_ops[n_cores]:
        found = _flush(n_cores, clock, clock[n_cores], knows, last, found, edges)
    return found


def edges_of(
    table: NDArray[np.int64], stream_ptr: NDArray[np.int64], end_row: NDArray[np.int64], n_cores: int
) -> NDArray[np.int64]:
    """`Problem.edges` that a region's sync points ask for: int64 (n, 2). table: `sync_order.places`.
    stream_ptr, end_row: as in `Problem`; no operation lies on both sides of a sync point."""
    n_streams = len(stream_ptr) - 1
    if not len(table) or not stream_ptr[-1]:
        return np.empty((0, 2), np.int64)
    own, stores = np.zeros(len(table), np.int64), np.zeros(len(table), np.int64)
    for core in range(n_cores):
        mine = table[:, CORE] == core
        own[mine] = _ops_before(table[mine, CORE_ROW], stream_ptr, end_row, core)
        if n_streams > n_cores + 1:
            stores[mine] = _ops_before(table[mine, STORE_ROW], stream_ptr, end_row, n_cores + 1 + core)
    agents = _ops_before(table[:, AGENT_ROW], stream_ptr, end_row, n_cores)
    room = np.empty((n_streams * (3 * len(table) + n_streams), 4), np.int64)
    found = walk_syncs(
        table[:, CORE].copy(), table[:, WAY].copy(), own, stores, agents, np.diff(stream_ptr), n_cores, room
    )
    first = stream_ptr[room[:found, 0]] + room[:found, 1]
    return np.stack([first, stream_ptr[room[:found, 2]] + room[:found, 3]], axis=1)


def _ops_before(
    rows: NDArray[np.int64], stream_ptr: NDArray[np.int64], end_row: NDArray[np.int64], stream: int
) -> NDArray[np.int64]:
    """How many operations of a stream lie before each of `rows`: int64 (n,)."""
    mine = end_row[stream_ptr[stream] : stream_ptr[stream + 1]]
    return np.searchsorted(mine, rows, side="right").astype(np.int64)
