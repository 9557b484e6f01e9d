"""What the checkers know of sync points (`emu.bus.sync_points`), derived from the logs by themselves.

They walk an order and pass sync points in turn, each when the first row comes that must have it before
itself: a core's row at or behind LEAVE, an agent's at or behind ENTER. Passed, a sync point sets a floor: no
row that it has before it may come any more. Shared with no engine."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.traces import Events

_NEVER = np.uint64(0xFFFFFFFFFFFFFFFF)

#: What the checkers say of a row behind its place.
BEHIND = "an event stands behind what comes after it by a sync point of its core and an agent"


class SyncWalk(NamedTuple):
    """Sync points on the way. core, way: uint8 (n,). number, place: uint64 (n,), of the agents and of the
    core. following: int64 (n, 2), the next sync point that a row of the core waits for, and that a row of the
    agents waits for; n if none. passed: int64 (1,), how many are passed. next: int64 (n_sources,), the first
    not passed that a core, or the agents behind the last core, wait for. floor: uint64 (n_sources,), below
    which no row may come any more. bar: uint64 (n_sources,), from which on a row waits for another sync
    point. Places are instruction counts of cores and numbers of accesses of agents."""

    core: NDArray[np.uint8]
    way: NDArray[np.uint8]
    number: NDArray[np.uint64]
    place: NDArray[np.uint64]
    following: NDArray[np.int64]
    passed: NDArray[np.int64]
    next: NDArray[np.int64]
    floor: NDArray[np.uint64]
    bar: NDArray[np.uint64]


@njit(cache=True)
def _find_following(core, way, following, first):  # type: ignore[no-untyped-def]
    n, n_cores = core.size, first.size - 1
    for i in range(n - 1, -1, -1):
        following[i, 0], following[i, 1] = first[core[i]], first[n_cores]
        if way[i] & LEAVE:
            first[core[i]] = i
        if way[i] & ENTER:
            first[n_cores] = i


def sync_walk(points: Events, n_cores: int) -> SyncWalk:
    """None of these sync points (SYNC_POINT (n,)) is passed."""
    n = len(points)
    core, way = points["core"].copy(), points["way"].copy()
    number, count = points["number"].copy(), points["count"].copy()
    following, first = np.full((n, 2), n, np.int64), np.full(n_cores + 1, n, np.int64)
    _find_following(core, way, following, first)
    bar = np.full(n_cores + 1, _NEVER)
    for source, at in enumerate(first.tolist()):
        if at < n:
            bar[source] = number[at] if source == n_cores else count[at]
    floor = np.zeros(n_cores + 1, np.uint64)
    return SyncWalk(core, way, number, count, following, np.zeros(1, np.int64), first, floor, bar)


@njit(cache=True)
def _pass_one(w):  # type: ignore[no-untyped-def]
    i, agents = w.passed[0], w.next.size - 1
    w.passed[0] += 1
    c = np.int64(w.core[i])
    if w.way[i] & ENTER:
        w.floor[c] = max(w.floor[c], w.place[i])
        w.next[agents] = following = w.following[i, 1]
        w.bar[agents] = w.number[following] if following < w.core.size else _NEVER
    if w.way[i] & LEAVE:
        w.floor[agents] = max(w.floor[agents], w.number[i])
        w.next[c] = following = w.following[i, 0]
        w.bar[c] = w.place[following] if following < w.core.size else _NEVER


@njit(cache=True)
def pass_syncs(source, place, w):  # type: ignore[no-untyped-def]
    """A row of a core, or of the agents, comes at `place` (uint64): pass all sync points that it waits for.
    Returns whether it may stand here."""
    while place >= w.bar[source]:
        until = w.next[source]
        while w.passed[0] <= until:
            _pass_one(w)
    return place >= w.floor[source]
