"""When a core had a line, and when alone: tenures put together with the losses of the core's log.

A *hold* is the time from when a core gets a line until it loses it to somebody's write. Within it a core may
have the line *alone*: from a write on, which took it from all others, until it loses its right to write to
somebody's read, or the line. Two holds of different cores may overlap, but while one core has the line alone
no other holds it.

Where a hold began before the region, or lasts beyond it, that is known. Where caches are finite the core may
itself have given the line back, which no loss says: then a hold is known to last until its last access.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from emu.losses import DOWNGRADED, LOST
from recorder.record import MISS_OWNED, MISS_WRITE
from solver.tenures.lines import EITHER, NO, UNTOLD, YES, Tenures, Writes
from solver.tenures.scan import CONTINUED, Begins

#: How a span of time ends. KNOWN: between two rows, by somebody else's access in between. OPEN: not in the
#: region. GIVEN: nobody says, not before its last access.
KNOWN, OPEN, GIVEN = np.uint8(0), np.uint8(1), np.uint8(2)
#: How a span begins. EARLIER: before the region. TAKEN: by a write. GOT: by a read.
EARLIER, TAKEN, GOT = np.uint8(0), np.uint8(1), np.uint8(2)


class Spans(NamedTuple):
    """Spans of time in which a stream has a line, or has it alone; those of a line and stream are disjoint.

    line, stream: int32 (n,). first: int64 (n,), the row that begins it, -1 for EARLIER. start: uint8 (n,).
    before: int64 (n,), the last row that is known to lie before its end, -1 for none. after: int64 (n,), the
    first row that is known to lie after. end: uint8 (n,). owned: uint8 (n,), of how it begins, whether the
    line came from a core that had it alone; ended: uint8 (n,), of KNOWN ends, whether it was alone then.
    """

    line: NDArray[np.int32]
    stream: NDArray[np.int32]
    first: NDArray[np.int64]
    start: NDArray[np.uint8]
    before: NDArray[np.int64]
    after: NDArray[np.int64]
    end: NDArray[np.uint8]
    owned: NDArray[np.uint8]
    ended: NDArray[np.uint8]


_KINDS = (np.int32, np.int32, np.int64, np.uint8, np.int64, np.int64, np.uint8, np.uint8, np.uint8)


@njit(cache=True, nogil=True)
def _put(out, n, line, stream, first, start, before, after, end, owned, ended):  # type: ignore[no-untyped-def]
    o_line, o_stream, o_first, o_start, o_before, o_after, o_end, o_owned, o_ended = out
    o_line[n], o_stream[n], o_first[n], o_start[n] = line, stream, first, start
    o_before[n], o_after[n], o_end[n] = before, after, end
    o_owned[n], o_ended[n] = owned, ended
    return n + 1


@njit(cache=True, nogil=True)
def _first_at(rows, low, high, row):  # type: ignore[no-untyped-def]
    """The first index from low to high at which ascending `rows` is at least `row`."""
    while low < high:
        middle = (low + high) // 2
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def spans_of_line(line, stream, n_rows, piece, write, loss, unbounded, holds, n, alone, m, ended_by):  # type: ignore[no-untyped-def]
    """Put together the spans of one core on one line.

    piece: (first, last, how, flags), of its tenures, flags: of `Begins`. write: rows. loss: (before, after,
    way). Appends to `holds` and `alone`, of which n and m are used; returns (n, m). ended_by: uint8, for each
    loss whether the core had the line alone then, EITHER to begin with.
    """
    p_first, p_last, p_how, p_flags = piece
    l_before, l_after, l_way = loss
    j = 0
    # What was lost before the first access here says nothing of what the core had.
    while p_first.size and j < l_before.size and p_how[0] != CONTINUED and l_before[j] < p_first[0]:
        j += 1
    for i in range(p_first.size):
        last_piece = i + 1 == p_first.size
        following = n_rows if last_piece else p_first[i + 1]
        earlier = p_how[i] == CONTINUED
        start = EARLIER if earlier else TAKEN if p_flags[i] & np.uint8(MISS_WRITE) else GOT
        owned = EITHER if earlier else YES if p_flags[i] & np.uint8(MISS_OWNED) else NO
        end, before, after, ended = GIVEN, p_last[i], following, EITHER
        if last_piece and unbounded:
            end, before = OPEN, n_rows - 1
        first, seen = np.int64(-1) if earlier else p_first[i], p_first[i]
        # The span alone that goes on, and whether nothing was written or lost yet.
        sole, fresh, sole_from, sole_start, sole_owned = False, True, first, start, owned
        while True:
            lost = j < l_before.size and (last_piece or l_before[j] < following)
            bound = min(l_before[j], following - 1) if lost else p_last[i]
            w = _first_at(write, 0, write.size, seen)
            if not sole and w < write.size and write[w] <= bound:
                sole, sole_from, sole_start = True, write[w], TAKEN
                # If not with the line: from those who shared it, unless it came as the only copy.
                sole_owned = NO if start != TAKEN and not (fresh and owned != YES) else EITHER
                if start == TAKEN and fresh:
                    sole_owned = owned
            if not lost:
                break
            if l_way[j] == LOST:
                end, before, after = KNOWN, max(l_before[j], p_last[i]), min(l_after[j], following)
                ended = YES if sole else EITHER if fresh else NO
                ended_by[j] = ended
                j += 1
                break
            if not sole and fresh and unbounded:
                # Nothing was written, so it came as the only copy. To a finite cache it may have come back
                # alone within one instruction, without a record, after it was got with others.
                sole, sole_from, sole_start, sole_owned = True, first, start, owned
            if sole:
                m = _put(
                    alone, m, line, stream, sole_from, sole_start, l_before[j], l_after[j], KNOWN,
                    sole_owned, YES,
                )  # fmt: skip
            sole, fresh, seen = False, False, l_after[j]
            j += 1
        n = _put(holds, n, line, stream, first, start, before, after, end, owned, ended)
        if sole:
            kept = OPEN if end == OPEN else GIVEN
            m = _put(alone, m, line, stream, sole_from, sole_start, before, after, kept, sole_owned, EITHER)
        while j < l_before.size and not last_piece and l_before[j] < following:
            j += 1
    return n, m


@njit(cache=True, nogil=True)
def spans_of_core(stream, n_rows, lines, pieces, writes, losses, unbounded, holds, alone, ended_by):  # type: ignore[no-untyped-def]
    """As `spans_of_line`, of all lines: each of the three comes sorted by line, its first column (ascending),
    and order. lines: how many. Returns (n, m)."""
    p_line, p_first, p_last, p_how, p_flags = pieces
    w_line, w_row = writes
    l_line, l_before, l_after, l_way = losses
    n = m = i = w = j = 0
    for line in range(lines):
        i0, w0, j0 = i, w, j
        while i < p_line.size and p_line[i] == line:
            i += 1
        while w < w_line.size and w_line[w] == line:
            w += 1
        while j < l_line.size and l_line[j] == line:
            j += 1
        if i > i0:
            n, m = spans_of_line(
                line, stream, n_rows,
                (p_first[i0:i], p_last[i0:i], p_how[i0:i], p_flags[i0:i]), w_row[w0:w],
                (l_before[j0:j], l_after[j0:j], l_way[j0:j]), unbounded, holds, n, alone, m,
                ended_by[j0:j],
            )  # fmt: skip
    return n, m


def _empty(n: int) -> tuple[NDArray[np.generic], ...]:
    return tuple(np.empty(n, kind) for kind in _KINDS)


def no_spans() -> Spans:
    """Of a line and stream where there are none."""
    return Spans(*_empty(0))  # type: ignore[arg-type]


def _join(parts: list[Spans]) -> Spans:
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Spans(*columns)


def find_spans(
    tenures: Tenures, writes: Writes, begins: Sequence[Begins], lines: NDArray[np.int64], n_rows: list[int],
    unbounded: bool, agents_say: bool,
) -> tuple[Spans, Spans, Spans]:  # fmt: skip
    """(holds, spans alone, losses) of all streams, cores' and agents', sorted by line, stream and time. A
    loss is given as a span that ends by it; how it begins is not told, and `start` has the way.

    lines: of `HotLines.find`, ascending or not. n_rows: rows of each stream in the region. agents_say:
    whether agents' rows are OWNED where a core had the line alone.
    """
    holds, alone, lost = [no_spans()], [no_spans()], [no_spans()]
    by_address = np.argsort(lines, kind="stable")
    for s, begun in enumerate(begins):
        losses = begun.losses
        mine = np.flatnonzero(tenures.stream == s)
        mine = mine[np.lexsort((tenures.first[mine], tenures.line[mine]))]
        wrote = np.flatnonzero(tenures.stream[writes.tenure] == s)
        line_of = tenures.line[writes.tenure[wrote]]
        order = np.lexsort((writes.row[wrote], line_of))
        at = np.minimum(np.searchsorted(lines[by_address], losses.line), max(len(lines) - 1, 0))
        known = lines[by_address][at] == losses.line if len(lines) else np.zeros(len(losses.line), np.bool_)
        hot = by_address[at[known]] if len(lines) else np.empty(0, np.int64)
        by_line = np.argsort(hot, kind="stable")
        room = _empty(len(mine)), _empty(len(mine) + int(known.sum()))
        ended_by = np.where(losses.way[known][by_line] == DOWNGRADED, YES, EITHER).astype(np.uint8)
        line, way = hot[by_line].astype(np.int64), losses.way[known][by_line]
        lost_at, got_on = losses.before[known][by_line], losses.after[known][by_line]
        n, m = spans_of_core(
            s, n_rows[s], len(lines),
            (tenures.line[mine].astype(np.int64), tenures.first[mine], tenures.last[mine], tenures.how[mine],
             begun.flags[tenures.begin[mine]]),
            (line_of[order].astype(np.int64), writes.row[wrote][order]),
            (line, lost_at, got_on, way), unbounded, *room, ended_by,
        )  # fmt: skip
        holds.append(Spans(*(column[:n] for column in room[0])))  # type: ignore[arg-type]
        alone.append(Spans(*(column[:m] for column in room[1])))  # type: ignore[arg-type]
        lost.append(_of_losses(s, line, way, lost_at, got_on, ended_by))
    agents = _of_agents(tenures, agents_say)
    holds.append(agents)
    alone.append(_kept(agents, np.flatnonzero(agents.start == TAKEN)))
    loose = np.isin(lines, np.concatenate([begun.loose for begun in begins]))
    found = (_sorted(_join(parts)) for parts in (holds, alone, lost))
    first, second, third = (_without(spans, loose) for spans in found)
    return first, second, third


def _without(spans: Spans, loose: NDArray[np.bool_]) -> Spans:
    """Nothing is told of lines that are `loose`."""
    untold = loose[spans.line]
    owned, ended = spans.owned.copy(), spans.ended.copy()
    owned[untold] = ended[untold] = UNTOLD
    return spans._replace(owned=owned, ended=ended)


def _of_losses(
    stream: int, line: NDArray[np.int64], way: NDArray[np.uint8], before: NDArray[np.int64],
    after: NDArray[np.int64], ended: NDArray[np.uint8],
) -> Spans:  # fmt: skip
    """Losses of one core, sorted by line and time."""
    n = len(line)
    return Spans(
        line.astype(np.int32), np.full(n, stream, np.int32), before, way, before, after, np.full(n, KNOWN),
        np.full(n, EITHER), ended,
    )  # fmt: skip


def _of_agents(t: Tenures, agents_say: bool) -> Spans:
    """Each access of an agent is a span of its own."""
    mine = np.flatnonzero(t.begin < 0)
    start = np.where(t.writes[mine], TAKEN, GOT).astype(np.uint8)
    end = np.full(len(mine), GIVEN, np.uint8)
    owned = t.owned[mine] if agents_say else np.full(len(mine), EITHER)
    return Spans(
        t.line[mine], t.stream[mine], t.first[mine], start, t.first[mine], t.first[mine] + 1, end,
        owned, np.full(len(mine), EITHER),
    )  # fmt: skip


def _sorted(spans: Spans) -> Spans:
    return _kept(spans, np.lexsort((spans.first, spans.stream, spans.line)))


def _kept(spans: Spans, which: NDArray[np.int64]) -> Spans:
    return Spans(*(column[which] for column in spans))  # type: ignore[arg-type]
