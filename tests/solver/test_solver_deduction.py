"""What deduction finds is what its rules say, applied one by one to whole relations until nothing changes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.ordering_traces import CLASSES, region
from bench.tiny_runs import Run, damage
from corebraid.base.errors import OrderError
from solver.deduction.deduction import Deduction, deduce
from solver.passes.unfiltered import iter_problems
from solver.regions.links import with_links
from solver.regions.problem import Problem

Order = NDArray[np.bool_]


class Impossible(Exception):
    """There is no legal order."""


def closed(order: Order) -> Order:
    """The transitive closure."""
    while True:
        wider = order | (order.astype(int) @ order.astype(int) > 0)
        if (wider == order).all():
            break
        order = wider
    if order.diagonal().any():
        raise Impossible
    return order


def apply_to(problem: Problem, order: Order, first: NDArray[np.uint64], old: bool) -> Order:
    """Every rule once, to every part. order[a, b]: a precedes b. first: initial values, or final ones where
    `old` is false, and everything backwards."""
    order, n = order.copy(), problem.n_ops
    before, after = (problem.old, problem.new) if old else (problem.new, problem.old)
    op, source = problem.part_op, problem.part_source
    for p in range(len(problem.granule)):
        if len(source) and source[p] >= 0:
            continue
        e, g = int(op[p]), problem.granule[p]
        here = np.flatnonzero((problem.granule == g) & (problem.old != problem.new))
        changes = [int(op[i]) for i in here if op[i] != e]
        made = [int(op[i]) for i in here if op[i] != e and after[i] == before[p]]
        sources = [
            w for w in made
            if not order[e, w] and not any(order[w, x] and order[x, e] for x in changes if x != w)
        ]  # fmt: skip
        start = before[p] == first[g] and not any(order[x, e] for x in changes)
        if not sources and not start:
            raise Impossible
        if not start:
            known = np.ones(n, np.bool_)
            for w in sources:
                known &= order[:, w] | (np.arange(n) == w)
            order[:, e] |= known
        if start and not sources:
            order[e, changes] = True
        if len(sources) == 1 and not start:
            (w,) = sources
            for x in changes:
                if x != w and order[x, e]:
                    order[x, w] = True
                if x != w and order[w, x]:
                    order[e, x] = True
    return order


def naive(problem: Problem) -> Order | None:
    """What must precede what; None if there is no legal order."""
    n = problem.n_ops
    order = np.zeros((n, n), np.bool_)
    for s in range(problem.n_streams):
        for a in range(problem.stream_ptr[s], problem.stream_ptr[s + 1]):
            order[a, a + 1 : problem.stream_ptr[s + 1]] = True
    try:
        return fixed_point(problem, order)
    except Impossible:
        return None


def fixed_point(problem: Problem, order: Order) -> Order:
    """Both sides' rules from some order on. Raises Impossible."""
    while True:
        wider = closed(apply_to(problem, order, problem.initial, True))
        wider = closed(apply_to(problem, wider.T, problem.final, False)).T
        if (wider == order).all():
            return order
        order = wider


def found(deduced: Deduction, problem: Problem) -> Order | None:
    """The same of what was deduced."""
    assert deduced.complete
    if deduced.contradiction >= 0:
        return None
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    reach = deduced.before[:, np.searchsorted(used, problem.op_stream)]
    numbers = np.arange(problem.n_ops)
    order: Order = (numbers[np.newaxis, :] < reach).T
    return order


def same(one: Order | None, other: Order | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool((one == other).all())


def broken(problem: Problem, rng: random.Random) -> Problem:
    """One value more or less."""
    old = problem.old.copy()
    old[rng.randrange(len(old))] += np.uint64(1)
    values = problem.__dict__ | {"old": old}
    return Problem(**values)


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("cores", [2, 3, 5])
def test_it_finds_what_the_rules_say(kind: str, cores: int) -> None:
    rng = random.Random(f"{kind} {cores}")
    verdicts = set()
    for seed in range(12):
        problem = region(kind, cores=cores, events=rng.randrange(8, 45), seed=seed)
        if seed % 3 == 0:
            problem = broken(problem, rng)
        expected = naive(problem)
        assert same(found(deduce(problem), problem), expected), f"seed {seed}"
        verdicts.add(expected is None)
    assert verdicts == {False, True}


@pytest.mark.parametrize("model", ["sc", "tso"])
def test_recordings_damaged_ones_and_store_buffers(model: str) -> None:
    verdicts = []
    for number in range(120):
        run = Run(number, model)
        traces = run.traces(damage(run.rows(), number) if number % 3 == 0 else run.rows())
        try:
            problems = [with_links(problem) for _, problem in iter_problems(traces) if problem.n_ops]
        except OrderError:
            continue
        for problem in problems:
            expected = naive(problem)
            assert same(found(deduce(problem), problem), expected), f"Run({number}, {model!r})"
            verdicts.append(expected is None)
    assert {False, True} == set(verdicts)
    assert len(verdicts) > 100


def test_a_supposition_is_closed_too() -> None:
    rng = random.Random(5)
    for seed in range(30):
        problem = region("mixed", cores=3, events=30, seed=seed)
        known = deduce(problem)
        order = found(known, problem)
        assert order is not None
        open_pairs = np.argwhere(~order & ~order.T & ~np.eye(problem.n_ops, dtype=bool))
        if not len(open_pairs):
            continue
        a, b = (int(o) for o in open_pairs[rng.randrange(len(open_pairs))])
        supposed = known.supposing((a, b)).go_on()
        again = found(known.go_on(), problem)
        assert again is not None
        assert (again == order).all()
        wished = order.copy()
        wished[a, b] = True
        try:
            expected: Order | None = fixed_point(problem, closed(wished))
        except Impossible:
            expected = None
        assert same(found(supposed, problem), expected), f"seed {seed}: {a} before {b}"
