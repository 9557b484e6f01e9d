"""Order between streams, told in granules of its own, so that engines need not know of it.

Operation e may have to wait for an operation d of another stream (`Problem.edges`): where an agent met a core
(`solver.regions.sync_order`), or of the other stream of its own core under TSO. A granule that nobody else
touches says so: d takes it from 0 to 1, e reads 1. Everything that holds of granules, stubborn sets and
deduction above all, then holds of that order too. What engines do have to know is `Problem.source`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solver.regions.problem import Problem


def with_links(problem: Problem) -> Problem:
    """The problem with a granule more for every operation that others wait for. Operations keep their
    numbers."""
    if not len(problem.edges):
        return problem
    first, waiting = problem.edges.T
    makers, link = np.unique(first, return_inverse=True)
    n_granules, n_links = len(problem.address), len(makers)
    part_op = np.concatenate([problem.part_op, makers, waiting])
    by = np.argsort(part_op, kind="stable")
    zeros, ones = np.zeros(n_links, np.uint64), np.ones(n_links, np.uint64)
    seen = np.ones(len(waiting), np.uint64)
    granule = np.concatenate([problem.granule, n_granules + np.arange(n_links), n_granules + link])
    return replace(
        problem,
        part_ptr=np.concatenate([[0], np.cumsum(np.bincount(part_op, minlength=problem.n_ops))]).astype(
            np.int64
        ),
        granule=granule[by].astype(np.int32),
        old=np.concatenate([problem.old, zeros, seen])[by],
        new=np.concatenate([problem.new, ones, seen])[by],
        # Addresses that no guest memory has.
        address=np.concatenate([problem.address, ~np.arange(n_links, dtype=np.uint64)]),
        size=np.concatenate([problem.size, np.ones(n_links, np.uint8)]),
        initial=np.concatenate([problem.initial, zeros]),
        final=np.concatenate([problem.final, ones]),
        edges=np.empty((0, 2), np.int64),
        links=n_links,
    )
