"""Random problems with operations on several granules at once, and a search without any reduction."""

from __future__ import annotations

import itertools
import random

import numpy as np

from solver.regions.problem import Problem

Operation = list[tuple[int, int, int]]


def build(streams: list[list[Operation]], initial: list[int], final: list[int]) -> Problem:
    """A problem from its streams; an operation is a list of (granule, old value, new value)."""
    operations = [operation for stream in streams for operation in stream]
    parts = [part for operation in operations for part in operation]
    lengths = np.array([len(stream) for stream in streams], np.int64)
    return Problem(
        region=0,
        rows=lengths,
        stream_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        end_row=np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.int64),
        part_ptr=np.cumsum([0] + [len(operation) for operation in operations]).astype(np.int64),
        granule=np.array([part[0] for part in parts], np.int32),
        old=np.array([part[1] for part in parts], np.uint64),
        new=np.array([part[2] for part in parts], np.uint64),
        address=np.arange(len(initial), dtype=np.uint64) * np.uint64(8),
        size=np.full(len(initial), 8, np.uint8),
        initial=np.array(initial, np.uint64),
        final=np.array(final, np.uint64),
    )


def random_problem(seed: int, *, damaged: bool) -> Problem:
    """A run of 2 to 4 streams over a few granules with few values. damaged: operations of a stream are then
    exchanged, which often leaves no legal order."""
    rng = random.Random(seed)
    n_granules, values = rng.randint(1, 5), rng.randint(2, 5)
    memory = [0] * n_granules
    streams: list[list[Operation]] = [[] for _ in range(rng.randint(2, 4))]
    for _ in range(rng.randint(4, 26)):
        operation: Operation = []
        for g in sorted(rng.sample(range(n_granules), min(rng.choice((1, 1, 1, 2, 3)), n_granules))):
            new = memory[g] if rng.random() < 0.45 else rng.randrange(values)
            operation.append((g, memory[g], new))
            memory[g] = new
        rng.choice(streams).append(operation)
    for _ in range(rng.randint(1, 3) if damaged else 0):
        stream = rng.choice(streams)
        if len(stream) > 1:
            i = rng.randrange(len(stream) - 1)
            j = min(len(stream) - 1, i + rng.randint(1, 4))
            stream[i], stream[j] = stream[j], stream[i]
    return build(streams, [0] * n_granules, memory)


def operations_of(problem: Problem) -> list[Operation]:
    """Every operation as a list of (granule, old value, new value)."""
    parts = list(zip(problem.granule.tolist(), problem.old.tolist(), problem.new.tolist(), strict=True))
    ends = problem.part_ptr.tolist()
    return [parts[first:end] for first, end in itertools.pairwise(ends)]


def is_legal(problem: Problem) -> bool:
    """Whether any interleaving is legal: a walk over every cut and memory that can be reached."""
    operations, ends = operations_of(problem), problem.stream_ptr.tolist()
    final = tuple(problem.final.tolist())
    todo, seen = [(tuple(ends[:-1]), tuple(problem.initial.tolist()))], set()
    while todo:
        cut = todo.pop()
        if cut in seen:
            continue
        seen.add(cut)
        position, memory = cut
        if list(position) == ends[1:]:
            if memory == final:
                return True
            continue
        for s, op in enumerate(position):
            if op < ends[s + 1] and all(memory[g] == old for g, old, _ in operations[op]):
                after = list(memory)
                for g, _, new in operations[op]:
                    after[g] = new
                todo.append(((*position[:s], op + 1, *position[s + 1 :]), tuple(after)))
    return False


def breaks(problem: Problem, order: list[int]) -> str:
    """Why an order is not a legal one of this problem, or ""."""
    operations, ends = operations_of(problem), problem.stream_ptr.tolist()
    stream = problem.op_stream.tolist()
    memory, position = problem.initial.tolist(), ends[:-1]
    for op in order:
        if position[stream[op]] != op:
            return f"operation {op} out of program order"
        position[stream[op]] = op + 1
        for g, old, new in operations[op]:
            if memory[g] != old:
                return f"operation {op} reads {old} where {memory[g]} is"
            memory[g] = new
    if position != ends[1:]:
        return "operations are left out"
    return "" if memory == problem.final.tolist() else "memory is not the final one"
