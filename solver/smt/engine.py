"""The SMT engine: a region's order by satisfiability modulo difference logic (MICRO 2009,
section 4.3). z3 works in a process of its own (`solver.smt.process`) and is not loaded here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.smt.process import PROCESSES, DiedError, TooLateError

#: Possible neighbours (pairs of accesses) beyond which no formula is built: each costs about 1 KB.
MAX_PAIRS = 1_000_000
#: Why a region is undecided whose process ended: killed for memory, as a rule.
Z3_DIED = "z3 died"
_NO_ROWS = np.empty(0, np.int32)
#: What z3's process runs (`solver.smt.child`).
_SOLVE = "solver.smt.formula:solve_formula"


def why_undecided(error: Exception) -> str:
    """What a solution says of z3 that was too late, or died."""
    return "timeout" if isinstance(error, TooLateError) else Z3_DIED


def count_pairs(problem: Problem) -> int:
    """How many pairs of accesses to one granule there are whose second may follow the first by value."""
    pairs = np.empty(2 * len(problem.granule), [("granule", np.int32), ("value", np.uint64)])
    pairs["granule"] = np.concatenate([problem.granule, problem.granule])
    pairs["value"] = np.concatenate([problem.old, problem.new])
    distinct, number = np.unique(pairs, return_inverse=True)
    old = np.bincount(number[: len(problem.old)], minlength=len(distinct))
    new = np.bincount(number[len(problem.old) :], minlength=len(distinct))
    return int((old * new).sum())


def solve_smt(problem: Problem, *, timeout_s: float, encoding: str = "chain") -> Solution:
    """Decide a region with z3. encoding: "paper" or "chain". Undecided after `timeout_s` seconds, of which
    starting z3 is not one. Raises CorebraidError if z3 cannot be started."""
    began = working_time()

    def answer(verdict: Verdict, order: NDArray[np.int64], reason: str) -> Solution:
        return Solution(verdict, f"smt-{encoding}", working_time() - began, order, reason)

    if count_pairs(problem) > MAX_PAIRS:
        return answer(Verdict.UNDECIDED, no_order(), "too large")
    # What only places rows is none of z3's business.
    bare = replace(problem, loads_before=_NO_ROWS)
    try:
        verdict, order, reason = PROCESSES.ask(_SOLVE, bare, encoding, timeout_s=timeout_s)
    except (TooLateError, DiedError) as error:
        return answer(Verdict.UNDECIDED, no_order(), why_undecided(error))
    return answer(Verdict(verdict), order, reason)
