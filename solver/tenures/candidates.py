"""One of several nodes must have been it: what follows whichever it was. Of each stream the candidates are
the nodes from `earliest` to `latest`, int64 (n_streams,), -1 where it has none."""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import inner
from solver.tenures.clocks import first_after, learn


@inner
def some_before(c, earliest, t, j):  # type: ignore[no-untyped-def]
    """One of the candidates comes before node j of stream t: so does what comes before each of them, and of a
    single stream's the first (the least of their clocks)."""
    n_streams = c.clock.shape[1]
    if j >= c.ptr[t + 1] - c.ptr[t]:
        return
    for v in range(n_streams):
        least = np.int64(2147483647)
        for u in range(n_streams):
            if earliest[u] >= 0:
                told = np.int64(c.clock[c.ptr[u] + earliest[u], v])
                least = min(least, earliest[u] + 1 if u == v else told)
        if v != t and least > 0:
            learn(c, v, least - 1, t, j)


@inner
def some_after(c, latest, s, i):  # type: ignore[no-untyped-def]
    """One of the candidates comes after node i of stream s: so does what comes after each of them."""
    n_streams = c.clock.shape[1]
    if i < 0:
        return
    for v in range(n_streams):
        if v == s:
            continue
        node = np.int64(0)
        for u in range(n_streams):
            if latest[u] >= 0:
                node = max(node, latest[u] if u == v else first_after(c, v, u, latest[u]))
        if c.ptr[v] + node < c.ptr[v + 1]:
            learn(c, s, i, v, node)
