"""Which bytes a store overwrote under TSO, found out while one core is replayed alone.

A store's old bytes are those of home memory when it commits. Between misses on its line nobody else can have
written that, so they are what the core last received of the line, with its own commits since: `received`, a
second memory beside the core's own. Each miss record says how many stores had committed by then, so a
store is settled as late as the next record, fence or stratum, when its buffer would be full, or when it
is old.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import carray, njit
from corebraid.base.rows.event import EVENT
from emu.bus.store_buffer import (
    ADDRESS,
    COUNT,
    OLDEST,
    ROW,
    SIZE,
    VALUE,
    append_store,
    buffer_rows,
    drop_oldest,
    nth,
)
from emu.native.unicorn import peek8, pointer, row_getter

_ZERO, _ONE = np.uint64(0), np.uint64(1)
EVENT_BYTES = np.uint64(EVENT.itemsize)

event_at = row_getter(EVENT)


@njit(cache=True)
def _load_received(core, address, size):
    value = _ZERO
    for k in range(size):
        value |= np.uint64(peek8(core.received + address + np.uint64(k))) << np.uint64(8 * k)
    return value


@njit(cache=True)
def store_received(core, address, size, value):
    """Put the low `size` bytes of `value` where the core's committed stores go."""
    memory = carray(pointer(core.received + address), np.int64(size), np.uint8)
    for k in range(memory.size):
        memory[k] = np.uint8((value >> np.uint64(8 * k)) & np.uint64(0xFF))


@njit(cache=True)
def receive_bytes(core, address, line):
    """A line arrives: uint8[n], as the core received it."""
    memory = carray(pointer(core.received + address), line.size, np.uint8)
    memory[:] = line


@njit(cache=True)
def settle_oldest(core):
    """The oldest store commits: its event gets the bytes that it overwrote, and the region that it is in."""
    row = buffer_rows(core)[nth(core, _ZERO)]
    event = event_at(core.trace + row[ROW] * EVENT_BYTES)
    event.old = _load_received(core, row[ADDRESS], row[SIZE])
    event.stratum = np.uint32(core.trace_stratum)
    store_received(core, row[ADDRESS], row[SIZE], row[VALUE])
    drop_oldest(core)


@njit(cache=True)
def settle_until(core, committed):
    """Stores commit until so many have since the beginning, or none is left."""
    while core.buffered != _ZERO and core.committed < committed:
        settle_oldest(core)


@njit(cache=True)
def settle_all(core):
    """All stores commit."""
    while core.buffered != _ZERO:
        settle_oldest(core)


@njit(cache=True)
def _oldest_count(core):
    return buffer_rows(core)[nth(core, _ZERO), COUNT]


@njit(cache=True)
def settle_due(core, count):
    """What the recorder's store buffer cannot hold any longer commits (`emu.bus.commit.commit_due`)."""
    while core.buffered != _ZERO and _oldest_count(core) + OLDEST <= count:
        settle_oldest(core)


@njit(cache=True)
def trace_store(core, address, size, value, count):
    """A store enters the buffer; its event is the next row of the trace."""
    while core.buffered >= core.buffer_limit and _oldest_count(core) < count:
        settle_oldest(core)
    append_store(core, address, np.uint64(size), value, count, core.trace_n)


@njit(cache=True)
def first_unsettled(core):
    """Row of the oldest event whose old bytes are not known yet, or how many rows there are."""
    if core.buffered == _ZERO:
        return core.trace_n
    return buffer_rows(core)[nth(core, _ZERO), ROW]


@njit(cache=True)
def keep_tail(core, taken, room):
    """The first `taken` rows of the trace are gone: move the others to the front of `room`, an address."""
    left = np.int64(core.trace_n - taken)
    rows = carray(pointer(core.trace), np.int64(core.trace_n), EVENT)
    front = carray(pointer(room), left, EVENT)
    for i in range(left):
        front[i] = rows[i + np.int64(taken)]
    buffered = buffer_rows(core)
    for k in range(core.buffered):
        buffered[nth(core, np.uint64(k)), ROW] -= taken
    core.trace_n = np.uint64(left)
