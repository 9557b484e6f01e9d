"""Orders in which nobody has a page while another has it alone (`solver.regions.rights`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import OrderError
from solver.regions.presence import with_presence
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.rights import PAGE, clashes_of

Order = NDArray[np.int64]
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]


def keep_apart(
    problem: Problem, solution: Solution, solve: Callable[[Problem], Solution], place: Callable[[Order], Runs]
) -> Solution:
    """A solution in which spans of the problem's `rights` overlap only where they may: the one given, or one
    of the problem in which that is told of the pages of which they do. solve: such a problem. place: an order
    of operations as runs of rows. Raises OrderError if none was found."""
    told, seconds = np.empty(0, np.int64), solution.seconds
    while solution.verdict is Verdict.LEGAL:
        clashes = clashes_of(problem.rights, place(solution.order))
        if not len(clashes):
            return replace(solution, seconds=seconds)
        pages = np.union1d(told, problem.rights[clashes[:, 0], PAGE])
        if len(pages) == len(told):
            break
        told = pages
        solution = solve(with_presence(problem, told))
        seconds += solution.seconds
    raise OrderError(
        "found no order in which nobody has a page while another has it alone",
        where=f"region {problem.region}",
    )
