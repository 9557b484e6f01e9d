"""Why a region has no legal order: few events that cannot be ordered together.

An explanation is a set of operations and of final values such that no order can serve them all, even if
nothing is asked of the others: one that is left out counts as a store of its new value over whatever was
there, or not at all if it changes nothing (`solver.deduction.facts.Doubt`). It is found by leaving out more
and more while deduction still proves that there is no order: halves first, then single ones. So each of what
remains is needed for the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.deduction.deduction import deduce
from solver.deduction.facts import Doubt
from solver.regions.links import with_links
from solver.regions.problem import Problem


@dataclass(frozen=True)
class Explanation:
    """operations: int64, those that cannot be ordered together. finals: int64, granules whose value at the
    region's end has a part in it. smallest: whether leaving out any one of them breaks the proof (False: time
    ran out while looking)."""

    operations: NDArray[np.int64]
    finals: NDArray[np.int64]
    smallest: bool


def _proves(problem: Problem, kept: NDArray[np.int64]) -> bool:
    """Whether deduction refutes what is kept: operations, then finals as n_ops + granule."""
    doubt = np.ones(problem.n_ops + len(problem.address), np.bool_)
    doubt[kept] = False
    return deduce(problem, Doubt(doubt[: problem.n_ops], doubt[problem.n_ops :])).contradiction >= 0


def explain(problem: Problem, *, timeout_s: float) -> Explanation | None:
    """Explain why a region has no legal order; None if deduction alone does not prove it."""
    until = working_time() + timeout_s
    n_granules = len(problem.address)
    problem = with_links(problem)
    answer = deduce(problem)
    if answer.contradiction < 0:
        return None
    # What is near the contradiction is likely to be needed, so that what is far is left out first.
    used = np.flatnonzero(np.diff(problem.stream_ptr))
    reach = answer.before[answer.contradiction]
    column = np.searchsorted(used, problem.op_stream)
    distance = np.abs(np.arange(problem.n_ops) - reach[column])
    kept = np.concatenate(
        [problem.n_ops + np.arange(len(problem.address)), np.argsort(-distance, kind="stable")]
    )
    size = (len(kept) + 1) // 2
    while True:
        at = 0
        while at < len(kept) and working_time() < until:
            fewer = np.concatenate([kept[:at], kept[at + size :]])
            if _proves(problem, fewer):
                kept = fewer
            else:
                at += size
        if working_time() >= until:
            break
        if size == 1:
            break
        size = (size + 1) // 2
    operations = np.sort(kept[kept < problem.n_ops])
    finals = np.sort(kept[kept >= problem.n_ops]) - problem.n_ops
    finals = finals[finals < n_granules]
    return Explanation(operations, finals, working_time() < until)
