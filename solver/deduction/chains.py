"""A region as arrays that answer, for any cut: what does a granule hold, and who can change it?

What a granule holds at a cut is a function of the cut alone (`solver.cuts.walk`): along a legal order old and
new values telescope, so it is the initial value plus the sum of (new - old) over the accesses that have run,
modulo 2**64. Prefix sums per granule and stream give it without walking.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from, inner
from solver.regions.problem import Problem


class Chains(NamedTuple):
    """The operations of a `Problem` without its empty streams, and sorted views of their parts.

    stream: int64 (S,), the problem's number of each stream. stream_ptr: int64 (S + 1,). op_stream: int32
    (n_ops,). part_ptr: int64 (n_ops + 1,). granule: int32 (n_parts,). old, new: uint64 (n_parts,).
    old_value: int32 (n_parts,), numbers of the pairs (granule, value). initial, final: uint64 (n_granules,).

    Segments, one for each granule and each stream that touches it, sorted so: those of granule g are
    segment_ptr[g] to segment_ptr[g + 1]; segment_stream: int32; the accesses of segment k, in program
    order, are access_ptr[k] to access_ptr[k + 1] of access_op (int32), access_old, access_new and access_net
    (uint64), the last the sum of new - old in the segment up to and with each. The others hold operations
    that change a granule, sorted by number: of granule g, change_ptr and change_op; that leave the value v,
    maker_ptr and maker_op; that take the value v away, taker_ptr and taker_op. source: `Problem.part_source`.
    core: int64 (S,), the core that each stream is of, or whatever tells the agents from cores.
    """

    stream: NDArray[np.int64]
    stream_ptr: NDArray[np.int64]
    op_stream: NDArray[np.int32]
    part_ptr: NDArray[np.int64]
    granule: NDArray[np.int32]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    old_value: NDArray[np.int32]
    initial: NDArray[np.uint64]
    final: NDArray[np.uint64]
    segment_ptr: NDArray[np.int64]
    segment_stream: NDArray[np.int32]
    access_ptr: NDArray[np.int64]
    access_op: NDArray[np.int32]
    access_old: NDArray[np.uint64]
    access_new: NDArray[np.uint64]
    access_net: NDArray[np.uint64]
    change_ptr: NDArray[np.int64]
    change_op: NDArray[np.int32]
    maker_ptr: NDArray[np.int64]
    maker_op: NDArray[np.int32]
    source: NDArray[np.int32]
    core: NDArray[np.int64]


@inner
def forwarded(p, position, chains):  # type: ignore[no-untyped-def]
    """Whether a store buffer answers part p at a cut, so that memory does not matter (`Problem.source`)."""
    if chains.source.size == 0 or chains.source[p] < 0:
        return False
    return position[chains.op_stream[chains.source[p]]] <= chains.source[p]


@inner
def change_below(g, stream, end, c):  # type: ignore[no-untyped-def]
    """The last operation of a stream below `end` that changes granule g, or -1."""
    low = c.change_ptr[g]
    at = first_from(c.change_op, low, c.change_ptr[g + 1], end)
    if at > low and c.change_op[at - 1] >= c.stream_ptr[stream]:
        return np.int64(c.change_op[at - 1])
    return np.int64(-1)


@inner
def held(g, position, chains):  # type: ignore[no-untyped-def]
    """The value (uint64) of granule g at a cut (int32 (S,), the next operation of each stream)."""
    value = chains.initial[g]
    for k in range(chains.segment_ptr[g], chains.segment_ptr[g + 1]):
        low = chains.access_ptr[k]
        at = first_from(chains.access_op, low, chains.access_ptr[k + 1], position[chains.segment_stream[k]])
        if at > low:
            value += chains.access_net[at - 1]
    return value


class Contents(NamedTuple):
    """What granules hold at a cut, as far as it was asked for. value: uint64, stamp: int64 (n_granules,); a
    value is known if its stamp is `now`."""

    value: NDArray[np.uint64]
    stamp: NDArray[np.int64]


@njit(cache=True)
def no_contents(chains):  # type: ignore[no-untyped-def]
    """Nothing known, for any `now` from 0 on."""
    return Contents(np.empty(chains.initial.size, np.uint64), np.full(chains.initial.size, -1, np.int64))


@inner
def content(g, position, now, contents, chains):  # type: ignore[no-untyped-def]
    """`held`, worked out once for each `now`."""
    if contents.stamp[g] != now:
        contents.stamp[g] = now
        contents.value[g] = held(g, position, chains)
    return contents.value[g]


@inner
def values_fit(op, position, now, contents, chains):  # type: ignore[no-untyped-def]
    """Whether an operation's old values are what memory holds at a cut."""
    for p in range(chains.part_ptr[op], chains.part_ptr[op + 1]):
        if forwarded(p, position, chains):
            continue
        if content(chains.granule[p], position, now, contents, chains) != chains.old[p]:
            return False
    return True


@inner
def stuck(op, position, run, chains):  # type: ignore[no-untyped-def]
    """Whether `op` of stream `run`, run from a cut, would leave a value that no stream can go on from: each
    waits at its next access to that granule for another one. Such a cut is dead."""
    for p in range(chains.part_ptr[op], chains.part_ptr[op + 1]):
        if chains.old[p] == chains.new[p]:
            continue
        g, left, fits = chains.granule[p], False, False
        for k in range(chains.segment_ptr[g], chains.segment_ptr[g + 1]):
            s, end = chains.segment_stream[k], chains.access_ptr[k + 1]
            at = first_from(chains.access_op, chains.access_ptr[k], end, position[s] + (1 if s == run else 0))
            if at < end:
                left = True
                # Where a store buffer answers some loads, another access may be the next one of its stream.
                if chains.access_old[at] == chains.new[p] or chains.source.size > 0:
                    fits = True
                    break
        if left and not fits:
            return True
    return False


@njit(cache=True)
def net_sums(access_ptr, part, old, new, net):  # type: ignore[no-untyped-def]
    """Fill net: per segment the running sum of new - old, modulo 2**64."""
    for k in range(access_ptr.size - 1):
        total = np.uint64(0)
        for i in range(access_ptr[k], access_ptr[k + 1]):
            total += new[part[i]] - old[part[i]]
            net[i] = total


def _by_key(
    key: NDArray[np.int32], op: NDArray[np.int64], n_keys: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """(ptr, ops): the operations of each key, ascending."""
    by = np.lexsort((op, key))
    return _pointers(key, n_keys), op[by].astype(np.int32)


def _pointers(key: NDArray[np.int32], n_keys: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(key, minlength=n_keys))]).astype(np.int64)


def chains_of(problem: Problem) -> Chains:
    """The arrays of a problem."""
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    stream_ptr = np.append(problem.stream_ptr[used], problem.n_ops).astype(np.int64)
    n_streams, n_granules, m = len(used), len(problem.address), len(problem.granule)
    op_stream = np.repeat(np.arange(n_streams, dtype=np.int32), np.diff(stream_ptr))
    pairs = np.empty(2 * m, [("granule", np.int32), ("value", np.uint64)])
    pairs["granule"] = np.concatenate([problem.granule, problem.granule])
    pairs["value"] = np.concatenate([problem.old, problem.new])
    distinct, inverse = np.unique(pairs, return_inverse=True)
    number: NDArray[np.int32] = inverse.astype(np.int32)
    op = problem.part_op

    by = np.lexsort((op, problem.granule))
    segment = problem.granule[by].astype(np.int64) * max(n_streams, 1) + op_stream[op[by]]
    keys, starts = np.unique(segment, return_index=True)
    access_ptr = np.append(starts, m).astype(np.int64)
    net = np.zeros(m, np.uint64)
    net_sums(access_ptr, by, problem.old, problem.new, net)
    segment_granule = (keys // max(n_streams, 1)).astype(np.int32)

    changing = problem.old != problem.new
    changer = op[changing]
    change_ptr, change_op = _by_key(problem.granule[changing], changer, n_granules)
    maker_ptr, maker_op = _by_key(number[m:][changing], changer, len(distinct))
    return Chains(
        used, stream_ptr, op_stream, problem.part_ptr, problem.granule, problem.old, problem.new,
        number[:m], problem.initial, problem.final,
        _pointers(segment_granule, n_granules),
        (keys % max(n_streams, 1)).astype(np.int32), access_ptr, op[by].astype(np.int32),
        problem.old[by], problem.new[by], net,
        change_ptr, change_op, maker_ptr, maker_op, problem.part_source, problem.stream_core[used],
    )  # fmt: skip
