"""One step of the search: nodes run, and are taken back, on a walk from the first cut to the last.

A *cut* is a position in every chain. With old values unknown the memory there depends on the way taken, so
what a state is known by (`describe`) is the cut together with what memory holds, as far as anything to come
can tell the difference: exactly, never by a hash alone.

Nodes that run at once. Let a node be enabled: all it needs has run, and if it reads, it would read its value
now. From any legal completion, taking the node out of its place and putting it first gives a legal
completion again, if the node is
  1. a load or a fence: it changes nothing, and under TSO it neither fills nor drains a buffer;
  2. an atomic that writes what it reads: memory is the same before and after, at either place;
  3. a write to a location that no other thread will touch: only its own thread's accesses see it, they stay
     where they are relative to it, and loads that it was forwarded to see the same value in memory;
  4. a store (not an atomic) whose value nobody to come reads and the end does not demand, while what memory
     holds is not read by anybody to come either. In the completion, the first access to the location is
     then a write; so is the one after the store, if any. So nobody sees the location between the new place
     and that first write, and nobody misses the store at its old place.
  5. a write that is known to come before all other writes to come of its location, while what memory holds is
     read by nobody to come but the node itself. In the completion, nobody touches the location before the
     old place, except loads that it was forwarded to: they find its value in memory, since the other
     writes come after the old place.
A store that writes what memory holds already is *not* among them: another store may come between, and then
this one is what restores the value. (With known old values there is a rule like 2 for it; under TSO it would
be wrong there too, since the store also empties its place in the buffer.)

Dead ends. A walk is given up when it overwrites a write that a read to come is known to read
(`solver.axe.deduce`), or the last copy of a value that is still to be read or to remain at the end. Also
when the reads known to read what memory holds at a location cannot all run before it is overwritten: all
that comes before them must run first; a write among that, of another location that holds what is still to
be read, must in turn wait for those reads; and so on (`entangled`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inlined
from solver.axe.chains import INITIAL, UNKNOWN, Chains
from solver.axe.facts import Facts

#: Indexes of `Walk.at`: length of the path, open cuts, known dead cuts, whether a cut is being entered, cuts
#: given up, length used of the pool of dead cuts, length of the longest path that straight walks came to
#: before a dead end.
LENGTH, CUTS, DEAD, ENTERING, GIVEN_UP, POOLED, FARTHEST = range(7)


class Walk(NamedTuple):
    """A walk in progress over n nodes. position: int32, the nodes of each chain that have run. cell: int32
    per location, the write that memory holds, INITIAL at first. loose: int32 per pair, reads to come of that
    value of which the write is not known. readers: int32 (n + locations,), reads to come that are known to
    read write w, or, at n + a, the initial value of location a. makers: int32 per pair, writes to come.
    touches: int32 per location, accesses to come; own: int32 (threads, locations), those of one thread.
    thread: int32, of each chain. path: int32 (n,), the nodes run; over: int32 (n,), what each overwrote.
    scratch: int32 (2, chains). following: int64 (locations * chains,), where in `writers` those to come of a
    location and a chain begin. blocked: int32 (chains, 3), a node that is next in the chain, and how many
    nodes of which chain it waits for. frame_path: int32,
    per open cut the length of its path; frame_tried: uint64 (cuts, 2), bit k of the first
    or second word: chain k or 64 + k has been tried. at: int64 (7,), see LENGTH."""

    position: NDArray[np.int32]
    cell: NDArray[np.int32]
    loose: NDArray[np.int32]
    readers: NDArray[np.int32]
    makers: NDArray[np.int32]
    touches: NDArray[np.int32]
    own: NDArray[np.int32]
    thread: NDArray[np.int32]
    path: NDArray[np.int32]
    over: NDArray[np.int32]
    scratch: NDArray[np.int32]
    following: NDArray[np.int64]
    blocked: NDArray[np.int32]
    frame_path: NDArray[np.int32]
    frame_tried: NDArray[np.uint64]
    at: NDArray[np.int64]


def start_walk(ch: Chains, f: Facts, n_threads: int) -> Walk:
    """A walk before its first step."""
    n, n_chains, n_addresses, n_pairs = (
        len(ch.op),
        len(ch.chain_ptr) - 1,
        len(ch.initial),
        len(ch.pair_address),
    )
    thread = (np.arange(n_chains) * n_threads // max(n_chains, 1)).astype(np.int32)
    reading, touching = ch.reads >= 0, ch.address >= 0
    loose = np.bincount(ch.reads[reading & (f.reads_from == UNKNOWN)], minlength=n_pairs)
    known = np.flatnonzero(reading & (f.reads_from != UNKNOWN))
    source = np.where(f.reads_from[known] == INITIAL, n + ch.address[known], f.reads_from[known])
    own = np.zeros((n_threads, n_addresses), np.int32)
    np.add.at(own, (thread[ch.chain[touching]], ch.address[touching]), 1)
    n_writes = int((ch.writes >= 0).sum())
    return Walk(
        position=np.zeros(n_chains, np.int32),
        cell=np.full(n_addresses, INITIAL, np.int32),
        loose=loose.astype(np.int32),
        readers=np.bincount(source, minlength=n + n_addresses).astype(np.int32),
        makers=np.bincount(ch.writes[ch.writes >= 0], minlength=n_pairs).astype(np.int32),
        touches=own.sum(axis=0, dtype=np.int32),
        own=own,
        thread=thread,
        path=np.zeros(n, np.int32),
        over=np.zeros(n, np.int32),
        scratch=np.zeros((2, n_chains), np.int32),
        following=ch.writer_at[:-1].copy(),
        blocked=np.full((n_chains, 3), -1, np.int32),
        frame_path=np.zeros(n_writes + 2, np.int32),
        frame_tried=np.zeros((n_writes + 2, 2), np.uint64),
        at=np.array([0, 0, 0, 1, 0, 0, 0], np.int64),
    )


@inlined
def held(a, ch, w):  # type: ignore[no-untyped-def]
    """The pair that memory holds at a location."""
    return ch.writes[w.cell[a]] if w.cell[a] >= 0 else ch.initial[a]


@inlined
def readers_of_cell(a, ch, w):  # type: ignore[no-untyped-def]
    """Reads to come that are known to read what memory holds at a location."""
    return w.readers[w.cell[a] if w.cell[a] >= 0 else ch.op.size + a]


@njit(cache=True)
def enabled(y, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether all that a node needs has run, and a read would read its value."""
    need = f.need[y]
    for k in range(need.size):
        if need[k] > w.position[k]:
            return False
    return finds_value(y, ch, f, w)


@inlined
def finds_value(y, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether a node, if it reads, would read its value now."""
    pair = ch.reads[y]
    if pair < 0:
        return True
    seen = w.cell[ch.address[y]]
    b = ch.buffered[y]
    if b >= 0 and b - ch.chain_ptr[ch.chain[b]] >= w.position[ch.chain[b]]:
        seen = b
    if f.reads_from[y] != UNKNOWN:
        return seen == f.reads_from[y]
    return pair == (ch.writes[seen] if seen >= 0 else ch.initial[ch.address[y]])


@inlined
def run(y, ch, f, w):  # type: ignore[no-untyped-def]
    """Run a node. False if that is a dead end."""
    a, pair, new = ch.address[y], ch.reads[y], ch.writes[y]
    length = w.at[LENGTH]
    w.path[length] = y
    w.at[LENGTH] = length + 1
    w.position[ch.chain[y]] += 1
    if a >= 0:
        w.touches[a] -= 1
        w.own[w.thread[ch.chain[y]], a] -= 1
    if pair >= 0:
        source = f.reads_from[y]
        if source == UNKNOWN:
            w.loose[pair] -= 1
        else:
            w.readers[source if source >= 0 else ch.op.size + a] -= 1
    if new < 0:
        return True
    old, lost = held(a, ch, w), readers_of_cell(a, ch, w) > 0
    w.over[length] = w.cell[a]
    w.cell[a] = y
    w.following[a * w.position.size + ch.chain[y]] += 1
    w.makers[new] -= 1
    if old != new and w.makers[old] == 0 and (w.loose[old] > 0 or ch.final[a] == old):
        lost = True
    return not lost


@njit(cache=True)
def take_back(length, ch, f, w):  # type: ignore[no-untyped-def]
    """Take back the nodes of the path beyond `length`."""
    while w.at[LENGTH] > length:
        w.at[LENGTH] -= 1
        y = w.path[w.at[LENGTH]]
        a, pair, new = ch.address[y], ch.reads[y], ch.writes[y]
        w.position[ch.chain[y]] -= 1
        if a >= 0:
            w.touches[a] += 1
            w.own[w.thread[ch.chain[y]], a] += 1
        if pair >= 0:
            source = f.reads_from[y]
            if source == UNKNOWN:
                w.loose[pair] += 1
            else:
                w.readers[source if source >= 0 else ch.op.size + a] += 1
        if new >= 0:
            w.cell[a] = w.over[w.at[LENGTH]]
            w.following[a * w.position.size + ch.chain[y]] -= 1
            w.makers[new] += 1


@inlined
def extend(r, until, position, chain_ptr, chain, clock, next_reader):  # type: ignore[no-untyped-def]
    """Add to `until` all that comes before the reads to come of a list that begins with r, and they."""
    while r >= 0:
        k = chain[r]
        if r - chain_ptr[k] >= position[k]:
            for j in range(until.size):
                until[j] = max(until[j], clock[r, j])
        r = np.int64(next_reader[r])


@inlined
def entangled(a, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether location a would have to be overwritten before all reads of what it holds have run."""
    chain_ptr, chain, address, writes = ch.chain_ptr, ch.chain, ch.address, ch.writes
    position, cell, readers = w.position, w.cell, w.readers
    clock, reads_from, first, following = f.clock, f.reads_from, f.first_reader, f.next_reader
    n, until, scanned = writes.size, w.scratch[0], w.scratch[1]
    if cell[a] < 0 or readers[cell[a]] == 0:
        return False
    for k in range(until.size):
        scanned[k] = until[k] = position[k]
    extend(np.int64(first[cell[a]]), until, position, chain_ptr, chain, clock, following)
    again = True
    while again:
        again = False
        for k in range(until.size):
            while scanned[k] < until[k]:
                y = chain_ptr[k] + scanned[k]
                scanned[k] += 1
                again = True
                if writes[y] < 0:
                    continue
                b = address[y]
                memory = np.int64(cell[b])
                # The last reader may be an atomic that overwrites what it reads.
                if readers[memory if memory >= 0 else n + b] > 0 and reads_from[y] != memory:
                    if b == a:
                        return True
                    if memory >= 0:
                        extend(np.int64(first[memory]), until, position, chain_ptr, chain, clock, following)
    return False


@inlined
def awaited(y, ch, f, w):  # type: ignore[no-untyped-def]
    """Whether the next node of some chain reads what write y leaves."""
    position, chain_ptr, reads, writes, reads_from = (
        w.position,
        ch.chain_ptr,
        ch.reads,
        ch.writes,
        f.reads_from,
    )
    for k in range(position.size):
        r = chain_ptr[k] + position[k]
        if r < chain_ptr[k + 1] and reads[r] == writes[y] and r != y and reads_from[r] in (UNKNOWN, y):
            return True
    return False


@njit(cache=True)
def best_choice(ch, f, w, prefer):  # type: ignore[no-untyped-def]
    """The write to try next from the innermost open cut, marked as tried; -1 if none is left.

    First those that overwrite what nobody to come reads. Among them, the one with the least `prefer` (int32
    per node); or, if that is empty, those whose value is waited for, and the chain that ran last."""
    chain_ptr, position, blocked, tried = ch.chain_ptr, w.position, w.blocked, w.frame_tried[w.at[CUTS] - 1]
    last = ch.chain[w.path[w.at[LENGTH] - 1]] if w.at[LENGTH] > 0 else -1
    best, best_score = np.int64(-1), -1
    for k in range(position.size):
        y = chain_ptr[k] + position[k]
        if y >= chain_ptr[k + 1] or (tried[k >> 6] >> np.uint64(k & 63)) & np.uint64(1):
            continue
        if blocked[k, 0] == y and blocked[k, 2] > position[blocked[k, 1]]:
            continue
        if not enabled(y, ch, f, w):
            continue
        a = ch.address[y]
        score = 0 if w.loose[held(a, ch, w)] > 0 or readers_of_cell(a, ch, w) > 0 else 4
        if prefer.size == 0:
            score += 2 if awaited(y, ch, f, w) else 0
            score += 1 if k == last else 0
        if score > best_score or (prefer.size and score == best_score and prefer[y] < prefer[best]):
            best, best_score = y, score
    if best >= 0:
        chosen = np.int64(ch.chain[best])
        tried[chosen >> 6] |= np.uint64(1) << np.uint64(chosen & 63)
    return best


@njit(cache=True)
def describe(ch, w, key):  # type: ignore[no-untyped-def]
    """Write into `key` (int32, 1 + chains + 2 * locations) what decides all that can follow: its length, the
    cut, and location and content where the content matters. Returns the length."""
    n_chains = w.position.size
    key[1 : 1 + n_chains] = w.position
    length = 1 + n_chains
    for a in range(w.cell.size):
        pair = held(a, ch, w)
        content = 0
        if readers_of_cell(a, ch, w) > 0:
            content = w.cell[a] + 2
        elif w.loose[pair] > 0 or ch.final[a] == pair:
            content = -1 - pair
        if content != 0:
            key[length] = a
            key[length + 1] = content
            length += 2
    key[0] = length
    return length
