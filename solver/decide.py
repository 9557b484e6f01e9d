"""One region through the engines: what decides most regions at once comes first, what can decide the hard
ones last."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from solver.chains import chains_of
from solver.cut import CutSearch
from solver.deduction import deduce
from solver.must import must_clocks
from solver.problem import Problem, Solution, Verdict, no_order

#: Cuts that a search may open before the next engine has its turn, and more for each so many operations.
_SHORT, _LONGER = (64, 100), (2000, 8)
#: The SMT engine is asked only about regions up to this many operations, and gets this share of the time.
SMT_OPS, _SMT_SHARE = 600, 0.25


def projected(problem: Problem) -> NDArray[np.int32] | None:
    """What deduction and each granule's own graph of cuts (`solver.projection`) say must precede what, as
    `solver.cut_walk.Ops.before`; None if they show that there is no legal order."""
    chains = chains_of(problem)
    clocks = must_clocks(chains)
    if clocks is None:
        return None
    before = clocks[0].copy()
    operations = np.arange(problem.n_ops)
    before[operations, chains.op_stream] = operations
    return before


def solve_auto(problem: Problem, *, timeout_s: float, nodes: int, encoding: str = "chain") -> Solution:
    """Decide a region: a short cut search; deduction, and a longer search with it; each granule's own graph,
    and search for as long as there is time; then z3.

    `Solution.engine` says which of them answered: "cut", "deduction", "projection" or "smt-...".
    """
    began = time.monotonic()
    until = began + timeout_s

    def budget(spent: int, limit: tuple[int, int]) -> int:
        return min(nodes - spent, limit[0] + problem.n_ops // limit[1])

    search = CutSearch(problem)
    reason = search.go_on(until, budget(0, _SHORT))
    if reason != "budget":
        return search.answer("cut", time.monotonic() - began, reason)
    spent = search.opened
    deduced = deduce(problem)
    if deduced.contradiction >= 0:
        return Solution(Verdict.ILLEGAL, "deduction", time.monotonic() - began, no_order())
    search = CutSearch(problem, deduced.before, counted=True)
    reason = search.go_on(until, budget(spent, _LONGER))
    if reason != "budget":
        return search.answer("deduction", time.monotonic() - began, reason)
    spent += search.opened
    before = projected(problem)
    if before is None:
        return Solution(Verdict.ILLEGAL, "projection", time.monotonic() - began, no_order())
    small = problem.n_ops <= SMT_OPS
    search = CutSearch(problem, before, counted=True)
    reason = search.go_on(began + timeout_s * (1 - _SMT_SHARE if small else 1.0), nodes - spent)
    if not reason or not small:
        return search.answer("projection", time.monotonic() - began, reason)
    # Loaded only here: a run that needs no z3 does not pay for it.
    from solver.smt import solve_smt

    solution = solve_smt(problem, timeout_s=max(until - time.monotonic(), 0.001), encoding=encoding)
    return Solution(
        solution.verdict, solution.engine, time.monotonic() - began, solution.order, solution.reason
    )
