"""Deduction: what must come before what, to a fixed point (Manovit 2006, TSOtool; axe manual, section 4.5;
Zennou et al., "Gradual Consistency Checking", CAV 2019, section 4: the same saturation).

The relation "comes before in every legal order" is kept as vector clocks: `clock[y][k]` counts the nodes of
chain k that are y or come before it. `visible` writes of a read are those that come before it, and under TSO
its own thread's earlier stores, committed or not: it reads the one of them that is latest. Rules, for a read
r of a location, writes s, t of it:

  candidates  r can read s only if r does not come before s (its own youngest buffered store excepted), and no
              other write that is visible to r comes after s. The initial value: only if none is visible. A
              write that an atomic reads is read by no other atomic.
  one left    r reads s: s comes before r (unless it can have been forwarded); every other visible write
              comes before s; r comes before every write that comes after s.
  some left   what comes before every one of them comes before r.
  final       the write whose value remains comes after the other writes.

A cycle, or a read without a candidate, proves that there is no legal order. Values that were written more
than once leave reads with several candidates; with more than MOST_CANDIDATES they are left alone.

How it stays near linear. Nodes are visited in an order that keeps what is known (`arrange`), in blocks. A
rule may say something new about a node visited already: then all from there on are visited again, at most
_BACK nodes before the block, until nothing is new. The rules look at a node only when another write of its
location has become visible to it, and at that write only, or when a read of the location found its source.
That write is found by going on from the one found last (`newest`): clocks only grow. What is left is found
in the next pass, in an order that keeps also what the last one found. Clocks are whole after a pass that
found no new need, since each node was visited after all that come before it.
"""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from solver.axe.chains import Chains
from solver.axe.facts import AGAIN, GROWN, NEEDED, OPEN, SETTLED, Facts, comes_before, place, require
from solver.axe.sources import settle_obvious
from solver.axe.sweep import arrange, sweep

STEADY, CHANGED, CONFLICT = 0, 1, 2
#: Nodes of a block, and how far before it nodes are visited again: clocks stay in the processor's cache.
_BLOCK, _BACK = 512, 2048


@njit(cache=True)
def last_writer(a, k, ch):  # type: ignore[no-untyped-def]
    """The last write of a location in a chain, or -1."""
    at = a * (ch.chain_ptr.size - 1) + k
    end = ch.writer_at[at + 1]
    return np.int64(ch.writers[end - 1]) if end > ch.writer_at[at] else np.int64(-1)


@njit(cache=True)
def keep_final(a, ch, f):  # type: ignore[no-untyped-def]
    """Apply the final constraint of a location. False if nothing can meet it."""
    pair, n_chains = ch.final[a], ch.chain_ptr.size - 1
    if ch.writer_ptr[a] == ch.writer_ptr[a + 1]:
        return pair == ch.initial[a]
    count, only = 0, np.int64(-1)
    for i in range(ch.maker_ptr[pair], ch.maker_ptr[pair + 1]):
        s = np.int64(ch.makers[i])
        covered = f.taker[s] >= 0
        for k in range(n_chains):
            t = last_writer(a, k, ch)
            if t >= 0 and t != s and comes_before(s, t, ch, f):
                covered = True
                break
        if not covered:
            count += 1
            only = s
    if count == 1:
        for k in range(n_chains):
            t = last_writer(a, k, ch)
            if t >= 0 and t != only:
                require(only, k, place(t, ch) + 1, f.need, f.clock, f.rank, f.status)
    return count > 0


@njit(cache=True)
def deduce_pass(ch, f):  # type: ignore[no-untyped-def]
    """Visit every block, and again what it says something new about. Returns STEADY, CHANGED or
    CONFLICT."""
    n, settled = ch.op.size, f.status[SETTLED]
    f.status[NEEDED] = f.status[GROWN] = f.status[OPEN] = 0
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        start = first
        while start < last:
            f.status[AGAIN] = n
            if not sweep(ch, f, start, last):
                return CONFLICT
            start = max(f.status[AGAIN], first - _BACK)
    for a in range(ch.final.size):
        if ch.final[a] >= 0 and not keep_final(a, ch, f):
            return CONFLICT
    # What a read with several candidates can read also depends on the clocks of nodes visited after it.
    unsure = f.status[OPEN] and f.status[GROWN]
    return CHANGED if f.status[NEEDED] or f.status[SETTLED] > settled or unsure else STEADY


def begin(chains: Chains, facts: Facts) -> bool:
    """Note what is plain before any pass. False: there is no legal order."""
    return not chains.contradictory and bool(settle_obvious(chains, facts))


def one_pass(chains: Chains, facts: Facts) -> int:
    """Apply the rules once more, after `begin`: STEADY, nothing changed; CHANGED, what is known is true, and
    may not be all; CONFLICT, there is no legal order."""
    return int(deduce_pass(chains, facts)) if arrange(chains, facts) else CONFLICT


def deduce(chains: Chains, facts: Facts) -> bool:
    """Apply the rules until nothing changes. False: there is no legal order."""
    result = CHANGED if begin(chains, facts) else CONFLICT
    while result == CHANGED:
        result = one_pass(chains, facts)
    return result == STEADY
