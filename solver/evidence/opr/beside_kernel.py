"""A region of a Linux program in which the kernel is in conflict with members: beyond the paper.

Of the members' operations the event orders say which of two in conflict came first. The kernel has no clock:
it is no member, and the evidence has nothing of its accesses. They are few, though: words that threads wait
on, what calls read and write. Where they stand among the members' a search finds out, by values and by where
the kernel met whom, with the members' order given; likewise fetches of code that it has put there, which have
no clock either. Of all these that order is a legal one, and not necessarily the one that ran.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from solver.engines.decide import solve_auto
from solver.engines.reorder import conflicts_of
from solver.regions.links import with_links
from solver.regions.problem import Problem, Solution

#: Cuts that the search may open, and its seconds: with the members' order it hardly ever has a choice.
_NODES, _SECONDS = 1_000_000, 60.0


def place_kernel(problem: Problem, order: NDArray[np.int64]) -> Solution:
    """The region with the order of some of its operations given.

    order: int64 (n,), the members', in an order in which every two in conflict stand as they ran. ILLEGAL
    where no order of all has them so: then the evidence contradicts the replay.
    """
    edges, stream = conflicts_of(problem, order), problem.op_stream
    told = edges[stream[edges[:, 0]] != stream[edges[:, 1]]]
    # What is deduced from tenures stays last.
    given = replace(problem, edges=np.concatenate([told, problem.edges]))
    return solve_auto(with_links(given), timeout_s=_SECONDS, nodes=_NODES)
