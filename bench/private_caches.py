"""Private caches beside a run: which of its accesses a bus sees, and which cores answer.

MESI over set-associative caches that push out what was used least recently, line by line what the machine's
own bus does (`emu.bus.lines`, `emu.bus.cache`): of the same accesses in the same order it has the same
misses, upgrades and evictions, which the tests compare. Only where caches are so small that they push out
code has the machine more of them: what it fetches again unchanged is no event. It keeps no data. Agents ask,
and hold nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from emu.bus.cache import CacheGeometry

#: What a core may do with a line.
INVALID, SHARED, EXCLUSIVE, MODIFIED = range(4)
#: What an access asks of the bus: nothing; the line; that the others give up theirs.
HIT, MISS, UPGRADE = range(3)
#: Indexes of `Caches.counted`.
MISSES, UPGRADES, EVICTIONS = range(3)

_U0, _U1 = np.uint64(0), np.uint64(1)


class Caches(NamedTuple):
    """state: uint8 (lines, cores). tags: int64 (cores, sets * ways), 1 + a line, 0 for an empty place. used:
    int64, like tags, the core's clock when it last used that. clock: int64 (cores,). counted: int64 (3,), of
    all cores. ways: 0 if nothing is ever pushed out."""

    state: NDArray[np.uint8]
    tags: NDArray[np.int64]
    used: NDArray[np.int64]
    clock: NDArray[np.int64]
    counted: NDArray[np.int64]
    ways: int


def empty_caches(geometry: CacheGeometry, cores: int, memory: int) -> Caches:
    """The caches of a machine that begins. memory: bytes."""
    lines, places = memory // geometry.line, geometry.sets * geometry.ways
    state = host_memory(lines * cores)[: lines * cores].reshape(lines, cores)
    tags, used = (np.zeros((cores, places), np.int64) for _ in range(2))
    return Caches(state, tags, used, np.zeros(cores, np.int64), np.zeros(3, np.int64), geometry.ways)


@njit(cache=True)
def _places(caches, core, line):  # type: ignore[no-untyped-def]
    """Where the line may lie: from this place on, so many."""
    sets = caches.tags.shape[1] // caches.ways
    return (line % sets) * caches.ways


@njit(cache=True)
def _touch(caches, core, line):  # type: ignore[no-untyped-def]
    if caches.ways == 0:
        return
    caches.clock[core] += 1
    first = _places(caches, core, line)
    for place in range(first, first + caches.ways):
        if caches.tags[core, place] == line + 1:
            caches.used[core, place] = caches.clock[core]


@njit(cache=True)
def _insert(caches, core, line):  # type: ignore[no-untyped-def]
    """Give the line a place. Returns 1 + the line that it took it from, or 0."""
    if caches.ways == 0:
        return 0
    caches.clock[core] += 1
    first = _places(caches, core, line)
    oldest = first
    for place in range(first, first + caches.ways):
        if caches.tags[core, place] == 0:
            oldest = place
            break
        if caches.used[core, place] < caches.used[core, oldest]:
            oldest = place
    victim = caches.tags[core, oldest]
    caches.tags[core, oldest], caches.used[core, oldest] = line + 1, caches.clock[core]
    return victim


@njit(cache=True)
def _remove(caches, core, line):  # type: ignore[no-untyped-def]
    caches.state[line, core] = INVALID
    if caches.ways == 0:
        return
    first = _places(caches, core, line)
    for place in range(first, first + caches.ways):
        if caches.tags[core, place] == line + 1:
            caches.tags[core, place] = 0


@njit(cache=True)
def _from_others(caches, stream, line, is_write):  # type: ignore[no-untyped-def]
    """The others lose the line, or the right to write to it. Returns whether any held it, and which
    answer."""
    held, answers = False, _U0
    for other in range(caches.state.shape[1]):
        state = caches.state[line, other]
        if other == stream or state == INVALID:
            continue
        held = True
        if is_write:
            _remove(caches, other, line)
            answers |= _U1 << np.uint64(other)
        elif state != SHARED:
            caches.state[line, other] = SHARED
            answers |= _U1 << np.uint64(other)
    return held, answers


@njit(cache=True)
def request(caches, stream, line, is_write):  # type: ignore[no-untyped-def]
    """An access. Returns what it asks of the bus, a bit for each core that answers with its data or with an
    acknowledgement, and 1 + the line that the stream's cache pushes out for it, or 0."""
    is_core = stream < caches.state.shape[1]
    mine = caches.state[line, stream] if is_core else np.uint8(INVALID)
    if mine >= EXCLUSIVE or (mine == SHARED and not is_write):
        if is_write:
            caches.state[line, stream] = MODIFIED
        _touch(caches, stream, line)
        return HIT, _U0, 0
    held, answers = _from_others(caches, stream, line, is_write)
    if not is_core:
        return MISS, answers, 0
    caches.state[line, stream] = MODIFIED if is_write else (SHARED if held else EXCLUSIVE)
    if mine == SHARED:
        caches.counted[UPGRADES] += 1
        _touch(caches, stream, line)
        return UPGRADE, answers, 0
    caches.counted[MISSES] += 1
    victim = _insert(caches, stream, line)
    if victim != 0:
        caches.counted[EVICTIONS] += 1
        caches.state[victim - 1, stream] = INVALID
    return MISS, answers, victim
