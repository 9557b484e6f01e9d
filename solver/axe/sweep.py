"""Visits of nodes in an order that keeps what is known: clocks are brought up to date and the rules of
`solver.axe.deduce` applied."""

from __future__ import annotations

import numpy as np
from numba import njit

from solver.axe.chains import UNKNOWN
from solver.axe.facts import GROWN, OPEN, require
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
        status[GROWN] |= np.int64(grown)
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
                status[OPEN] |= np.int64(unknown)
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
                status[GROWN] = 1
                row[c] = p
                join(row, need, clock, chain_ptr, y)
                if row[c] > p:
                    return False
                row[c] = p + 1
                for j in range(n_chains):
                    clock[y, j] = row[j]
    return True
