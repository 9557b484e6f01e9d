"""Bounds made tighter by edges of fork and join (ICSE 2012, definition 4.1 e and f).

An edge says that an operation of one stream comes before one of another: what a thread did before it made
another, and what that one does; its end and whoever waited for it; who woke and who was woken. Here they are
the sync points of the logs (docs/sync.md). A read before such an edge has not seen what a stream writes
behind it, so its bound is no newer than the write before that. The paper puts these edges into the graph only
when all linkages have been found; where values repeat a linkage to the newest write of the value can go
against them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from, inner
from solver.evidence.linkage.place import READS, WRITES, Placed
from solver.regions.problem import Problem

Ints = NDArray[np.int64]


class Behind(NamedTuple):
    """What comes after each edge. first: int64 (streams + 1,), where the edges of each stream begin. source:
    int64 (edges,), their operations, ascending in a stream. after: int64 (edges, streams), of each stream the
    first operation that comes after this edge or a later one of the same stream; n_ops if none does."""

    first: Ints
    source: Ints
    after: Ints


class Writers(NamedTuple):
    """Parts that write. first: int64 (granules * streams + 1,), where those of each granule and stream begin.
    op, version: int64 (n,), ascending there."""

    first: Ints
    op: Ints
    version: Ints


@njit(cache=True, nogil=True)
def follow_edges(stream_ptr, target, behind):  # type: ignore[no-untyped-def]
    """Fill in behind.after (n_ops everywhere at first). target: int64 (edges,), the operation that waits.
    False if the edges have a cycle; what is filled in then is not to be used."""
    first, source, after = behind
    n, left = stream_ptr.size - 1, source.size
    at = first[1:].copy()
    while left:
        before = left
        for s in range(n):
            while at[s] > first[s]:
                e = at[s] - 1
                t = np.searchsorted(stream_ptr, target[e], "right") - 1
                # The edges of the stream waited for, from the operation that waits on.
                behind_it = first_from(source, first[t], first[t + 1], target[e])
                if behind_it < at[t]:
                    break
                after[e, t] = min(after[e, t], target[e])
                for u in range(n):
                    if behind_it < first[t + 1]:
                        after[e, u] = min(after[e, u], after[behind_it, u])
                    if e + 1 < first[s + 1]:
                        after[e, u] = min(after[e, u], after[e + 1, u])
                at[s] = e
                left -= 1
        if left == before:
            return False
    return True


@inner
def _before_writes(g, bound, after, writers):  # type: ignore[no-untyped-def]
    """The newest version, at most `bound`, of granule g before all that its writers do from after (int64
    (streams,)) on."""
    n = after.size
    for t in range(n):
        begin, end = writers.first[g * n + t], writers.first[g * n + t + 1]
        k = first_from(writers.op, begin, end, after[t])
        if k < end:
            bound = min(bound, writers.version[k] - 1)
    return bound


@njit(cache=True, nogil=True)
def lower_bounds(problem, stream_ptr, placed, behind, writers):  # type: ignore[no-untyped-def]
    """Lower placed.version of reads. Returns how many are lower than they were."""
    part_ptr, granule = problem.part_ptr, problem.granule
    kind, version, slot = placed.kind, placed.version, placed.slot
    lowered = 0
    for s in range(stream_ptr.size - 1):
        e = behind.first[s]
        for op in range(stream_ptr[s], stream_ptr[s + 1]):
            while e < behind.first[s + 1] and behind.source[e] < op:
                e += 1
            if e == behind.first[s + 1]:
                break
            for p in range(part_ptr[op], part_ptr[op + 1]):
                if kind[p] != READS or placed.exact[p]:
                    continue
                bound = _before_writes(granule[p], version[p], behind.after[e], writers)
                if bound == version[p]:
                    continue
                lowered += 1
                # Parts of one variable are read at one moment.
                for q in range(part_ptr[op], part_ptr[op + 1]):
                    if kind[q] == READS and slot[q] == slot[p]:
                        version[q] = min(version[q], bound)
    return lowered


def tighten(problem: Problem, placed: Placed) -> int:
    """Lower the bounds of reads (`placed.version`) as far as the recording's edges of fork and join say.
    Returns how many."""
    edges = problem.edges[: len(problem.edges) - problem.deduced]
    if not len(edges):
        return 0
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    source, target = np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1])
    n = problem.n_streams
    first = np.searchsorted(source, problem.stream_ptr).astype(np.int64)
    behind = Behind(first, source, np.full((len(source), n), problem.n_ops, np.int64))
    if not follow_edges(problem.stream_ptr, target, behind):
        return 0
    op = problem.part_op
    writing = np.flatnonzero(placed.kind == WRITES)
    key = problem.granule[writing].astype(np.int64) * n + problem.op_stream[op[writing]]
    order = np.lexsort((op[writing], key))
    writing, key = writing[order], key[order]
    begins = np.searchsorted(key, np.arange(len(problem.address) * n + 1)).astype(np.int64)
    writers = Writers(begins, op[writing].astype(np.int64), placed.version[writing])
    return int(lower_bounds(problem.view, problem.stream_ptr, placed, behind, writers))
