"""Every legal order of a small region, by trying all interleavings: the oracle for counts and pairs."""

from __future__ import annotations

import random
from collections.abc import Iterator

from trace_factory import Shape, damage, make, problems

from bench.ordering_traces import region
from corebraid.base.errors import FormatError, OrderError
from solver.regions.problem import Problem


def all_orders(problem: Problem, most: int) -> list[list[int]] | None:
    """All legal orders of the operations, or None if there are more than `most`."""
    parts = [
        [
            (int(problem.granule[p]), int(problem.old[p]), int(problem.new[p]))
            for p in range(problem.part_ptr[op], problem.part_ptr[op + 1])
        ]
        for op in range(problem.n_ops)
    ]
    ends = problem.stream_ptr[1:].tolist()
    memory = problem.initial.tolist()
    position = problem.stream_ptr[:-1].tolist()
    found: list[list[int]] = []
    order: list[int] = []

    def go() -> bool:
        if len(order) == problem.n_ops:
            if memory == problem.final.tolist():
                found.append(order.copy())
            return len(found) <= most
        for s, op in enumerate(position):
            if position[s] == ends[s] or any(memory[g] != old for g, old, _ in parts[op]):
                continue
            for g, _, new in parts[op]:
                memory[g] = new
            position[s] += 1
            order.append(op)
            more = go()
            order.pop()
            position[s] -= 1
            for g, old, _ in parts[op]:
                memory[g] = old
            if not more:
                return False
        return True

    return found if go() else None


def conflicts(problem: Problem) -> dict[tuple[int, int], int]:
    """(a, b), a of the lower stream -> a granule over which they conflict."""
    streams = problem.op_stream.tolist()
    ops = problem.part_op.tolist()
    found: dict[tuple[int, int], int] = {}
    parts = list(zip(ops, problem.granule.tolist(), (problem.old != problem.new).tolist(), strict=True))
    for a, g, changes in parts:
        for b, h, changes_too in parts:
            if g == h and streams[a] < streams[b] and (changes or changes_too):
                found.setdefault((a, b), g)
    return found


def directions(problem: Problem, orders: list[list[int]]) -> dict[tuple[int, int], set[bool]]:
    """Of each conflicting pair (a, b): whether a comes before b, in some order each."""
    pairs: dict[tuple[int, int], set[bool]] = {pair: set() for pair in conflicts(problem)}
    for order in orders:
        rank = {op: i for i, op in enumerate(order)}
        for (a, b), seen in pairs.items():
            seen.add(rank[a] < rank[b])
    return pairs


def is_legal(problem: Problem, order: list[int]) -> bool:
    """Whether an order is legal, by walking it."""
    memory, position = problem.initial.tolist(), problem.stream_ptr[:-1].tolist()
    streams = problem.op_stream.tolist()
    if sorted(order) != list(range(problem.n_ops)):
        return False
    for op in order:
        if position[streams[op]] != op:
            return False
        position[streams[op]] += 1
        for p in range(problem.part_ptr[op], problem.part_ptr[op + 1]):
            g = int(problem.granule[p])
            if memory[g] != int(problem.old[p]):
                return False
            memory[g] = int(problem.new[p])
    return memory == problem.final.tolist()


def small_shape(seed: int) -> Shape:
    """Shapes whose regions have few enough orders to try them all."""
    rng = random.Random(seed)
    return Shape(
        streams=rng.randrange(2, 5),
        steps=rng.choice((6, 9, 12)),
        domain=rng.choice((0, 4, 2, 2)),
        hot=rng.choice((8, 16, 16, 24)),
        strata=rng.choice((0, 0.1)),
        aligned=rng.random() < 0.5,
        sizes=rng.choice(((8,), (1, 2, 4, 8), (4, 8))),
        spin=rng.choice((0, 0.1)),
        glued=rng.choice((0, 0.1, 0.3)),
        private=rng.choice((0, 0.1)),
    )


def small_problems(n: int, most: int = 20_000) -> Iterator[tuple[str, Problem, list[list[int]]]]:
    """(how to reproduce it, region, all its orders): n random traces, each of them damaged, and n regions of
    the ordering benchmark's kinds."""
    for seed in range(n):
        made = make(seed, small_shape(seed))
        rng = random.Random(seed)
        for way, traces in (("sound", made.traces), *((d[1], d[0]) for d in [damage(made.traces, rng)])):
            regions = problems(traces)
            while True:
                try:
                    problem, _counts = next(regions)
                except (StopIteration, OrderError, FormatError):
                    break
                orders = all_orders(problem, most)
                if orders is not None and problem.n_ops:
                    yield f"small_shape({seed}), {way}, region {problem.region}", problem, orders
        rng = random.Random(seed)
        kind, cores, granules = (
            rng.choice(("domain:2", "locks", "mixed")),
            rng.choice((2, 3)),
            rng.choice((1, 2, 3)),
        )
        problem = region(kind, cores=cores, events=rng.randrange(4, 11), granules=granules, seed=seed)
        orders = all_orders(problem, most)
        if orders is not None:
            yield f"region({kind!r}, cores={cores}, granules={granules}, seed={seed})", problem, orders
