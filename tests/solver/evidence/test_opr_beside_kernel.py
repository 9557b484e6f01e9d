"""What event orders do not tell of is put beside what they do: by values, and never against them."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray
from problem_factory import build, operations_of

from solver.engines.reorder import conflicts_of
from solver.evidence.opr.beside_kernel import place_kernel
from solver.regions.problem import Problem, Verdict

#: Two members write 1 and 2 to a word, and each writes 0 back; the kernel, the third stream, sees a 1.
PAIRS = build(
    [[[(0, 0, 1)], [(0, 1, 0)]], [[(0, 0, 2)], [(0, 2, 0)]], [[(0, 1, 1)]]],
    [0],
    [0],
)


def members_as_they_are(problem: Problem, order: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Conflicts of the members, which are all streams but the last, in an order of all."""
    members = order[problem.op_stream[order] != problem.n_streams - 1]
    return sorted(map(tuple, conflicts_of(problem, members).tolist()))


@pytest.mark.parametrize("members", [[0, 1, 2, 3], [2, 3, 0, 1]])
def test_the_members_stay_as_they_are(members: list[int]) -> None:
    solution = place_kernel(PAIRS, np.array(members, np.int64))
    assert solution.verdict is Verdict.LEGAL
    order = solution.order.tolist()
    assert [op for op in order if op != 4] == members
    at = order.index(0)
    assert order[at : at + 3] == [0, 4, 1]


def test_members_that_leave_no_place_are_no_order() -> None:
    """The kernel sees 1, then 2: who wrote 2 was not first."""
    members = [[[(0, 0, 1)], [(0, 1, 0)]], [[(0, 0, 2)], [(0, 2, 0)]]]
    problem = build([*members, [[(0, 1, 1)], [(0, 2, 2)]]], [0], [0])
    assert place_kernel(problem, np.array([0, 1, 2, 3], np.int64)).verdict is Verdict.LEGAL
    assert place_kernel(problem, np.array([2, 3, 0, 1], np.int64)).verdict is Verdict.ILLEGAL


def test_any_run_has_a_place_for_its_own_kernel() -> None:
    """Of random runs the last stream is the kernel; the members in the order that ran."""
    asked = 0
    for seed in range(150):
        problem, ran = _run(seed)
        members = np.array([op for op in ran if problem.op_stream[op] != problem.n_streams - 1], np.int64)
        solution = place_kernel(problem, members)
        assert solution.verdict is Verdict.LEGAL, seed
        assert members_as_they_are(problem, solution.order) == members_as_they_are(problem, np.array(ran)), (
            seed
        )
        memory = problem.initial.copy()
        for op in solution.order.tolist():
            for granule, old, new in operations_of(problem)[op]:
                assert memory[granule] == old, seed
                memory[granule] = new
        asked += len(members) < problem.n_ops
    assert asked > 100


def _run(seed: int) -> tuple[Problem, list[int]]:
    """A problem of three streams, and an order that ran: operations by their numbers."""
    rng, memory = random.Random(seed), [0, 0]
    streams: list[list[list[tuple[int, int, int]]]] = [[], [], []]
    ran = []
    for _ in range(rng.randint(6, 24)):
        stream, granule = rng.randrange(3), rng.randrange(2)
        new = memory[granule] if rng.random() < 0.4 else rng.randrange(3)
        ran.append((stream, len(streams[stream])))
        streams[stream].append([(granule, memory[granule], new)])
        memory[granule] = new
    problem = build(streams, [0, 0], memory)
    return problem, [int(problem.stream_ptr[stream]) + number for stream, number in ran]
