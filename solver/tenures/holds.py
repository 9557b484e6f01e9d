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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from, inner
from corebraid.base.rows.record import MISS_OWNED, MISS_WRITE
from emu.bus.losses import DOWNGRADED, LOST
from solver.tenures.lines import EITHER, NO, UNTOLD, YES, Tenures, Writes
from solver.tenures.placed import Placed
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


class Room(NamedTuple):
    """Room for holds and for spans alone."""

    holds: Spans
    alone: Spans


class Core(NamedTuple):
    """A core in a region: its stream, how many rows that has, and whether its caches are unbounded."""

    stream: int
    n_rows: int
    unbounded: bool


_KINDS: tuple[type[Any], ...] = (
    np.int32,
    np.int32,
    np.int64,
    np.uint8,
    np.int64,
    np.int64,
    np.uint8,
    np.uint8,
    np.uint8,
)


@njit(cache=True, nogil=True)
def _put(out, n, whose, begin, end):  # type: ignore[no-untyped-def]
    """Append a span to columns of which n are filled. whose: line, stream; begin: first, start, owned; end:
    before, after, end, ended. Returns n + 1."""
    out.line[n], out.stream[n] = whose
    out.first[n], out.start[n], out.owned[n] = begin
    out.before[n], out.after[n], out.end[n], out.ended[n] = end
    return n + 1


@inner
def _owned_before(start, fresh, owned):  # type: ignore[no-untyped-def]
    """Whether another core had a line alone before a write of one that had it already, from `start` on, when
    it came from a core that is `owned`. fresh: whether nothing was written or lost since."""
    if start == TAKEN:
        return owned if fresh else EITHER
    # From those who share it, unless it came as the only copy.
    return NO if not fresh or owned == YES else EITHER


@njit(cache=True, nogil=True)
def spans_of_line(line, core, piece, write, loss, room, n, m):  # type: ignore[no-untyped-def]
    """Put together the spans of one core (`Core`) on one line.

    piece: (first, last, how, flags), of its tenures, flags: of `Begins`. write: rows. loss: (before, after,
    way, ended_by). Appends to `Room`, of which n and m are used; returns (n, m). ended_by: uint8, filled: for
    each loss whether the core had the line alone then, EITHER to begin with.
    """
    stream, n_rows, unbounded = core
    whose = line, stream
    p_first, p_last, p_how, p_flags = piece
    l_before, l_after, l_way, ended_by = loss
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
            w = first_from(write, 0, write.size, seen)
            if not sole and w < write.size and write[w] <= bound:
                sole, sole_from, sole_start = True, write[w], TAKEN
                sole_owned = _owned_before(start, fresh, owned)
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
                lost_there = l_before[j], l_after[j], KNOWN, YES
                m = _put(room.alone, m, whose, (sole_from, sole_start, sole_owned), lost_there)
            sole, fresh, seen = False, False, l_after[j]
            j += 1
        n = _put(room.holds, n, whose, (first, start, owned), (before, after, end, ended))
        if sole:
            kept = before, after, OPEN if end == OPEN else GIVEN, EITHER
            m = _put(room.alone, m, whose, (sole_from, sole_start, sole_owned), kept)
        while j < l_before.size and not last_piece and l_before[j] < following:
            j += 1
    return n, m


@njit(cache=True, nogil=True)
def spans_of_core(core, lines, pieces, writes, losses, room, n, m):  # type: ignore[no-untyped-def]
    """As `spans_of_line`, of all lines: each of the three comes sorted by line, its first column (ascending),
    and order. lines: how many. Returns (n, m)."""
    p_line, p_first, p_last, p_how, p_flags = pieces
    w_line, w_row = writes
    l_line, l_before, l_after, l_way, ended_by = losses
    i = w = j = 0
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
                line, core, (p_first[i0:i], p_last[i0:i], p_how[i0:i], p_flags[i0:i]), w_row[w0:w],
                (l_before[j0:j], l_after[j0:j], l_way[j0:j], ended_by[j0:j]), room, n, m,
            )  # fmt: skip
    return n, m


@njit(cache=True, nogil=True)
def spans_of_agents(stream, accesses, room, n, m):  # type: ignore[no-untyped-def]
    """Each access of an agent is a span of its own, one that writes alone. accesses: (line, first, writes,
    owned), columns of `Tenures`. Returns (n, m) as `spans_of_line`."""
    line, first, writes, owned = accesses
    for i in range(line.size):
        begin = first[i], TAKEN if writes[i] else GOT, owned[i]
        end = first[i], first[i] + 1, GIVEN, EITHER
        n = _put(room.holds, n, (line[i], stream), begin, end)
        if writes[i]:
            m = _put(room.alone, m, (line[i], stream), begin, end)
    return n, m


@njit(cache=True, nogil=True)
def sort_by_line(line, n_lines, by):  # type: ignore[no-untyped-def]
    """Fill by (int64 (n,)) with the order of `line` (from 0 to n_lines - 1), in which equals keep theirs."""
    ptr = np.zeros(n_lines + 1, np.int64)
    for i in range(line.size):
        ptr[line[i] + 1] += 1
    for k in range(n_lines):
        ptr[k + 1] += ptr[k]
    for i in range(line.size):
        by[ptr[line[i]]] = i
        ptr[line[i]] += 1


def _empty(n: int) -> Spans:
    return Spans(*(np.empty(n, kind) for kind in _KINDS))


def _by_line(line: NDArray[np.int32], n_lines: int) -> NDArray[np.int64]:
    by = np.empty(len(line), np.int64)
    sort_by_line(line, n_lines, by)
    return by


class _Found:
    """Room for the spans and losses of a region, stream after stream. most: tenures; losses of lines that
    matter."""

    def __init__(self, tenures: int, losses: int) -> None:
        self.room = Room(_empty(tenures), _empty(tenures + losses))
        self.n = self.m = 0
        self.lost: list[Spans] = []

    def sorted(self, n_lines: int, loose: NDArray[np.bool_]) -> tuple[Spans, Spans, Spans]:
        """(holds, spans alone, losses) by line, stream and time. loose: lines of which nothing is told."""
        lost: Sequence[NDArray[Any]] = _empty(0)
        if self.lost:
            lost = [np.concatenate(column) for column in zip(*self.lost, strict=True)]
        holds, alone = [c[: self.n] for c in self.room.holds], [c[: self.m] for c in self.room.alone]
        first, second, third = (
            _without(_ordered(columns, n_lines), loose) for columns in (holds, alone, lost)
        )
        return first, second, third


def _ordered(columns: Sequence[NDArray[Any]], n_lines: int) -> Spans:
    """Those of each stream are in order of time on every line, and the streams follow each other."""
    by = _by_line(columns[0], n_lines)
    return Spans(*(column.take(by) for column in columns))


def find_spans(
    tenures: Tenures, writes: Writes, begins: Sequence[Begins], lines: NDArray[np.int64], n_rows: list[int],
    unbounded: bool, agents_say: bool,
) -> tuple[Spans, Spans, Spans]:  # fmt: skip
    """(holds, spans alone, losses) of all streams, cores' and agents', sorted by line, stream and time. A
    loss is given as a span that ends by it; how it begins is not told, and `start` has the way.

    lines: of `HotLines.find`, ascending or not. n_rows: rows of each stream in the region. agents_say:
    whether agents' rows are OWNED where a core had the line alone.
    """
    t, agents = tenures, len(begins)
    begun = np.searchsorted(t.stream, np.arange(agents + 2)).tolist()
    wrote = np.searchsorted(t.stream[writes.tenure], np.arange(agents + 2)).tolist()
    found = _Found(len(t.line), sum(len(mine.losses.line) for mine in begins))
    by_address = np.argsort(lines, kind="stable")
    for s, mine in enumerate(begins):
        here, there = slice(begun[s], begun[s + 1]), slice(wrote[s], wrote[s + 1])
        line, way, before, after = _of_hot(mine.losses, lines, by_address)
        ended_by = np.where(way == DOWNGRADED, YES, EITHER).astype(np.uint8)
        by, written = _by_line(t.line[here], len(lines)), t.line[writes.tenure[there]]
        by_write = _by_line(written, len(lines))
        found.n, found.m = spans_of_core(
            Core(s, n_rows[s], unbounded), len(lines),
            (t.line[here][by], t.first[here][by], t.last[here][by], t.how[here][by],
             mine.flags[t.begin[here][by]]),
            (written[by_write], writes.row[there][by_write]), (line, before, after, way, ended_by),
            found.room, found.n, found.m,
        )  # fmt: skip
        found.lost.append(_of_losses(s, line, way, before, after, ended_by))
    here = slice(begun[agents], begun[agents + 1])
    owned = t.owned[here] if agents_say else np.full(here.stop - here.start, EITHER)
    accesses = t.line[here], t.first[here], t.writes[here], owned
    found.n, found.m = spans_of_agents(agents, accesses, found.room, found.n, found.m)
    loose = np.isin(lines, np.concatenate([mine.loose for mine in begins]))
    return found.sorted(len(lines), loose)


def _of_hot(
    losses: Placed, lines: NDArray[np.int64], by_address: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """(line, way, before, after) of the losses of lines that matter, by their numbers and in order."""
    if not len(lines) or not len(losses.line):
        none = np.empty(0, np.int64)
        return none, np.empty(0, np.uint8), none, none
    at = by_address[np.minimum(np.searchsorted(lines, losses.line, sorter=by_address), len(lines) - 1)]
    known = np.flatnonzero(lines[at] == losses.line)
    which = known[np.argsort(at[known], kind="stable")]
    return at[which], losses.way[which], losses.before[which], losses.after[which]


def _without(spans: Spans, loose: NDArray[np.bool_]) -> Spans:
    """Nothing is told of lines that are `loose`."""
    if not loose.any():
        return spans
    untold = loose[spans.line]
    spans.owned[untold] = spans.ended[untold] = UNTOLD
    return spans


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
