"""What the rules leave open about lines, settled: one of the orders that agree with all that the logs say.

Deduction may leave open whether one core had a line alone before another held it, or after. An engine that is
given edges alone knows nothing of such questions, and may put the one into the middle of the other. So where
it is to find an order, each is settled: one side is supposed, and all rules are applied again; if they
contradict it, the other side is true. What is supposed is one of the possibilities. It proves nothing, so it
is kept apart from what is deduced, and never used for what *must* be, or to count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from solver.tenures.clocks import CHANGED, CYCLE, Clocks, close, first_after
from solver.tenures.losses import first_from, tell
from solver.tenures.spans import Losses
from solver.tenures.holds import EARLIER, OPEN

#: Suppositions times nodes, at most: beyond that the rest stays open.
MOST_WORK = 1 << 23


@njit(cache=True, nogil=True)
def next_open(a, h, c, x, out):  # type: ignore[no-untyped-def]
    """The next pair of a span alone, from number x on, and another stream's hold of the line, of which it is not
    known which comes first, into out (int64 (2,)). Returns whether there is one."""
    n_streams = c.clock.shape[1]
    while x < a.line.size:
        if a.start[x] != EARLIER and a.end[x] != OPEN:
            u, first, before = a.stream[x], a.first[x], a.before[x]
            for v in range(n_streams):
                low, high = h.ptr[a.line[x] * n_streams + v], h.ptr[a.line[x] * n_streams + v + 1]
                if v == u or low == high:
                    continue
                # Those before are known to end before it begins; those from `after` on, to begin after it ends.
                done = first_from(h.before, low, high, np.int64(c.clock[c.ptr[u] + first, v]))
                after = first_from(h.first, low, high, first_after(c, v, u, before)) if before >= 0 else low
                if done < after:
                    out[0], out[1] = x, done
                    return True
        x += 1
    return False


@njit(cache=True, nogil=True)
def known_before(c, s, i):  # type: ignore[no-untyped-def]
    """How many nodes are known to come before node i of stream s."""
    n = np.int64(0)
    for u in range(c.clock.shape[1]):
        n += c.clock[c.ptr[s] + i, u]
    return n


def choose(losses: Losses, c: Clocks, apply: Callable[[Clocks], bool]) -> Clocks:
    """Clocks that settle what `c`, which is closed under all rules, leaves open, as far as that was possible.

    apply: applies all rules to clocks, to the fixed point; whether they contradict one another."""
    alone, holds = losses.alone, losses.holds
    pair, x, budget = np.zeros(2, np.int64), 0, MOST_WORK
    while budget > 0 and next_open(alone, holds, c, x, pair):
        x, h = int(pair[0]), int(pair[1])
        u, v = alone.stream[x], holds.stream[h]
        alone_first = known_before(c, u, alone.first[x]) <= known_before(c, v, holds.first[h])
        for side in (alone_first, not alone_first):
            budget -= len(c.row)
            other = c._replace(clock=c.clock.copy(), state=np.zeros_like(c.state), news=c.news.copy())
            if side:
                tell(other, u, alone.before[x], v, holds.first[h])
            else:
                tell(other, v, holds.before[h], u, alone.first[x])
            close(other)
            if not other.state[CYCLE] and not apply(other):
                c = other
                break
        else:
            # What was supposed before was wrong somewhere.
            x += 1
    return c
