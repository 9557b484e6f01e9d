"""Deduction: what must precede what in every legal order, to a fixed point (DESIGN 6.6).

before[o, t] says how far stream t must have come when operation o runs. Four rules make it grow, each on
the problem and on its mirror image (streams backwards, old and new values exchanged), until nothing does:

- program order, and what precedes what precedes o, precedes o;
- o reads old value v of granule g, so one of those that leave v there is the last to change g before o.
  Candidates that must follow o, or that must be followed by another change of g before o, are out. What
  precedes every candidate, or is one of them for every one (elementwise minimum), precedes o;
- if a single candidate w is left, nothing changes g between w and o: a change that precedes o precedes w,
  and one that w precedes, o precedes;
- if only the initial value is left, o precedes every change of g.

An operation without a candidate, or that must precede itself, proves that there is no legal order. That
some order keeps to `before` proves nothing: the search has the last word.

For explanations some operations may be *doubted*: what a doubted operation read is not used. If it changes
something it counts as a store of its new values over whatever was there; else it is left out. Likewise a
final value may be doubted. Whatever is proved so holds of the rest, whoever doubts them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.facts import Doubt, both_sides
from solver.problem import Problem

#: Most entries of `before`, and most candidates looked at in all, that deduction takes on.
MAX_CLOCKS, MAX_STEPS = 1 << 24, 400_000_000
_MAX_TURNS = 100
_FIXED, _CONTRADICTION, _TOO_MUCH = 0, 1, 2


class News(NamedTuple):
    """What changed since when, so that a rule is applied again only where it can say more. changed, seen:
    int64 (n_ops,), when an operation's clocks last changed, and when the rules were last applied to it.
    stirred: int64 (n_granules,), when the clocks of an operation on it last changed. now: int64 (2,), the
    time, and how many changes there were."""

    changed: NDArray[np.int64]
    seen: NDArray[np.int64]
    stirred: NDArray[np.int64]
    now: NDArray[np.int64]


@dataclass(frozen=True)
class Deduced:
    """before: int32 (n_ops, n_streams), see `solver.cut_walk.Ops`; streams without operations left out.

    contradiction: the operation that cannot stand anywhere, or -1. complete: whether the fixed point was
    reached within the limits.
    """

    before: NDArray[np.int32]
    contradiction: int
    complete: bool


@njit(cache=True)
def note(op, f, news):  # type: ignore[no-untyped-def]
    """The clocks of an operation have changed."""
    news.now[0] += 1
    news.now[1] += 1
    news.changed[op] = news.now[0]
    for p in range(f.part_ptr[op], f.part_ptr[op + 1]):
        news.stirred[f.granule[p]] = news.now[0]


@njit(cache=True)
def grow(clocks, of, what, f, news):  # type: ignore[no-untyped-def]
    """Elementwise maximum into clocks[of]."""
    changed = False
    for t in range(what.size):
        if what[t] > clocks[of, t]:
            clocks[of, t] = what[t]
            changed = True
    if changed:
        note(of, f, news)


@njit(cache=True)
def reach_to(clocks, of, t, reach, f, news):  # type: ignore[no-untyped-def]
    """The operations of stream t below `reach` precede operation `of`."""
    if clocks[of, t] < reach:
        clocks[of, t] = reach
        note(of, f, news)


@njit(cache=True)
def last_change(e, g, t, f, clocks):  # type: ignore[no-untyped-def]
    """The last operation of stream t that changes granule g and must precede operation e, or -1."""
    row = g * (f.stream_ptr.size - 1) + t
    low, high = f.changes_ptr[row], f.changes_ptr[row + 1]
    bound = clocks[e, t]
    while low < high:
        middle = (low + high) // 2
        if f.part_op[f.changes[middle]] < bound:
            low = middle + 1
        else:
            high = middle
    return f.part_op[f.changes[low - 1]] if low > f.changes_ptr[row] else np.int32(-1)


@njit(cache=True)
def first_change_after(w, g, t, besides, f, clocks):  # type: ignore[no-untyped-def]
    """The first operation of stream t, other than `besides`, that changes g and that w must precede (w = -1:
    the first of all), or -1."""
    row = g * (f.stream_ptr.size - 1) + t
    for i in range(f.changes_ptr[row], f.changes_ptr[row + 1]):
        y = f.part_op[f.changes[i]]
        if y != besides and y != w and (w < 0 or clocks[y, f.op_stream[w]] > w):
            return y
    return np.int32(-1)


@njit(cache=True)
def possible(w, e, last, f, clocks):  # type: ignore[no-untyped-def]
    """Whether w can be the last to change the granule before e. last: int32 (n_streams,), `last_change`."""
    if w == e or clocks[w, f.op_stream[e]] > e:
        return False
    for t in range(last.size):
        x = last[t]
        if x >= 0 and x != w and clocks[x, f.op_stream[w]] > w:
            return False
    return True


@njit(cache=True)
def by_source(e, p, f, clocks, news, last, least):  # type: ignore[no-untyped-def]
    """Apply the rules about what part p of operation e reads. Returns (whether there is a candidate,
    candidates looked at). last, least: int32 (n_streams,), scratch."""
    g, n_streams, value = f.granule[p], last.size, f.value_in[p]
    untouched = True
    for t in range(n_streams):
        last[t] = last_change(e, g, t, f, clocks)
        if last[t] >= 0:
            untouched = False
    n, source = 0, np.int32(-1)
    if untouched and (f.at_start[value] or f.any_start[g]):
        n = 1
        for t in range(n_streams):
            least[t] = f.stream_ptr[t]
    made = f.makers_ptr[value + 1] - f.makers_ptr[value]
    steps = made + f.wild_ptr[g + 1] - f.wild_ptr[g]
    for i in range(steps):
        if i < made:
            w = f.part_op[f.makers[f.makers_ptr[value] + i]]
        else:
            w = f.part_op[f.wild[f.wild_ptr[g] + i - made]]
        if not possible(w, e, last, f, clocks):
            continue
        n += 1
        source = w
        for t in range(n_streams):
            reach = max(clocks[w, t], w + 1) if t == f.op_stream[w] else clocks[w, t]
            least[t] = reach if n == 1 else min(least[t], reach)
    if n == 0:
        return False, steps
    grow(clocks, e, least, f, news)
    if n > 1:
        return True, steps
    for t in range(n_streams):
        x = last[t]
        if source >= 0 and x >= 0 and x != source:
            reach_to(clocks, source, t, x + 1, f, news)
        y = first_change_after(source, g, t, e, f, clocks)
        if y >= 0:
            reach_to(clocks, y, f.op_stream[e], e + 1, f, news)
    return True, steps + n_streams


@njit(cache=True, nogil=True)
def sweep(f, clocks, news, steps, max_steps):  # type: ignore[no-untyped-def]
    """Apply every rule to every operation about which there is news. Returns (_FIXED, _CONTRADICTION or
    _TOO_MUCH; the operation; steps so far)."""
    n_streams = f.stream_ptr.size - 1
    last, least = np.empty(n_streams, np.int32), np.empty(n_streams, np.int32)
    for e in f.order:
        s = f.op_stream[e]
        seen = news.seen[e]
        news.now[0] += 1
        # What changes from here on, by these very rules too, is news for the next time.
        news.seen[e] = news.now[0]
        if e > f.stream_ptr[s] and news.changed[e - 1] > seen:
            grow(clocks, e, clocks[e - 1], f, news)
        fresh = news.changed[e] > seen
        for t in range(n_streams):
            reach = clocks[e, t] - 1
            if reach >= f.stream_ptr[t] and t != s and (fresh or news.changed[reach] > seen):
                grow(clocks, e, clocks[reach], f, news)
        for p in range(f.part_ptr[e], f.part_ptr[e + 1]):
            if not f.asked[p] or (news.changed[e] <= seen and news.stirred[f.granule[p]] <= seen):
                continue
            possible_at_all, more = by_source(e, p, f, clocks, news, last, least)
            steps += more
            if not possible_at_all:
                return _CONTRADICTION, e, steps
        if clocks[e, s] > e:
            return _CONTRADICTION, e, steps
        if steps > max_steps:
            return _TOO_MUCH, e, steps
    return _FIXED, -1, steps


@njit(cache=True)
def mirror_clocks(clocks, since, f, news, mirrored, twin_f, twin_news):  # type: ignore[no-untyped-def]
    """Put what clocks that changed after the time `since` say into the mirrored problem's clocks.

    Operation o of stream s is number stream_ptr[s] + stream_ptr[s + 1] - 1 - o in the mirror. What must
    precede o there follows it here.
    """
    ends = f.stream_ptr
    for e in range(f.op_stream.size):
        if news.changed[e] <= since:
            continue
        s = f.op_stream[e]
        twin = ends[s] + ends[s + 1] - 1 - e
        for t in range(ends.size - 1):
            reach = clocks[e, t] - 1
            if t != s and reach >= ends[t]:
                reach_to(mirrored, ends[t] + ends[t + 1] - 1 - reach, s, twin + 1, twin_f, twin_news)


def _first_clocks(stream_ptr: NDArray[np.int64]) -> NDArray[np.int32]:
    op_stream = np.repeat(np.arange(len(stream_ptr) - 1), np.diff(stream_ptr))
    clocks = np.tile(stream_ptr[:-1].astype(np.int32), (len(op_stream), 1))
    clocks[np.arange(len(op_stream)), op_stream] = np.arange(len(op_stream))
    return clocks


def deduce(
    problem: Problem,
    doubt: Doubt | None = None,
    *,
    max_clocks: int = MAX_CLOCKS,
    max_steps: int = MAX_STEPS,
) -> Deduced:
    """What must precede what in every legal order of a region."""
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
    if problem.n_ops * len(used) > max_clocks:
        return Deduced(np.empty((0, len(used)), np.int32), -1, False)
    sides = both_sides(problem, stream_ptr, doubt)
    clocks = [_first_clocks(stream_ptr), _first_clocks(stream_ptr)]
    news = [_no_news(problem), _no_news(problem)]
    told, settled, steps, side = [-1, -1], [-1, -1], 0, 0
    complete = False
    for turn in range(_MAX_TURNS):
        found, op, steps = sweep(sides[side], clocks[side], news[side], steps, max_steps)
        if found == _CONTRADICTION:
            if side == 1:
                s = int(sides[1].op_stream[op])
                op = int(stream_ptr[s] + stream_ptr[s + 1] - 1 - op)
            return Deduced(clocks[0], op, True)
        other = 1 - side
        changes = int(news[side].now[1])
        mirror_clocks(
            clocks[side], told[side], sides[side], news[side], clocks[other], sides[other], news[other]
        )
        told[side] = int(news[side].now[0])
        complete = turn > 0 and changes == settled[side] and int(news[other].now[1]) == settled[other]
        settled[side] = changes
        if complete or found == _TOO_MUCH:
            break
        side = other
    mirror_clocks(clocks[1], told[1], sides[1], news[1], clocks[0], sides[0], news[0])
    return Deduced(clocks[0], -1, complete)


def _no_news(problem: Problem) -> News:
    """Everything is news at first."""
    n = problem.n_ops
    return News(
        np.zeros(n, np.int64), np.full(n, -1, np.int64), np.zeros(len(problem.address), np.int64),
        np.zeros(2, np.int64),
    )  # fmt: skip
