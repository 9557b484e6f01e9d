"""What losses prove: who has a line alone shares it with nobody, and who loses it loses it to somebody.

Rules over `holds.Spans`, all of one line:

- While one stream has the line alone no other holds it. So if another's hold is known to begin before that
  ends, it ended before it began; and if the other's end is known to come after it began, the other began
  after it ended.
- A loss is caused by another stream's access, which lies between the row before the loss and the row after:
  a line is lost to a write that took it, the right to write to a read that got the line. A miss says whether
  the line came from a core that had it alone, so that only those accesses count that go with the loss.
- An access that got or took the line from a core that had it alone was the cause of one such loss.
- Of those losses and accesses each has one partner. So what is known to be one's is no other's.
- An access that got or took the line from no such core came when nobody had it alone: after the cause of the
  end of a span alone, or before that span.

All but the first hold of recordings whose recorder obtains lines only for accesses that happen
(`Traces.misses_prove_writes`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from, inner
from solver.tenures.candidates import some_after, some_before
from solver.tenures.clocks import CHANGED, CYCLE, Clocks, first_after, learn
from solver.tenures.holds import EARLIER, OPEN
from solver.tenures.lines import EITHER, NO, UNTOLD, YES
from solver.tenures.spans import Losses, Nodes


@inner
def tell(c, u, i, t, j):  # type: ignore[no-untyped-def]
    """Node i of stream u, if there is one, comes before node j of stream t, if there is one. Nothing
    comes before what was before the region (j is -1)."""
    if i >= 0 and j < 0:
        c.state[CYCLE] = 1
    elif i >= 0 and j < c.ptr[t + 1] - c.ptr[t]:
        learn(c, u, i, t, j)


@inner
def alone_of(x, a, h, c):  # type: ignore[no-untyped-def]
    """The first rule for span alone x. a, h: spans alone, and holds (`Nodes`). Returns whether it contradicts
    a hold."""
    n_streams = c.clock.shape[1]
    u, first, before = a.stream[x], a.first[x], a.before[x]
    for v in range(n_streams):
        low, high = h.ptr[a.line[x] * n_streams + v], h.ptr[a.line[x] * n_streams + v + 1]
        if v == u or low == high:
            continue
        earlier, later = low, high
        if a.end[x] == OPEN:
            earlier = high
        elif before >= 0:
            earlier = first_from(h.first, low, high, np.int64(c.clock[c.ptr[u] + before, v]))
        else:
            earlier = first_from(h.first, low, high, np.int64(0))
        if a.start[x] == EARLIER:
            later = low
        else:
            later = first_from(h.before, low, high, first_after(c, v, u, first))
            if h.end[high - 1] == OPEN:
                later = min(later, high - 1)
        if earlier > later:
            return True
        if earlier > low:
            tell(c, v, h.before[earlier - 1], u, first)
        if later < high:
            tell(c, u, before, v, h.first[later])
    return False


@njit(cache=True, nogil=True)
def apply_alone(a, h, c):  # type: ignore[no-untyped-def]
    """One sweep of the first rule. a, h: spans alone, and holds (`Nodes`). Returns a span that contradicts a
    hold, -1 if there is none."""
    for x in range(a.line.size):
        if alone_of(x, a, h, c):
            return x
    return -1


@inner
def _fits(loss, begin):  # type: ignore[no-untyped-def]
    """Whether a loss of this kind (`ended`) may be caused by an access of that kind (`owned`)."""
    return begin == EITHER or loss in (EITHER, begin)


@njit(cache=True, nogil=True)
def apply_causes(lost, by, mate, mate_by, c):  # type: ignore[no-untyped-def]
    """One sweep of the second rule: each of the losses `lost` was caused by one of the accesses that the
    spans `by` begin with. Returns one for which there is none, else -1."""
    n_streams = c.clock.shape[1]
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for x in range(lost.line.size):
        if lost.ended[x] == UNTOLD:
            continue
        s, before, after = lost.stream[x], lost.before[x], lost.after[x]
        n, only = 0, -1
        for v in range(n_streams):
            earliest[v] = latest[v] = -1
            low, high = by.ptr[lost.line[x] * n_streams + v], by.ptr[lost.line[x] * n_streams + v + 1]
            if v == s or low == high:
                continue
            if before >= 0:
                low = first_from(by.first, low, high, np.int64(c.clock[c.ptr[s] + before, v]))
            if after < c.ptr[s + 1] - c.ptr[s]:
                high = first_from(by.first, low, high, first_after(c, v, s, after))
            for i in range(low, high):
                one_to_one = lost.ended[x] == YES and by.owned[i] == YES
                taken = one_to_one and mate_by[i] >= 0 and mate_by[i] != x
                if taken or not _fits(lost.ended[x], by.owned[i]) or (mate[x] >= 0 and mate[x] != i):
                    continue
                n += 1
                only = i
                latest[v] = by.first[i]
                if earliest[v] < 0:
                    earliest[v] = by.first[i]
        if n == 0:
            return x
        if n == 1 and mate[x] < 0 and lost.ended[x] == YES and by.owned[only] == YES:
            mate[x], mate_by[only] = only, x
            c.state[CHANGED] = 1
        some_before(c, earliest, s, after)
        some_after(c, latest, s, before)
    return -1


@njit(cache=True, nogil=True)
def apply_origins(by, lost, mate_by, mate, c):  # type: ignore[no-untyped-def]
    """One sweep of the third rule: each of the accesses that the spans `by` begin with, where the line came
    from a core that had it alone, was the cause of one of the losses. Returns one of no loss, or -1."""
    n_streams = c.clock.shape[1]
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for x in range(by.line.size):
        if by.owned[x] != YES:
            continue
        s, first = by.stream[x], by.first[x]
        n, only, whole, ends = 0, -1, True, True
        for v in range(n_streams):
            earliest[v] = latest[v] = -1
            low, high = lost.ptr[by.line[x] * n_streams + v], lost.ptr[by.line[x] * n_streams + v + 1]
            if v == s or low == high:
                continue
            low = first_from(lost.after, low, high, np.int64(c.clock[c.ptr[s] + first, v]))
            high = first_from(lost.before, low, high, first_after(c, v, s, first))
            start, end = -1, -1
            for i in range(low, high):
                taken = mate[i] >= 0 and mate[i] != x
                if taken or lost.ended[i] == NO or (mate_by[x] >= 0 and mate_by[x] != i):
                    continue
                n += 1
                only = end = i
                if start < 0:
                    start = i
            if start >= 0:
                earliest[v], latest[v] = lost.before[start], lost.after[end]
                whole = whole and earliest[v] >= 0
                ends = ends and latest[v] < c.ptr[v + 1] - c.ptr[v]
        if n == 0:
            return x
        if n == 1 and mate_by[x] < 0 and lost.ended[only] == YES:
            mate_by[x], mate[only] = only, x
            c.state[CHANGED] = 1
        if whole:
            some_before(c, earliest, s, first)
        if ends:
            some_after(c, latest, s, first)
    return -1


class Caused(NamedTuple):
    """Accesses that cause losses of one kind (`by`), and of each loss which one did: mate: int64 (n_losses,),
    -1 where it is not known."""

    by: Nodes
    mate: NDArray[np.int64]


@njit(cache=True, nogil=True)
def apply_unowned(alone, ender, downgraded, taken, h, c):  # type: ignore[no-untyped-def]
    """One sweep of the last rule, over spans alone of whose end the cause is known. ender: of `Losses`.
    downgraded, taken: `Caused`. h: holds whose line came from no core that had it alone."""
    n_streams = c.clock.shape[1]
    for x in range(alone.line.size):
        loss = ender[x]
        if loss < 0:
            continue
        if loss < downgraded.mate.size:
            cause, by = downgraded.mate[loss], downgraded.by
            t, node = (by.stream[cause], by.first[cause]) if cause >= 0 else (-1, -1)
        else:
            cause, origin = taken.mate[loss - downgraded.mate.size], taken.by
            t, node = (origin.stream[cause], origin.first[cause]) if cause >= 0 else (-1, -1)
        if cause < 0:
            continue
        u, first = alone.stream[x], alone.first[x]
        for v in range(n_streams):
            low, high = h.ptr[alone.line[x] * n_streams + v], h.ptr[alone.line[x] * n_streams + v + 1]
            if low == high:
                continue
            after = np.int64(0) if first < 0 else first_after(c, v, u, first)
            later = first_from(h.first, low, high, after)
            if later < high:
                tell(c, t, node, v, h.first[later])
            if v != u:
                earlier = first_from(h.first, low, high, np.int64(c.clock[c.ptr[t] + node, v]))
                if earlier > low:
                    tell(c, v, h.before[earlier - 1], u, first)


def apply_losses(losses: Losses, c: Clocks) -> bool:
    """One sweep of all rules but the first. Returns whether there is a loss or access without a partner."""
    taken, takes, downgraded, gets = losses.mate
    causes = Caused(losses.gets, downgraded), Caused(losses.takes, taken)
    apply_unowned(losses.alone, losses.ender, *causes, losses.unowned, c)
    return bool(
        apply_causes(losses.taken, losses.takes, taken, takes, c) >= 0
        or apply_causes(losses.downgraded, losses.gets, downgraded, gets, c) >= 0
        or apply_origins(losses.takes, losses.taken, takes, taken, c) >= 0
        or apply_origins(losses.gets, losses.downgraded, gets, downgraded, c) >= 0
    )
