"""From an order of operations to runs of rows, for a region under TSO: `solver.passes.answers.make_runs` with
two chains a core, whose filtered rows keep to `solver.regions.program_order` too."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.problem import Problem
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY
from solver.sifting.sync_runs import ahead_of, emit, last_waited_for, rows_that_wait_for_none

#: Filtered stores that may wait: with fewer, runs are short; with more, loads have long store buffers to
#: look at.
_WAITING = 16


@njit(cache=True)
def _emit(s, end, placed, stream, run, at):  # type: ignore[no-untyped-def]
    """Place the rows of stream s up to `end`. at: int64 (1,), runs so far."""
    at[0] = emit(s, end, placed, stream, run, at[0])


@njit(cache=True)
def _place_loads(k, s, end, next_kept, need, loads_before, placed, stream, run, at):  # type: ignore[no-untyped-def]
    """Place a core's loads (stream k) up to row `end`, its stores (stream s) as they need and as they may:
    filtered ones below row next_kept. need, loads_before: of this core."""
    while placed[k] < end:
        _emit(s, np.int64(need[placed[k]]), placed, stream, run, at)
        first = placed[s]
        stop = np.int64(np.searchsorted(need, first, side="right"))
        full = first + _WAITING
        if full < next_kept:
            stop = min(stop, np.int64(loads_before[full]))
        _emit(k, min(max(stop, placed[k] + 1), end), placed, stream, run, at)
        if full < next_kept and loads_before[full] <= placed[k]:
            ready = np.int64(np.searchsorted(loads_before, placed[k], side="right"))
            _emit(s, min(ready, next_kept), placed, stream, run, at)


@njit(cache=True)
def _place_stores(k, s, end, need, loads_before, placed, stream, run, at):  # type: ignore[no-untyped-def]
    """Place a core's stores up to row `end`, after the loads that precede them."""
    if end > placed[s]:
        _place_loads(k, s, np.int64(loads_before[end - 1]), 0, need, loads_before, placed, stream, run, at)
        _emit(s, end, placed, stream, run, at)


@njit(cache=True)
def _pass(until, ahead, first, need, need_ptr, before, before_ptr, placed, stream, run, at):  # type: ignore[no-untyped-def]
    """Pass the sync points below `until`: what they have before them is placed."""
    n_cores = need_ptr.size - 1
    while ahead.passed[0] < until:
        point = ahead.table[ahead.passed[0]]
        ahead.passed[0] += 1
        k = point[CORE]
        if point[WAY] & ENTER:
            own_need = need[need_ptr[k] : need_ptr[k + 1]]
            own_before = before[before_ptr[k] : before_ptr[k + 1]]
            stores, loads = point[STORE_ROW], point[CORE_ROW]
            _place_loads(k, first + k, loads, stores, own_need, own_before, placed, stream, run, at)
            _place_stores(k, first + k, stores, own_need, own_before, placed, stream, run, at)
        if point[WAY] & LEAVE:
            _emit(np.int64(n_cores), point[AGENT_ROW], placed, stream, run, at)


@njit(cache=True)
def make_buffered_runs(  # type: ignore[no-untyped-def]
    order, op_stream, stream_ptr, end_row, rows, need, need_ptr, before, before_ptr, ahead, stream, run
):
    """Runs of all rows for an order of operations. need, before: for each row of loads and of stores, of
    core k from need_ptr[k] and before_ptr[k] on, see `solver.regions.program_order.CoreRows`. ahead: the sync
    points. Returns how many runs."""
    n_cores = need_ptr.size - 1
    first = rows.size - n_cores
    placed, at = np.zeros(rows.size, np.int64), np.zeros(1, np.int64)
    kept = stream_ptr[first : first + n_cores].copy()
    for i in range(order.size + rows.size):
        if i < order.size:
            s, end = op_stream[order[i]], end_row[order[i]]
        else:
            s = i - order.size
            end = rows[s]
        until = last_waited_for(np.int64(s), end, ahead)
        _pass(until, ahead, first, need, need_ptr, before, before_ptr, placed, stream, run, at)
        k = s if s < n_cores else s - first
        if k < 0:
            _emit(s, end, placed, stream, run, at)
            continue
        own_need = need[need_ptr[k] : need_ptr[k + 1]]
        own_before = before[before_ptr[k] : before_ptr[k + 1]]
        if s < n_cores:
            free = end_row[kept[k]] - 1 if kept[k] < stream_ptr[first + k + 1] else rows[first + k]
            free = min(free, rows_that_wait_for_none(first + k, rows[first + k], ahead))
            _place_loads(k, first + k, end, free, own_need, own_before, placed, stream, run, at)
        else:
            kept[k] += 1
            _place_stores(k, s, end, own_need, own_before, placed, stream, run, at)
    return at[0]


def buffered_runs_of(
    problem: Problem, order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(stream, rows) of the runs that place all rows of a region under TSO (int64 each)."""
    n_cores = problem.buffered
    need_ptr = np.concatenate([[0], np.cumsum(problem.rows[:n_cores])]).astype(np.int64)
    before_ptr = np.concatenate([[0], np.cumsum(problem.rows[-n_cores:])]).astype(np.int64)
    rises = np.zeros(int(need_ptr[-1]), np.int32)
    core, row, need = problem.needs.T
    rises[need_ptr[core] + row] = need
    dense = [np.maximum.accumulate(rises[a:b]) for a, b in pairwise(need_ptr)]
    n = int(problem.rows.sum()) + 1
    ahead = ahead_of(problem.syncs, problem.n_streams, n_cores)
    stream, run = np.zeros(n, np.int64), np.zeros(n, np.int64)
    n = make_buffered_runs(
        order, problem.op_stream, problem.stream_ptr, problem.end_row, problem.rows, np.concatenate(dense),
        need_ptr, problem.loads_before, before_ptr, ahead, stream, run,
    )  # fmt: skip
    return stream[:n].copy(), run[:n].copy()
