"""Replaying a slice on one processor in an order that a search has found (LightPlay, Figure 6).

The accesses are performed with what the replayed cores know of them. One succeeds if it finds what its core
saw. The whole order does if memory is then the slice's final state, and every checkpoint is explained: it may
have been taken late or early, but its value must have been there between the access before and the one after
it of the same core.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, SliceProblem

#: Why an order does not replay: an access finds something else; its checkpoint after, or before, is not
#: explained; memory at the end is not the final state.
FINE, INPUT, AFTER, BEFORE, FINAL = range(5)
WORDS = {
    INPUT: "an access finds another value than its core saw",
    AFTER: "a checkpoint after an access is not explained",
    BEFORE: "a checkpoint before an access is not explained",
    FINAL: "memory at the end is not the recorded state",
}


@dataclass(frozen=True)
class Replayed:
    """at: position in the order of the access that fails, n if none does. why: FINE or why not."""

    at: int
    why: int

    @property
    def fine(self) -> bool:
        """Whether the slice is replayed."""
        return self.why == FINE


class Parts(NamedTuple):
    """What operations do to places: part_ptr, place and how of `Instance`."""

    part_ptr: NDArray[np.int64]
    place: NDArray[np.int32]
    how: NDArray[np.uint8]


@njit(cache=True)
def explained(parts, value, which, op, memory, low, high):  # type: ignore[no-untyped-def]
    """The first moment from `low` to `high` at which memory is what a checkpoint says, -1 if there is none.
    memory: uint64 (moments, places). which: TAKES for the checkpoint before, GIVES for the one after."""
    part_ptr, place, how = parts
    for moment in range(low, high + 1):
        same = True
        for part in range(part_ptr[op], part_ptr[op + 1]):
            if how[part] & which and memory[moment, place[part]] != value[part]:
                same = False
                break
        if same:
            return moment
    return -1


@njit(cache=True)
def replay_kernel(stream, parts, checkpoints, values, ends, order):  # type: ignore[no-untyped-def]
    """Perform the operations in `order`. checkpoints: (before, after); values: (old, new); ends: (initial,
    final), as of `SliceProblem`. Returns (position of the one that fails or n, why)."""
    part_ptr, place = parts.part_ptr, parts.place
    (before, after), (old, new), (initial, final) = checkpoints, values, ends
    n = order.size
    memory = np.empty((n + 1, initial.size), np.uint64)
    memory[0] = initial
    position = np.empty(n, np.int64)
    for i in range(n):
        op = order[i]
        position[op] = i
        memory[i + 1] = memory[i]
        for part in range(part_ptr[op], part_ptr[op + 1]):
            if memory[i, place[part]] != old[part]:
                return i, INPUT
            memory[i + 1, place[part]] = new[part]
    for p in range(final.size):
        if memory[n, p] != final[p]:
            return n, FINAL
    moment = 0
    for op in range(n):
        first = op == 0 or stream[op - 1] != stream[op]
        last = op == n - 1 or stream[op + 1] != stream[op]
        low = 0 if first else max(moment, position[op - 1] + 1)
        if explained(parts, before, TAKES, op, memory, low, position[op]) < 0:
            return position[op], BEFORE
        high = n if last else position[op + 1]
        moment = explained(parts, after, GIVES, op, memory, position[op] + 1, high)
        if moment < 0:
            return position[op], AFTER
    return n, FINE


def replay(problem: SliceProblem, order: NDArray[np.int64]) -> Replayed:
    """Perform a slice's operations in `order` (int64 (n,)), which keeps program order."""
    at, why = replay_kernel(
        problem.stream, Parts(problem.part_ptr, problem.place, problem.how), (problem.before, problem.after),
        (problem.old, problem.new), (problem.initial, problem.final), np.ascontiguousarray(order, np.int64),
    )  # fmt: skip
    return Replayed(int(at), int(why))
