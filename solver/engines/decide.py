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
#: Seconds of the beam search's first turn; the long search has a share of each of its turns beside it.
_TURN_S, _TURNS = 0.5, 3
#: The SMT engine is asked only about regions up to this many operations, and gets this share of the time.
SMT_OPS, _SMT_SHARE = 600, 0.25


def solve_auto(
    problem: Problem,
    *,
    timeout_s: float,
    nodes: int,
    encoding: str = "chain",
    briefly: bool = False,
    bounded: bool = False,
) -> Solution:
    """Decide a region: a short cut search; deduction, and a longer search with it; each granule's own graph,
    and a long search; unless it is to be done briefly, a beam search and the long search by turns, for as
    long as there is time; then z3.

    bounded: when the long search has opened as many cuts as it may, the beam search ends too.

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
        shares = (_SMALL_BEAM_SHARE, 1 - _SMT_SHARE) if small else (_BEAM_SHARE, 1.0)
        ends = began + timeout_s * shares[0], began + timeout_s * shares[1]
        found, reason = _by_turns(beam, search, ends, nodes - spent, bounded)
        if found:
            return beam.answer("beam", working_time() - began, "")
    if not reason or not small:
        return search.answer("projection", working_time() - began, reason)
    # Loaded only here: a run that needs no z3 does not pay for it.
    from solver.smt.engine import solve_smt

    solution = solve_smt(problem, timeout_s=max(until - working_time(), 0.001), encoding=encoding)
    return Solution(
        solution.verdict, solution.engine, working_time() - began, solution.order, solution.reason
    )


def _by_turns(
    beam: BeamSearch, search: CutSearch, ends: tuple[float, float], nodes: int, bounded: bool
) -> tuple[bool, str]:
    """Two searches by turns that grow, since what one finds at once the other may not find at all. ends: of
    working_time(), for each. nodes: cuts that the second may have opened; bounded: and where it has, the
    first ends too. Returns whether the first has decided the region, else why the second stopped, "" if it
    has."""
    turn, reason = _TURN_S, "budget"
    more_beam, more_search = True, search.opened < nodes
    while more_beam or more_search:
        if more_beam:
            until = working_time() + turn if more_search else ends[0]
            why = beam.go_on(min(until, ends[0]))
            if not why:
                return True, ""
            more_beam = why == "timeout" and working_time() < ends[0]
        if more_search:
            until = working_time() + turn / _TURNS if more_beam else ends[1]
            reason = search.go_on(min(until, ends[1]), nodes)
            if not reason:
                return False, ""
            more_search = reason == "timeout" and working_time() < ends[1]
            more_beam = more_beam and not (bounded and reason == "budget")
        turn *= 2
    return False, reason
