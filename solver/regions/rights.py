"""Who has which page when, in a region in which holds of pages stand for accesses: while one core has a page
alone nobody else has it, whatever the values of its rows allow.

What a hold found, and what it left, keep most apart. But where a core reads a page all along, others may have
taken it alone meanwhile and left it as they found it, and an order that has that is none: of two such holds
one has to be over before the other begins. Agents have no page for longer than an access: what they write to
one stands where nobody has it, and what they read where nobody has it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import GIVES, HAD_IT, SHARES, TAKES
from solver.regions.hold_rows import CHANGES, LOOKS, STREAM_BITS, STREAM_MASK, HoldRows

if TYPE_CHECKING:
    from solver.regions.problem import Problem

#: Columns of a span of time in which a stream has a page: the page, the stream, whether alone; the rows of
#: the stream that begin and end it; of these BEFORE, where it has it from the beginning of the region on, and
#: BEYOND, where it has it to the end.
PAGE, STREAM, SOLE, BEGIN, END = range(5)
BEFORE, BEYOND = -1, 1 << 62
_NONE = -2
#: Of what a row tells: what it is, and whether the page was had before.
_WHAT, _HAD = np.uint8(3), np.uint8(HAD_IT)
_AGENTS, _CHANGES = np.uint8(LOOKS | CHANGES), np.uint8(CHANGES)


def no_rights() -> NDArray[np.int64]:
    """Spans of nothing."""
    return np.empty((0, 5), np.int64)


@njit(cache=True, nogil=True)
def list_spans(key, row, told, by, spans):  # type: ignore[no-untyped-def]
    """Fill spans (int64 (2 * n + 2, 5)) with those of pages that several streams have and one takes alone or
    shares again, or an agent writes to. key, row, told, by: of `HoldRows`. Returns how many."""
    n, low = 0, 0
    while low < by.size:
        high, page = low, key[by[low]] >> STREAM_BITS
        alone = False
        while high < by.size and key[by[high]] >> STREAM_BITS == page:
            what = told[by[high]]
            alone = alone or (what == _CHANGES if what & _AGENTS else what & _WHAT in (TAKES, SHARES))
            high += 1
        if alone and key[by[low]] != key[by[high - 1]]:
            at = low
            while at < high:
                at, n = _spans_of_one(key, row, told, by, at, spans, n)
        low = high
    return n


@njit(cache=True, nogil=True)
def _spans_of_one(key, row, told, by, at, spans, n):  # type: ignore[no-untyped-def]
    """Of one page and stream, whose rows begin at `at`. Returns (where they end, spans there are then)."""
    mine, first = key[by[at]], told[by[at]]
    page, stream = np.int64(mine >> STREAM_BITS), np.int64(mine & STREAM_MASK)
    if first & _AGENTS:
        while at < by.size and key[by[at]] == mine:
            here, sole = row[by[at]], np.int64(told[by[at]] == _CHANGES)
            n = _put(spans, n, page, stream, sole, here, here)
            at += 1
        return at, n
    what = first & _WHAT
    held = BEFORE if what in (SHARES, GIVES) or first & _HAD else _NONE
    alone = BEFORE if what == SHARES else _NONE
    while at < by.size and key[by[at]] == mine:
        here, what = row[by[at]], told[by[at]] & _WHAT
        if held == _NONE and what <= TAKES:
            held = here
        if what == TAKES and alone == _NONE:
            alone = here
        if what >= SHARES and alone != _NONE:
            n, alone = _put(spans, n, page, stream, 1, alone, here), _NONE
        if what == GIVES and held != _NONE:
            n, held = _put(spans, n, page, stream, 0, held, here), _NONE
        at += 1
    if alone != _NONE:
        n = _put(spans, n, page, stream, 1, alone, BEYOND)
    if held != _NONE:
        n = _put(spans, n, page, stream, 0, held, BEYOND)
    return at, n


@njit(cache=True, nogil=True)
def _put(spans, n, page, stream, sole, begin, end):  # type: ignore[no-untyped-def]
    spans[n, PAGE], spans[n, STREAM], spans[n, SOLE] = page, stream, sole
    spans[n, BEGIN], spans[n, END] = begin, end
    return n + 1


def rights_of(holds: HoldRows) -> NDArray[np.int64]:
    """The spans of a region's pages that one stream has alone and another has too, int64 (n, 5), in the order
    of their pages and streams. An agent's access is one that begins and ends with the same row."""
    if not len(holds.key):
        return no_rights()
    spans = np.empty((2 * len(holds.key) + 2, 5), np.int64)
    return spans[: list_spans(holds.key, holds.row, holds.told, holds.by, spans)].copy()


def begin_rows(spans: NDArray[np.int64], stream: int) -> NDArray[np.int64]:
    """Rows of a stream that begin a span, int64 (n,), ascending: they are not to be joined with those before,
    which may end one."""
    return np.unique(spans[(spans[:, STREAM] == stream) & (spans[:, BEGIN] >= 0), BEGIN])


@njit(cache=True, nogil=True)
def find_clashes(spans, by, begin, end, clashes):  # type: ignore[no-untyped-def]
    """Fill clashes (int64 (m, 2)) with pairs of spans, of which one is alone, that overlap in an order.
    begin, end: int64 (n,), their places in it; by: int64 (n,), the spans by page and begin. Returns how many;
    at most as many as there is room for."""
    n = 0
    for i in range(by.size):
        a = by[i]
        for j in range(i + 1, by.size):
            b = by[j]
            if spans[b, PAGE] != spans[a, PAGE] or begin[b] > end[a]:
                break
            if spans[b, STREAM] == spans[a, STREAM] or not (spans[a, SOLE] or spans[b, SOLE]):
                continue
            if n == len(clashes):
                return n
            clashes[n, 0], clashes[n, 1] = a, b
            n += 1
    return n


def clashes_of(
    spans: NDArray[np.int64], runs: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Pairs of spans that overlap in an order, one of them alone: int64 (n, 2). runs: of the order, (stream,
    rows), int64 (m,) each."""
    begin, end = (_places(spans[:, STREAM], spans[:, column], runs) for column in (BEGIN, END))
    room = np.empty((4 * len(spans), 2), np.int64)
    return room[: find_clashes(spans, np.lexsort((begin, spans[:, PAGE])), begin, end, room)]


def _places(
    streams: NDArray[np.int64], rows: NDArray[np.int64], runs: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.int64]:
    """How many rows come before each of these; BEFORE and BEYOND as they are."""
    found, (stream, run) = rows.copy(), runs
    starts = np.cumsum(run) - run
    for s in np.unique(streams).tolist():
        mine = np.flatnonzero((streams == s) & (rows >= 0) & (rows < BEYOND))
        of_stream = np.flatnonzero(stream == s)
        ends = np.cumsum(run[of_stream])
        at = np.searchsorted(ends, rows[mine], side="right")
        found[mine] = starts[of_stream[at]] + rows[mine] - (ends - run[of_stream])[at]
    return found


def operations_of(problem: Problem, column: int) -> NDArray[np.int64]:
    """The operation that the rows in a column of the problem's rights are placed with, or right before: int64
    (n,). As many as there are, or more, for what is in none; -1 for what was before."""
    rows = problem.rights[:, column]
    found, n = np.full(len(rows), -1, np.int64), problem.n_ops
    for s in range(problem.n_streams):
        mine = np.flatnonzero((problem.rights[:, STREAM] == s) & (rows >= 0))
        first, end = int(problem.stream_ptr[s]), int(problem.stream_ptr[s + 1])
        at = first + np.searchsorted(problem.end_row[first:end], rows[mine], side="right")
        found[mine] = np.where(at == end, n, at)
    return found
