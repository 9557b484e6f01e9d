"""Clocks under TSO: a core has three streams, its loads, its stores, and the miss records of hot lines.

Each is in one order; what holds between them is known beforehand: what program order asks for, and where each
record stands among the loads and among the stores. A tenure begins with its record, and ends with the last
row of each of its two chains: so the rules of the other files hold of each chain by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emu.bus.losses import LOST
from solver.tenures.buffered_lines import Followed, Ties
from solver.tenures.buffered_losses import Noted
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.clocks import Clocks, Places
from solver.tenures.scan import CONTINUED


def make_buffered_clocks(
    found: Followed,
    begins: Sequence[BufferedBegins],
    ties: Sequence[Ties],
    n_lines: int,
    losses: Sequence[Noted],
) -> tuple[Clocks, Places]:
    """Clocks that know what holds within each core. Streams: the cores' loads, the agents, the cores' stores
    (as in `Traces`), the cores' records, the cores' losses: `noted`, or none."""
    t, w = found.tenures, found.writes
    n_cores = len(begins)
    n_streams, n_all = 2 * n_cores + 1, 4 * n_cores + 1
    core = np.where(t.stream > n_cores, t.stream - n_cores - 1, t.stream).astype(np.int64)
    stream_of_write = t.stream[w.tenure].astype(np.int64)
    rows = [_nodes(found, s) for s in range(n_streams)]
    rows += [np.unique(t.begin[(core == k) & (t.begin >= 0)]).astype(np.int64) for k in range(n_cores)]
    rows += [np.arange(len(losses[k].at)) for k in range(n_cores)]
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
        core_clocks = _CoreClocks(clock, ptr, rows, k, n_cores)
        core_clocks.tie(begins[k], ties[k])
        core_clocks.tie_losses(begins[k], ties[k], losses[k])
        core_clocks.tie_pieces(found, begins[k], losses[k])
    key = t.line[w.tenure].astype(np.int64) * n_all + stream_of_write
    by = np.lexsort((node, key))
    final = np.zeros(len(by), np.bool_)
    final[found.parts.last_write[found.parts.last_write >= 0]] = True
    places = Places(
        first, last, starts, found.parts.lead,
        np.concatenate([np.arange(n_cores + 1), *[np.arange(n_cores)] * 3]),
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


class _CoreClocks:
    """The clocks of a core's four streams, and where each stream's nodes are. rows: of each stream."""

    def __init__(
        self, clock: NDArray[np.int32], ptr: NDArray[np.int64], rows: list[NDArray[np.int64]], core: int,
        n_cores: int,
    ) -> None:  # fmt: skip
        self._clock, self._ptr = clock, ptr
        self._streams = load, store, record, lost = [core + k * n_cores + (k > 0) for k in range(4)]
        self._loads, self._stores, self._records = rows[load], rows[store], rows[record]
        self._at = {s: slice(ptr[s], ptr[s + 1]) for s in (load, store, record, lost)}

    def tie(self, begins: BufferedBegins, ties: Ties) -> None:
        """Note what holds between loads, stores and records."""
        clock, at, (load, store, record, _) = self._clock, self._at, self._streams
        loads, stores = self._loads, self._stores
        before_load, before_store = begins.loads_before[self._records], begins.stores_before[self._records]
        clock[at[load], store] = np.searchsorted(stores, ties.need[loads])
        clock[at[store], load] = np.searchsorted(loads, ties.loads_before[stores])
        clock[at[record], load] = np.searchsorted(loads, before_load)
        clock[at[record], store] = np.searchsorted(stores, before_store)
        clock[at[load], record] = np.searchsorted(before_load, loads, side="right")
        clock[at[store], record] = np.searchsorted(before_store, stores, side="right")

    def tie_losses(self, begins: BufferedBegins, ties: Ties, losses: Noted) -> None:
        """Note where the losses stand: exactly among the loads, and as far as is known among the others."""
        clock, at, (load, store, record, lost) = self._clock, self._at, self._streams
        need = np.concatenate([[0], ties.need])[losses.loads]
        low = np.maximum(losses.low, need)
        high = np.minimum(losses.high, np.searchsorted(ties.loads_before, losses.loads, side="right"))
        clock[at[lost], load] = np.searchsorted(self._loads, losses.loads)
        clock[at[load], lost] = np.searchsorted(losses.loads, self._loads, side="right")
        clock[at[lost], store] = np.searchsorted(self._stores, low)
        clock[at[store], lost] = np.searchsorted(high, self._stores, side="right")
        stood = begins.at[self._records]
        clock[at[lost], record] = np.searchsorted(stood, losses.at)
        clock[at[record], lost] = np.searchsorted(losses.at, stood)

    def tie_pieces(self, found: Followed, begins: BufferedBegins, losses: Noted) -> None:
        """Note that the core loses a line after the record that brought it, and, if it is gone then, after
        all that it did there and before the next record."""
        clock, ptr, t = self._clock, self._ptr, found.tenures
        load, store, record, lost = self._streams
        following = {}
        seen: dict[int, int] = {}
        for node, begin in enumerate(self._records.tolist()):
            line = int(begins.line[begin])
            if line in seen:
                following[seen[line]] = node
            seen[line] = begin
        for i, (begin, way) in enumerate(zip(losses.begin.tolist(), losses.way.tolist(), strict=True)):
            here = ptr[lost] + i
            if begins.how[begin] != CONTINUED:
                node = int(np.searchsorted(self._records, begin))
                clock[here, record] = max(clock[here, record], node + 1)
            if way == LOST and begin in following:
                then = ptr[record] + following[begin]
                clock[then, lost] = max(clock[then, lost], i + 1)
        ended = np.full(len(begins.line), -1)
        gone = losses.way == LOST
        ended[losses.begin[gone]] = np.flatnonzero(gone)
        for s, rows in ((load, self._loads), (store, self._stores)):
            mine = np.flatnonzero((t.stream == s) & (t.begin >= 0))
            mine = mine[ended[t.begin[mine]] >= 0]
            told = np.searchsorted(rows, t.last[mine]) + 1
            np.maximum.at(clock[:, s], ptr[lost] + ended[t.begin[mine]], told)


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
