"""Who has which page when, in a region in which holds of pages stand for accesses: while one core has a page
alone nobody else has it, whatever the values of its rows allow.

What a hold found, and what it left, keep most apart. But where a core reads a page all along, others may have
taken it alone meanwhile and left it as they found it, and an order that has that is none: of two such holds
one has to be over before the other begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import GETS, GIVES, HAD_IT, OF_HOLD, SHARES, TAKES

if TYPE_CHECKING:
    from solver.regions.problem import Problem
    from solver.regions.region import Region

#: Columns of a span of time in which a stream has a page: the page, the stream, whether alone; the rows of
#: the stream that begin and end it; of these BEFORE, where it has it from the beginning of the region on, and
#: BEYOND, where it has it to the end.
PAGE, STREAM, SOLE, BEGIN, END = range(5)
BEFORE, BEYOND = -1, 1 << 62
_WHAT, _PAGE_SHIFT = 3, PAGE_BYTES.bit_length() - 1


def no_rights() -> NDArray[np.int64]:
    """Spans of nothing."""
    return np.empty((0, 5), np.int64)


@njit(cache=True, nogil=True)
def list_spans(page, stream, row, told, spans):  # type: ignore[no-untyped-def]
    """Fill spans (int64 (2 * n + 2, 5)) from rows of holds, in the order of their pages, streams and numbers.
    page, stream, row, told: int64 (n,), told: what they tell. Returns how many."""
    n, i = 0, 0
    while i < page.size:
        begin = i
        held = alone = np.int64(-2)
        first = told[i] & _WHAT
        if first in (SHARES, GIVES) or told[i] & HAD_IT:
            held = np.int64(BEFORE)
        if first == SHARES:
            alone = np.int64(BEFORE)
        while i < page.size and page[i] == page[begin] and stream[i] == stream[begin]:
            what = told[i] & _WHAT
            if held == -2 and what in (GETS, TAKES):
                held = row[i]
            if what == TAKES and alone == -2:
                alone = row[i]
            if what in (SHARES, GIVES) and alone != -2:
                spans[n, PAGE], spans[n, STREAM], spans[n, SOLE] = page[i], stream[i], 1
                spans[n, BEGIN], spans[n, END] = alone, row[i]
                n, alone = n + 1, np.int64(-2)
            if what == GIVES and held != -2:
                spans[n, PAGE], spans[n, STREAM], spans[n, SOLE] = page[i], stream[i], 0
                spans[n, BEGIN], spans[n, END] = held, row[i]
                n, held = n + 1, np.int64(-2)
            i += 1
        for since, sole in ((alone, 1), (held, 0)):
            if since != -2:
                spans[n, PAGE], spans[n, STREAM], spans[n, SOLE] = page[begin], stream[begin], sole
                spans[n, BEGIN], spans[n, END] = since, BEYOND
                n += 1
    return n


def rights_of(region: Region) -> NDArray[np.int64]:
    """The spans of a region's pages that one stream has alone and another has too, int64 (n, 5), in the order
    of their pages."""
    columns = [np.empty((0, 4), np.int64)]
    for stream, source in enumerate(region.streams):
        number = 0
        for rows in source.pieces():
            at = np.flatnonzero(rows["flags"] & np.uint8(OF_HOLD) == OF_HOLD)
            if len(at):
                told = rows["pc"][at].view(np.int64)
                of_stream = np.full(len(at), stream)
                low = told & PAGE_BYTES - 1
                columns.append(np.stack([told >> _PAGE_SHIFT, of_stream, at + number, low], axis=1))
            number += len(rows)
    if len(columns) < 3:
        return no_rights()
    told = _of_several(np.concatenate(columns))
    page, stream, row, what = np.ascontiguousarray(told.T)
    spans = np.empty((2 * len(told) + 2, 5), np.int64)
    return spans[: list_spans(page, stream, row, what, spans)].copy()


def begin_rows(spans: NDArray[np.int64], stream: int) -> NDArray[np.int64]:
    """Rows of a stream that begin a span, int64 (n,), ascending: they are not to be joined with those before,
    which may end one."""
    return np.unique(spans[(spans[:, STREAM] == stream) & (spans[:, BEGIN] >= 0), BEGIN])


def _of_several(told: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of pages that several streams have and one takes alone, in the order of page, stream, row."""
    told = told[np.lexsort((told[:, 1], told[:, 0]))]
    begin = np.flatnonzero(np.r_[True, told[1:, 0] != told[:-1, 0]])
    if not len(told):
        return told
    several = np.maximum.reduceat(told[:, 1], begin) != np.minimum.reduceat(told[:, 1], begin)
    alone = np.maximum.reduceat((told[:, 3] & _WHAT == TAKES) | (told[:, 3] & _WHAT == SHARES), begin)
    counts = np.diff(np.r_[begin, len(told)])
    return told[np.repeat(several & alone, counts)]


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
