"""What program order and the store buffer ask of a region's rows under TSO, core by core.

A core has two chains: its loads, atomic accesses and fences, and its stores in the order in which they commit
(`solver.regions.traces.Traces`). Within each, order is kept. Between them (x86-TSO: Sewell et al., CACM
53(7), 2010):

- a store commits after all loads that precede it in program order;
- an atomic access, a fence or a device access comes after all stores that precede it have committed;
- a load whose newest earlier overlapping store, its *source*, has not committed sees that store's bytes.
It may stand there if the source covers it and wrote what it reads; if not, it comes after the source has
committed, and sees memory. If the source commits in a later region, only the first is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED, put_rows
from solver.regions.traces import Events
from solver.regions.violations import name_row

if TYPE_CHECKING:
    from solver.regions.region import Region

_OK, _TOO_LATE = 0, 1
_NONE = -1


@dataclass(frozen=True)
class CoreRows:
    """One core's rows of a region. loads, stores: EVENT; rows: both in program order. source: int32
    (n_loads,), the row of `stores` that may answer the load, -1 if none. need: int32 (n_loads,), how many
    stores have committed before the row, never falling. loads_before: int32 (n_stores,), how many loads
    come before the store commits. Loads that only a store of a later region can answer are marked
    UNCACHED; forwarded: how many."""

    loads: Events
    stores: Events
    rows: Events
    source: NDArray[np.int32]
    need: NDArray[np.int32]
    loads_before: NDArray[np.int32]
    forwarded: int


@njit(cache=True)
def _slot_of(word, keys):  # type: ignore[no-untyped-def]
    mask = np.uint64(keys.size - 1)
    slot = ((word * GOLDEN) >> np.uint64(32)) & mask
    while keys[slot] != np.uint64(0) and keys[slot] != word + np.uint64(1):
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True)
def _enter_store(row, number, keys, last):  # type: ignore[no-untyped-def]
    for k in range(row.size):
        address = row.addr + np.uint64(k)
        slot = _slot_of(address >> np.uint64(3), keys)
        keys[slot] = (address >> np.uint64(3)) + np.uint64(1)
        last[slot, address & np.uint64(7)] = number


@njit(cache=True)
def _newest(row, keys, last):  # type: ignore[no-untyped-def]
    """Number of the newest store that was entered and overlaps the row, or -1."""
    newest = np.int32(_NONE)
    for k in range(row.size):
        address = row.addr + np.uint64(k)
        slot = _slot_of(address >> np.uint64(3), keys)
        if keys[slot] != np.uint64(0):
            newest = max(newest, last[slot, address & np.uint64(7)])
    return newest


@njit(cache=True)
def _answers(store, row):  # type: ignore[no-untyped-def]
    """Whether a store covers a load and wrote what it reads."""
    if row.addr < store.addr or row.addr + np.uint64(row.size) > store.addr + np.uint64(store.size):
        return False
    seen = store.new >> (np.uint64(8) * (row.addr - store.addr))
    if row.size < 8:
        seen &= (np.uint64(1) << np.uint64(8 * row.size)) - np.uint64(1)
    return seen == row.old


@njit(cache=True)
def link(loads, stores, n_stores, keys, last, source, need, loads_before):  # type: ignore[no-untyped-def]
    """Fill source, need, loads_before (`CoreRows`). stores: those of the region, n_stores, then its tail.
    keys: uint64, zeros, a power of two above twice the words stored to; last: int32 (keys, 8), -1.
    Returns (status, row of `loads`, loads marked UNCACHED)."""
    issued, least, marked = 0, np.int32(0), 0
    for i in range(loads.size):
        row = loads[i]
        while issued < stores.size and stores[issued].seq < row.seq:
            _enter_store(stores[issued], np.int32(issued), keys, last)
            if issued < n_stores:
                loads_before[issued] = i
            issued += 1
        wanted = np.int32(0)
        source[i] = _NONE
        if row.kind != READ or row.flags & UNCACHED:
            wanted = np.int32(issued)
        else:
            newest = _newest(row, keys, last)
            if newest >= 0:
                if row.flags & FETCH or not _answers(stores[newest], row):
                    wanted = newest + np.int32(1)
                elif newest >= n_stores:
                    row.flags |= np.uint8(UNCACHED)
                    marked += 1
                elif newest >= least:
                    source[i] = newest
        if wanted > n_stores:
            return _TOO_LATE, i, marked
        least = max(least, wanted)
        need[i] = least
    for j in range(issued, n_stores):
        loads_before[j] = loads.size
    return _OK, 0, marked


@njit(cache=True)
def merge(loads, stores, out):  # type: ignore[no-untyped-def]
    """Both chains of a core in program order, into out."""
    i, j = 0, 0
    for n in range(out.size):
        if j == stores.size or (i < loads.size and loads[i].seq < stores[j].seq):
            out[n] = loads[i]
            i += 1
        else:
            out[n] = stores[j]
            j += 1


def whole(pieces: Iterable[Events]) -> Events:
    """All pieces in one array of its own. Each is copied before the next is asked for, which may take its
    place (`solver.passes.trace_spool.SpooledRows`)."""
    room, at = np.empty(0, EVENT), 0
    for part in pieces:
        if at + len(part) > len(room):
            larger = np.empty(max(2 * len(room), at + len(part)), EVENT)
            put_rows(larger, room[:at])
            room = larger
        put_rows(room[at:], part)
        at += len(part)
    return room[:at]


def core_rows(region: Region, core: int) -> CoreRows:
    """One core's rows of a region under TSO, in memory. Raises OrderError if the rows contradict the model
    whatever the other cores do."""
    n_cores = len(region.tails)
    tail = region.tails[core]
    loads = whole(region.streams[core].pieces())
    stores = whole(region.streams[len(region.streams) - n_cores + core].pieces())
    all_stores = whole([stores, tail])
    slots = 1 << (4 * len(all_stores) + 1).bit_length()
    source, need = np.empty(len(loads), np.int32), np.empty(len(loads), np.int32)
    before = np.empty(len(stores), np.int32)
    status, at, marked = link(
        loads, all_stores, len(stores), np.zeros(slots, np.uint64), np.full((slots, 8), _NONE, np.int32),
        source, need, before,
    )  # fmt: skip
    if status != _OK:
        raise OrderError(
            "an event needs an earlier store of its core to have committed, which commits in a later region",
            where=name_row(core, loads[at]),
            remedy="the recording is damaged: record again, or run 'corebraid verify' to see where",
        )
    rows = np.empty(len(loads) + len(stores), EVENT)
    merge(loads, stores, rows)
    return CoreRows(loads, stores, rows, source, need, before, int(marked))
