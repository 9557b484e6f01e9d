"""Stubborn sets of streams: which of them have to go on at a cut.

Reduced, a graph of cuts keeps at least one order of each class of orders that differ only in the sequence of
operations that do not conflict. Two operations conflict if they touch the same granule and one of them
changes it; classes never reverse a conflicting pair. At each cut only the streams of one stubborn set go
on (Valmari, "Stubborn sets for reduced state space generation", 1989). T is stubborn if for the next
operation a of every stream in T:

- a can run: T holds every stream that still has an operation which conflicts with a and need not follow a;
- a waits for what must precede it: T holds one stream that it waits for;
- a's old value is not there: T holds every stream that can still make it before a.

Proof that no class is lost: let w be a legal rest from the cut, and a the first operation in w that is the
next of a stream in T. Were a unable to run, something of a stream in T would have to come before it in w,
against the choice of a. So a can run, and no operation before it in w conflicts with it: moved to the
front of w it gives a legal rest of the same class, which begins with an edge of the graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from, inner
from solver.cuts.walk import waits_for
from solver.deduction.chains import Chains, Contents, change_below, content, forwarded, values_fit


class Scratch(NamedTuple):
    """One entry a stream. able, todo: int64; chosen, inside: uint8; see `can_run` and `choose_streams`."""

    able: NDArray[np.int64]
    chosen: NDArray[np.uint8]
    inside: NDArray[np.uint8]
    todo: NDArray[np.int64]


def scratch_of(n_streams: int) -> Scratch:
    """For kernels that go from cut to cut."""
    return Scratch(
        np.zeros(n_streams, np.int64), np.zeros(n_streams, np.uint8), np.zeros(n_streams, np.uint8),
        np.zeros(n_streams, np.int64),
    )  # fmt: skip


class Rules(NamedTuple):
    """What all legal orders keep to. clock, after: int32 (n_ops, S), `Deduction.clocks`. danger: int32
    (n_ops, S), see `fill_danger`. chains: the operations."""

    clock: NDArray[np.int32]
    after: NDArray[np.int32]
    danger: NDArray[np.int32]
    chains: Chains


class Cut(NamedTuple):
    """A cut. position: int32 (S,), the next operation of each stream. number: which one it is of those that
    `contents`, what granules hold, serves."""

    position: NDArray[np.int32]
    number: int
    contents: Contents


@njit(cache=True)
def fill_danger(danger, after, c):  # type: ignore[no-untyped-def]
    """danger[a, u]: end of the operations of stream u that conflict with a and need not follow it."""
    for a in range(danger.shape[0]):
        for u in range(danger.shape[1]):
            danger[a, u] = 0
            if u == c.op_stream[a]:
                continue
            for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
                g, last = c.granule[p], np.int64(-1)
                if c.old[p] == c.new[p]:
                    last = change_below(g, u, after[a, u], c)
                else:
                    for k in range(c.segment_ptr[g], c.segment_ptr[g + 1]):
                        if c.segment_stream[k] == u:
                            low = c.access_ptr[k]
                            at = first_from(c.access_op, low, c.access_ptr[k + 1], after[a, u])
                            if at > low:
                                last = np.int64(c.access_op[at - 1])
                if last + 1 > danger[a, u]:
                    danger[a, u] = last + 1


@inner
def can_run(position, end, clock, now, contents, c, able):  # type: ignore[no-untyped-def]
    """able[s] = 1 if the next operation of stream s can run, 0 if its values are not there, -1 - u if it
    waits for stream u, -1000 if it has come to `end` (int (S,)). Returns how many can run."""
    count = 0
    for s in range(position.size):
        op = position[s]
        if op == end[s]:
            able[s] = -1000
            continue
        u = waits_for(op, position, clock, c.op_stream)
        if u >= 0:
            able[s] = -1 - u
        elif values_fit(op, position, now, contents, c):
            able[s] = 1
            count += 1
        else:
            able[s] = 0
    return count


@inner
def add_makers(op, cut, rules, inside, todo, n):  # type: ignore[no-untyped-def]
    """Add to the set the streams that can still make a value that `op` waits for. Returns its new size."""
    position, now, contents = cut
    after, c = rules.after, rules.chains
    for p in range(c.part_ptr[op], c.part_ptr[op + 1]):
        g, v = c.granule[p], c.old_value[p]
        if content(g, position, now, contents, c) == c.old[p] or forwarded(p, position, c):
            continue
        low, high = c.maker_ptr[v], c.maker_ptr[v + 1]
        for u in range(position.size):
            if inside[u] == 0 and u != c.op_stream[op]:
                at = first_from(c.maker_op, low, high, position[u])
                if at < high and c.maker_op[at] < after[op, u]:
                    inside[u] = 1
                    todo[n] = u
                    n += 1
        return n
    return n


@inner
def stubborn(first, cut, rules, scratch, most):  # type: ignore[no-untyped-def]
    """Close {first} to a stubborn set in `inside`. Returns how many of it can run, `most` if not fewer."""
    able, _, inside, todo = scratch
    position, danger = cut.position, rules.danger
    for u in range(position.size):
        inside[u] = 0
    inside[first], todo[0] = 1, first
    n, done, count = 1, 0, 0
    while done < n:
        s = todo[done]
        done += 1
        op = position[s]
        if able[s] == 1:
            count += 1
            if count >= most:
                return most
            for u in range(position.size):
                if inside[u] == 0 and position[u] < danger[op, u]:
                    inside[u] = 1
                    todo[n] = u
                    n += 1
        elif able[s] == 0:
            n = add_makers(op, cut, rules, inside, todo, n)
        elif able[s] > -1000 and inside[-1 - able[s]] == 0:
            inside[-1 - able[s]] = 1
            todo[n] = -1 - able[s]
            n += 1
    return count


@inner
def choose_streams(cut, rules, scratch):  # type: ignore[no-untyped-def]
    """Mark in `chosen` the streams of a small stubborn set that can run."""
    able, chosen, inside, _ = scratch
    n_streams = cut.position.size
    best = n_streams + 1
    for s in range(n_streams):
        if able[s] == 1 and best > 1:
            count = stubborn(s, cut, rules, scratch, best)
            if count < best:
                best = count
                for u in range(n_streams):
                    chosen[u] = 1 if inside[u] and able[u] == 1 else 0
