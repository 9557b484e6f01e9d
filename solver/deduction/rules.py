"""The rules of deduction, on one side: what precedes what, from what every access reads.

`solver.deduction.deduction` says what they are, and applies them to a problem and to its mirror image.

Clocks do not fall along a stream, so that the changes of a granule which can be the last one before an
operation are, in each stream, a window of those that leave the value: what precedes another change before it
is below, and what must follow the operation above. Both ends are found by halving, and of what precedes all
changes in a window the first one knows. So a rule costs the same however often a value comes back: the word
of a lock takes its few values thousands of times.

While clocks are on their way along a stream, halving may find another end. What it goes by then holds of all
that come after in the stream, so that no candidate is lost; and what arrives later is news.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inlined
from solver.deduction.news import AT_WORK, BLOCK, TIME, UNTOLD, note, room, set_pending, watch

FIXED, CONTRADICTION, TOO_MUCH, NO_ROOM = 0, 1, 2, 3


class Scratch(NamedTuple):
    """Room for one operation. last, least, low, pulled: int32 (n_streams,). eyes: int32 (5 * n_streams + 1,).
    follows: int64 (n_streams, n_streams), for streams s and t the first operation of t that is known to
    follow the last one of s that was told on."""

    last: NDArray[np.int32]
    least: NDArray[np.int32]
    low: NDArray[np.int32]
    pulled: NDArray[np.int32]
    eyes: NDArray[np.int32]
    follows: NDArray[np.int64]


@inlined
def grow(clocks, of, what, f, news):  # type: ignore[no-untyped-def]
    """Elementwise maximum into clocks[of]."""
    changed = False
    for t in range(what.size):
        if what[t] > clocks[of, t]:
            clocks[of, t] = what[t]
            changed = True
    if changed:
        note(of, f, news)


@inlined
def reach_to(clocks, of, t, reach, f, news):  # type: ignore[no-untyped-def]
    """The operations of stream t below `reach` precede operation `of`."""
    if clocks[of, t] < reach:
        clocks[of, t] = reach
        note(of, f, news)


@inlined
def first_part(parts, low, high, op, f):  # type: ignore[no-untyped-def]
    """Index of the first of parts[low:high], by operation, whose operation is not below `op`; or high."""
    while low < high:
        middle = (low + high) // 2
        if f.part_op[parts[middle]] < op:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def first_after(parts, low, high, op, f, clocks):  # type: ignore[no-untyped-def]
    """Index of the first of parts[low:high], of one stream, that must follow operation `op`; or high."""
    s = f.op_stream[op]
    while low < high:
        middle = (low + high) // 2
        if clocks[f.part_op[parts[middle]], s] <= op:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def find_last(e, g, f, clocks, last):  # type: ignore[no-untyped-def]
    """Fill last: of each stream the last operation that changes granule g and must precede operation e, or
    -1. Returns whether there is any."""
    last[:] = -1
    i, end = f.changes_ptr[g * last.size], f.changes_ptr[(g + 1) * last.size]
    found = False
    while i < end:
        t = f.op_stream[f.part_op[f.changes[i]]]
        stop = f.changes_ptr[g * last.size + t + 1]
        at = first_part(f.changes, i, stop, clocks[e, t], f)
        if at > i:
            last[t], found = f.part_op[f.changes[at - 1]], True
        i = stop
    return found


@inlined
def keep_apart(w, e, g, last, eyes, f, clocks, news):  # type: ignore[no-untyped-def]
    """Nothing changes granule g between w and e (w = -1: before e): what precedes e precedes w, and what w
    precedes, e precedes. last: int32 (n_streams,), see `find_last`. Returns how many operations there are in
    `eyes`, whose changes may say more, or -1 if every change is placed."""
    n_eyes, placed = 0, True
    next_stream, last_end = f.changes_ptr[g * last.size], f.changes_ptr[(g + 1) * last.size]
    while next_stream < last_end:
        t = f.op_stream[f.part_op[f.changes[next_stream]]]
        x, end = last[t], f.changes_ptr[g * last.size + t + 1]
        if w >= 0 and x >= 0 and x != w:
            reach_to(clocks, w, t, x + 1, f, news)
        low = first_part(f.changes, next_stream, end, x + 1, f)
        next_stream = end
        at = low if w < 0 else first_after(f.changes, low, end, w, f, clocks)
        for i in range(low, at):
            y = f.part_op[f.changes[i]]
            if y not in (w, e):
                placed = False
                eyes[n_eyes] = f.part_op[f.changes[at - 1]]
                n_eyes += 1
                break
        while at < end:
            y = f.part_op[f.changes[at]]
            if y not in (w, e):
                reach_to(clocks, y, f.op_stream[e], e + 1, f, news)
                break
            at += 1
    return -1 if placed else n_eyes


@inlined
def by_source(e, p, f, clocks, news, scratch):  # type: ignore[no-untyped-def]
    """Apply the rules about what part p of operation e reads. Returns whether there is a candidate."""
    last, least, low, eyes = scratch.last, scratch.least, scratch.low, scratch.eyes
    g, n_streams, value = f.granule[p], last.size, f.value_in[p]
    n_eyes, untouched = 0, not find_last(e, g, f, clocks, last)
    low[:] = 0
    for t in range(n_streams):
        if last[t] >= 0:
            eyes[n_eyes] = last[t]
            n_eyes += 1
            for u in range(n_streams):
                low[u] = max(low[u], clocks[last[t], u])
    n, source = 0, np.int32(-1)
    if untouched and (f.at_start[value] or f.any_start[g]):
        n = 1
        for t in range(n_streams):
            least[t] = f.stream_ptr[t]
    for kind in range(2):
        parts = f.makers if kind == 0 else f.wild
        i = f.makers_ptr[value] if kind == 0 else f.wild_ptr[g]
        end = f.makers_ptr[value + 1] if kind == 0 else f.wild_ptr[g + 1]
        while i < end:
            t = f.op_stream[f.part_op[parts[i]]]
            stop = first_part(parts, i, end, f.stream_ptr[t + 1], f)
            first = first_part(parts, i, stop, low[t], f)
            beyond = first_after(parts, first, stop, e, f, clocks)
            i = stop
            if beyond > first and f.part_op[parts[beyond - 1]] == e:
                beyond -= 1
            if beyond == first:
                continue
            n += beyond - first
            source = f.part_op[parts[first]]
            eyes[n_eyes], eyes[n_eyes + 1] = source, f.part_op[parts[beyond - 1]]
            n_eyes += 2 if beyond - first > 1 else 1
            for u in range(n_streams):
                reach = max(clocks[source, u], source + 1) if u == t else clocks[source, u]
                least[u] = reach if n == beyond - first else min(least[u], reach)
    if n == 0:
        return False
    grow(clocks, e, least, f, news)
    if n == 1:
        # Once it is said that the source comes before e and after the changes before e, whatever contradicts
        # that makes a circle, which shows by itself.
        n_eyes = keep_apart(source, e, g, last, eyes, f, clocks, news)
    if n_eyes < 0:
        news.done[p] = 1
    for i in range(n_eyes):
        watch(eyes[i], p, news)
    return True


@inlined
def learn(e, f, clocks, news, pulled):  # type: ignore[no-untyped-def]
    """What precedes the operations that precede e, precedes e. pulled: int32 (n_streams,), scratch."""
    s, seen = f.op_stream[e], news.seen[e]
    if e > f.stream_ptr[s] and news.changed[e - 1] > seen:
        grow(clocks, e, clocks[e - 1], f, news)
    pulled[:] = -1
    again = True
    while again:
        again = False
        for t in range(pulled.size):
            reach = clocks[e, t] - 1
            if t == s or reach < f.stream_ptr[t] or reach == pulled[t]:
                continue
            pulled[t] = reach
            if news.changed[e] > seen or news.changed[reach] > seen:
                before = news.changed[e]
                grow(clocks, e, clocks[reach], f, news)
                again = again or news.changed[e] != before


@inlined
def first_to_follow(e, t, near, f, clocks):  # type: ignore[no-untyped-def]
    """The first operation of stream t that must follow operation e, or the stream's end. Looks near `near`
    first: what followed the operation before e is not far."""
    s, low, high, step = f.op_stream[e], f.stream_ptr[t], f.stream_ptr[t + 1], 1
    while near < high:
        if clocks[near, s] > e:
            high = np.int64(near)
            break
        low = np.int64(near + 1)
        near, step = near + step, 2 * step
    step = 1
    while low < high and low < high - step:
        if clocks[high - step, s] <= e:
            low = np.int64(high - step + 1)
            break
        high, step = high - step, 2 * step
    while low < high:
        middle = (low + high) // 2
        if clocks[middle, s] <= e:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def tell_on(e, f, clocks, news, follows):  # type: ignore[no-untyped-def]
    """Let those learn that directly follow e and do not know yet what precedes it. follows: int64 (n_streams,
    n_streams), what was found last."""
    s = f.op_stream[e]
    for t in range(f.stream_ptr.size - 1):
        at = np.int64(e + 1) if t == s else first_to_follow(e, t, follows[s, t], f, clocks)
        follows[s, t] = at
        if at < f.stream_ptr[t + 1]:
            for u in range(f.stream_ptr.size - 1):
                if clocks[at, u] < clocks[e, u]:
                    set_pending(at, f, news)
                    break


@inlined
def apply_rules(e, f, clocks, news, scratch):  # type: ignore[no-untyped-def]
    """Apply every rule that can say more of operation e. Returns (whether it can stand somewhere, parts
    looked at)."""
    seen, looked = news.seen[e], 0
    news.now[TIME] += 1
    news.now[AT_WORK] = e
    learn(e, f, clocks, news, scratch.pulled)
    news.now[AT_WORK] = -1
    fresh = news.changed[e] > seen
    # What changes from here on, by these very rules too, is news for the next time.
    news.seen[e] = news.now[TIME]
    if clocks[e, f.op_stream[e]] > e:
        return False, looked
    for p in range(f.part_ptr[e], f.part_ptr[e + 1]):
        if news.done[p] or not (fresh or news.woken[p]):
            continue
        news.woken[p] = 0
        looked += 1
        if not by_source(e, p, f, clocks, news, scratch):
            return False, looked
    if fresh:
        tell_on(e, f, clocks, news, scratch.follows)
    return clocks[e, f.op_stream[e]] <= e, looked


@njit(cache=True, nogil=True)
def settle(f, clocks, news, steps, max_steps):  # type: ignore[no-untyped-def]
    """Apply the rules until there is no news. Returns (FIXED, CONTRADICTION, TOO_MUCH or, for watchers,
    NO_ROOM; the operation; parts looked at so far)."""
    n, n_streams = f.op_stream.size, f.stream_ptr.size - 1
    most_eyes = 5 * n_streams + 1
    scratch = Scratch(
        np.empty(n_streams, np.int32), np.empty(n_streams, np.int32), np.empty(n_streams, np.int32),
        np.empty(n_streams, np.int32), np.empty(most_eyes, np.int32),
        np.empty((n_streams, n_streams), np.int64),
    )  # fmt: skip
    for t in range(n_streams):
        scratch.follows[:, t] = f.stream_ptr[t]
    quiet = False
    while not quiet:
        quiet = True
        for block in range(news.busy.size):
            if news.busy[block] == 0:
                continue
            quiet = False
            for rank in range(BLOCK * block, min(BLOCK * block + BLOCK, n)):
                if news.pending[rank] == 0:
                    continue
                e = f.order[rank]
                if room(news) < most_eyes * (f.part_ptr[e + 1] - f.part_ptr[e]):
                    return NO_ROOM, e, steps
                news.pending[rank] = 0
                news.busy[block] -= 1
                possible, looked = apply_rules(e, f, clocks, news, scratch)
                steps += looked
                if not possible:
                    return CONTRADICTION, e, steps
                if steps > max_steps:
                    return TOO_MUCH, e, steps
    return FIXED, -1, steps


@njit(cache=True)
def mirror_clocks(clocks, f, news, mirrored, twin_f, twin_news):  # type: ignore[no-untyped-def]
    """Put what the untold clocks say into the mirrored problem's clocks.

    Operation o of stream s is number stream_ptr[s] + stream_ptr[s + 1] - 1 - o in the mirror. What must
    precede o there follows it here.
    """
    ends = f.stream_ptr
    for i in range(news.now[UNTOLD]):
        e = news.untold[i]
        news.is_untold[e] = 0
        s = f.op_stream[e]
        twin = ends[s] + ends[s + 1] - 1 - e
        for t in range(ends.size - 1):
            reach = clocks[e, t] - 1
            if t != s and reach >= ends[t]:
                reach_to(mirrored, ends[t] + ends[t + 1] - 1 - reach, s, twin + 1, twin_f, twin_news)
    news.now[UNTOLD] = 0


@inlined
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
