"""From bounds to linkages, and from linkages to an order (ICSE 2012, section IV).

Algorithm 1 goes back from a read's bound to the newest write of the value that the read returned, and never
further. The happens-before graph of definition 4.1 on these linkages has no cycle (theorem 4.1), so any
topological order of it is legal. A read that is recorded exactly (one of several variables at once) keeps the
proof: put every read where it last could have returned what it did before its version was looked at; what is
read stays in program order, and each finds there what the newest matching write left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.kernels import inner
from solver.evidence.linkage.place import READS, WRITES, Placed
from solver.regions.problem import Problem

#: Reads by how many values were compared: 1, 2, ... and as many or more.
COMPARED = 10

MATCHED, NO_MATCH, OTHER_VALUE, CYCLE = 0, 1, 2, 3


@dataclass(frozen=True)
class Linkages:
    """The linkages of a region. source: int64 (n_parts,), for each part the write part whose value it found,
    -1 for the value at the region's begin. compared: int64 (COMPARED,), reads by comparisons. order: int64
    (n_ops,), a legal order; empty if `status` is not MATCHED. part: the part that is wrong, of
    a CYCLE one of the first operation without a place; else -1."""

    status: int
    part: int
    source: NDArray[np.int64]
    compared: NDArray[np.int64]
    order: NDArray[np.int64]


class Written(NamedTuple):
    """The parts that write. writes: int64 (n,), by granule and version. begin: int64 (granules + 1,), where
    each granule's are."""

    writes: NDArray[np.int64]
    begin: NDArray[np.int64]


@inner
def _newest(version, writes, begin, end, bound):  # type: ignore[no-untyped-def]
    """The last of writes[begin:end] whose version is at most `bound`, or begin - 1."""
    while begin < end:
        middle = (begin + end) // 2
        if version[writes[middle]] <= bound:
            begin = middle + 1
        else:
            end = middle
    return begin - 1


@inner
def _search_for_match(op, problem, placed, written, limit, at):  # type: ignore[no-untyped-def]
    """SearchForMatch of Algorithm 1, for all reads of one operation at once. limit, at: int64, for each part
    the bound so far and the index in `writes` that it finds; filled in. Returns comparisons, or -1."""
    granule, old, new, initial = problem.granule, problem.old, problem.new, problem.initial
    kind, version, slot = placed.kind, placed.version, placed.slot
    writes, begin = written
    first, end = problem.part_ptr[op], problem.part_ptr[op + 1]
    for p in range(first, end):
        limit[p - first] = version[p]
    tries, again = 0, True
    while again:
        again = False
        tries += 1
        for p in range(first, end):
            if kind[p] != READS:
                continue
            g = granule[p]
            found = _newest(version, writes, begin[g], begin[g + 1], limit[p - first])
            at[p - first] = found
            held = initial[g] if found < begin[g] else new[writes[found]]
            if held == old[p]:
                continue
            if found < begin[g] or placed.exact[p]:
                return -1
            # Parts of one variable are read at one moment.
            back = version[writes[found]] - 1
            for q in range(first, end):
                if slot[q] == slot[p]:
                    limit[q - first] = min(limit[q - first], back)
            again = True
    return tries


@njit(cache=True, nogil=True)
def match(problem, placed, written, source, compared):  # type: ignore[no-untyped-def]
    """Link every part (`ProblemView`, `Placed`, `Written`). source (index in `writes`, begin[g] - 1 for none)
    and compared are filled in. Returns (status, part)."""
    part_ptr, old, new, initial, kind = (
        problem.part_ptr,
        problem.old,
        problem.new,
        problem.initial,
        placed.kind,
    )
    writes, begin = written
    most = 1
    for op in range(part_ptr.size - 1):
        most = max(most, part_ptr[op + 1] - part_ptr[op])
    limit, at = np.zeros(most, np.int64), np.zeros(most, np.int64)
    for g in range(begin.size - 1):
        held = initial[g]
        for i in range(begin[g], begin[g + 1]):
            if old[writes[i]] != held:
                return OTHER_VALUE, writes[i]
            held = new[writes[i]]
            source[writes[i]] = i - 1
    for op in range(part_ptr.size - 1):
        first, reads = part_ptr[op], 0
        for p in range(first, part_ptr[op + 1]):
            reads += kind[p] == READS
        if reads == 0:
            continue
        tries = _search_for_match(op, problem, placed, written, limit, at)
        if tries < 0:
            return NO_MATCH, first
        compared[min(tries, COMPARED) - 1] += 1
        for p in range(first, part_ptr[op + 1]):
            if kind[p] == READS:
                source[p] = at[p - first]
    return MATCHED, -1


@inner
def _edges(part_op, granule, kind, written, source, succ_ptr, succ, fill):  # type: ignore[no-untyped-def]
    """The edges of definition 4.1 (a) and (b), counted into succ_ptr, or put into succ if `fill`."""
    writes, begin = written
    for p in range(granule.size):
        g, before = granule[p], source[p]
        for side in range(2):
            a, b = p, p
            if side == 0:
                if before < begin[g]:
                    continue
                a = writes[before]
            else:
                if kind[p] == WRITES or before + 1 == begin[g + 1]:
                    continue
                b = writes[before + 1]
            x, y = part_op[a], part_op[b]
            if x == y:
                continue
            if fill:
                succ_ptr[x] -= 1
                succ[succ_ptr[x]] = y
            else:
                succ_ptr[x] += 1


@njit(cache=True, nogil=True)
def sort_graph(stream_ptr, part_op, granule, kind, written, source, order):  # type: ignore[no-untyped-def]
    """A topological order of the happens-before graph, into `order` (int64, n_ops), which follows one stream
    for as long as it can. Returns how many operations it has: fewer than all if there is a cycle."""
    n = order.size
    succ_ptr = np.zeros(n + 1, np.int64)
    _edges(part_op, granule, kind, written, source, succ_ptr, order, False)
    for op in range(n):
        succ_ptr[op + 1] += succ_ptr[op]
    succ = np.empty(succ_ptr[n], np.int64)
    _edges(part_op, granule, kind, written, source, succ_ptr, succ, True)
    missing = np.ones(n, np.int64)
    for stream in range(stream_ptr.size - 1):
        if stream_ptr[stream] < stream_ptr[stream + 1]:
            missing[stream_ptr[stream]] = 0
    follows = np.zeros(n, np.bool_)
    for stream in range(stream_ptr.size - 1):
        for op in range(stream_ptr[stream], stream_ptr[stream + 1] - 1):
            follows[op] = True
    for i in range(succ.size):
        missing[succ[i]] += 1
    stack, top, done = np.empty(n, np.int64), 0, 0
    for op in range(n - 1, -1, -1):
        if missing[op] == 0:
            stack[top] = op
            top += 1
    while top:
        top -= 1
        op = stack[top]
        order[done] = op
        done += 1
        for i in range(succ_ptr[op], succ_ptr[op + 1]):
            missing[succ[i]] -= 1
            if missing[succ[i]] == 0:
                stack[top] = succ[i]
                top += 1
        if follows[op]:
            missing[op + 1] -= 1
            if missing[op + 1] == 0:
                stack[top] = op + 1
                top += 1
    return done


def link(problem: Problem, placed: Placed) -> Linkages:
    """Infer the exact linkages of a region, and an order (Algorithm 1, definition 4.1)."""
    writing = np.flatnonzero(placed.kind == WRITES)
    by = np.lexsort((placed.version[writing], problem.granule[writing]))
    writes = writing[by].astype(np.int64)
    begin = np.searchsorted(problem.granule[writes], np.arange(len(problem.address) + 1)).astype(np.int64)
    source, compared = np.full(len(problem.granule), -1, np.int64), np.zeros(COMPARED, np.int64)
    written = Written(writes, begin)
    status, part = match(problem.view, placed, written, source, compared)
    order = np.empty(problem.n_ops if status == MATCHED else 0, np.int64)
    if status == MATCHED:
        done = sort_graph(
            problem.stream_ptr, problem.part_op, problem.granule, placed.kind, written, source, order
        )
        if done < problem.n_ops:
            left = np.setdiff1d(np.arange(problem.n_ops), order[:done])
            status, part, order = CYCLE, int(problem.part_ptr[left[0]]), order[:0]
    known = source >= begin[problem.granule]
    found = (
        np.where(known, writes[np.where(known, source, 0)], -1) if len(writes) else np.full(len(source), -1)
    )
    return Linkages(int(status), int(part), found.astype(np.int64), compared, order)
