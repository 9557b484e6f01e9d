"""The rules by which `solver.must` deduces what comes before what, kept as vector clocks (DESIGN 6.6).

Every rule holds in all legal orders; it need not find all that holds. Per access to a granule:

- source: it reads what the last change before it left. Changes with a change known to be between cannot
  be that one. What precedes every candidate precedes the access; a single candidate is its source, and
  then every other change comes before the source or after the access.
- taker: the value that a change leaves is taken away by the next change, or is the final value. The
  same, mirrored.

With unique values this finds everything; it is the closure of Gibbons and Korach ("Testing shared
memories", 1997) and more, because candidates need not be unique to say something.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from solver.chains import first_from


@njit(cache=True)
def raise_clock(op, to, clock, touched, op_stream):  # type: ignore[no-untyped-def]
    """Note that operation `to` comes before `op`, and mark `op` as touched if that is new."""
    t = op_stream[to]
    if clock[op, t] > to:
        return
    touched[op] = 1
    for u in range(clock.shape[1]):
        if clock[to, u] > clock[op, u]:
            clock[op, u] = clock[to, u]


@njit(cache=True)
def fill_after(clock, after, touched, stream_ptr):  # type: ignore[no-untyped-def]
    """after[b, u]: the first operation of stream u that must come after b (u's end if there is none).
    Marks the operations for which that is new."""
    n_streams = stream_ptr.size - 1
    for u in range(n_streams):
        for s in range(n_streams):
            d = stream_ptr[u]
            for b in range(stream_ptr[s], stream_ptr[s + 1]):
                if u == s:
                    after[b, u] = b + 1
                    continue
                while d < stream_ptr[u + 1] and clock[d, s] <= b:
                    d += 1
                if after[b, u] != d:
                    after[b, u] = d
                    touched[b] = 1


@njit(cache=True)
def change_below(g, stream, end, c):  # type: ignore[no-untyped-def]
    """The last operation of a stream below `end` that changes granule g, or -1."""
    low = c.change_ptr[g]
    at = first_from(c.change_op, low, c.change_ptr[g + 1], end)
    if at > low and c.change_op[at - 1] >= c.stream_ptr[stream]:
        return np.int64(c.change_op[at - 1])
    return np.int64(-1)


@njit(cache=True)
def change_from(g, stream, first, c):  # type: ignore[no-untyped-def]
    """The first operation of a stream from `first` on that changes granule g, or -1."""
    end = c.change_ptr[g + 1]
    at = first_from(c.change_op, c.change_ptr[g], end, first)
    if at < end and c.change_op[at] < c.stream_ptr[stream + 1]:
        return np.int64(c.change_op[at])
    return np.int64(-1)


@njit(cache=True)
def apart(g, maker, taker, clock, after, touched, c):  # type: ignore[no-untyped-def]
    """`maker` is the source of `taker`: every other change of g comes before the one or after the other.
    -1 stands for the initial state and for the end."""
    for u in range(clock.shape[1]):
        if maker >= 0:
            # The taker itself, or what follows it, must not be taken for a change before it.
            end = clock[taker, u] if taker >= 0 else c.stream_ptr[u + 1]
            if taker >= 0 and u == c.op_stream[taker]:
                end = taker
            x = change_below(g, u, end, c)
            if x == maker:
                x = change_below(g, u, x, c)
            if x >= 0 and x != taker:
                raise_clock(maker, x, clock, touched, c.op_stream)
        if taker >= 0:
            first = after[maker, u] if maker >= 0 else c.stream_ptr[u]
            y = change_from(g, u, first, c)
            if y == taker:
                y = change_from(g, u, y + 1, c)
            if y >= 0 and y != maker:
                raise_clock(y, taker, clock, touched, c.op_stream)


@njit(cache=True)
def source_rule(p, op, clock, after, touched, bound, c):  # type: ignore[no-untyped-def]
    """The source rule for part p of `op`. False if nothing can be its source. bound: int64 (S,), scratch."""
    g, v, n_streams = c.granule[p], c.old_value[p], clock.shape[1]
    s = c.op_stream[op]
    initial = c.initial_value[g] == v
    for w in range(n_streams):
        bound[w] = c.stream_ptr[w]
    for u in range(n_streams):
        x = change_below(g, u, op if u == s else clock[op, u], c)
        if x >= 0:
            initial = False
            for w in range(n_streams):
                if w == u:
                    bound[w] = max(bound[w], x)
                elif clock[x, w] > bound[w]:
                    bound[w] = clock[x, w]
    count, source = 0, np.int64(-1)
    low, high = c.maker_ptr[v], c.maker_ptr[v + 1]
    for u in range(n_streams):
        at = first_from(c.maker_op, low, high, bound[u])
        end = op if u == s else after[op, u]
        bound[u] = -1
        if at < high and c.maker_op[at] < end:
            count += 1
            bound[u] = source = np.int64(c.maker_op[at])
            if at + 1 < high and c.maker_op[at + 1] < end:
                count += 1
    if count == 0 and not initial:
        return False
    if count == 0:
        apart(g, np.int64(-1), op, clock, after, touched, c)
    elif count == 1 and not initial:
        raise_clock(op, source, clock, touched, c.op_stream)
        apart(g, source, op, clock, after, touched, c)
    elif not initial:
        for w in range(n_streams):
            least = np.int64(1) << 60
            for u in range(n_streams):
                if bound[u] >= 0:
                    least = min(least, np.int64(clock[bound[u], w]))
            if least > clock[op, w]:
                raise_clock(op, least - 1, clock, touched, c.op_stream)
    return True


@njit(cache=True)
def taker_rule(p, op, clock, after, touched, bound, c):  # type: ignore[no-untyped-def]
    """The taker rule for part p of `op`, which changes its granule. As `source_rule`."""
    g, v, n_streams = c.granule[p], c.new_value[p], clock.shape[1]
    s = c.op_stream[op]
    final = c.final_value[g] == v
    for w in range(n_streams):
        bound[w] = c.stream_ptr[w + 1]
    for u in range(n_streams):
        y = change_from(g, u, after[op, u], c)
        if y >= 0:
            final = False
            for w in range(n_streams):
                if w == u:
                    bound[w] = min(bound[w], y + 1)
                elif after[y, w] < bound[w]:
                    bound[w] = after[y, w]
    count, taker = 0, np.int64(-1)
    low, high = c.taker_ptr[v], c.taker_ptr[v + 1]
    for u in range(n_streams):
        first = op + 1 if u == s else np.int64(clock[op, u])
        at = first_from(c.taker_op, low, high, bound[u])
        bound[u] = -1
        if at > low and c.taker_op[at - 1] >= first:
            count += 1
            bound[u] = taker = np.int64(c.taker_op[at - 1])
            if at - 1 > low and c.taker_op[at - 2] >= first:
                count += 1
    if count == 0 and not final:
        return False
    if count == 0:
        apart(g, op, np.int64(-1), clock, after, touched, c)
    elif count == 1 and not final:
        raise_clock(taker, op, clock, touched, c.op_stream)
        apart(g, op, taker, clock, after, touched, c)
    elif not final:
        for w in range(n_streams):
            most = np.int64(-1)
            for u in range(n_streams):
                if bound[u] >= 0:
                    most = max(most, bound[u] if u == w else np.int64(after[bound[u], w]))
            if w != s and most < c.stream_ptr[w + 1]:
                raise_clock(most, op, clock, touched, c.op_stream)
    return True


@njit(cache=True)
def spread(clock, sequence, touched, stream_ptr, op_stream):  # type: ignore[no-untyped-def]
    """Close the clocks under program order and transitivity, and mark the operations whose clocks change.
    False if an operation precedes itself."""
    again = True
    while again:
        again = False
        for i in range(sequence.size):
            b = sequence[i]
            s = op_stream[b]
            new = False
            for u in range(clock.shape[1]):
                x = b - 1 if u == s else np.int64(clock[b, u]) - 1
                if x < stream_ptr[u]:
                    continue
                for w in range(clock.shape[1]):
                    if clock[x, w] > clock[b, w]:
                        clock[b, w] = clock[x, w]
                        new = True
            if new:
                touched[b] = 1
                again = True
            if clock[b, s] > b + 1:
                return False
    return True
