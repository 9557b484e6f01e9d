"""One correct order, depth first, where all of them are not wanted: for large slices, and for checkpoints and
accesses apart (`solver.evidence.lightplay.relaxed`).

A state (how far each core is, memory) from which the search has come back is dead, whatever the way to it. An
operation that fits and changes nothing runs at once: it could stand here in any order that goes on from here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from solver.evidence.lightplay.search_cut import node_of
from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

#: States that are kept at most.
_MOST_KEPT = 1 << 17
_FOUND, _NONE, _BUDGET = 0, 1, 2


@njit(cache=True)
def run_op(instance, op, core, state):  # type: ignore[no-untyped-def]
    """Run an operation on a state (uint64: how far each core is, then memory). Returns whether it fits."""
    cores = instance.core_ptr.size - 1
    for part in range(instance.part_ptr[op], instance.part_ptr[op + 1]):
        held = state[cores + instance.place[part]]
        if instance.how[part] & TAKES and held != instance.before[part]:
            return False
    for part in range(instance.part_ptr[op], instance.part_ptr[op + 1]):
        if instance.how[part] & GIVES:
            state[cores + instance.place[part]] = instance.after[part]
    state[core] += np.uint64(1)
    return True


@njit(cache=True)
def run_quiet(instance, state, path, length):  # type: ignore[no-untyped-def]
    """Run all that fits and is a mere read. Returns the new length of the path."""
    cores = instance.core_ptr.size - 1
    again = True
    while again:
        again = False
        for core in range(cores):
            op = instance.core_ptr[core] + np.int64(state[core])
            while op < instance.core_ptr[core + 1] and is_read(instance, op):
                if not run_op(instance, op, core, state):
                    break
                path[length] = op
                length += 1
                op += 1
                again = True
    return length


@njit(cache=True)
def is_read(instance, op):  # type: ignore[no-untyped-def]
    """Whether an operation leaves what it finds, whatever that is."""
    for part in range(instance.part_ptr[op], instance.part_ptr[op + 1]):
        same = instance.how[part] == TAKES or (
            instance.how[part] == TAKES | GIVES and instance.before[part] == instance.after[part]
        )
        if not same:
            return False
    return True


@njit(cache=True, nogil=True)
def descend(instance, states, table, path):  # type: ignore[no-untyped-def]
    """Search an order into `path` (int64 (n,)). states: uint64 (room, cores + places), table: int32, a power
    of two long, all -1: the states that were entered."""
    cores, n = instance.core_ptr.size - 1, path.size
    width = cores + instance.initial.size
    opened, tried = np.zeros((n + 1, width), np.uint64), np.zeros(n + 1, np.int64)
    length = np.zeros(n + 1, np.int64)
    opened[0, cores:] = instance.initial
    length[0] = run_quiet(instance, opened[0], path, 0)
    entered, depth = 0, 0
    while depth >= 0:
        if length[depth] == n:
            same = True
            for p in range(instance.final.size):
                same = same and opened[depth, cores + p] == instance.final[p]
            if same:
                return _FOUND
            depth -= 1
            continue
        core = tried[depth]
        if core == cores:
            depth -= 1
            continue
        tried[depth] += 1
        op = instance.core_ptr[core] + np.int64(opened[depth, core])
        if op == instance.core_ptr[core + 1]:
            continue
        opened[depth + 1] = opened[depth]
        if not run_op(instance, op, core, opened[depth + 1]):
            continue
        path[length[depth]] = op
        length[depth + 1] = run_quiet(instance, opened[depth + 1], path, length[depth] + 1)
        if entered == states.shape[0]:
            return _BUDGET
        if node_of(opened[depth + 1], states, table, 0, entered) == entered:
            entered += 1
            tried[depth + 1] = 0
            depth += 1
    return _NONE


def find_order(instance: Instance, nodes: int) -> tuple[NDArray[np.int64] | None, bool]:
    """A correct order (int64 (n,)), and whether the search came to an end: None and True if there is none.
    nodes: states that it may enter."""
    room = min(max(nodes, 1), _MOST_KEPT)
    path = np.empty(instance.n, np.int64)
    states = np.empty((room, len(instance.core_ptr) - 1 + len(instance.initial)), np.uint64)
    table = np.full(1 << (2 * room - 1).bit_length(), -1, np.int32)
    status = descend(instance, states, table, path)
    return (path if status == _FOUND else None), status != _BUDGET
