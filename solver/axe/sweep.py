"""Visits of nodes in an order that keeps what is known: clocks are brought up to date and the rules of
`solver.axe.deduce` applied."""

from __future__ import annotations

import numpy as np

from corebraid.base.compiled import njit
from corebraid.base.kernels import inlined
from solver.axe.chains import UNKNOWN
from solver.axe.facts import GROWN, NEEDED, OPEN, require
from solver.axe.sources import settle

#: Nodes of one chain that `arrange` takes in one go.
_TURN = 16


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
def join(row, need, clock, chain_ptr, y):  # type: ignore[no-untyped-def]
    """Join to `row`, a clock of y, those of the nodes that y needs and that it does not cover."""
    for k in range(row.size):
        count = need[y, k]
        if count > row[k]:
            x = chain_ptr[k] + count - 1
            for j in range(row.size):
                row[j] = max(row[j], clock[x, j])
            row[k] = max(row[k], count)


@inlined
def look(y, a, whole, row, ch, f, visible):  # type: ignore[no-untyped-def]
    """Fill `visible` with the last write of location a that comes before y, chain by chain: -1 where there is
    none, and, unless all are asked for (`whole`), where it was known at the visit before. True if there is
    any. row: the clock of y without y itself."""
    chain_ptr, writers, writer_at, clock, newest = ch.chain_ptr, ch.writers, ch.writer_at, f.clock, f.newest
    n_chains, any_seen, before = row.size, False, np.int64(ch.previous[y])
    for k in range(n_chains):
        visible[k] = -1
        if whole or row[k] > clock[y, k]:
            start, end = writer_at[a * n_chains + k], writer_at[a * n_chains + k + 1]
            known = np.int64(newest[y, k])
            i = max(known, np.int64(newest[before, k])) if before >= 0 else known
            limit = chain_ptr[k] + row[k]
            while i < end and writers[i] < limit:
                i += 1
            if i > start and (whole or i > known):
                visible[k] = writers[i - 1]
                any_seen = True
            newest[y, k] = i
    return any_seen


@inlined
def precede_source(s, visible, ch, f):  # type: ignore[no-untyped-def]
    """Visible writes other than s come before s, which the read that sees them reads. False if they
    cannot."""
    chain_ptr, chain, need, clock, rank, status = ch.chain_ptr, ch.chain, f.need, f.clock, f.rank, f.status
    for k in range(visible.size):
        t = visible[k]
        if t >= 0 and t != s:
            if s < 0 or (k == chain[s] and t > s):
                return False
            require(s, k, t - chain_ptr[k] + 1, need, clock, rank, status)
    return True


@inlined
def follow_readers(y, row, visible, ch, f):  # type: ignore[no-untyped-def]
    """Reads of a write that comes before write y come before y. Those of a write that comes before another
    such write come before that one, and are left to it. True if y needs more than `row`, its clock."""
    chain_ptr, chain, need, clock, rank = ch.chain_ptr, ch.chain, f.need, f.clock, f.rank
    first_reader, next_reader = f.first_reader, f.next_reader
    top, more = np.int64(-1), False
    for k in range(visible.size):
        t = visible[k]
        if t >= 0 and (top < 0 or rank[t] > rank[top]):
            top = t
    for k in range(visible.size):
        t = visible[k]
        if t < 0 or (t != top and clock[top, k] > t - chain_ptr[k]):
            continue
        r = np.int64(first_reader[t])
        while r >= 0:
            j = np.int64(chain[r])
            count = r - chain_ptr[j] + 1
            if count > row[j] and r != y:
                need[y, j] = max(need[y, j], count)
                more = True
            r = np.int64(next_reader[r])
    return more


@njit(cache=True)
def sweep(ch, f, first, last):  # type: ignore[no-untyped-def]
    """Visit nodes first to last of the order: bring their clocks up to date and apply the rules where they
    may say something new. False at a conflict. (The fields stand in variables since reading them costs more
    than the work.)"""
    chain_ptr, reads, writes, chain, address = ch.chain_ptr, ch.reads, ch.writes, ch.chain, ch.address
    buffered, own_commits, n_chains = ch.buffered, ch.own_commits, ch.chain_ptr.size - 1
    need, clock, reads_from, status, order = f.need, f.clock, f.reads_from, f.status, f.order
    done, stamp = f.done, f.stamp
    row, meet = np.zeros(n_chains, np.int32), np.zeros(n_chains, np.int32)
    visible = np.full(n_chains, -1, np.int64)
    for now in range(first, last):
        y = np.int64(order[now])
        c, a = np.int64(chain[y]), np.int64(address[y])
        p = y - chain_ptr[c]
        for j in range(n_chains):
            row[j] = clock[y - 1, j] if p > 0 else 0
        more = True
        while more:
            more = False
            join(row, need, clock, chain_ptr, y)
            if row[c] > p:
                return False
            grown = False
            for j in range(n_chains):
                if j != c:
                    row[j] = max(row[j], clock[y, j])
                    grown |= row[j] > clock[y, j]
            status[GROWN] |= np.int64(grown)
            unknown = a >= 0 and reads[y] >= 0 and reads_from[y] == UNKNOWN
            whole = a >= 0 and (unknown or done[y] < stamp[a])
            seen = False
            if a >= 0 and (grown or whole):
                seen = look(y, a, whole, row, ch, f, visible)
            for j in range(n_chains):
                if j != c:
                    clock[y, j] = row[j]
            if not (seen or whole):
                break
            done[y] = stamp[a]
            own = np.int64(own_commits[y])
            if own >= 0:
                visible[own] = buffered[y] if whole else -1
            if unknown:
                if not settle(y, row, visible, meet, ch, f):
                    return False
                unknown = reads_from[y] == UNKNOWN
                status[OPEN] |= np.int64(unknown)
                for k in range(n_chains):
                    more |= need[y, k] > row[k]
            if reads[y] >= 0 and not unknown:
                s = np.int64(reads_from[y])
                if not precede_source(s, visible, ch, f):
                    return False
            if writes[y] >= 0:
                more |= follow_readers(y, row, visible, ch, f)
            status[NEEDED] |= np.int64(more)
    return True
