"""What a core found on a line when its tenure began is what somebody's write had left, or the region's begin.

The bytes of a whole line are known before a tenure and after each of its writes. The last write to the line
before a tenure left what the tenure found: it is one of the *candidates*, writes that leave these bytes.
Those that are known to come after its first access are out, and those that are known to be overwritten before
it. A tenure that writes begins after all of the tenure that the candidate is of, so that only last writes
count.

- What comes before every candidate, and one of them, comes before the tenure (the least of their clocks).
- A write that comes after every candidate comes after the tenure.
- With one candidate: a write that comes before the tenure comes before the candidate.

An agent's write is a candidate wherever its own bytes fit; a line that an agent writes to is left out here
where that is not known. The bytes at the region's begin are a candidate as long as no write to the line is
known to come before the tenure, unless they are known to be others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.tenures.clocks import CHANGED, Places, first_after, first_write, learn
from solver.tenures.lines import Tenures
from solver.tenures.scan import CONTINUED
from solver.tenures.whole_spans import learn_before, learn_ended


class Contents(NamedTuple):
    """Writes by what they leave. sound: bool (n_lines,), whether all bytes of the line are known all along.
    start: uint64 (n_lines,), digest of the line at the region's begin; started: bool, whether it is known.
    by: int64 (n_writes,), writes (of `Places`) sorted by line, what they leave, stream and place; ptr: int64
    (n_lines + 1,), where each line's begin there; stream: int64 (n_writes,). low, high: int64 (n_tenures,),
    where in `by` those are that leave what each tenure found. following, preceding: int64 (n_writes,), of
    each place in `by` the next one, and the one before, that is its tenure's last write, itself included."""

    sound: NDArray[np.bool_]
    start: NDArray[np.uint64]
    started: NDArray[np.bool_]
    by: NDArray[np.int64]
    ptr: NDArray[np.int64]
    stream: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    following: NDArray[np.int64]
    preceding: NDArray[np.int64]


def make_contents(t: Tenures, p: Places, n_lines: int) -> Contents:
    """What is known of the lines' bytes."""
    sound = np.ones(n_lines, np.bool_)
    unknown = ~t.known & (t.writes | (t.begin >= 0))
    sound[t.line[unknown]] = False
    start, started = np.zeros(n_lines, np.uint64), np.zeros(n_lines, np.bool_)
    went_on = (t.how == CONTINUED) & t.known
    start[t.line[went_on]] = t.before[went_on]
    started[t.line[went_on]] = True
    _infer_start(t, p.lead, sound, start, started)
    line, stream = t.line[p.tenure].astype(np.int64), t.stream[p.tenure].astype(np.int64)
    # They are in the order of lines, streams and places already.
    ptr = np.searchsorted(line, np.arange(n_lines + 1))
    by = np.empty(len(line), np.int64)
    sort_each(p.after, ptr, by)
    low, high = np.empty(len(t.line), np.int64), np.empty(len(t.line), np.int64)
    find_fitting(t.line, t.before, ptr, p.after[by], low, high)
    following, preceding = np.empty_like(by), np.empty_like(by)
    mark_finals(p.final, by, following, preceding)
    return Contents(sound, start, started, by, ptr, stream[by], low, high, following, preceding)


def _infer_start(
    t: Tenures,
    lead: NDArray[np.bool_],
    sound: NDArray[np.bool_],
    start: NDArray[np.uint64],
    started: NDArray[np.bool_],
) -> None:
    """Tenures that write follow one another, each from what the one before left. So what the first one found
    is what more of them found than left, if the last one left something else (MICRO 2009, section 4.2)."""
    writing = np.flatnonzero(t.writes & lead & sound[t.line])
    line = np.concatenate([t.line[writing], t.line[writing]])
    value = np.concatenate([t.before[writing], t.after[writing]])
    sign = np.concatenate([np.ones(len(writing), np.int64), -np.ones(len(writing), np.int64)])
    by = np.lexsort((value, line))
    line, value, sign = line[by], value[by], sign[by]
    if not len(line):
        return
    new = np.concatenate([[True], (line[1:] != line[:-1]) | (value[1:] != value[:-1])])
    total = np.add.reduceat(sign, np.flatnonzero(new))
    at = np.flatnonzero(new)[total == 1]
    start[line[at]] = value[at]
    started[line[at]] = True


@njit(cache=True, nogil=True)
def find_fitting(line, before, w_ptr, w_after, low, high):  # type: ignore[no-untyped-def]
    """For each tenure, of line `line` (int32 (n,)) that begins with `before` (uint64 (n,)), where among the
    writes sorted by what they leave those that leave this begin and end: fills low, high (int64 (n,))."""
    for k in range(line.size):
        first, end = w_ptr[line[k]], w_ptr[line[k] + 1]
        low[k] = first + np.searchsorted(w_after[first:end], before[k])
        high[k] = first + np.searchsorted(w_after[first:end], before[k], side="right")


@njit(cache=True, nogil=True)
def mark_finals(final, by, following, preceding):  # type: ignore[no-untyped-def]
    """For each place in `by` the next one whose write is its tenure's last, and the one before, itself
    included: int64 (n,). final: bool (n,), of the writes."""
    n = by.size
    for i in range(n):
        preceding[i] = i if final[by[i]] else preceding[i - 1] if i else -1
    for i in range(n - 1, -1, -1):
        following[i] = i if final[by[i]] else following[i + 1] if i + 1 < n else n


@inner
def _place(w, low, high, x):  # type: ignore[no-untyped-def]
    """The first place from low to high, all of one stream and content, whose write is x or a later one."""
    while low < high:
        middle = (low + high) // 2
        if w.by[middle] < x:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _end_of_stream(w, low, high):  # type: ignore[no-untyped-def]
    """Where the places of the stream at `low` end, among those up to high of one content."""
    stream, step = w.stream[low], 1
    while low + step < high and w.stream[low + step] == stream:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high) // 2
        if w.stream[middle] == stream:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _overwritten(k, x, u, t, p, c):  # type: ignore[no-untyped-def]
    """Whether write x of stream u, which is known to come before tenure k, is known to be followed by another
    write that is, too."""
    n_streams = c.clock.shape[1]
    mine = c.clock[c.ptr[p.begins[k]] + p.first[k]]
    for v in range(n_streams):
        begin, end = p.ptr[t.line[k] * n_streams + v], p.ptr[t.line[k] * n_streams + v + 1]
        last = first_write(p, begin, end, mine[v])
        if last == begin:
            continue
        if v == u:
            if last - 1 > x:
                return True
        elif c.clock[c.ptr[v] + p.node[last - 1], u] > p.node[x]:
            return True
    return False


@inner
def candidates(k, t, p, c, w, earliest, latest):  # type: ignore[no-untyped-def]
    """For every stream its first and last candidate for tenure k, -1 for none. Returns (how many candidates,
    more than one of a stream as two; whether the region's begin is one)."""
    n_streams = c.clock.shape[1]
    b, line, first = p.begins[k], t.line[k], p.first[k]
    mine = c.clock[c.ptr[b] + first]
    earliest[:] = -1
    latest[:] = -1
    n, begins = 0, not w.started[line] or w.start[line] == t.before[k]
    for u in range(n_streams):
        begin, end = p.ptr[line * n_streams + u], p.ptr[line * n_streams + u + 1]
        begins = begins and not (begin < end and p.node[begin] < mine[u])
    known = t, p, c, w
    i, high = w.low[k], w.high[k]
    while i < high:
        u, end = w.stream[i], _end_of_stream(w, i, high)
        n += _of_stream(k, u, (i, end), known, earliest, latest)
        i = end
    return n, begins


@inner
def _of_stream(k, u, among, known, earliest, latest):  # type: ignore[no-untyped-def]
    """Note the first and the last candidate for tenure k among the writes of stream u that leave what it
    found, places `among` those two. known: tenures, places, clocks, contents. Returns how many there are, 2
    for more."""
    low, high = among
    t, p, c, w = known
    b, first, line = p.begins[k], p.first[k], t.line[k]
    mine = np.int64(c.clock[c.ptr[b] + first, u])
    own = p.owner[u] == p.owner[b]
    last_only = t.writes[k] and not own
    begin, end = p.ptr[line * c.clock.shape[1] + u], p.ptr[line * c.clock.shape[1] + u + 1]
    open_from, n = first_write(p, begin, end, mine), 0
    at = _place(w, low, high, open_from)
    # Of those known to come before, the last one overwrites the others.
    x = open_from - 1
    fits = at > low and w.by[at - 1] == x and p.tenure[x] != k and (p.final[x] or not last_only)
    if fits and not _overwritten(k, x, u, t, p, c):
        n, earliest[u], latest[u] = 1, x, x
    if own or at == high:
        return n
    # One that is neither known to come before nor after is a candidate.
    at_end = _place(w, at, high, first_write(p, open_from, end, first_after(c, u, b, first)))
    until = at_end - 1
    if last_only and at < at_end:
        at, until = w.following[at], w.preceding[until]
    if at > until:
        return n
    if n == 0:
        earliest[u] = w.by[at]
    latest[u] = w.by[until]
    return 2 if n > 0 or at < until else 1


@inner
def _least(p, c, earliest, least):  # type: ignore[no-untyped-def]
    """The least of the candidates' clocks, themselves included."""
    least[:] = np.int32(2147483647)
    for u in range(least.size):
        if earliest[u] < 0:
            continue
        clock = c.clock[c.ptr[u] + p.node[earliest[u]]]
        for v in range(least.size):
            n = np.int32(p.node[earliest[u]] + 1) if v == u else clock[v]
            least[v] = min(least[v], n)


@inner
def _follow(k, n, t, p, c, a, room):  # type: ignore[no-untyped-def]
    """Learn from the candidates of tenure k, none of which is the region's begin."""
    earliest, latest, least = room
    n_streams = c.clock.shape[1]
    s, b, line, first, last = t.stream[k], p.begins[k], t.line[k], p.first[k], p.last[k]
    _least(p, c, earliest, least)
    for v in range(n_streams):
        if v != b and least[v] > 0:
            learn(c, v, np.int64(least[v]) - 1, b, first)
            learn_ended(line, b, first, v, c, a)
    for v in range(n_streams):
        begin, end = p.ptr[line * n_streams + v], p.ptr[line * n_streams + v + 1]
        if p.owner[v] == p.owner[s] or begin == end:
            continue
        node = np.int64(0)
        for u in range(n_streams):
            if latest[u] >= 0:
                node = max(node, first_after(c, v, u, p.node[latest[u]]))
        after = first_write(p, begin, end, node)
        if after < end:
            learn_before(line, (s, last), v, p.node[after], c, a)
    if n == 1:
        _only_one(k, t, p, c, earliest)


@inner
def _only_one(k, t, p, c, earliest):  # type: ignore[no-untyped-def]
    """Writes that come before tenure k come before its only candidate."""
    n_streams = c.clock.shape[1]
    mine = c.clock[c.ptr[p.begins[k]] + p.first[k]]
    for u in range(n_streams):
        if earliest[u] < 0:
            continue
        for v in range(n_streams):
            begin, end = p.ptr[t.line[k] * n_streams + v], p.ptr[t.line[k] * n_streams + v + 1]
            before = first_write(p, begin, end, mine[v])
            if v != u and before > begin:
                learn(c, v, p.node[before - 1], u, p.node[earliest[u]])


@njit(cache=True, nogil=True)
def sort_each(after, ptr, by):  # type: ignore[no-untyped-def]
    """Sort the writes of each line by what they leave, and leave their order otherwise. after: uint64 (n,).
    ptr: int64 (n_lines + 1,), where each line's begin. by: int64 (n,), filled."""
    for line in range(ptr.size - 1):
        sorts = True
        for w in range(ptr[line], ptr[line + 1]):
            by[w] = w
            sorts = sorts and (w == ptr[line] or after[w - 1] <= after[w])
        if sorts:
            continue
        order = np.argsort(after[ptr[line] : ptr[line + 1]], kind="mergesort")
        for k in range(order.size):
            by[ptr[line] + k] = ptr[line] + order[k]


@inner
def _told_by(k, t, p, c, w, a, room):  # type: ignore[no-untyped-def]
    """Learn from tenure k, once. Returns whether nothing can have left what it found."""
    n_streams, line = c.clock.shape[1], t.line[k]
    n, begins = candidates(k, t, p, c, w, room[0], room[1])
    if begins and n == 0:
        for u in range(n_streams):
            begin, end = p.ptr[line * n_streams + u], p.ptr[line * n_streams + u + 1]
            if p.owner[u] != p.owner[t.stream[k]] and begin < end:
                learn_before(line, (t.stream[k], p.last[k]), u, p.node[begin], c, a)
    elif not begins and n > 0:
        _follow(k, n, t, p, c, a, room)
    return n == 0 and not begins


@inner
def contents_of(k, t, p, c, w, a, room):  # type: ignore[no-untyped-def]
    """What tenure k found says. a: spans alone (`Nodes`), or none. room: for its candidates, int64 and int64
    (n_streams,), and for what these know, int32 (n_streams,). Returns whether nothing can have left it.

    What spans alone say of what is learned says more of who is a candidate, as where somebody looks on while
    another locks and unlocks: with them it is asked until it says no more."""
    if not p.lead[k] or not w.sound[t.line[k]] or not t.known[k] or t.how[k] == CONTINUED:
        return False
    if a.ptr.size == 0:
        return _told_by(k, t, p, c, w, a, room)
    before, wrong = c.state[CHANGED], False
    c.state[CHANGED] = 1
    while c.state[CHANGED] and not wrong:
        c.state[CHANGED] = 0
        wrong = _told_by(k, t, p, c, w, a, room)
        before |= c.state[CHANGED]
    c.state[CHANGED] = before
    return wrong


@njit(cache=True, nogil=True)
def apply_contents(t, p, c, w, a):  # type: ignore[no-untyped-def]
    """One sweep over all tenures (`Tenures`, `Places`, `Clocks`, `Contents`). a: spans alone (`Nodes`), or
    none, as of `contents_of`. Returns a tenure that nothing can have left what it found for, else -1.

    From the last one back: what comes after one of them is what an earlier one asks for."""
    n_streams = c.clock.shape[1]
    room = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64), np.empty(n_streams, np.int32)
    for k in range(t.line.size - 1, -1, -1):
        if contents_of(k, t, p, c, w, a, room):
            return k
    return -1
