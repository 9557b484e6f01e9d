"""From an order of operations to runs of all rows, where sync points are to be kept by filtered rows too."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY


class Ahead(NamedTuple):
    """The sync points of a region that rows still to be placed may have to wait for. table: int64 (n, 5),
    `places`. by, ptr: int64, the points that stream s waits for, ascending: by[ptr[s]] to by[ptr[s + 1]].
    row: int64, below how many rows each of these lies. at: int64 (n_streams,), where in `by` each stream is.
    passed: int64 (1,), how many points are passed."""

    table: NDArray[np.int64]
    by: NDArray[np.int64]
    ptr: NDArray[np.int64]
    row: NDArray[np.int64]
    at: NDArray[np.int64]
    passed: NDArray[np.int64]


def ahead_of(table: NDArray[np.int64], n_streams: int, n_cores: int) -> Ahead:
    """All sync points of a region. A core's rows wait for LEAVE, the agents' for ENTER."""
    by, row = [], []
    for s in range(n_streams):
        if s == n_cores:
            mine, column = np.flatnonzero(table[:, WAY] & ENTER), AGENT_ROW
        else:
            core, column = (s, CORE_ROW) if s < n_cores else (s - n_cores - 1, STORE_ROW)
            mine = np.flatnonzero((table[:, CORE] == core) & (table[:, WAY] & LEAVE != 0))
        by.append(mine)
        row.append(table[mine, column])
    ptr = np.cumsum([0, *(len(mine) for mine in by)]).astype(np.int64)
    return Ahead(
        np.ascontiguousarray(table), np.concatenate(by).astype(np.int64), ptr,
        np.concatenate(row).astype(np.int64), ptr[:-1].copy(), np.zeros(1, np.int64),
    )  # fmt: skip


@njit(cache=True)
def last_waited_for(s, end, ahead):  # type: ignore[no-untyped-def]
    """One more than the last sync point that must be passed before the rows of stream s below `end` are
    placed."""
    k, until = ahead.at[s], np.int64(0)
    while k < ahead.ptr[s + 1] and ahead.row[k] < end:
        until = ahead.by[k] + 1
        k += 1
    ahead.at[s] = k
    return until


@njit(cache=True)
def rows_that_wait_for_none(s, n, ahead):  # type: ignore[no-untyped-def]
    """How many of the n rows of stream s wait for no sync point that is not passed."""
    while ahead.at[s] < ahead.ptr[s + 1] and ahead.by[ahead.at[s]] < ahead.passed[0]:
        ahead.at[s] += 1
    return ahead.row[ahead.at[s]] if ahead.at[s] < ahead.ptr[s + 1] else n


@njit(cache=True)
def emit(s, end, placed, stream, run, n):  # type: ignore[no-untyped-def]
    """Place the rows of stream s up to `end`: the runs so far are n. Returns how many there are then."""
    if end <= placed[s]:
        return n
    if n > 0 and stream[n - 1] == s:
        run[n - 1] += end - placed[s]
    else:
        stream[n], run[n] = s, end - placed[s]
        n += 1
    placed[s] = end
    return n


@njit(cache=True)
def make_synced_runs(order, op_stream, end_row, rows, ahead, stream, run):  # type: ignore[no-untyped-def]
    """As `solver.passes.answers.make_runs`, where rows wait for sync points: before those that do come all
    rows that the points have before them."""
    placed, n, n_cores = np.zeros(rows.size, np.int64), 0, rows.size - 1
    for i in range(order.size + rows.size):
        if i < order.size:
            s, end = np.int64(op_stream[order[i]]), end_row[order[i]]
        else:
            s = np.int64(i - order.size)
            end = rows[s]
        until = last_waited_for(s, end, ahead)
        while ahead.passed[0] < until:
            point = ahead.table[ahead.passed[0]]
            ahead.passed[0] += 1
            if point[WAY] & ENTER:
                n = emit(point[CORE], point[CORE_ROW], placed, stream, run, n)
            if point[WAY] & LEAVE:
                n = emit(np.int64(n_cores), point[AGENT_ROW], placed, stream, run, n)
        n = emit(s, end, placed, stream, run, n)
    return n


def synced_runs_of(
    order: NDArray[np.int64], op_stream: NDArray[np.int64], end_row: NDArray[np.int64],
    rows: NDArray[np.int64], syncs: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """(stream, rows) of the runs that place all rows of a region (int64 each). syncs: `sync_order.places`;
    the others as in `Problem`."""
    n = len(order) + len(rows) + 2 * len(syncs)
    stream, run = np.zeros(n, np.int64), np.zeros(n, np.int64)
    ahead = ahead_of(syncs, len(rows), len(rows) - 1)
    n = make_synced_runs(order, op_stream, end_row, rows, ahead, stream, run)
    return stream[:n], run[:n]
