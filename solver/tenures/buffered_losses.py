"""What losses prove under TSO: who has a line alone shares it with nobody (as in `solver.tenures.losses`).

A core's losses are a stream of the clocks beside its loads, stores and records: what it lost, it lost before
whoever caused that had the line. A *hold* lasts from a record to the loss of the line. Within it the core
has the line *alone* from a commit, or an atomic access that writes, until a loss. Which of its commits came
before a downgrade is not always known: of one that may stand on either side only itself is a time alone.

For recordings with unbounded caches whose recorder obtains lines only for accesses that happen: there a line
that is not lost stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.record import MISS_WRITE
from emu.bus.losses import LOST
from solver.tenures.buffered_lines import Followed
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.clocks import CYCLE, Clocks, learn
from solver.tenures.scan import CONTINUED

#: Instead of a node: before the region, or beyond it.
OUTSIDE = -1


class Noted(NamedTuple):
    """The losses of a core in a region that are nodes, in order. begin: int64 (n,), by which of the core's
    `BufferedBegins` it held the line; the other columns are those of `Matched`."""

    begin: NDArray[np.int64]
    way: NDArray[np.uint8]
    at: NDArray[np.int64]
    loads: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


class Times(NamedTuple):
    """Spans of time on hot lines, sorted by line, owner and time. line, owner: int64 (n,), owner: the core,
    or as many as there are cores for agents. begin, end: int64 (n, 2), stream and node, OUTSIDE for none;
    both are part of the span. ptr: int64 (n_lines * owners + 1,)."""

    line: NDArray[np.int64]
    owner: NDArray[np.int64]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    ptr: NDArray[np.int64]


class OfPieces(NamedTuple):
    """What is known of a core's pieces of tenures. pieces: int64 (n, 2), node of the record or OUTSIDE, and
    whether it was for a write. loss_way: int64 (., 2), node and way of its losses, in order. writes: int64
    (., 2), stream and node, in program order. loss_ptr, write_ptr: int64 (n + 1,), where those of each piece
    begin."""

    pieces: NDArray[np.int64]
    loss_ptr: NDArray[np.int64]
    loss_way: NDArray[np.int64]
    write_ptr: NDArray[np.int64]
    writes: NDArray[np.int64]


def noted(found: Followed, begins: Sequence[BufferedBegins], n_cores: int) -> list[Noted]:
    """The losses that matter, of each core: of lines on which it has a part of a tenure."""
    t, chosen = found.tenures, []
    core = np.where(t.stream > n_cores, t.stream - n_cores - 1, t.stream)
    for k, mine in enumerate(begins):
        used = np.unique(t.begin[(core == k) & (t.begin >= 0)]).astype(np.int64)
        used = used[~np.isin(mine.line[used], mine.loose)]
        lost = mine.losses
        numbers = mine.number[used]
        at = np.minimum(np.searchsorted(numbers, lost.piece), max(len(numbers) - 1, 0))
        here = np.flatnonzero(numbers[at] == lost.piece) if len(numbers) else np.empty(0, np.int64)
        chosen.append(
            Noted(
                used[at[here]],
                lost.way[here],
                lost.at[here],
                lost.loads[here],
                lost.low[here],
                lost.high[here],
            )
        )
    return chosen


def none_noted() -> Noted:
    """Of a core whose losses are not used."""
    none = np.empty(0, np.int64)
    return Noted(none, np.empty(0, np.uint8), none, none, none, none)


@njit(cache=True, nogil=True)
def is_before(c, s, i, t, j):  # type: ignore[no-untyped-def]
    """Whether node i of stream s is known to come before node j of stream t."""
    return i < j if s == t else c.clock[c.ptr[t] + j, s] > i


@njit(cache=True, nogil=True)
def _open(alone, m, piece, stream, node):  # type: ignore[no-untyped-def]
    """Begin a span alone. Returns how many there are then."""
    alone[m, 0], alone[m, 1], alone[m, 2] = piece, stream, node
    return m + 1


@njit(cache=True, nogil=True)
def times_of_pieces(c, streams, mine, holds, alone):  # type: ignore[no-untyped-def]
    """The spans of one core's pieces of tenures (`OfPieces`). streams: its streams of records and of losses.
    holds, alone: int64 (., 5), piece, begin, end; filled. Returns how many of both."""
    record, lost = streams
    pieces, loss_ptr, loss_way, write_ptr, writes = mine
    n = m = 0
    for p in range(pieces.shape[0]):
        first, until = loss_ptr[p], loss_ptr[p + 1]
        end = OUTSIDE
        if until > first and loss_way[until - 1, 1] == LOST:
            until -= 1
            end = loss_way[until, 0]
        holds[n, 0], holds[n, 1], holds[n, 2] = p, record if pieces[p, 0] >= 0 else OUTSIDE, pieces[p, 0]
        holds[n, 3], holds[n, 4] = lost if end >= 0 else OUTSIDE, end
        n += 1
        at, opened = first, -1
        w, stop = write_ptr[p], write_ptr[p + 1]
        unwritten = w == stop or (
            first < until and is_before(c, lost, loss_way[first, 0], writes[w, 0], writes[w, 1])
        )
        if pieces[p, 1] == 1 or (first < until and unwritten):
            # What it could lose the right to write before it wrote came as the only copy.
            opened = m
            m = _open(alone, m, p, record if pieces[p, 0] >= 0 else OUTSIDE, pieces[p, 0])
        while w < stop:
            s, i = writes[w, 0], writes[w, 1]
            while at < until and is_before(c, lost, loss_way[at, 0], s, i):
                if opened >= 0:
                    alone[opened, 3], alone[opened, 4] = lost, loss_way[at, 0]
                opened = -1
                at += 1
            known = at == until or is_before(c, s, i, lost, loss_way[at, 0])
            if not known:
                alone[m, 3], alone[m, 4] = s, i
                m = _open(alone, m, p, s, i)
            elif opened < 0:
                opened = m
                m = _open(alone, m, p, s, i)
            w += 1
        if opened >= 0:
            closed = loss_way[at, 0] if at < until else end
            alone[opened, 3], alone[opened, 4] = lost if closed >= 0 else OUTSIDE, closed
    return n, m


@njit(cache=True, nogil=True)
def _tell(c, end, begin):  # type: ignore[no-untyped-def]
    """What ends there comes before what begins there."""
    if end[1] < 0 or begin[1] < 0:
        c.state[CYCLE] = 1
    else:
        learn(c, end[0], end[1], begin[0], begin[1])


@njit(cache=True, nogil=True)
def apply_alone_times(a, h, owners, c):  # type: ignore[no-untyped-def]
    """One sweep: of a span alone and another's hold (`Times`) one ends before the other begins. owners: cores
    and agents. Returns a span that contradicts a hold, -1 if there is none."""
    for x in range(a.line.size):
        for v in range(owners):
            low, high = h.ptr[a.line[x] * owners + v], h.ptr[a.line[x] * owners + v + 1]
            if v == a.owner[x] or low == high:
                continue
            begin, end = a.begin[x], a.end[x]
            earlier, top = low, high
            while earlier < top:
                middle = (earlier + top) // 2
                b = h.begin[middle]
                if end[1] < 0 or b[1] < 0 or is_before(c, b[0], b[1], end[0], end[1]):
                    earlier = middle + 1
                else:
                    top = middle
            later, top = low, high
            while later < top:
                middle = (later + top) // 2
                e = h.end[middle]
                if begin[1] < 0 or e[1] < 0 or is_before(c, begin[0], begin[1], e[0], e[1]):
                    top = middle
                else:
                    later = middle + 1
            if earlier > later:
                return x
            if earlier > low:
                _tell(c, h.end[earlier - 1], begin)
            if later < high:
                _tell(c, end, h.begin[later])
    return -1


def make_times(
    found: Followed, begins: Sequence[BufferedBegins], losses: Sequence[Noted], clocks: Clocks, n_lines: int
) -> tuple[Times, Times]:
    """(spans alone, holds) of all cores and agents. clocks: closed, as of `make_buffered_clocks`."""
    n_cores, alone, holds = len(begins), [], []
    for k in range(n_cores):
        more_holds, more_alone = _of_core(found, begins[k], losses[k], clocks, k, n_cores)
        holds.append(more_holds)
        alone.append(more_alone)
    t = found.tenures
    agents = np.flatnonzero(t.begin < 0)
    node = np.searchsorted(_rows(clocks, n_cores), t.first[agents])
    place = np.stack([np.full(len(node), n_cores), node], axis=1)
    rows = np.column_stack([t.line[agents], np.full(len(node), n_cores), place, place]).astype(np.int64)
    holds.append(rows)
    alone.append(rows[t.writes[agents]])
    return _times(alone, n_lines, n_cores + 1), _times(holds, n_lines, n_cores + 1)


def _times(parts: Sequence[NDArray[np.int64]], n_lines: int, owners: int) -> Times:
    rows = np.concatenate(parts)
    key = rows[:, 0] * owners + rows[:, 1]
    by = np.argsort(key, kind="stable")
    rows, ptr = rows[by], np.searchsorted(key[by], np.arange(n_lines * owners + 1)).astype(np.int64)
    line, owner, begin, end = (
        np.ascontiguousarray(column) for column in (rows[:, 0], rows[:, 1], rows[:, 2:4], rows[:, 4:6])
    )
    return Times(line, owner, begin, end, ptr)


def _rows(clocks: Clocks, stream: int) -> NDArray[np.int64]:
    return clocks.row[clocks.ptr[stream] : clocks.ptr[stream + 1]]


def _of_core(
    found: Followed, begins: BufferedBegins, losses: Noted, clocks: Clocks, core: int, n_cores: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(holds, spans alone) of a core: line, owner, begin, end, those of a line in order."""
    t, w = found.tenures, found.writes
    store, record, lost = n_cores + 1 + core, 2 * n_cores + 1 + core, 3 * n_cores + 1 + core
    mine = np.flatnonzero(((t.stream == core) | (t.stream == store)) & (t.begin >= 0))
    used, at = np.unique(t.begin[mine], return_index=True)
    told = ~np.isin(begins.line[used], begins.loose)
    used, line = used[told].astype(np.int64), t.line[mine[at[told]]].astype(np.int64)
    new = begins.how[used] != CONTINUED
    pieces = np.column_stack(
        [
            np.where(new, np.searchsorted(_rows(clocks, record), used), OUTSIDE),
            new & ((begins.flags[used] & np.uint8(MISS_WRITE)) != 0),
        ]
    ).astype(np.int64)
    by_piece = np.argsort(losses.begin, kind="stable")
    loss_way = np.column_stack([by_piece, losses.way[by_piece]]).astype(np.int64)
    loss_ptr = np.searchsorted(losses.begin[by_piece], np.append(used, len(begins.line))).astype(np.int64)
    stream, begin = t.stream[w.tenure], t.begin[w.tenure]
    wrote = np.flatnonzero(((stream == core) | (stream == store)) & np.isin(begin, used))
    wrote = wrote[np.argsort(begin[wrote], kind="stable")]
    node = np.where(
        stream[wrote] == core,
        np.searchsorted(_rows(clocks, core), w.row[wrote]),
        np.searchsorted(_rows(clocks, store), w.row[wrote]),
    )
    writes = np.column_stack([stream[wrote], node]).astype(np.int64)
    write_ptr = np.searchsorted(begin[wrote], np.append(used, len(begins.line))).astype(np.int64)
    holds = np.empty((len(used), 5), np.int64)
    alone = np.empty((2 * len(used) + len(writes), 5), np.int64)
    of_pieces = OfPieces(pieces, loss_ptr, loss_way, write_ptr, writes)
    n, m = times_of_pieces(clocks, (record, lost), of_pieces, holds, alone)
    return tuple(
        np.column_stack([line[part[:, 0]], np.full(len(part), core), part[:, 1:]])
        for part in (holds[:n], alone[:m])
    )  # type: ignore[return-value]
