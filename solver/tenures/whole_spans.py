"""What is learned of an access in a span alone, and of another stream's to the line, holds of the span."""

from __future__ import annotations

import numpy as np

from corebraid.base.kernels import first_from, inner
from solver.tenures.clocks import learn
from solver.tenures.holds import OPEN


@inner
def _alone_around(line, v, j, c, a):  # type: ignore[no-untyped-def]
    """The last span alone of stream v with the line that begins at node j or before, -1 if none is known."""
    if a.ptr.size == 0:
        return np.int64(-1)
    low = a.ptr[line * c.clock.shape[1] + v]
    x = first_from(a.first, low, a.ptr[line * c.clock.shape[1] + v + 1], j + 1) - 1
    return x if x >= low else np.int64(-1)


@inner
def learn_before(line, end, t, j, c, a):  # type: ignore[no-untyped-def]
    """Node `end` (stream, number), an access to the line, comes before node j of stream t, a write to it, and
    so before all of the span alone in which that is. a: spans alone (`Nodes`), or none.

    The nodes from there on know it at once: which of them is the first that does is what is asked next."""
    s, i = end
    x = _alone_around(line, t, j, c, a)
    if x >= 0 and a.first[x] >= 0 and a.before[x] >= j:
        j = a.first[x]
    learn(c, s, i, t, j)
    here = c.ptr[t] + j + 1
    while here < c.ptr[t + 1] and c.clock[here, s] <= i:
        c.clock[here, s] = i + 1
        here += 1


@inner
def learn_ended(line, b, first, v, c, a):  # type: ignore[no-untyped-def]
    """Node `first` of stream b, an access to the line, comes after all of the last span alone of stream v
    that is known to have begun before it. a: spans alone (`Nodes`), or none."""
    x = _alone_around(line, v, np.int64(c.clock[c.ptr[b] + first, v]) - 1, c, a)
    if x >= 0 and a.end[x] != OPEN and a.before[x] >= 0:
        learn(c, v, a.before[x], b, first)
