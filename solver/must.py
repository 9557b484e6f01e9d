"""What must come before what in every legal order: deduction to a fixed point (DESIGN 6.6).

Each sweep closes the clocks under program order and transitivity, applies the rules of `solver.must_rules`
to the granules where something changed, and takes over what their own graphs (`solver.projection`) show.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from solver.chains import Chains
from solver.must_rules import fill_after, raise_clock, source_rule, spread, taker_rule
from solver.projection import project, raise_from_projection

#: No sweep after so many: what is known by then is sound, if not all.
MAX_SWEEPS = 60
#: A granule whose own graph has more nodes is left to the rules.
MAX_PROJECTED = 20_000
#: (clock, after), see `must_clocks`.
Clocks = tuple[NDArray[np.int32], NDArray[np.int32]]


@njit(cache=True)
def mark_granules(touched, dirty, part_ptr, granule):  # type: ignore[no-untyped-def]
    """Mark the granules of the touched operations, which are touched no more. Returns whether any was."""
    found = False
    dirty[:] = 0
    for op in range(touched.size):
        if touched[op]:
            touched[op] = 0
            found = True
            for p in range(part_ptr[op], part_ptr[op + 1]):
                dirty[granule[p]] = 1
    return found


@njit(cache=True)
def apply_rules(sequence, clock, after, touched, dirty, sweeps, c):  # type: ignore[no-untyped-def]
    """Apply the rules of `solver.must_rules` to a fixed point, or `sweeps` times, and mark the granules of
    all that changed in `dirty`. False if there is no legal order."""
    bound = np.empty(clock.shape[1], np.int64)
    now = np.zeros(dirty.size, np.uint8)
    for _ in range(sweeps):
        if not spread(clock, sequence, touched, c.stream_ptr, c.op_stream):
            return False
        fill_after(clock, after, touched, c.stream_ptr)
        if not mark_granules(touched, now, c.part_ptr, c.granule):
            return True
        dirty |= now
        for i in range(sequence.size):
            op = sequence[i]
            for p in range(c.part_ptr[op], c.part_ptr[op + 1]):
                if not now[c.granule[p]]:
                    continue
                if not source_rule(p, op, clock, after, touched, bound, c):
                    return False
                if c.old[p] != c.new[p] and not taker_rule(p, op, clock, after, touched, bound, c):
                    return False
    if not spread(clock, sequence, touched, c.stream_ptr, c.op_stream):
        return False
    fill_after(clock, after, touched, c.stream_ptr)
    return True


@njit(cache=True)
def deduce(sequence, clock, after, touched, sweeps, most, chains):  # type: ignore[no-untyped-def]
    """Apply rules and projections to a fixed point, or `sweeps` times. False if there is no legal order.

    sequence: int32, all operations, the closer to a legal order the quicker. clock, after: int32 (n_ops, S),
    what is known; raised and lowered. touched: uint8 (n_ops,), operations whose rows have changed since the
    rules were last applied. most: nodes of a granule's own graph at most, 0 for no projections.
    """
    dirty = np.zeros(chains.initial.size, np.uint8)
    for _ in range(sweeps):
        if not apply_rules(sequence, clock, after, touched, dirty, sweeps, chains):
            return False
        again = False
        for g in range(dirty.size):
            if dirty[g] and most > 0:
                dirty[g] = 0
                rank, alive, whole = project(g, clock, most, chains)
                if whole and not alive[0]:
                    return False
                if whole:
                    again |= raise_from_projection(g, rank, alive, clock, touched, chains)
        if not again:
            return True
    return apply_rules(sequence, clock, after, touched, dirty, 1, chains)


def no_clocks(chains: Chains) -> NDArray[np.int32]:
    """Clocks that know program order alone: int32 (n_ops, S)."""
    clock = np.tile(chains.stream_ptr[:-1].astype(np.int32), (len(chains.op_stream), 1))
    n = np.arange(len(chains.op_stream))
    clock[n, chains.op_stream] = n + 1
    return clock


def must_clocks(
    chains: Chains,
    sequence: NDArray[np.int32] | None = None,
    known: Clocks | None = None,
    before: tuple[tuple[int, int], ...] = (),
    most: int = MAX_PROJECTED,
) -> Clocks | None:
    """(clock, after) as far as deduction goes, or None if it shows that there is no legal order.

    clock[b, u]: stream u has run up to, not including, this operation before b runs, in every legal order;
    for b's own stream it is b + 1. after[b, u]: the first operation of stream u that must come after b,
    u's end if there is none. sequence: int32 (n_ops,), all operations; a legal order makes it quick.
    known: clocks to start from. before: pairs (a, b), only orders with a before b are asked about.
    """
    if sequence is None:
        rank = np.arange(len(chains.op_stream)) - chains.stream_ptr[chains.op_stream]
        sequence = np.argsort(rank, kind="stable").astype(np.int32)
    n = len(chains.op_stream)
    touched = np.zeros(n, np.uint8)
    if known is None:
        clock = no_clocks(chains)
        after = np.zeros_like(clock)
    else:
        clock, after = known[0].copy(), known[1].copy()
    for a, b in before:
        raise_clock(b, a, clock, touched, chains.op_stream)
    if not deduce(sequence, clock, after, touched, MAX_SWEEPS, most, chains):
        return None
    return clock, after


def with_edge(
    chains: Chains, sequence: NDArray[np.int32], known: Clocks, first: int, second: int
) -> Clocks | None:
    """`known` and that `first` comes before `second`, closed under transitivity alone: quick. None if
    `second` must come first."""
    clock, after = known[0].copy(), known[1].copy()
    touched = np.zeros(len(clock), np.uint8)
    raise_clock(second, first, clock, touched, chains.op_stream)
    if not spread(clock, sequence, touched, chains.stream_ptr, chains.op_stream):
        return None
    fill_after(clock, after, touched, chains.stream_ptr)
    return clock, after
