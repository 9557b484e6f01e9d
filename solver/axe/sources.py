"""Which write a read reads: the rules of `solver.axe.deduce` on the candidates of a read."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from solver.axe.chains import INITIAL, UNKNOWN
from solver.axe.facts import SETTLED, comes_before, place, require

MOST_CANDIDATES = 64


@njit(cache=True)
def take(r, s, a, taker, n):  # type: ignore[no-untyped-def]
    """Note that atomic r reads s, a write of location a. False if another one does."""
    at = s if s >= 0 else n + a
    if taker[at] >= 0:
        return False
    taker[at] = r
    return True


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
def precede_writes(r, ch, f):  # type: ignore[no-untyped-def]
    """Note that r, which reads the initial value, comes before every write of its location."""
    n_chains = ch.chain_ptr.size - 1
    for j in range(n_chains):
        at = ch.address[r] * n_chains + j
        i, end = ch.writer_at[at], ch.writer_at[at + 1]
        if i < end and ch.writers[i] == r:
            i += 1
        if i < end:
            require(ch.writers[i], ch.chain[r], place(r, ch) + 1, f.need, f.clock, f.rank, f.status)


@njit(cache=True)
def note_source(r, s, ch, f):  # type: ignore[no-untyped-def]
    """Note that r reads s. False if an atomic would read what another atomic reads."""
    f.reads_from[r] = s
    f.status[SETTLED] += 1
    f.stamp[ch.address[r]] = f.status[SETTLED]
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
