"""Random slices, and naive twins of what searches them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from solver.evidence.lightplay.slice_problem import GIVES, TAKES, Instance

Operation = list[tuple[int, int, int, int]]


def instance(cores: list[list[Operation]], initial: list[int], final: list[int]) -> Instance:
    """An instance from its cores; an operation is a list of (place, how, before, after)."""
    cores = [core for core in cores if core]
    ops = [op for core in cores for op in core]
    parts = [part for op in ops for part in op]
    return Instance(
        np.cumsum([0] + [len(core) for core in cores]).astype(np.int64),
        np.cumsum([0] + [len(op) for op in ops]).astype(np.int64),
        np.array([p[0] for p in parts], np.int32),
        np.array([p[1] for p in parts], np.uint8),
        np.array([p[2] for p in parts], np.uint64),
        np.array([p[3] for p in parts], np.uint64),
        np.array(initial, np.uint64),
        np.array(final, np.uint64),
    )


def random_instance(seed: int, ops: int = 8, cores: int = 3) -> Instance:
    """What some interleaving left, one in four with a wrong value."""
    rng = random.Random(seed)
    places = rng.randint(1, 3)
    memory = [0] * places
    made: list[list[Operation]] = [[] for _ in range(cores)]
    for _ in range(ops):
        op: Operation = []
        for g in sorted(rng.sample(range(places), min(rng.choice((1, 1, 2)), places))):
            how = rng.choice((TAKES, GIVES, TAKES | GIVES))
            new = rng.randrange(3) if how & GIVES else memory[g]
            op.append((g, how, memory[g] if how & TAKES else 0, new if how & GIVES else 0))
            memory[g] = new
        rng.choice(made).append(op)
    if rng.random() < 0.25:
        op = rng.choice([op for core in made for op in core])
        g, how, before, after = op[0]
        op[0] = (g, how, before ^ 1, after)
    return instance(made, [0] * places, memory)


def interleavings(sizes: list[int]) -> Iterator[list[int]]:
    """All interleavings in the order of the paper's ranks: plain recursion, first core first."""
    first = [0, *itertools.accumulate(sizes)]

    def rest(left: list[int]) -> Iterator[list[int]]:
        if not any(left):
            yield []
            return
        for core in range(len(sizes)):
            if left[core]:
                op = first[core + 1] - left[core]
                fewer = [n - (k == core) for k, n in enumerate(left)]
                for tail in rest(fewer):
                    yield [op, *tail]

    yield from rest(list(sizes))


def is_correct(problem: Instance, order: list[int]) -> bool:
    """Whether an order is correct, on a dictionary."""
    memory = dict(enumerate(problem.initial.tolist()))
    for op in order:
        for part in range(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1])):
            g, how = int(problem.place[part]), int(problem.how[part])
            if how & TAKES and memory[g] != int(problem.before[part]):
                return False
            if how & GIVES:
                memory[g] = int(problem.after[part])
    return list(memory.values()) == problem.final.tolist()
