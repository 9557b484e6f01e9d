"""One region through the engines: what decides most regions at once comes first, what can decide the hard
ones last."""

from __future__ import annotations

import time

from solver.cut import CutSearch
from solver.deduction import deduce
from solver.problem import Problem, Solution, Verdict, no_order

#: Cuts that the first search may open: a few, and more in a region for which deduction takes longer.
_FIRST_NODES, _OPS_A_NODE = 64, 100
#: The SMT engine is asked only about regions up to this many operations, and gets this share of the time.
SMT_OPS, _SMT_SHARE = 600, 0.25


def solve_auto(problem: Problem, *, timeout_s: float, nodes: int, encoding: str = "chain") -> Solution:
    """Decide a region: a short cut search; deduction; cut search with what deduction found; then z3.

    `Solution.engine` says which of them answered: "cut", "deduction", "deduction+cut" or "smt".
    """
    began = time.monotonic()

    def since() -> float:
        return time.monotonic() - began

    first = CutSearch(problem)
    reason = first.go_on(began + timeout_s, min(nodes, _FIRST_NODES + problem.n_ops // _OPS_A_NODE))
    if reason != "budget":
        return first.answer("cut", since(), reason)
    deduced = deduce(problem)
    if deduced.contradiction >= 0:
        return Solution(Verdict.ILLEGAL, "deduction", since(), no_order())
    small = problem.n_ops <= SMT_OPS
    search = CutSearch(problem, deduced.before, counted=True)
    share = 1 - _SMT_SHARE if small else 1.0
    reason = search.go_on(began + timeout_s * share, nodes - first.opened)
    if not reason or not small:
        return search.answer("deduction+cut", since(), reason)
    # Loaded only here: a run that the cut search decides does not pay for z3.
    from solver.smt import solve_smt

    solution = solve_smt(problem, timeout_s=max(timeout_s - since(), 0.001), encoding=encoding)
    return Solution(solution.verdict, solution.engine, since(), solution.order, solution.reason)
