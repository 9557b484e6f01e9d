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

How it stays near linear. Nodes are visited in an order that keeps what is known (`arrange`), in blocks, a
block until nothing new is found in it, so that a clock seldom changes once its block is left. The rules are
applied to a node only when its clock grew or a read at its location found its write. The last write of a
location that a clock covers is found by going on from the one found last (`newest`): clocks only grow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.axe.chains import INITIAL, UNKNOWN, Chains

MOST_CANDIDATES = 64

_STEADY, _CHANGED, _CONFLICT = 0, 1, 2
#: Nodes of a block: its clocks stay in the processor's cache.
_BLOCK = 2048
#: Nodes of one chain that `arrange` takes in one go.
_TURN = 16
#: Words of `Facts.status`.
_EARLIER, _INSIDE, _SETTLED, _GROWN, _OPEN = 0, 1, 2, 3, 4


class Facts(NamedTuple):
    """What is known. need: as in `Chains`, with what was found. clock: int32 (n, chains). reads_from: int32
    (n,), the write that a node reads, INITIAL or UNKNOWN. first_reader, next_reader: int32 (n,), the list of
    the reads known to read a write, of each chain the last one only; -1 ends it. taker: int32 (n +
    locations,), the atomic known to read write w, or, at n + a, the initial value of location a, else -1.

    order, rank: int32 (n,), an order in which nodes are visited, and a node's place in it. newest: int32
    (n, chains), how far into `writers` of its location the clock of a node reaches. stamp: int64
    (locations,), the number of reads that had been settled anywhere when the last one at a location was;
    done: int64 (n,), when the rules were last applied to a node. status: int64 (5,), whether a node before
    the block got a new need, one inside the block that was visited already; reads settled; in this pass,
    whether a clock grew, and whether a read with several candidates was seen."""

    need: NDArray[np.int32]
    clock: NDArray[np.int32]
    reads_from: NDArray[np.int32]
    first_reader: NDArray[np.int32]
    next_reader: NDArray[np.int32]
    taker: NDArray[np.int32]
    order: NDArray[np.int32]
    rank: NDArray[np.int32]
    newest: NDArray[np.int32]
    stamp: NDArray[np.int64]
    done: NDArray[np.int64]
    status: NDArray[np.int64]


def no_facts(chains: Chains) -> Facts:
    """What is known before any rule was applied."""
    n, n_chains = chains.need.shape
    clock = np.zeros_like(chains.need)
    clock[np.arange(n), chains.chain] = np.arange(n) - chains.chain_ptr[chains.chain] + 1
    newest = np.zeros_like(chains.need)
    touching = np.flatnonzero(chains.address >= 0)
    starts = chains.writer_at[:-1].reshape(len(chains.initial), n_chains)
    newest[touching] = starts[chains.address[touching]]
    return Facts(
        chains.need.copy(),
        clock,
        np.full(n, UNKNOWN, np.int32),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int32),
        np.full(n + len(chains.initial), -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        newest,
        np.zeros(len(chains.initial), np.int64),
        np.full(n, -1, np.int64),
        np.zeros(5, np.int64),
    )


@njit(cache=True)
def place(node, ch):  # type: ignore[no-untyped-def]
    """The place of a node in its chain."""
    return node - ch.chain_ptr[ch.chain[node]]


@njit(cache=True)
def comes_before(x, y, ch, f):  # type: ignore[no-untyped-def]
    """Whether x is known to come before y, another node."""
    return f.clock[y, ch.chain[x]] > place(x, ch)


@njit(cache=True)
def arrange(ch, f):  # type: ignore[no-untyped-def]
    """Fill in `order` and `rank`, a few nodes of each chain in turn. False if `need` has a cycle."""
    n_chains = ch.chain_ptr.size - 1
    position = np.zeros(n_chains, np.int32)
    chain_ptr, need, order, rank = ch.chain_ptr, f.need, f.order, f.rank
    done, stuck, k = 0, 0, 0
    while done < order.size:
        taken = 0
        while taken < _TURN:
            y = chain_ptr[k] + position[k]
            ready = y < chain_ptr[k + 1]
            if ready:
                for j in range(n_chains):
                    if need[y, j] > position[j]:
                        ready = False
                        break
            if not ready:
                break
            position[k] += 1
            order[done] = y
            rank[y] = done
            done += 1
            taken += 1
        stuck = 0 if taken else stuck + 1
        if stuck > n_chains:
            return False
        k = k + 1 if k + 1 < n_chains else 0
    return True


@njit(cache=True)
def require(x, k, count, now, first, need, clock, rank, status):  # type: ignore[no-untyped-def]
    """Note that `count` nodes of chain k come before node x, which is not the one being visited. now: the
    rank of that one; first: where the block begins."""
    if count > clock[x, k] and count > need[x, k]:
        need[x, k] = count
        if rank[x] < first:
            status[_EARLIER] = 1
        elif rank[x] < now:
            status[_INSIDE] = 1


@njit(cache=True)
def enlist(r, s, chain, first_reader, next_reader):  # type: ignore[no-untyped-def]
    """Enter read r in the list of those that read s."""
    before, x = np.int64(-1), np.int64(first_reader[s])
    while x >= 0 and chain[x] != chain[r]:
        before, x = x, np.int64(next_reader[x])
    if x > r:
        return
    next_reader[r] = next_reader[x] if x >= 0 else -1
    if before >= 0:
        next_reader[before] = r
    else:
        first_reader[s] = r


@njit(cache=True)
def take(r, s, a, taker, n):  # type: ignore[no-untyped-def]
    """Note that atomic r reads s, a write of location a. False if another one does."""
    at = s if s >= 0 else n + a
    if taker[at] >= 0:
        return False
    taker[at] = r
    return True


@njit(cache=True)
def precede_writes(r, ch, f):  # type: ignore[no-untyped-def]
    """Note that r, which reads the initial value, comes before every write of its location."""
    n_chains, n = ch.chain_ptr.size - 1, ch.op.size
    for j in range(n_chains):
        at = ch.address[r] * n_chains + j
        i, end = ch.writer_at[at], ch.writer_at[at + 1]
        if i < end and ch.writers[i] == r:
            i += 1
        if i < end:
            require(ch.writers[i], ch.chain[r], place(r, ch) + 1, n, 0, f.need, f.clock, f.rank, f.status)


@njit(cache=True)
def note_source(r, s, ch, f):  # type: ignore[no-untyped-def]
    """Note that r reads s. False if an atomic would read what another atomic reads."""
    f.reads_from[r] = s
    f.status[_SETTLED] += 1
    f.stamp[ch.address[r]] = f.status[_SETTLED]
    if ch.writes[r] >= 0 and not take(r, s, ch.address[r], f.taker, ch.op.size):
        return False
    if s == INITIAL:
        precede_writes(r, ch, f)
        return True
    enlist(r, s, ch.chain, f.first_reader, f.next_reader)
    if ch.chain[s] != ch.own_commits[r]:
        f.need[r, ch.chain[s]] = max(f.need[r, ch.chain[s]], place(s, ch) + 1)
    return True


@njit(cache=True)
def settle_obvious(ch, f):  # type: ignore[no-untyped-def]
    """Settle the reads of values that one write only leaves. False if a read has no candidate at all."""
    reads, writes, address, initial, chain = ch.reads, ch.writes, ch.address, ch.initial, ch.chain
    maker_ptr, makers, own_commits, buffered, chain_ptr = (
        ch.maker_ptr, ch.makers, ch.own_commits, ch.buffered, ch.chain_ptr,
    )  # fmt: skip
    reads_from, need, taker, first_reader, next_reader = (
        f.reads_from, f.need, f.taker, f.first_reader, f.next_reader,
    )  # fmt: skip
    for r in range(reads.size):
        pair = reads[r]
        if pair < 0:
            continue
        count, only = 0, np.int64(UNKNOWN)
        if pair == initial[address[r]]:
            count, only = 1, np.int64(INITIAL)
        for i in range(maker_ptr[pair], maker_ptr[pair + 1]):
            s = np.int64(makers[i])
            if s != r and (chain[s] != own_commits[r] or s == buffered[r]):
                count += 1
                only = s
                if count > 1:
                    break
        if count == 0:
            return False
        if count > 1:
            continue
        reads_from[r] = only
        if writes[r] >= 0 and not take(r, only, address[r], taker, reads.size):
            return False
        if only == INITIAL:
            precede_writes(r, ch, f)
            continue
        enlist(r, only, chain, first_reader, next_reader)
        k = chain[only]
        if k != own_commits[r]:
            need[r, k] = max(need[r, k], only - chain_ptr[k] + 1)
    return True


@njit(cache=True)
def join(row, need, clock, chain_ptr, y):  # type: ignore[no-untyped-def]
    """Join to `row`, a clock of y, those of the nodes that y needs and that it does not cover."""
    for k in range(row.size):
        count = need[y, k]
        if count > row[k]:
            x = chain_ptr[k] + count - 1
            for j in range(row.size):
                row[j] = max(row[j], clock[x, j])
            row[k] = max(row[k], count)


@njit(cache=True)
def can_read(r, s, visible, ch, f):  # type: ignore[no-untyped-def]
    """Whether read r may read write s (INITIAL: the initial value). visible: as of `find_visible`."""
    if s != INITIAL:
        if s == r:
            return False
        if ch.chain[s] == ch.own_commits[r]:
            if s != ch.buffered[r]:
                return False
        elif comes_before(r, s, ch, f):
            return False
    if ch.writes[r] >= 0 and f.taker[s if s >= 0 else ch.op.size + ch.address[r]] >= 0:
        return False
    for t in visible:  # noqa: SIM110
        if t >= 0 and t != s and (s == INITIAL or comes_before(s, t, ch, f)):
            return False
    return True


@njit(cache=True)
def settle(r, row, visible, meet, ch, f):  # type: ignore[no-untyped-def]
    """Look for the write that read r reads. False if there is none. meet: int32 (chains,), scratch."""
    pair = ch.reads[r]
    low, high = ch.maker_ptr[pair], ch.maker_ptr[pair + 1]
    if high - low > MOST_CANDIDATES:
        return True
    count, only = 0, np.int64(UNKNOWN)
    meet[:] = np.iinfo(np.int32).max
    if pair == ch.initial[ch.address[r]] and can_read(r, INITIAL, visible, ch, f):
        count, only = 1, np.int64(INITIAL)
        meet[:] = 0
    for i in range(low, high):
        s = np.int64(ch.makers[i])
        if can_read(r, s, visible, ch, f):
            count += 1
            only = s
            if ch.chain[s] == ch.own_commits[r]:
                meet[:] = 0
            else:
                for k in range(meet.size):
                    meet[k] = min(meet[k], f.clock[s, k])
    if count == 0:
        return False
    if count == 1:
        return note_source(r, only, ch, f)
    for k in range(meet.size):
        if meet[k] > row[k] and meet[k] > f.need[r, k]:
            f.need[r, k] = meet[k]
    return True


@njit(cache=True)
def sweep(ch, f, first, last):  # type: ignore[no-untyped-def]
    """Visit the nodes of one block: bring their clocks up to date and apply the rules where they may say
    something new. False at a conflict. (The fields stand in variables since reading them costs more than
    the work.)"""
    chain_ptr, writers, writer_at, reads, writes = ch.chain_ptr, ch.writers, ch.writer_at, ch.reads, ch.writes
    chain, address, buffered, own_commits = ch.chain, ch.address, ch.buffered, ch.own_commits
    need, clock, reads_from, first_reader, newest = f.need, f.clock, f.reads_from, f.first_reader, f.newest
    rank, done, stamp, status, next_reader, order = f.rank, f.done, f.stamp, f.status, f.next_reader, f.order
    previous, n_chains = ch.previous, chain_ptr.size - 1
    row, meet = np.zeros(n_chains, np.int32), np.zeros(n_chains, np.int32)
    visible = np.full(n_chains, -1, np.int64)
    for now in range(first, last):
        y = np.int64(order[now])
        c, a = np.int64(chain[y]), np.int64(address[y])
        p = y - chain_ptr[c]
        for j in range(n_chains):
            row[j] = clock[y - 1, j] if p > 0 else 0
        join(row, need, clock, chain_ptr, y)
        if row[c] > p:
            return False
        row[c] = p + 1
        grown = False
        for j in range(n_chains):
            grown |= row[j] > clock[y, j]
            clock[y, j] = row[j] = max(row[j], clock[y, j])
        status[_GROWN] |= np.int64(grown)
        if a < 0:
            continue
        unknown = reads[y] >= 0 and reads_from[y] == UNKNOWN
        more = grown or unknown or done[y] < stamp[a]
        while more:
            done[y] = stamp[a]
            more = False
            # The last write of the location that is known to be visible, chain by chain.
            before, own = np.int64(previous[y]), np.int64(own_commits[y])
            for k in range(n_chains):
                at = a * n_chains + k
                start, end, i = writer_at[at], writer_at[at + 1], np.int64(newest[y, k])
                if before >= 0:
                    i = max(i, np.int64(newest[before, k]))
                limit = chain_ptr[k] + (row[k] if k != c else p)
                while i < end and writers[i] < limit:
                    i += 1
                newest[y, k] = i
                visible[k] = writers[i - 1] if i > start else -1
            if own >= 0:
                visible[own] = buffered[y]
            if unknown:
                if not settle(y, row, visible, meet, ch, f):
                    return False
                unknown = reads_from[y] == UNKNOWN
                status[_OPEN] |= np.int64(unknown)
            if reads[y] >= 0 and not unknown:
                # Other visible writes come before the one that y reads.
                s = np.int64(reads_from[y])
                for k in range(n_chains):
                    t = visible[k]
                    if t >= 0 and t != s:
                        if s < 0 or (k == chain[s] and t > s):
                            return False
                        require(s, k, t - chain_ptr[k] + 1, now, first, need, clock, rank, status)
            if writes[y] >= 0:
                # Reads of a write that comes before y come before y.
                for k in range(n_chains):
                    r = np.int64(first_reader[visible[k]]) if visible[k] >= 0 else np.int64(-1)
                    while r >= 0:
                        reader_chain = np.int64(chain[r])
                        count = r - chain_ptr[reader_chain] + 1
                        if count > need[y, reader_chain] and r != y:
                            need[y, reader_chain] = count
                        r = np.int64(next_reader[r])
            for k in range(n_chains):
                more |= need[y, k] > row[k]
            if more:
                status[_GROWN] = 1
                row[c] = p
                join(row, need, clock, chain_ptr, y)
                if row[c] > p:
                    return False
                row[c] = p + 1
                for j in range(n_chains):
                    clock[y, j] = row[j]
    return True


@njit(cache=True)
def last_writer(a, k, ch):  # type: ignore[no-untyped-def]
    """The last write of a location in a chain, or -1."""
    at = a * (ch.chain_ptr.size - 1) + k
    end = ch.writer_at[at + 1]
    return np.int64(ch.writers[end - 1]) if end > ch.writer_at[at] else np.int64(-1)


@njit(cache=True)
def keep_final(a, ch, f):  # type: ignore[no-untyped-def]
    """Apply the final constraint of a location. False if nothing can meet it."""
    pair, n_chains, n = ch.final[a], ch.chain_ptr.size - 1, f.order.size
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
                require(only, k, place(t, ch) + 1, n, n, f.need, f.clock, f.rank, f.status)
    return count > 0


@njit(cache=True)
def deduce_pass(ch, f):  # type: ignore[no-untyped-def]
    """Visit every block, each until there is nothing new in it. Returns _STEADY, _CHANGED or _CONFLICT."""
    n, settled = ch.op.size, f.status[_SETTLED]
    f.status[_EARLIER] = f.status[_GROWN] = f.status[_OPEN] = 0
    for first in range(0, n, _BLOCK):
        again = True
        while again:
            f.status[_INSIDE] = 0
            if not sweep(ch, f, first, min(first + _BLOCK, n)):
                return _CONFLICT
            again = f.status[_INSIDE] > 0
    for a in range(ch.final.size):
        if ch.final[a] >= 0 and not keep_final(a, ch, f):
            return _CONFLICT
    # What a read with several candidates can read also depends on the clocks of nodes visited after it.
    unsure = f.status[_OPEN] and f.status[_GROWN]
    return _CHANGED if f.status[_EARLIER] or f.status[_SETTLED] > settled or unsure else _STEADY


def deduce(chains: Chains, facts: Facts, on_time: object = None) -> bool:
    """Apply the rules until nothing changes. False: there is no legal order. on_time: called between two
    passes, and may raise."""
    if chains.contradictory or not settle_obvious(chains, facts):
        return False
    while True:
        if not arrange(chains, facts):
            return False
        passes = 0
        result = _CHANGED
        while result == _CHANGED:
            if callable(on_time):
                on_time()
            result = deduce_pass(chains, facts)
            passes += 1
        if result == _CONFLICT:
            return False
        # Clocks are whole once a pass in an order that keeps all that is known lets none grow.
        if passes == 1 and not facts.status[_GROWN]:
            return True
