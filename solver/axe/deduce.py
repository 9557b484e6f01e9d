"""Deduction: what must come before what, to a fixed point (Manovit 2006, TSOtool; axe manual, section 4.5).

The relation "comes before in every legal order" is kept as vector clocks: `clock[y][k]` counts the nodes of
chain k that are y or come before it. `visible` writes of a read are those that come before it, and under TSO
its own thread's earlier stores, committed or not: it reads the one of them that is latest. Rules, for a read
r of a location, writes s, t of it:

  candidates  r can read s only if r does not come before s (its own youngest buffered store excepted), and no
              other write that is visible to r comes after s. The initial value: only if none is visible.
  one left    r reads s: s comes before r (unless it can have been forwarded); every other visible write
              comes before s; r comes before every write that comes after s.
  some left   what comes before every one of them comes before r.
  final       the write whose value remains comes after the other writes.

A cycle, or a read without a candidate, proves that there is no legal order. Values that were written more
than once leave reads with several candidates; with more than MOST_CANDIDATES they are left alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.axe.chains import INITIAL, UNKNOWN, Chains

MOST_CANDIDATES = 64

_STEADY, _CHANGED, _CONFLICT = 0, 1, 2


class Facts(NamedTuple):
    """What is known. need: as in `Chains`, with what was found. clock: int32 (n, chains). reads_from: int32
    (n,), the write that a node reads, INITIAL or UNKNOWN. last_reader: int32 (n, chains), one more than the
    place in each chain of the last read known to read a write, else 0. order: int32 (n,), an order in which
    clocks are computed. seen: int64 (n,), the sum of a node's clock when the rules were last applied to it.
    status: int64 (2,), whether something changed, and how many reads were settled, in the pass so far."""

    need: NDArray[np.int32]
    clock: NDArray[np.int32]
    reads_from: NDArray[np.int32]
    last_reader: NDArray[np.int32]
    order: NDArray[np.int32]
    seen: NDArray[np.int64]
    status: NDArray[np.int64]


def no_facts(chains: Chains) -> Facts:
    """What is known before any rule was applied."""
    n = len(chains.op)
    return Facts(
        chains.need.copy(),
        np.zeros_like(chains.need),
        np.full(n, UNKNOWN, np.int32),
        np.zeros_like(chains.need),
        np.zeros(n, np.int32),
        np.full(n, -1, np.int64),
        np.zeros(2, np.int64),
    )


@njit(cache=True)
def join_clock(y, ch, f):  # type: ignore[no-untyped-def]
    """Compute the clock of a node from those of the nodes it needs."""
    clock, need = f.clock[y], f.need[y]
    for k in range(need.size):
        if need[k] > clock[k]:
            other = f.clock[ch.chain_ptr[k] + need[k] - 1]
            for j in range(need.size):
                if other[j] > clock[j]:
                    clock[j] = other[j]


@njit(cache=True)
def compute_clocks(ch, f):  # type: ignore[no-untyped-def]
    """Fill in `order` and `clock`. False if `need` has a cycle."""
    n_chains = ch.chain_ptr.size - 1
    position = np.zeros(n_chains, np.int32)
    done, stuck, k = 0, 0, 0
    while done < ch.op.size:
        y = ch.chain_ptr[k] + position[k]
        ready = y < ch.chain_ptr[k + 1]
        if ready:
            for j in range(n_chains):
                if f.need[y, j] > position[j]:
                    ready = False
                    break
        if ready:
            f.clock[y, :] = 0
            join_clock(y, ch, f)
            position[k] += 1
            f.clock[y, k] = position[k]
            f.order[done] = y
            done += 1
            stuck = 0
        else:
            stuck += 1
            if stuck > n_chains:
                return False
            k = k + 1 if k + 1 < n_chains else 0
    return True


@njit(cache=True)
def require(y, k, count, ch, f):  # type: ignore[no-untyped-def]
    """Note that `count` nodes of chain k come before node y."""
    if count > f.clock[y, k] and count > f.need[y, k]:
        f.need[y, k] = count
        f.status[0] = 1
        join_clock(y, ch, f)


@njit(cache=True)
def place(node, ch):  # type: ignore[no-untyped-def]
    """The place of a node in its chain."""
    return node - ch.chain_ptr[ch.chain[node]]


@njit(cache=True)
def comes_before(x, y, ch, f):  # type: ignore[no-untyped-def]
    """Whether x is known to come before y, another node."""
    return f.clock[y, ch.chain[x]] > place(x, ch)


@njit(cache=True)
def latest_writer(a, k, count, ch):  # type: ignore[no-untyped-def]
    """The last write of location a among the first `count` nodes of chain k, or -1."""
    low, high = ch.writer_ptr[a], ch.writer_ptr[a + 1]
    first, limit = ch.chain_ptr[k], ch.chain_ptr[k] + count
    while low < high:
        middle = (low + high) // 2
        if ch.writers[middle] < limit:
            low = middle + 1
        else:
            high = middle
    if low > ch.writer_ptr[a] and ch.writers[low - 1] >= first:
        return np.int64(ch.writers[low - 1])
    return np.int64(-1)


@njit(cache=True)
def visible_writer(r, k, ch, f):  # type: ignore[no-untyped-def]
    """The last write of chain k that is known to be visible to read r, or -1."""
    if k == ch.own_commits[r]:
        return np.int64(ch.buffered[r])
    count = f.clock[r, k]
    if k == ch.chain[r]:
        count = place(r, ch)
    return latest_writer(ch.address[r], k, count, ch)


@njit(cache=True)
def can_read(r, s, visible, ch, f):  # type: ignore[no-untyped-def]
    """Whether read r may read write s (INITIAL: the initial value). visible: `visible_writer` by chain."""
    if s != INITIAL:
        if s == r:
            return False
        if ch.chain[s] == ch.own_commits[r]:
            if s != ch.buffered[r]:
                return False
        elif comes_before(r, s, ch, f):
            return False
    for t in visible:  # noqa: SIM110
        if t >= 0 and t != s and (s == INITIAL or comes_before(s, t, ch, f)):
            return False
    return True


@njit(cache=True)
def settle(r, visible, ch, f):  # type: ignore[no-untyped-def]
    """Look for the write that read r reads. False if there is none."""
    pair = ch.reads[r]
    low, high = ch.maker_ptr[pair], ch.maker_ptr[pair + 1]
    if high - low > MOST_CANDIDATES:
        return True
    count, only = 0, UNKNOWN
    meet = np.full(visible.size, np.iinfo(np.int32).max, np.int32)
    if pair == ch.initial[ch.address[r]] and can_read(r, INITIAL, visible, ch, f):
        count, only = 1, INITIAL
        meet[:] = 0
    for i in range(low, high):
        s = ch.makers[i]
        if can_read(r, s, visible, ch, f):
            count += 1
            only = s
            if ch.chain[s] == ch.own_commits[r]:
                meet[:] = 0
            else:
                meet = np.minimum(meet, f.clock[s])
    if count == 0:
        return False
    if count == 1:
        f.reads_from[r] = only
        f.status[0] = 1
        f.status[1] += 1
        if only >= 0 and f.last_reader[only, ch.chain[r]] <= place(r, ch):
            f.last_reader[only, ch.chain[r]] = place(r, ch) + 1
    else:
        for k in range(visible.size):
            require(r, k, meet[k], ch, f)
    return True


@njit(cache=True)
def apply_reads_from(r, s, visible, ch, f):  # type: ignore[no-untyped-def]
    """What follows from r reading s, but for the writes after s."""
    k = ch.chain[r]
    if s == INITIAL:
        a = ch.address[r]
        for i in range(ch.writer_ptr[a], ch.writer_ptr[a + 1]):
            w = ch.writers[i]
            first = i == ch.writer_ptr[a] or ch.chain[ch.writers[i - 1]] != ch.chain[w]
            if first and w != r:
                require(w, k, place(r, ch) + 1, ch, f)
        return
    if ch.chain[s] != ch.own_commits[r]:
        require(r, ch.chain[s], place(s, ch) + 1, ch, f)
    for j in range(visible.size):
        t = visible[j]
        if t >= 0 and t != s:
            require(s, j, place(t, ch) + 1, ch, f)


@njit(cache=True)
def keep_readers(w, ch, f):  # type: ignore[no-untyped-def]
    """Reads of a write that comes before write w come before w."""
    n_chains = ch.chain_ptr.size - 1
    for k in range(n_chains):
        count = place(w, ch) if k == ch.chain[w] else f.clock[w, k]
        s = latest_writer(ch.address[w], k, count, ch)
        if s < 0:
            continue
        for j in range(n_chains):
            last = f.last_reader[s, j]
            if last > 0 and not (j == ch.chain[w] and last == place(w, ch) + 1):
                require(w, j, last, ch, f)


@njit(cache=True)
def last_writers(a, ch):  # type: ignore[no-untyped-def]
    """The last write of a location in each chain, or -1."""
    last = np.full(ch.chain_ptr.size - 1, -1, np.int64)
    for i in range(ch.writer_ptr[a], ch.writer_ptr[a + 1]):
        last[ch.chain[ch.writers[i]]] = ch.writers[i]
    return last


@njit(cache=True)
def keep_final(a, ch, f):  # type: ignore[no-untyped-def]
    """Apply the final constraint of a location. False if nothing can meet it."""
    pair = ch.final[a]
    if ch.writer_ptr[a] == ch.writer_ptr[a + 1]:
        return pair == ch.initial[a]
    last = last_writers(a, ch)
    count, only = 0, np.int64(-1)
    for i in range(ch.maker_ptr[pair], ch.maker_ptr[pair + 1]):
        s = np.int64(ch.makers[i])
        covered = False
        for t in last:
            if t >= 0 and t != s and comes_before(s, t, ch, f):
                covered = True
                break
        if not covered:
            count += 1
            only = s
    if count == 1:
        for k in range(last.size):
            if last[k] >= 0 and last[k] != only:
                require(only, k, place(last[k], ch) + 1, ch, f)
    return count > 0


@njit(cache=True)
def deduce_pass(ch, f):  # type: ignore[no-untyped-def]
    """Apply every rule once where it may say something new. Returns _STEADY, _CHANGED or _CONFLICT."""
    everything = f.status[1] > 0
    f.status[:] = 0
    n_chains = ch.chain_ptr.size - 1
    visible = np.full(n_chains, -1, np.int64)
    for y in f.order:
        join_clock(y, ch, f)
        total = f.clock[y].sum()
        if total == f.seen[y] and not everything and (ch.reads[y] < 0 or f.reads_from[y] != UNKNOWN):
            continue
        if total != f.seen[y]:
            f.seen[y] = total
            f.status[0] = 1
        if f.clock[y, ch.chain[y]] > place(y, ch) + 1:
            return _CONFLICT
        if ch.reads[y] >= 0:
            for k in range(n_chains):
                visible[k] = visible_writer(y, k, ch, f)
            if f.reads_from[y] == UNKNOWN and not settle(y, visible, ch, f):
                return _CONFLICT
            if f.reads_from[y] != UNKNOWN:
                apply_reads_from(y, f.reads_from[y], visible, ch, f)
        if ch.writes[y] >= 0:
            keep_readers(y, ch, f)
    for a in range(ch.final.size):
        if ch.final[a] >= 0 and not keep_final(a, ch, f):
            return _CONFLICT
    return _CHANGED if f.status[0] else _STEADY


def deduce(chains: Chains, facts: Facts, on_time: object = None) -> bool:
    """Apply the rules until nothing changes. False: there is no legal order. on_time: called between two
    passes, and may raise."""
    if chains.contradictory:
        return False
    while True:
        if not compute_clocks(chains, facts):
            return False
        result = deduce_pass(chains, facts)
        if result == _STEADY:
            return True
        while result == _CHANGED:
            if callable(on_time):
                on_time()
            result = deduce_pass(chains, facts)
        if result == _CONFLICT:
            return False
