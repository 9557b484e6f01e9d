"""Which of several moves to try first. It changes how soon an order is found, never whether.

Where deduction knows what an operation must wait for, a stream that can go on for long goes first: one that
takes a lock and must then wait for somebody else keeps that somebody from the lock. Otherwise, real runs
switch seldom, so the stream that moved last goes on; or, where cores take turns often, they come forward
evenly, and the one furthest behind goes first. None of this is always right, and a wrong move early on can
cost more than all that follows, so a search that gets no further begins again in another manner
(`solver.cuts.search`), the later ones each with some moves chosen at random.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import inner

#: Manners: the last one goes on; the one furthest behind; the first with every 8th choice at random.
GO_ON, EVENLY, SHAKEN = 0, 1, 2
_ONE_IN = np.uint64(8)
#: How many operations ahead it is seen whether a stream must wait.
_AHEAD = 32


@inner
def draw(state):  # type: ignore[no-untyped-def]
    """The next number of an xorshift generator. state: uint64 (1,), not 0; changed."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return x


@inner
def _behind(s, ops, w):  # type: ignore[no-untyped-def]
    """How far a stream has come, from 0 to 1."""
    return (w.position[s] - ops.stream_ptr[s]) / (ops.stream_ptr[s + 1] - ops.stream_ptr[s])


@inner
def _reach(s, ops, w):  # type: ignore[no-untyped-def]
    """How many operations a stream can run before it must wait for another stream, at most _AHEAD."""
    first = w.position[s]
    end = min(ops.stream_ptr[s + 1], first + _AHEAD)
    for op in range(first, end):
        for t in range(w.position.size):
            if t != s and w.position[t] < ops.before[op, t]:
                return op - first
    return end - first


@inner
def arrange(moves, n, last, manner, state, ops, w):  # type: ignore[no-untyped-def]
    """Put the first `n` of `moves` (int32, streams) into the order in which to try them. last: the stream
    that moved last."""
    if manner == EVENLY:
        for i in range(1, n):
            j = i
            while j > 0 and _behind(moves[j], ops, w) < _behind(moves[j - 1], ops, w):
                moves[j], moves[j - 1] = moves[j - 1], moves[j]
                j -= 1
        return
    _rotate(moves, n, last, manner, state)
    if ops.before.shape[0] > 0:
        for i in range(1, n):
            j = i
            while j > 0 and _reach(moves[j], ops, w) > _reach(moves[j - 1], ops, w):
                moves[j], moves[j - 1] = moves[j - 1], moves[j]
                j -= 1


@inner
def _rotate(moves, n, last, manner, state):  # type: ignore[no-untyped-def]
    """Stream `last` first, or the next one; or now and then, if shaken, any."""
    first = 0
    while first < n and moves[first] < last:
        first += 1
    if manner == SHAKEN and draw(state) % _ONE_IN == np.uint64(0):
        first = int(draw(state) % np.uint64(n))
    for _ in range(first % n):
        head = moves[0]
        for i in range(n - 1):
            moves[i] = moves[i + 1]
        moves[n - 1] = head
