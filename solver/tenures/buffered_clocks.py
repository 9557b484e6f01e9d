"""Clocks under TSO: a core has three streams, its loads, its stores, and the miss records of hot lines.

Each is in one order; what holds between them is known beforehand: what program order asks for, and where each
record stands among the loads and among the stores. A tenure begins with its record, and ends with the last
row of each of its two chains: so the rules of the other files hold of each chain by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from solver.tenures.buffered_lines import Followed, Ties
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.clocks import Clocks, Places


def make_buffered_clocks(
    found: Followed, begins: Sequence[BufferedBegins], ties: Sequence[Ties], n_lines: int
) -> tuple[Clocks, Places]:
    """Clocks that know what holds within each core. Streams: the cores' loads, the agents, the cores' stores
    (as in `Traces`), the cores' records."""
    t, w = found.tenures, found.writes
    n_cores = len(begins)
    n_streams, n_all = 2 * n_cores + 1, 3 * n_cores + 1
    core = np.where(t.stream > n_cores, t.stream - n_cores - 1, t.stream).astype(np.int64)
    stream_of_write = t.stream[w.tenure].astype(np.int64)
    rows = [_nodes(found, s) for s in range(n_streams)]
    rows += [np.unique(t.begin[(core == k) & (t.begin >= 0)]).astype(np.int64) for k in range(n_cores)]
    ptr = np.cumsum([0, *(len(here) for here in rows)]).astype(np.int64)
    starts = np.where(t.begin < 0, t.stream, n_streams + core).astype(np.int64)
    first, last = np.zeros(len(t.first), np.int64), np.zeros(len(t.first), np.int64)
    node = np.zeros(len(w.row), np.int64)
    for s in range(n_all):
        begun, mine, wrote = starts == s, t.stream == s, stream_of_write == s
        first[begun] = np.searchsorted(rows[s], t.begin[begun] if s >= n_streams else t.first[begun])
        last[mine] = np.searchsorted(rows[s], t.last[mine])
        node[wrote] = np.searchsorted(rows[s], w.row[wrote])
    clock = np.zeros((ptr[-1], n_all), np.int32)
    for s in range(n_all):
        clock[ptr[s] : ptr[s + 1], s] = np.arange(len(rows[s]))
    for k in range(n_cores):
        _tie(clock, ptr, rows, k, n_cores, begins[k], ties[k])
    key = t.line[w.tenure].astype(np.int64) * n_all + stream_of_write
    by = np.lexsort((node, key))
    final = np.zeros(len(by), np.bool_)
    final[found.parts.last_write[found.parts.last_write >= 0]] = True
    places = Places(
        first, last, starts, found.parts.lead,
        np.concatenate([np.arange(n_cores + 1), np.arange(n_cores), np.arange(n_cores)]),
        np.searchsorted(key[by], np.arange(n_lines * n_all + 1)).astype(np.int64),
        node[by], w.tenure[by].astype(np.int64), w.after[by], final[by],
    )  # fmt: skip
    # What holds within a core was not learnt one by one.
    news = np.zeros(n_all, np.int64)
    row = np.concatenate([np.empty(0, np.int64), *rows])
    return Clocks(ptr, row, clock, np.zeros(2, np.int64), news), places


def _nodes(found: Followed, stream: int) -> NDArray[np.int64]:
    """Rows of a stream that begin or end a part of a tenure, or write."""
    t, w = found.tenures, found.writes
    mine, wrote = t.stream == stream, t.stream[w.tenure] == stream
    return np.unique(np.concatenate([t.first[mine], t.last[mine], w.row[wrote]]))


def _tie(
    clock: NDArray[np.int32],
    ptr: NDArray[np.int64],
    rows: list[NDArray[np.int64]],
    core: int,
    n_cores: int,
    begins: BufferedBegins,
    ties: Ties,
) -> None:
    """Note what holds between the three streams of a core."""
    load, store, record = core, n_cores + 1 + core, 2 * n_cores + 1 + core
    at = {s: slice(ptr[s], ptr[s + 1]) for s in (load, store, record)}
    before_load, before_store = begins.loads_before[rows[record]], begins.stores_before[rows[record]]
    clock[at[load], store] = np.searchsorted(rows[store], ties.need[rows[load]])
    clock[at[store], load] = np.searchsorted(rows[load], ties.loads_before[rows[store]])
    clock[at[record], load] = np.searchsorted(rows[load], before_load)
    clock[at[record], store] = np.searchsorted(rows[store], before_store)
    clock[at[load], record] = np.searchsorted(before_load, rows[load], side="right")
    clock[at[store], record] = np.searchsorted(before_store, rows[store], side="right")


def of_rows(clocks: Clocks, n_streams: int) -> Clocks:
    """The clocks without the records: only of the first streams, which have rows."""
    end = clocks.ptr[n_streams]
    return Clocks(
        clocks.ptr[: n_streams + 1].copy(),
        clocks.row[:end].copy(),
        clocks.clock[:end, :n_streams].copy(),
        clocks.state,
        clocks.news[:n_streams].copy(),
    )
