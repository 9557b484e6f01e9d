"""The relaxed search: every checkpoint is an instruction by itself (LightPlay, section 2.4 and Figure 8).

A checkpoint before an access is a read of what it holds, one after an access a write. An order of checkpoints
says nothing of where the accesses are, so these are then inserted one by one, each between its checkpoints,
and taken back where none of its places fits.

That may fail where a checkpoint was taken late and what it holds is not this core's own: as a write it leaves
what another core left. `search_apart` needs no guess: accesses, with what their cores saw, and checkpoints,
as mere reads, are ordered in one search. The run itself is one of its answers, so only evidence that is
wrong has none.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.replay_one import replay
from solver.evidence.lightplay.search_cut import cut_graph
from solver.evidence.lightplay.search_deep import find_order
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance, SliceProblem

#: Checkpoint orders into which accesses are inserted, and insertions tried in all, at most.
_ORDERS, _TRIES = 16, 5000
_BEFORE, _ACCESS, _AFTER = 0, 1, 2


@dataclass(frozen=True)
class Apart:
    """Checkpoints, and accesses if there are any, as operations of their own. what: for each (operation of
    the slice, _BEFORE, _ACCESS or _AFTER)."""

    instance: Instance
    what: list[tuple[int, int]]


def take_apart(problem: SliceProblem, *, accesses: bool) -> Apart:
    """Checkpoints apart. accesses: with the accesses between them, and then those after them only read."""
    what: list[tuple[int, int]] = []
    parts: list[tuple[int, int, int, int]] = []
    part_ptr, sizes = [0], []
    for core in range(len(problem.core_ptr) - 1):
        begin = len(what)
        for op in range(int(problem.core_ptr[core]), int(problem.core_ptr[core + 1])):
            for role in (_BEFORE, _ACCESS, _AFTER):
                made = _parts(problem, op, role, accesses)
                if made:
                    what.append((op, role))
                    parts += made
                    part_ptr.append(len(parts))
        sizes.append(len(what) - begin)
    columns = list(zip(*parts, strict=True)) or [(), (), (), ()]
    instance = Instance(
        np.array([0, *itertools.accumulate(n for n in sizes if n)], np.int64), np.array(part_ptr, np.int64),
        np.array(columns[0], np.int32), np.array(columns[1], np.uint8), np.array(columns[2], np.uint64),
        np.array(columns[3], np.uint64), problem.initial, problem.final,
    )  # fmt: skip
    return Apart(instance, what)


def _parts(problem: SliceProblem, op: int, role: int, accesses: bool) -> list[tuple[int, int, int, int]]:
    """The parts (place, how, before, after) of an operation in one role."""
    found = []
    for part in range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1])):
        g, how = int(problem.place[part]), int(problem.how[part])
        if role == _BEFORE and how & TAKES:
            found.append((g, TAKES, int(problem.before[part]), 0))
        elif role == _ACCESS and accesses:
            found.append((g, TAKES | GIVES, int(problem.old[part]), int(problem.new[part])))
        elif role == _AFTER and how & GIVES:
            after = int(problem.after[part])
            found.append((g, TAKES, after, 0) if accesses else (g, GIVES, 0, after))
    return found


def search_apart(problem: SliceProblem, nodes: int) -> tuple[NDArray[np.int64] | None, bool]:
    """An order of the accesses with their checkpoints anywhere between, and whether the search came to an
    end: None and True if there is none."""
    apart = take_apart(problem, accesses=True)
    order, complete = find_order(apart.instance, nodes)
    if order is None:
        return None, complete
    roles = [apart.what[k] for k in order.tolist()]
    return np.array([op for op, role in roles if role == _ACCESS], np.int64), complete


def search_relaxed(problem: SliceProblem, nodes: int) -> NDArray[np.int64] | None:
    """An order that replays, from an order of the checkpoints (Figure 8); None if there is none."""
    apart = take_apart(problem, accesses=False)
    insertion = _Insertion(problem)
    for order in cut_graph(apart.instance, nodes).orders(_ORDERS):
        found = insertion.into([apart.what[k] for k in order])
        if found is not None:
            return found
    return None


class _Insertion:
    """Figure 8: accesses go one after the other into an order of checkpoints."""

    def __init__(self, problem: SliceProblem) -> None:
        self._problem, self._tries = problem, _TRIES
        self._todo: list[int] = []
        self._initial, self._final = problem.initial.tolist(), problem.final.tolist()
        self._parts = {
            (op, role, inserted): _parts(problem, op, role, inserted)
            for op in range(problem.n)
            for role in (_BEFORE, _ACCESS, _AFTER)
            for inserted in (False, True)
        }

    def into(self, checkpoints: list[tuple[int, int]]) -> NDArray[np.int64] | None:
        """Insert all accesses into an order of checkpoints; None if that cannot be, or takes too long."""
        # As their last checkpoint comes.
        last = {op: k for k, (op, _) in enumerate(checkpoints)}
        self._todo = sorted(range(self._problem.n), key=lambda op: last.get(op, 0))
        order = self._insert(checkpoints, 0)
        if order is None:
            return None
        found = np.array([op for op, role in order if role == _ACCESS], np.int64)
        return found if replay(self._problem, found).fine else None

    def _insert(self, order: list[tuple[int, int]], number: int) -> list[tuple[int, int]] | None:
        if number == len(self._todo):
            return order if self._holds(order, None) else None
        op = self._todo[number]
        low, high = self._window(order, op)
        for at in range(low, high + 1):
            self._tries -= 1
            if self._tries < 0:
                return None
            longer = [*order[:at], (op, _ACCESS), *order[at:]]
            if self._holds(longer, op):
                found = self._insert(longer, number + 1)
                if found is not None:
                    return found
        return None

    def _window(self, order: list[tuple[int, int]], op: int) -> tuple[int, int]:
        """First and last place for an access: behind its checkpoint before and all of its core that is
        earlier, before its checkpoint after and all that is later."""
        stream, low, high = self._problem.stream, 0, len(order)
        for k, (other, role) in enumerate(order):
            if stream[other] != stream[op]:
                continue
            if other < op or (other == op and role == _BEFORE):
                low = k + 1
            elif high == len(order):
                high = k
        return low, high

    def _holds(self, order: list[tuple[int, int]], upto: int | None) -> bool:
        """Whether values still follow from one another up to the access `upto`, or to the end. Of an access
        that is not inserted yet its checkpoint after stands for the write."""
        inserted = {op for op, role in order if role == _ACCESS}
        memory, parts = list(self._initial), self._parts
        for op, role in order:
            for g, how, before, after in parts[op, role, op in inserted]:
                if how & TAKES and memory[g] != before:
                    # A late checkpoint may find what an access leaves that is still to come.
                    if role != _ACCESS and upto is not None:
                        continue
                    return False
                if how & GIVES:
                    memory[g] = after
            if role == _ACCESS and op == upto:
                return True
        return bool(memory == self._final)
