"""Replaying a slice as several processors would that wait for each other where its minimal constraints say so
and nowhere else (LightPlay, section 2.5).

The cores of an emulator take turns. So who is next is drawn among all that need not wait: of what processors
could do at once every order can come, and each must lead to the same.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solver.evidence.lightplay.constraints import dependent
from solver.evidence.lightplay.decide import Decided
from solver.evidence.lightplay.execute import Plan, instruction_of, plan_of
from solver.evidence.lightplay.minimal import minimal_of
from solver.evidence.lightplay.slice_problem import SliceProblem


@dataclass(frozen=True)
class Waits:
    """What each operation waits for. before: of each, those of other cores, ascending. total: orders that the
    constraints come from; 0: these were too many to look at, so that all that depend on each other are as in
    the order that was found."""

    before: tuple[tuple[int, ...], ...]
    total: int

    @classmethod
    def of(cls, decided: Decided, nodes: int) -> Waits:
        """Of a slice that has an order. nodes: see `minimal_of`."""
        minimal = minimal_of(decided, nodes)
        pairs = [(one.first, one.second) for one in minimal.found]
        if not minimal.total:
            rank = np.argsort(decided.order)
            ahead = dependent(decided.problem) & (rank[:, None] < rank[None, :])
            pairs = [(int(one), int(other)) for one, other in np.argwhere(ahead)]
        before: list[list[int]] = [[] for _ in range(decided.problem.n)]
        for first, second in pairs:
            before[second].append(first)
        return cls(tuple(tuple(sorted(those)) for those in before), minimal.total)


def steps_of(problem: SliceProblem, waits: Waits) -> int:
    """How many steps all operations take, if each takes one and every core goes on whenever it need not wait:
    the longest chain of constraints and program order."""
    level = [0] * problem.n
    for op in _by_need(problem, waits):
        level[op] = 1 + max((level[one] for one in _needs(problem, waits, op)), default=0)
    return max(level, default=0)


def at_random(decided: Decided, events: Any, waits: Waits, draw: random.Random) -> Decided:
    """The slice with an order in which cores go on as they like, but for `waits`. An instruction that has
    begun goes on to its last access, unless it has to wait. events: EVENT (n,), as the engine shows them."""
    problem, order = decided.problem, list[int]()
    left = _streams(problem)
    done = np.zeros(problem.n, bool)
    while left:
        ready = [those for those in left if all(done[one] for one in waits.before[those[0]])]
        begun = instruction_of(problem, events, order[-1]) if order else None
        under_way = [those for those in ready if instruction_of(problem, events, those[0]) == begun]
        those = draw.choice(under_way or ready)
        order.append(those.pop(0))
        done[order[-1]] = True
        left = [those for those in left if those]
    return replace(decided, order=np.array(order, np.int64))


def _streams(problem: SliceProblem) -> list[list[int]]:
    """The operations of each core, in program order."""
    found: dict[int, list[int]] = {}
    for op, stream in enumerate(problem.stream.tolist()):
        found.setdefault(stream, []).append(op)
    return list(found.values())


def _needs(problem: SliceProblem, waits: Waits, op: int) -> Sequence[int]:
    own = (op - 1,) if op and problem.stream[op - 1] == problem.stream[op] else ()
    return (*own, *waits.before[op])


def _by_need(problem: SliceProblem, waits: Waits) -> list[int]:
    """All operations, each behind all that it needs."""
    left, order, done = _streams(problem), list[int](), np.zeros(problem.n, bool)
    while left:
        for those in left:
            while those and all(done[one] for one in waits.before[those[0]]):
                done[those[0]] = True
                order.append(those.pop(0))
        left = [those for those in left if those]
    return order


class InParallel:
    """Plans of slices, one after the other. seed: of who goes on. steps: of all slices so far that can be
    executed, see `steps_of`."""

    def __init__(self, seed: int, nodes: int) -> None:
        self._seed, self._nodes, self.steps = seed, nodes, 0

    def plan(self, decided: Decided, events: Any, n_cores: int) -> Plan | None:
        """As `plan_of`, in an order of `at_random`."""
        waits = Waits.of(decided, self._nodes)
        draw = random.Random(f"parallel/{self._seed}/{decided.problem.number}")
        found = plan_of(at_random(decided, events, waits, draw), events, n_cores)
        self.steps += 0 if found is None else steps_of(decided.problem, waits)
        return found
