"""One region through the engines: what decides most regions at once comes first, what can decide the hard
ones last."""

from __future__ import annotations

from corebraid.base.clock import working_time
from solver.cuts.search import CutSearch
from solver.deduction.deduction import MAX_PROJECTED, deduce
from solver.engines.beam import BeamSearch
from solver.regions.problem import Problem, Solution, Verdict, no_order

#: Cuts that a search may open before the next engine has its turn, and more for each so many operations.
_SHORT, _LONGER, _LONG = (64, 4), (2000, 8), (20_000, 1)
#: Until when the beam search works, in shares of the time, in large regions and in those for the SMT engine.
_BEAM_SHARE, _SMALL_BEAM_SHARE = 0.9, 0.4
#: The SMT engine is asked only about regions up to this many operations, and gets this share of the time.
SMT_OPS, _SMT_SHARE = 600, 0.25


def solve_auto(
    problem: Problem, *, timeout_s: float, nodes: int, encoding: str = "chain", briefly: bool = False
) -> Solution:
    """Decide a region: a short cut search; deduction, and a longer search with it; each granule's own graph,
    and a long search; unless it is to be done briefly, a beam search; the long search for as long as there is
    time; then z3.

    `Solution.engine` says which of them answered: "cut", "deduction", "projection", "beam" or "smt-...".
    """
    began = working_time()
    until = began + timeout_s

    def budget(spent: int, limit: tuple[int, int]) -> int:
        return min(nodes - spent, limit[0] + problem.n_ops // limit[1])

    search = CutSearch(problem)
    reason = search.go_on(until, budget(0, _SHORT))
    if reason != "budget":
        return search.answer("cut", working_time() - began, reason)
    spent = search.opened
    deduced = deduce(problem)
    if deduced.contradiction >= 0:
        return Solution(Verdict.ILLEGAL, "deduction", working_time() - began, no_order())
    search = CutSearch(problem, deduced.before, counted=True)
    reason = search.go_on(until, budget(spent, _LONGER))
    if reason != "budget":
        return search.answer("deduction", working_time() - began, reason)
    spent += search.opened
    if deduced.go_on(MAX_PROJECTED).contradiction >= 0:
        return Solution(Verdict.ILLEGAL, "projection", working_time() - began, no_order())
    small = problem.n_ops <= SMT_OPS
    search = CutSearch(problem, deduced.before, counted=True)
    reason = search.go_on(until, budget(spent, _LONG))
    if briefly:
        return search.answer("projection", working_time() - began, reason)
    if reason == "budget" and spent + search.opened < nodes:
        beam = BeamSearch(problem, deduced.before)
        if not beam.go_on(began + timeout_s * (_SMALL_BEAM_SHARE if small else _BEAM_SHARE)):
            return beam.answer("beam", working_time() - began, "")
        reason = search.go_on(began + timeout_s * (1 - _SMT_SHARE if small else 1.0), nodes - spent)
    if not reason or not small:
        return search.answer("projection", working_time() - began, reason)
    # Loaded only here: a run that needs no z3 does not pay for it.
    from solver.smt.engine import solve_smt

    solution = solve_smt(problem, timeout_s=max(until - working_time(), 0.001), encoding=encoding)
    return Solution(
        solution.verdict, solution.engine, working_time() - began, solution.order, solution.reason
    )
