"""From an order of operations to runs of rows, for a region under TSO: `solver.passes.answers.make_runs` with
two chains a core, whose filtered rows keep to `solver.regions.program_order` too."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.problem import Problem
from solver.regions.sync_order import AGENT_ROW, CORE, CORE_ROW, STORE_ROW, WAY
from solver.sifting.sync_runs import ahead_of, emit, last_waited_for, rows_that_wait_for_none

#: Filtered stores that may wait: with fewer, runs are short; with more, loads have long store buffers to
#: look at.
_WAITING = 16


class Runs(NamedTuple):
    """Runs that are being made. stream, rows: int64, of each run, n[0] of them (int64 (1,)). placed: int64
    (n_streams,), how many of each stream's rows they place."""

    stream: NDArray[np.int64]
    rows: NDArray[np.int64]
    n: NDArray[np.int64]
    placed: NDArray[np.int64]


class Links(NamedTuple):
    """What program order says of a core's two chains: for each of its loads and of its stores, `need` and
    `loads_before` of `solver.regions.program_order.CoreRows`; of core k from need_ptr[k] and before_ptr[k]
    on."""

    need: NDArray[np.int32]
    need_ptr: NDArray[np.int64]
    before: NDArray[np.int32]
    before_ptr: NDArray[np.int64]


class Operations(NamedTuple):
    """An order of operations (int64 (n,)), and these as in `Problem`."""

    order: NDArray[np.int64]
    op_stream: NDArray[np.int64]
    stream_ptr: NDArray[np.int64]
    end_row: NDArray[np.int64]


@njit(cache=True)
def _emit(s, end, runs):  # type: ignore[no-untyped-def]
    """Place the rows of stream s up to `end`."""
    runs.n[0] = emit(s, end, runs.placed, runs.stream, runs.rows, runs.n[0])


@njit(cache=True)
def _place_loads(k, s, end, next_kept, need, loads_before, runs):  # type: ignore[no-untyped-def]
    """Place a core's loads (stream k) up to row `end`, its stores (stream s) as they need and as they may:
    filtered ones below row next_kept. need, loads_before: of this core."""
    placed = runs.placed
    while placed[k] < end:
        _emit(s, np.int64(need[placed[k]]), runs)
        first = placed[s]
        stop = np.int64(np.searchsorted(need, first, side="right"))
        full = first + _WAITING
        if full < next_kept:
            stop = min(stop, np.int64(loads_before[full]))
        _emit(k, min(max(stop, placed[k] + 1), end), runs)
        if full < next_kept and loads_before[full] <= placed[k]:
            ready = np.int64(np.searchsorted(loads_before, placed[k], side="right"))
            _emit(s, min(ready, next_kept), runs)


@njit(cache=True)
def _place_stores(k, s, end, need, loads_before, runs):  # type: ignore[no-untyped-def]
    """Place a core's stores up to row `end`, after the loads that precede them."""
    if end > runs.placed[s]:
        _place_loads(k, s, np.int64(loads_before[end - 1]), 0, need, loads_before, runs)
        _emit(s, end, runs)


@njit(cache=True)
def _pass(until, ahead, first, links, runs):  # type: ignore[no-untyped-def]
    """Pass the sync points below `until`: what they have before them is placed. first: the first stream of
    stores."""
    need, need_ptr, before, before_ptr = links
    n_cores = need_ptr.size - 1
    while ahead.passed[0] < until:
        point = ahead.table[ahead.passed[0]]
        ahead.passed[0] += 1
        k = point[CORE]
        if point[WAY] & ENTER:
            own_need = need[need_ptr[k] : need_ptr[k + 1]]
            own_before = before[before_ptr[k] : before_ptr[k + 1]]
            stores, loads = point[STORE_ROW], point[CORE_ROW]
            _place_loads(k, first + k, loads, stores, own_need, own_before, runs)
            _place_stores(k, first + k, stores, own_need, own_before, runs)
        if point[WAY] & LEAVE:
            _emit(np.int64(n_cores), point[AGENT_ROW], runs)


@njit(cache=True)
def make_buffered_runs(operations, rows, links, ahead, runs):  # type: ignore[no-untyped-def]
    """Runs of all rows for an order of operations. rows: int64 (n_streams,), how many there are. ahead: the
    sync points."""
    order, op_stream, stream_ptr, end_row = operations
    need, need_ptr, before, before_ptr = links
    n_cores = need_ptr.size - 1
    first = rows.size - n_cores
    kept = stream_ptr[first : first + n_cores].copy()
    for i in range(order.size + rows.size):
        if i < order.size:
            s, end = op_stream[order[i]], end_row[order[i]]
        else:
            s = i - order.size
            end = rows[s]
        until = last_waited_for(np.int64(s), end, ahead)
        _pass(until, ahead, first, links, runs)
        k = s if s < n_cores else s - first
        if k < 0:
            _emit(s, end, runs)
            continue
        own_need = need[need_ptr[k] : need_ptr[k + 1]]
        own_before = before[before_ptr[k] : before_ptr[k + 1]]
        if s < n_cores:
            free = end_row[kept[k]] - 1 if kept[k] < stream_ptr[first + k + 1] else rows[first + k]
            free = min(free, rows_that_wait_for_none(first + k, rows[first + k], ahead))
            _place_loads(k, first + k, end, free, own_need, own_before, runs)
        else:
            kept[k] += 1
            _place_stores(k, s, end, own_need, own_before, runs)


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
    operations = Operations(order, problem.op_stream, problem.stream_ptr, problem.end_row)
    links = Links(np.concatenate(dense), need_ptr, problem.loads_before, before_ptr)
    placed = np.zeros(problem.n_streams, np.int64)
    runs = Runs(np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(1, np.int64), placed)
    make_buffered_runs(operations, problem.rows, links, ahead, runs)
    made = int(runs.n[0])
    return runs.stream[:made].copy(), runs.rows[:made].copy()
