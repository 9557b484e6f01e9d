"""Which write each event of an order read from: the map by which orders are compared.

Two legal orders of a region may differ where the values allow it: an event that read from another write of
the same value in one than in the other. Where the maps are the same, so is everything a program could see.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.regions.problem import Problem

#: The source of a part that found the value at the region's begin.
BEGIN = -1


@njit(cache=True)
def follow_order(order, part_ptr, granule, old, new, last, source):  # type: ignore[no-untyped-def]
    """For each part the part that last changed its granule before, in `order`. last: int64 (n_granules,),
    BEGIN everywhere. source: int64 (n_parts,), filled in."""
    for i in range(order.size):
        op = order[i]
        for p in range(part_ptr[op], part_ptr[op + 1]):
            source[p] = last[granule[p]]
        for p in range(part_ptr[op], part_ptr[op + 1]):
            if new[p] != old[p]:
                last[granule[p]] = p


def reads_from(problem: Problem, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each part of a problem the part whose value it found, BEGIN for the value at the region's begin:
    int64 (n_parts,). A write of the value that was there changes nothing, and is nobody's source. Under SC
    only: what a store buffer answers is not told apart."""
    source = np.full(len(problem.granule), BEGIN, np.int64)
    last = np.full(len(problem.address), BEGIN, np.int64)
    follow_order(order, problem.part_ptr, problem.granule, problem.old, problem.new, last, source)
    return source


@dataclass(frozen=True)
class Difference:
    """Two maps. reads: parts compared. other: of them, those with another source. part: the first of those,
    -1 if there is none; one, two: its sources. same_values: whether all sources that differ left the same
    values, so that the orders are equivalent."""

    reads: int
    other: int
    part: int
    one: int
    two: int
    same_values: bool


def compare(problem: Problem, one: NDArray[np.int64], two: NDArray[np.int64]) -> Difference:
    """How the maps (int64 (n_parts,)) of two orders of a problem differ."""
    where = np.flatnonzero(one != two)
    if not len(where):
        return Difference(len(one), 0, -1, BEGIN, BEGIN, True)

    def left(source: NDArray[np.int64]) -> NDArray[np.uint64]:
        found = source[where]
        begin = problem.initial[problem.granule[where]]
        value: NDArray[np.uint64] = np.where(found == BEGIN, begin, problem.new[np.maximum(found, 0)])
        return value

    part = int(where[0])
    same = bool((left(one) == left(two)).all())
    return Difference(len(one), len(where), part, int(one[part]), int(two[part]), same)
