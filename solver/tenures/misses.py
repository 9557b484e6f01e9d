"""A miss proves a foreign write: where caches are unbounded, a core loses a line only to somebody's write.

That holds of recordings whose recorder obtains a line only for accesses that happen
(`Traces.misses_prove_writes`). Where a tenure begins with a miss and the same core had another one on the
line before, a write w of another stream lies between: after the last access of the one, before the first of
the other. Of each stream only the writes count that are known neither to come before the one nor after the
other.

- What comes before the first such write of every stream comes before the tenure (the least of their clocks).
- What comes after the last such write of every stream comes after the tenure before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.tenures.candidates import some_after, some_before
from solver.tenures.clocks import first_after, first_write
from solver.tenures.lines import Tenures
from solver.tenures.scan import MISSED


def earlier_tenures(t: Tenures) -> NDArray[np.int64]:
    """For each tenure that began with a miss the one that the same core had on the line before, in the same
    region; -1 for none, and for tenures that began otherwise: int64 (n, 1)."""
    cores = np.flatnonzero(t.begin >= 0)
    # Of one core they are in the order in which they begin.
    by = cores[np.lexsort((t.line[cores], t.stream[cores]))]
    same = (t.stream[by][1:] == t.stream[by][:-1]) & (t.line[by][1:] == t.line[by][:-1])
    earlier = np.full((len(t.line), 1), -1, np.int64)
    earlier[by[1:][same], 0] = by[:-1][same]
    earlier[t.how != MISSED] = -1
    return earlier


@inner
def _between(k, before, t, p, c, earliest, latest):  # type: ignore[no-untyped-def]
    """For every stream the nodes of the first and the last write that may lie between the parts `before` of a
    tenure and the record of tenure k, -1 for none. Returns whether there is any."""
    n_streams, b = c.clock.shape[1], p.begins[k]
    found = False
    for u in range(n_streams):
        earliest[u] = latest[u] = -1
        begin, end = p.ptr[t.line[k] * n_streams + u], p.ptr[t.line[k] * n_streams + u + 1]
        if p.owner[u] == p.owner[b] or begin == end:
            continue
        low = begin
        for part in before:
            if part >= 0:
                low = max(low, first_write(p, begin, end, c.clock[c.ptr[t.stream[part]] + p.last[part], u]))
        high = first_write(p, begin, end, first_after(c, u, b, p.first[k]))
        if low < high:
            earliest[u], latest[u] = p.node[low], p.node[high - 1]
            found = True
    return found


@njit(cache=True, nogil=True)
def apply_misses(t, p, c, before):  # type: ignore[no-untyped-def]
    """One sweep over all tenures (`Tenures`, `Places`, `Clocks`), under TSO over all parts of them. before:
    int64 (n, 1), of `earlier_tenures`, or (n, 2), of `buffered_misses.parts_before`. Returns a tenure whose
    miss nobody can have caused, -1 if there is none."""
    n_streams = c.clock.shape[1]
    earliest, latest = np.empty(n_streams, np.int64), np.empty(n_streams, np.int64)
    for k in range(t.line.size):
        # The first part may be missing, and the second be there.
        if before[k].max() < 0:
            continue
        if not _between(k, before[k], t, p, c, earliest, latest):
            return k
        some_before(c, earliest, p.begins[k], p.first[k])
        for part in before[k]:
            if part >= 0:
                some_after(c, latest, np.int64(t.stream[part]), p.last[part])
    return -1
