"""What a walk over the cuts of a region looks up, and where it stands: the operations linked by granule and
stream, and the first cut (`solver.cuts.walk` walks)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.numbering import number_values
from solver.regions.problem import Problem

#: `Walk.waits` of a stream that is on the ready stack (or runs), and of one that is finished.
AWAKE, FINISHED = -1, -2


class Ops(NamedTuple):
    """The operations of a `Problem`, its empty streams left out.

    stream_ptr: int64 (n_streams + 1,). op_stream: int32 (n_ops,). part_ptr: int64 (n_ops + 1,). granule:
    int32, old, new: uint64 (n_parts,). next_part: int32 (n_parts,), the next part of the same stream on
    the same granule, -1 if none. slot: int32 (n_parts,): a slot is a pair of granule and stream that
    occurs; those of granule g are slot_ptr[g] to slot_ptr[g + 1] (int64), slot_stream: int32 (n_slots,).
    final: uint64 (n_granules,). before: int32 (n_ops, n_streams), or (0, n_streams) if nothing is known:
    in every legal order, the operations of stream t that are below before[o, t] precede o. source: int32
    (n_parts,), or (0,) if there are none: as long as this operation has not run, the part is not looked at
    (`Problem.source`); -1 for none. is_source: uint8 (n_ops,), or (0,).
    """

    stream_ptr: NDArray[np.int64]
    op_stream: NDArray[np.int32]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    next_part: NDArray[np.int32]
    slot: NDArray[np.int32]
    slot_ptr: NDArray[np.int64]
    slot_stream: NDArray[np.int32]
    final: NDArray[np.uint64]
    before: NDArray[np.int32]
    source: NDArray[np.int32]
    is_source: NDArray[np.uint8]


class Walk(NamedTuple):
    """Where a walk stands. position: int32 (n_streams,), the next operation of each stream. held: uint64
    (n_granules,), memory. head: int32, head_old: uint64 (n_slots,), the next remaining part of each slot
    (-1: none) and its old value. waits: int32 (n_streams,), the granule whose change a stream waits for.
    ready: int32 (n_streams,), stack of streams to look at. path: int32 (n_ops,), the operations run.
    at: int64 (3,), see LENGTH. reason: uint64 (2,), see GRANULES. values: int32 (n_parts, 2), numbers of
    the pairs (granule, old value) and (granule, new value), -1 for a part with a source, or (0, 2).
    reads, makers: int32 per such pair, accesses to come that leave the value as it is, and that bring it
    about."""

    position: NDArray[np.int32]
    held: NDArray[np.uint64]
    head: NDArray[np.int32]
    head_old: NDArray[np.uint64]
    waits: NDArray[np.int32]
    ready: NDArray[np.int32]
    path: NDArray[np.int32]
    at: NDArray[np.int64]
    reason: NDArray[np.uint64]
    values: NDArray[np.int32]
    reads: NDArray[np.int32]
    makers: NDArray[np.int32]


class Slots(NamedTuple):
    """Links between parts and slots, as of `Ops` and `Walk`; for one slot each there is room for as many as
    there are parts. slot_ptr: zeros to begin with."""

    slot_ptr: NDArray[np.int64]
    next_part: NDArray[np.int32]
    slot: NDArray[np.int32]
    slot_stream: NDArray[np.int32]
    head: NDArray[np.int32]
    head_old: NDArray[np.uint64]


@njit(cache=True)
def link_parts(stream_ptr, part_ptr, granule, old, slots):  # type: ignore[no-untyped-def]
    """Fill `Slots`. Returns how many there are."""
    slot_ptr, next_part, slot, slot_stream, head, head_old = slots
    n_granules, n_streams = slot_ptr.size - 1, stream_ptr.size - 1
    seen = np.full(n_granules, -1, np.int32)
    for s in range(n_streams):
        for p in range(part_ptr[stream_ptr[s]], part_ptr[stream_ptr[s + 1]]):
            if seen[granule[p]] != s:
                seen[granule[p]] = s
                slot_ptr[granule[p] + 1] += 1
    for g in range(n_granules):
        slot_ptr[g + 1] += slot_ptr[g]
    end = slot_ptr[:-1].copy()
    seen[:] = -1
    for s in range(n_streams):
        for p in range(part_ptr[stream_ptr[s + 1]] - 1, part_ptr[stream_ptr[s]] - 1, -1):
            g = granule[p]
            if seen[g] != s:
                seen[g] = s
                slot_stream[end[g]] = s
                head[end[g]] = -1
                end[g] += 1
            at = end[g] - 1
            slot[p] = at
            next_part[p] = head[at]
            head[at] = p
            head_old[at] = old[p]
    return slot_ptr[n_granules]


def _values(problem: Problem) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    m = len(problem.granule)
    keys = np.full(1 << (4 * m).bit_length(), -1, np.int32)
    values = np.empty((m, 2), np.int32)
    reads, makers = np.zeros(2 * m, np.int32), np.zeros(2 * m, np.int32)
    n = number_values(
        problem.granule, problem.old, problem.new, keys, np.empty_like(keys), values, reads, makers
    )
    if len(source := problem.part_source):
        np.subtract.at(reads, values[source >= 0, 0], 1)
        values[source >= 0] = -1
    return values, reads[:n], makers[:n]


def _is_source(problem: Problem) -> NDArray[np.uint8]:
    sources = problem.source[problem.source >= 0]
    is_source = np.zeros(problem.n_ops if len(sources) else 0, np.uint8)
    is_source[sources] = 1
    return is_source


def start(
    problem: Problem, before: NDArray[np.int32] | None = None, *, counted: bool = False
) -> tuple[Ops, Walk]:
    """The operations of a problem, and a walk at its first cut.

    before: int32 (n_ops, used streams), see `Ops`. counted: whether the walk counts what is to come of each
    value, which finds dead cuts sooner and costs about as much as the walk.
    """
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
    n, m, n_granules = len(used), len(problem.granule), len(problem.address)
    slots = Slots(
        np.zeros(n_granules + 1, np.int64), np.empty(m, np.int32), np.empty(m, np.int32),
        np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.uint64),
    )  # fmt: skip
    n_slots = link_parts(stream_ptr, problem.part_ptr, problem.granule, problem.old, slots)
    ops = Ops(
        stream_ptr=stream_ptr,
        op_stream=np.repeat(np.arange(n, dtype=np.int32), np.diff(stream_ptr)),
        part_ptr=problem.part_ptr,
        granule=problem.granule,
        old=problem.old,
        new=problem.new,
        next_part=slots.next_part,
        slot=slots.slot,
        slot_ptr=slots.slot_ptr,
        slot_stream=slots.slot_stream[:n_slots],
        final=problem.final,
        before=np.empty((0, n), np.int32) if before is None else before,
        source=problem.part_source,
        is_source=_is_source(problem),
    )
    none = np.empty(0, np.int32)
    values, reads, makers = _values(problem) if counted else (np.empty((0, 2), np.int32), none, none)
    walk = Walk(
        position=stream_ptr[:-1].astype(np.int32),
        held=problem.initial.copy(),
        head=slots.head[:n_slots],
        head_old=slots.head_old[:n_slots],
        waits=np.full(n, AWAKE, np.int32),
        ready=np.zeros(n, np.int32),
        path=np.empty(problem.n_ops, np.int32),
        at=np.zeros(3, np.int64),
        reason=np.zeros(2, np.uint64),
        values=values,
        reads=reads,
        makers=makers,
    )
    return ops, walk
