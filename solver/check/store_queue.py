"""The checkers' own store buffers: x86-TSO as a machine that takes one row after the other (Sewell et
al., x86-TSO, CACM 53(7), 2010, section 3.1). It shares no code with granules, filters or engines.

A core has two streams (`solver.regions.traces.Traces`). Its stores are *issued* in program order, as soon as
a later row of the other stream comes, and *commit* when their own stream says so. A load must see the newest
issued store of its core that it overlaps, whole, while that is not committed, else memory. Atomic
accesses, device accesses, fences and fetches of code that was just stored wait until what they depend on
has committed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import EVENT, FETCH, READ, UNCACHED
from solver.check.windows import Windows
from solver.regions.traces import Events
from solver.regions.violations import TOO_MANY

#: What became of `take`: a row for memory; a load that a buffered store answered; rows or room are wanted.
TAKEN, FORWARDED, WANTS_ROWS, WANTS_ROOM = 0, 1, 2, 3
#: And what no legal order has.
UNDRAINED, EARLY, OTHER_VALUE, PARTLY, MISSING = 4, 5, 6, 7, 8
VIOLATIONS = {
    UNDRAINED: "an atomic access, a fence or a device access stands before an earlier store of its core",
    EARLY: "a store stands before an earlier load of its core",
    OTHER_VALUE: "a load does not see the newest earlier store of its core, which stands behind it",
    PARTLY: "a load stands before an earlier store of its core that it overlaps only in part",
    MISSING: TOO_MANY,
}
_FIRST_ROOM = 64


class View(NamedTuple):
    """What is at hand of each stream, as kernels see `solver.check.windows.Windows`.

    rows: EVENT (n_streams, n). at, fill: int64 (n_streams,), the next row and how many there are.
    ended: bool (n_streams,), whether there are no more.
    """

    rows: Events
    at: NDArray[np.int64]
    fill: NDArray[np.int64]
    ended: NDArray[np.bool_]


def view_of(windows: Windows) -> View:
    """Windows, as kernels see them."""
    return View(windows.rows, windows.at, windows.fill, windows.ended)


class Queues(NamedTuple):
    """The store buffers. rows: EVENT (n_cores, room). head, n: int64 (n_cores,), the oldest one and how many.
    taken: EVENT (1,), the row that was taken. wanted: int64 (1,), the stream of which rows are wanted.
    base: int64 (1,), the number of the first stream of stores."""

    rows: Events
    head: NDArray[np.int64]
    n: NDArray[np.int64]
    taken: Events
    wanted: NDArray[np.int64]
    base: NDArray[np.int64]


def make_queues(n_streams: int, buffered: int) -> Queues:
    """Empty store buffers for the last `buffered` of the streams."""
    return Queues(
        np.zeros((max(buffered, 1), _FIRST_ROOM), EVENT), np.zeros(buffered, np.int64),
        np.zeros(buffered, np.int64), np.zeros(1, EVENT), np.zeros(1, np.int64),
        np.array([n_streams - buffered], np.int64),
    )  # fmt: skip


def with_room(q: Queues) -> Queues:
    """The same with more room."""
    rows = np.zeros((len(q.rows), 2 * q.rows.shape[1]), EVENT)
    for k in range(len(q.head)):
        n = int(q.n[k])
        rows[k, :n] = q.rows[k, q.head[k] : q.head[k] + n]
        q.head[k] = 0
    return q._replace(rows=rows)


@njit(cache=True)
def _want(s, q):  # type: ignore[no-untyped-def]
    q.wanted[0] = s
    return WANTS_ROWS


@njit(cache=True)
def _make_room(k, q):  # type: ignore[no-untyped-def]
    """Move a queue to the front of its room. Returns whether that made any."""
    head, n = q.head[k], q.n[k]
    if head == 0:
        return False
    for i in range(n):
        q.rows[k, i] = q.rows[k, head + i]
    q.head[k] = 0
    return True


@njit(cache=True)
def _issue(k, seq, w, q):  # type: ignore[no-untyped-def]
    """Issue the core's stores that precede row `seq` of it."""
    s = q.base[0] + k
    while True:
        if w.at[s] == w.fill[s]:
            return TAKEN if w.ended[s] else _want(s, q)
        row = w.rows[s, w.at[s]]
        if row.seq >= seq:
            return TAKEN
        if q.head[k] + q.n[k] == q.rows.shape[1] and not _make_room(k, q):
            return WANTS_ROOM
        q.rows[k, q.head[k] + q.n[k]] = row
        q.n[k] += 1
        w.at[s] += 1


@njit(cache=True)
def _see(row, k, q):  # type: ignore[no-untyped-def]
    """What a load sees of its core's buffered stores."""
    end = row.addr + np.uint64(row.size)
    for i in range(q.n[k] - 1, -1, -1):
        store = q.rows[k, q.head[k] + i]
        store_end = store.addr + np.uint64(store.size)
        if store.addr >= end or row.addr >= store_end:
            continue
        if row.addr < store.addr or end > store_end or row.flags & FETCH:
            return PARTLY
        seen = store.new >> (np.uint64(8) * (row.addr - store.addr))
        if row.size < 8:
            seen &= (np.uint64(1) << np.uint64(8 * row.size)) - np.uint64(1)
        return FORWARDED if seen == row.old else OTHER_VALUE
    return TAKEN


@njit(cache=True)
def _take_store(s, w, q):  # type: ignore[no-untyped-def]
    k = s - q.base[0]
    if q.n[k] > 0:
        q.taken[0] = q.rows[k, q.head[k]]
        q.head[k] += 1
        q.n[k] -= 1
        return TAKEN
    if w.at[s] == w.fill[s]:
        return MISSING if w.ended[s] else _want(s, q)
    if w.at[k] == w.fill[k] and not w.ended[k]:
        return _want(k, q)
    q.taken[0] = w.rows[s, w.at[s]]
    if w.at[k] < w.fill[k] and w.rows[k, w.at[k]].seq < q.taken[0].seq:
        return EARLY
    w.at[s] += 1
    return TAKEN


@njit(cache=True)
def take(s, w, q):  # type: ignore[no-untyped-def]
    """Take the next row of stream s: into `taken`, and out of its window or store buffer if it may stand
    here. Returns TAKEN (it accesses memory now, unless it is UNCACHED) or one of the others."""
    if s >= q.base[0]:
        return _take_store(s, w, q)
    if w.at[s] == w.fill[s]:
        return MISSING if w.ended[s] else _want(s, q)
    row = w.rows[s, w.at[s]]
    status = TAKEN
    if s < q.n.size:
        status = _issue(s, row.seq, w, q)
        if status != TAKEN:
            return status
        if row.kind != READ or row.flags & UNCACHED:
            status = TAKEN if q.n[s] == 0 else UNDRAINED
        else:
            status = _see(row, s, q)
    q.taken[0] = row
    if status <= FORWARDED:
        w.at[s] += 1
    return status
