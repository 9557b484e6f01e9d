"""The clocks closed in one walk, and rules applied as it gets to where they may have something to say.

A sweep over all tenures learns what follows from the clocks as they are. Where each thing learned is what
the next one follows from, as where two cores take a page from one another again and again and leave it as it
was, that is a sweep for every step. The walk of `close` comes to a node when all that comes before it is
closed: what a tenure there has to say it says then, and the walk goes on with that. What it learns of nodes
that it has passed is left to the next one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.tenures.clocks import CYCLE, Clocks, Places, find_news, go_on, next_stream
from solver.tenures.contents import Contents, contents_of
from solver.tenures.foreign import foreign_of
from solver.tenures.lines import Tenures
from solver.tenures.losses import alone_of
from solver.tenures.spans import Nodes

#: How often a stream goes back for what it has learned of nodes behind, per node.
_BACK = 4


class At(NamedTuple):
    """By node (its number over all streams): ptr: int64 (n_nodes + 1,), where in `which` those begin that are
    to be looked at there. which: int64 (n,)."""

    ptr: NDArray[np.int64]
    which: NDArray[np.int64]


class Rules(NamedTuple):
    """What rules work on: alone, holds: spans alone, and holds; none where nothing is known of losses."""

    tenures: Tenures
    places: Places
    clocks: Clocks
    contents: Contents
    alone: Nodes
    holds: Nodes


class Stations(NamedTuple):
    """Where what is looked at: tenures at their first nodes and at their last, spans alone where they end."""

    firsts: At
    lasts: At
    spans: At


def make_stations(rules: Rules) -> Stations:
    """Where the walk looks at what."""
    ptr, n = rules.clocks.ptr, len(rules.clocks.row)
    firsts = ptr[rules.places.begins] + rules.places.first
    lasts = ptr[rules.tenures.stream] + rules.places.last
    before = rules.alone.before
    # Of a span that ended before its stream's first node there is nothing to be found on the way.
    ends = np.where(before >= 0, ptr[rules.alone.stream] + before, -1)
    return Stations(_at(firsts, n), _at(lasts, n), _at(ends, n))


def _at(node: NDArray[np.int64], n: int) -> At:
    """node: int64, of each that is to be looked at the node, -1 for none."""
    some, ptr = np.flatnonzero(node >= 0), np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(node[some], minlength=n), out=ptr[1:])
    return At(ptr, some[np.argsort(node[some], kind="stable")])


@inner
def _look(here, rules, stations, room):  # type: ignore[no-untyped-def]
    """Apply the rules at a node. Returns whether they contradict the rows."""
    t, p, c, w = rules.tenures, rules.places, rules.clocks, rules.contents
    at = stations.firsts
    for i in range(at.ptr[here], at.ptr[here + 1]):
        if contents_of(at.which[i], t, p, c, w, rules.alone, room):
            return True
        foreign_of(at.which[i], t, p, c)
    at = stations.lasts
    for i in range(at.ptr[here], at.ptr[here + 1]):
        foreign_of(at.which[i], t, p, c)
    at = stations.spans
    for i in range(at.ptr[here], at.ptr[here + 1]):
        if alone_of(at.which[i], rules.alone, rules.holds, c):
            return True
    return False


@inner
def _sort_news(c, t, head, back, passed):  # type: ignore[no-untyped-def]
    """What was learned while node head[t] of stream t was looked at: of nodes that streams have passed, which
    is noted in `back`, of others, which they will come to, or of its own. Returns where t goes on."""
    at = head[t] + 1
    for u in range(head.size):
        if c.news[u] < head[u] and (u != t or passed <= 0):
            back[u] = min(back[u], c.news[u])
        elif u == t and c.news[u] <= head[u]:
            at = c.news[u]
            if at < head[u]:
                back[u] = min(back[u], at)
        c.news[u] = c.ptr[u + 1] - c.ptr[u]
    return at


@njit(cache=True, nogil=True)
def go_onward(rules, stations):  # type: ignore[no-untyped-def]
    """Close the clocks, and apply the rules on the way (`Rules`, `Stations`). Returns whether they contradict
    the rows."""
    c = rules.clocks
    n_streams = c.clock.shape[1]
    head, until = np.empty(n_streams, np.int64), np.zeros(n_streams, np.int64)
    back, earliest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    room = earliest, np.empty(n_streams, np.int64), np.empty(n_streams, np.int32)
    stack, waiting = np.empty(n_streams, np.int64), np.zeros(n_streams, np.bool_)
    find_news(c, head)
    for s in range(n_streams):
        c.news[s] = back[s] = c.ptr[s + 1] - c.ptr[s]
    again = _BACK * c.row.size
    for s in range(n_streams):
        stack[0], n = s, 1
        until[s] = c.ptr[s + 1] - c.ptr[s]
        waiting[s] = True
        while n > 0:
            t = stack[n - 1]
            u = -1
            while u < 0 and head[t] < until[t]:
                u = go_on(c, t, head)
                if u < 0:
                    if _look(c.ptr[t] + head[t], rules, stations, room):
                        return True
                    at = _sort_news(c, t, head, back, again)
                    again -= head[t] + 1 - at
                    head[t] = at
            if u >= 0:
                until[u] = c.clock[c.ptr[t] + head[t], u]
            n = next_stream(c, u, stack, n, waiting)
        if c.state[CYCLE]:
            return False
    for s in range(n_streams):
        c.news[s] = back[s]
    return False
