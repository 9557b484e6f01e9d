"""Repeated reads as operations of their own, where event orders tell that others came in between.

Identical reads of a core that follow one another are one operation of a `Problem`: by values they can stand
together wherever the first of them stands. In the run they did not always: a lock was
given back and taken again between two looks at it. Exact clocks (OPR, Algorithm 2) tell of that: a read that
comes after a write which the read before it did not follow has made the reader's clock grow, at that read or
on the way to it. So such a read begins an operation; and one that follows a fetch of the same bytes does,
since a fetch has no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.event import FETCH, GLUED
from solver.passes.answers import runs_of
from solver.regions.problem import Problem, Solution


@njit(cache=True)
def list_cuts(rows, told, first_op, last_op, problem, cuts):  # type: ignore[no-untyped-def]
    """Where operations of a stream are to be cut: cuts, int64 (len(rows), 2), filled with the operation and
    the row that the next piece begins with, ascending. rows: EVENT[n]. told: bool (n,), whether the clock has
    grown at a row. first_op, last_op: the stream's operations in `problem` (`ProblemView`). Returns how
    many."""
    end_row, part_ptr, granule = problem.end_row, problem.part_ptr, problem.granule
    address, size = problem.address, problem.size
    n, i = 0, 0
    for op in range(first_op, last_op):
        seen, after_fetch, grown = False, False, False
        while i < end_row[op]:
            begin, touches, fetched = i, False, False
            while True:
                row = rows[i]
                grown = grown or told[i]
                fetched = (row.flags & FETCH) != 0
                for p in range(part_ptr[op], part_ptr[op + 1]):
                    low, length = address[granule[p]], np.uint64(size[granule[p]])
                    touches = touches or (row.addr < low + length and low < row.addr + np.uint64(row.size))
                i += 1
                if (row.flags & GLUED) == 0 or i == end_row[op]:
                    break
            if not touches:
                continue
            if not seen:
                seen, after_fetch, grown = True, fetched, False
            elif not fetched:
                if grown or after_fetch:
                    cuts[n, 0], cuts[n, 1] = op, begin
                    n += 1
                after_fetch, grown = False, False
    return n


@dataclass(frozen=True)
class Cut:
    """A region whose repeated reads are cut. problem: with more operations. first: int64 (n_ops + 1,), the
    first of the pieces of each operation of the `whole` one, and how many there are."""

    whole: Problem
    problem: Problem
    first: NDArray[np.int64]

    def joined(self, solution: Solution) -> Solution:
        """A solution of `problem`, as one of the whole: there an operation stands where its first piece
        does, and the rows are placed piece by piece."""
        if self.problem is self.whole or not len(solution.order):
            return solution
        pieces = np.diff(self.first)
        op = np.repeat(np.arange(len(pieces)), pieces)
        heads = np.zeros(len(op), np.bool_)
        heads[self.first[:-1]] = True
        order = solution.order
        return replace(solution, order=op[order[heads[order]]], runs=runs_of(self.problem, order))


def cut_repeats(problem: Problem, cuts: NDArray[np.int64]) -> Cut:
    """Cut operations of a problem, of a model without store buffers. cuts: int64 (n, 2), operation and row
    before which it is cut, ascending."""
    pieces = np.ones(problem.n_ops, np.int64)
    np.add.at(pieces, cuts[:, 0], 1)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(pieces)])
    if not len(cuts):
        return Cut(problem, problem, first)
    op = np.repeat(np.arange(problem.n_ops), pieces)
    lengths = np.diff(problem.part_ptr)[op]
    part_ptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    parts = np.repeat(problem.part_ptr[op] - part_ptr[:-1], lengths) + np.arange(part_ptr[-1])
    end_row = problem.end_row[op]
    # The pieces before the last one of an operation end where the next begins.
    last = np.zeros(len(op), np.bool_)
    last[first[1:] - 1] = True
    end_row[~last] = cuts[:, 1]
    edges = problem.edges
    fine = replace(
        problem,
        stream_ptr=first[problem.stream_ptr],
        end_row=end_row,
        part_ptr=part_ptr,
        granule=problem.granule[parts],
        old=problem.old[parts],
        new=problem.new[parts],
        # All rows of an operation lie on one side of what an edge stands for.
        edges=np.stack([first[edges[:, 0] + 1] - 1, first[edges[:, 1]]], axis=1),
    )
    return Cut(problem, fine, first)
