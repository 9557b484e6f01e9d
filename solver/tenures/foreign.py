"""Nobody writes to a line within another core's tenure.

A write takes the line from every other core, so that a core's next access to it misses. For every foreign
write w to the line of a tenure: w comes before its first access or after its last. So if w is known to come
before the last, it comes before the first, and if it comes after the first, after the last. Where the tenure
began in an earlier region, w, which lies in this one, comes after the last.
"""

from __future__ import annotations

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.tenures.clocks import first_after, first_write, learn
from solver.tenures.scan import CONTINUED


@inner
def foreign_of(k, t, p, c):  # type: ignore[no-untyped-def]
    """What others' writes and tenure k say of one another."""
    n_streams = c.clock.shape[1]
    s, b, first, last = t.stream[k], p.begins[k], p.first[k], p.last[k]
    if t.how[k] != CONTINUED and first == last and b == s:
        # A single access, as each of an agent's: nothing can come within.
        return
    mine = c.clock[c.ptr[s] + last]
    for u in range(n_streams):
        begin, end = p.ptr[t.line[k] * n_streams + u], p.ptr[t.line[k] * n_streams + u + 1]
        if p.owner[u] == p.owner[s] or begin == end:
            continue
        if t.how[k] == CONTINUED:
            learn(c, s, last, u, p.node[begin])
            continue
        before = first_write(p, begin, end, mine[u])
        if before > begin:
            learn(c, u, p.node[before - 1], b, first)
        after = first_write(p, begin, end, first_after(c, u, b, first))
        if after < end:
            learn(c, s, last, u, p.node[after])


@njit(cache=True, nogil=True)
def apply_foreign(t, p, c):  # type: ignore[no-untyped-def]
    """One sweep over all tenures (`Tenures`, `Places`, `Clocks`)."""
    for k in range(t.line.size):
        foreign_of(k, t, p, c)
