"""Minimal ordering constraints of a slice from all of its correct orders (LightPlay, section 2.5).

Two accesses of different cores depend on each other if they touch the same place and one of them writes.
Where all correct orders have them the same way round, that is a constraint; where they do not, the reference
order decides. What follows from program order and other constraints is left out: the rest is enough for a
parallel replay, and nothing in it can be spared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.evidence.lightplay.slice_problem import GIVES, SliceProblem


@dataclass(frozen=True)
class Constraint:
    """Operation `first` before operation `second`. always: in all correct orders, and not only in the
    reference order."""

    first: int
    second: int
    always: bool


@dataclass(frozen=True)
class Minimal:
    """The minimal constraints of a slice. total: the legal orders that they come from; 0: those were too many
    to look at, and there are no constraints. seconds: what it took."""

    found: list[Constraint]
    total: int
    seconds: float = 0.0


@njit(cache=True)
def reach_all(after):  # type: ignore[no-untyped-def]
    """Transitive closure of bool (n, n), in place."""
    n = after.shape[0]
    for k in range(n):
        for i in range(n):
            if after[i, k]:
                for j in range(n):
                    if after[k, j]:
                        after[i, j] = True


def dependent(problem: SliceProblem) -> NDArray[np.bool_]:
    """bool (n, n): of different cores, on the same place, and one of them writes there."""
    n, places = problem.n, len(problem.initial)
    op = np.repeat(np.arange(n), np.diff(problem.part_ptr))
    touches, writes = np.zeros((n, places), np.int64), np.zeros((n, places), np.int64)
    touches[op, problem.place] = 1
    writes[op, problem.place] = (problem.how & GIVES) != 0
    both = (touches @ writes.T + writes @ touches.T) > 0
    answer: NDArray[np.bool_] = both & (problem.stream[:, None] != problem.stream[None, :])
    return answer


def before_in(orders: NDArray[np.int64]) -> NDArray[np.bool_]:
    """bool (n, n): whether the one comes before the other in some of the orders (int64 (k, n))."""
    k, n = orders.shape
    before = np.zeros((n, n), bool)
    position = np.empty((k, n), np.int64)
    np.put_along_axis(position, orders, np.arange(n)[None, :].repeat(k, 0), 1)
    for op in range(n):
        before[op] = (position[:, op, None] < position).any(axis=0)
    return before


def minimal_constraints(
    problem: SliceProblem, before: NDArray[np.bool_], reference: NDArray[np.int64]
) -> list[Constraint]:
    """The constraints between cores, by (first, second).

    before: bool (n, n), whether some correct order has the one before the other (`before_in` of all correct
    orders, or `CutGraph.before`). reference: int64 (n,), one of the correct orders.
    """
    n = problem.n
    rank = np.empty(n, np.int64)
    rank[reference] = np.arange(n)
    pairs = dependent(problem) & (rank[:, None] < rank[None, :])
    always = pairs & ~before.T
    follows = pairs.copy()
    same = np.flatnonzero(problem.stream[1:] == problem.stream[:-1])
    follows[same, same + 1] = True
    reach_all(follows)
    # Implied: some third operation lies between the two.
    between = (follows.astype(np.int64) @ follows.astype(np.int64)) > 0
    return [Constraint(int(a), int(b), bool(always[a, b])) for a, b in np.argwhere(pairs & ~between).tolist()]
