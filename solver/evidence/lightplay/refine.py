"""Splitting a slice that is too long for permutations (LightPlay, section 3.2, second level of refinement).

Cores that share no place with the others of a slice are a slice of their own. What is still too long is cut
in two at a cut where memory is known: what the replayed cores saw and left before it leaves each place
exactly one value (MICRO 2009, section 4.2). Which cut the run passed is not known, so such a cut is a guess;
both halves must have a correct order and the whole must replay, else another one is tried.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.evidence.lightplay.slice_problem import GIVES, TAKES, SliceProblem

#: Cuts that are tried for a slice at most.
MOST_GUESSES = 12
_LOOKED_AT = 3000


def choose(problem: SliceProblem, ops: NDArray[np.int64]) -> SliceProblem:
    """Only the operations `ops` (int64, ascending), on all places."""
    sizes = np.diff(problem.part_ptr)[ops]
    parts = np.concatenate(
        [np.empty(0, np.int64), *(np.arange(problem.part_ptr[op], problem.part_ptr[op + 1]) for op in ops)]
    ).astype(np.int64)
    names = ("place", "how", "before", "after", "old", "new")
    return replace(
        problem,
        stream=problem.stream[ops],
        access=problem.access[ops],
        part_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        **{name: getattr(problem, name)[parts] for name in names},
    )


def components(problem: SliceProblem) -> list[NDArray[np.int64]]:
    """Operations (int64, ascending) of cores that share places with one another and no others."""
    op = np.repeat(np.arange(problem.n), np.diff(problem.part_ptr))
    group = {int(s): {int(s)} for s in np.unique(problem.stream)}
    for g in np.unique(problem.place):
        together = {int(s) for s in problem.stream[op[problem.place == g]]}
        joined = set().union(*(group[s] for s in together))
        for s in joined:
            group[s] = joined
    different = {min(members): members for members in group.values()}
    return [np.flatnonzero(np.isin(problem.stream, list(different[key]))) for key in sorted(different)]


def alone(problem: SliceProblem, ops: NDArray[np.int64]) -> SliceProblem:
    """A component: places that only others touch keep their value."""
    chosen = choose(problem, ops)
    mine = np.isin(np.arange(len(problem.initial)), chosen.place)
    return replace(chosen, final=np.where(mine, chosen.final, chosen.initial))


def memory_at(problem: SliceProblem, cut: tuple[int, ...]) -> NDArray[np.uint64] | None:
    """Memory at a cut (operations of each core), None if no order passes it."""
    left: list[Counter[int]] = [Counter({value: 1}) for value in problem.initial.tolist()]
    for core, done in enumerate(cut):
        first = int(problem.core_ptr[core])
        for part in range(int(problem.part_ptr[first]), int(problem.part_ptr[first + done])):
            values = left[int(problem.place[part])]
            values[int(problem.new[part])] += 1
            values[int(problem.old[part])] -= 1
    found = np.empty(len(left), np.uint64)
    for g, values in enumerate(left):
        rest = [(value, n) for value, n in values.items() if n]
        if len(rest) != 1 or rest[0][1] != 1:
            return None
        found[g] = rest[0][0]
    return found


def _clean(problem: SliceProblem, cut: tuple[int, ...]) -> bool:
    """Whether the checkpoints next to a cut hold what their accesses did: one that was taken late or early
    may have seen what lies beyond."""
    for core, done in enumerate(cut):
        first, end = int(problem.core_ptr[core]), int(problem.core_ptr[core + 1])
        for op, how, told, real in (
            (first + done - 1, GIVES, problem.after, problem.new),
            (first + done, TAKES, problem.before, problem.old),
        ):  # fmt: skip
            if first <= op < end:
                parts = slice(int(problem.part_ptr[op]), int(problem.part_ptr[op + 1]))
                if ((told[parts] != real[parts]) & ((problem.how[parts] & how) != 0)).any():
                    return False
    return True


def halves(problem: SliceProblem) -> Iterator[tuple[SliceProblem, SliceProblem, NDArray[np.int64]]]:
    """Ways to cut a slice in two, the most even first: both halves, and the operations of the first."""
    sizes = np.diff(problem.core_ptr).tolist()
    middle = [size / 2 for size in sizes]
    reach = 1 + int(_LOOKED_AT ** (1 / len(sizes)) / 2)
    ranges = [
        range(max(int(m) - reach, 0), min(int(m) + reach, size) + 1)
        for m, size in zip(middle, sizes, strict=True)
    ]
    cuts = sorted(
        itertools.islice(itertools.product(*ranges), 4 * _LOOKED_AT),
        key=lambda cut: (
            abs(2 * sum(cut) - problem.n),
            sum(abs(c - m) for c, m in zip(cut, middle, strict=True)),
        ),
    )
    guesses = 0
    for cut in cuts:
        if not 0 < sum(cut) < problem.n or guesses == MOST_GUESSES or not _clean(problem, cut):
            continue
        memory = memory_at(problem, cut)
        if memory is None:
            continue
        guesses += 1
        begun = [np.arange(f, f + c) for f, c in zip(problem.core_ptr[:-1].tolist(), cut, strict=True)]
        first = np.concatenate(begun).astype(np.int64)
        second = np.setdiff1d(np.arange(problem.n), first)
        yield (
            replace(choose(problem, first), final=memory),
            replace(choose(problem, second), initial=memory),
            first,
        )
