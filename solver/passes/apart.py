"""Orders in which nobody has a page while another has it alone (`solver.regions.rights`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from corebraid.base.errors import OrderError
from solver.regions.presence import with_presence
from solver.regions.problem import Problem, Solution, Verdict
from solver.regions.rights import PAGE, Rights


def keep_apart(problem: Problem, solution: Solution, solve: Callable[[Problem], Solution]) -> Solution:
    """A solution in which spans of the problem's `rights` overlap only where they may: the one given, or one
    of the problem in which that is told of the pages of which they do. solve: such a problem. Raises
    OrderError if none was found."""
    rights, seconds = Rights(problem), solution.seconds
    told = np.empty(0, np.int64)
    while len(clashes := rights.clashes(solution.order)):
        pages = np.union1d(told, problem.rights[clashes[:, 0], PAGE])
        if len(pages) == len(told) or solution.verdict is not Verdict.LEGAL:
            break
        told = pages
        solution = solve(with_presence(problem, rights, told))
        seconds += solution.seconds
        if solution.verdict is not Verdict.LEGAL:
            break
    else:
        return replace(solution, seconds=seconds)
    raise OrderError(
        "found no order in which nobody has a page while another has it alone",
        where=f"region {problem.region}",
    )
