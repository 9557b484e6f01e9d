"""Fixing an order that does not replay (LightPlay, section 2.4 and Figure 7).

Where an access fails, another core has updated what it reads just before it, or has overwritten what it wrote
just after it, between access and checkpoint. So an access that writes there is moved: to just before the one
that fails, or to just after it. A move is kept if the slice then replays further.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.replay_one import replay
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, SliceProblem


def fix_ordering(problem: SliceProblem, order: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """An order that replays, made from one that does not by moves of Figure 7; None if there is no such move
    at some point."""
    now, state = order.tolist(), replay(problem, order)
    while not state.fine:
        for moved in _moves(problem, now, state.at):
            tried = replay(problem, np.array(moved, np.int64))
            if tried.fine or tried.at > state.at:
                now, state = moved, tried
                break
        else:
            return None
    return np.array(now, np.int64)


def _moves(problem: SliceProblem, order: list[int], at: int) -> Iterator[list[int]]:
    """The orders that Figure 7 tries for the access at position `at`."""
    if at == len(order):
        return
    stream, failing = problem.stream, order[at]
    needs = _places(problem, failing, TAKES | GIVES)
    for k in range(at + 1, len(order)):
        j = order[k]
        between = order[at:k]
        if _places(problem, j, GIVES) & needs and all(stream[o] != stream[j] for o in between):
            yield [*order[:at], j, *between, *order[k + 1 :]]
    wanted = _after(problem, failing)
    for k, j in enumerate(order):
        if stream[j] == stream[failing] or not wanted & _after(problem, j):
            continue
        between = order[k + 1 : at + 1] if k < at else order[at + 1 : k]
        if any(stream[o] == stream[j] for o in between):
            continue
        if k < at:
            yield order[:k] + between + [j] + order[at + 1 :]
        else:
            yield [*order[: at + 1], j, *between, *order[k + 1 :]]


def _places(problem: SliceProblem, op: int, how: int) -> set[int]:
    parts = range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
    return {int(problem.place[part]) for part in parts if problem.how[part] & how}


def _after(problem: SliceProblem, op: int) -> set[tuple[int, int]]:
    """What the checkpoint after an operation says: (place, value)."""
    parts = range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
    return {
        (int(problem.place[part]), int(problem.after[part])) for part in parts if problem.how[part] & GIVES
    }
