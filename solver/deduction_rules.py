"""The rules of deduction, on one side: what precedes what, from what every access reads (DESIGN 6.6).

`solver.deduction` says what they are, and applies them to a problem and to its mirror image.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.inner_kernel import inner

FIXED, CONTRADICTION, TOO_MUCH = 0, 1, 2


class News(NamedTuple):
    """What changed since when, so that a rule is applied again only where it can say more. changed, seen:
    int64 (n_ops,), when an operation's clocks last changed, and when the rules were last applied to it.
    stirred: int64 (n_granules,), when the clocks of an operation on it last changed. now: int64 (2,), the
    time, and how many changes there were. done: uint8 per part, whether what it reads says no more."""

    changed: NDArray[np.int64]
    seen: NDArray[np.int64]
    stirred: NDArray[np.int64]
    now: NDArray[np.int64]
    done: NDArray[np.uint8]

    def copy(self) -> News:
        """One that goes on by itself."""
        changed, seen, stirred, now, done = self
        return News(changed.copy(), seen.copy(), stirred.copy(), now.copy(), done.copy())


@inner
def note(op, f, news):  # type: ignore[no-untyped-def]
    """The clocks of an operation have changed."""
    news.now[0] += 1
    news.now[1] += 1
    news.changed[op] = news.now[0]
    for p in range(f.part_ptr[op], f.part_ptr[op + 1]):
        news.stirred[f.granule[p]] = news.now[0]


@inner
def grow(clocks, of, what, f, news):  # type: ignore[no-untyped-def]
    """Elementwise maximum into clocks[of]."""
    changed = False
    for t in range(what.size):
        if what[t] > clocks[of, t]:
            clocks[of, t] = what[t]
            changed = True
    if changed:
        note(of, f, news)


@inner
def reach_to(clocks, of, t, reach, f, news):  # type: ignore[no-untyped-def]
    """The operations of stream t below `reach` precede operation `of`."""
    if clocks[of, t] < reach:
        clocks[of, t] = reach
        note(of, f, news)


@inner
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


@inner
def keep_apart(w, e, g, last, f, clocks, news):  # type: ignore[no-untyped-def]
    """Nothing changes granule g between w and e (w = -1: before e): what precedes e precedes w, and what w
    precedes, e precedes. last: int32 (n_streams,), `last_change`. Returns whether every change is placed."""
    n_streams, placed = last.size, True
    for t in range(n_streams):
        row = g * n_streams + t
        x = last[t]
        if w >= 0 and x >= 0 and x != w:
            reach_to(clocks, w, t, x + 1, f, news)
        for i in range(f.changes_ptr[row], f.changes_ptr[row + 1]):
            y = f.part_op[f.changes[i]]
            if y <= x or y in (w, e):
                continue
            if w < 0 or clocks[y, f.op_stream[w]] > w:
                reach_to(clocks, y, f.op_stream[e], e + 1, f, news)
                break
            placed = False
    return placed


@inner
def possible(w, e, last, f, clocks):  # type: ignore[no-untyped-def]
    """Whether w can be the last to change the granule before e. last: int32 (n_streams,), `last_change`."""
    if w == e or clocks[w, f.op_stream[e]] > e:
        return False
    for t in range(last.size):
        x = last[t]
        if x >= 0 and x != w and clocks[x, f.op_stream[w]] > w:
            return False
    return True


@inner
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
    if keep_apart(source, e, g, last, f, clocks, news):
        news.done[p] = 1
    return True, steps + n_streams


@njit(cache=True, nogil=True)
def sweep(f, clocks, news, steps, max_steps):  # type: ignore[no-untyped-def]
    """Apply every rule to every operation about which there is news. Returns (FIXED, CONTRADICTION or
    TOO_MUCH; the operation; steps so far)."""
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
            if news.done[p] or (news.changed[e] <= seen and news.stirred[f.granule[p]] <= seen):
                continue
            possible_at_all, more = by_source(e, p, f, clocks, news, last, least)
            steps += more
            if not possible_at_all:
                return CONTRADICTION, e, steps
        if clocks[e, s] > e:
            return CONTRADICTION, e, steps
        if steps > max_steps:
            return TOO_MUCH, e, steps
    return FIXED, -1, steps


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


@inner
def precede(a, b, f, clocks, news):  # type: ignore[no-untyped-def]
    """Operation a precedes b, and whatever precedes a, whatever b precedes. False if b precedes a."""
    s, t = f.op_stream[a], f.op_stream[b]
    if a == b or clocks[a, t] > b:
        return False
    for u in range(clocks.shape[1]):
        low, high = np.int64(b), f.stream_ptr[u + 1]
        if u != t:
            low = f.stream_ptr[u]
            while low < high:
                middle = (low + high) // 2
                if clocks[middle, t] <= b:
                    low = middle + 1
                else:
                    high = middle
        for e in range(low, f.stream_ptr[u + 1]):
            if clocks[e, s] > a:
                break
            grow(clocks, e, clocks[a], f, news)
            reach_to(clocks, e, s, a + 1, f, news)
    return True
