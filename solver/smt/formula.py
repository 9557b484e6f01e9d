"""A region's formula, built and solved by z3 (MICRO 2009, section 4.3); runs in the process of
`solver.smt.child`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import z3
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.regions.problem import Problem, Verdict, no_order
from solver.smt.chain import encode_chain
from solver.smt.paper import encode_paper

_Encode = Callable[[Problem, z3.Solver, Callable[[], None]], list[Any] | None]
#: (verdict's value, order if it is legal, why it is undecided)
Found = tuple[str, NDArray[np.int64], str]


def _difference_logic() -> z3.Solver:
    return z3.SolverFor("QF_IDL", ctx=z3.Context())


def _bellman_ford() -> z3.Solver:
    solver = z3.SimpleSolver(ctx=z3.Context())
    solver.set("arith.solver", 1)
    solver.set("relevancy", 0)
    return solver


#: The encodings by name, each with the solver that was the fastest on it: "paper" is Algorithm 1 as
#: printed, "chain" the better one.
ENCODINGS: dict[str, tuple[_Encode, Callable[[], z3.Solver]]] = {
    "paper": (encode_paper, _difference_logic),
    "chain": (encode_chain, _bellman_ford),
}


class OutOfTimeError(Exception):
    """The time for one region is used up while its formula is being built."""


def check_until(solver: z3.Solver, deadline: float) -> z3.CheckSatResult:
    """What the solver finds until the clock (working_time) says `deadline`."""
    left = deadline - working_time()
    if left <= 0:
        return z3.unknown
    solver.set("timeout", max(1, int(left * 1000)))
    try:
        return solver.check()
    except z3.Z3Exception:
        return z3.unknown


def _sorted_order(problem: Problem, model: z3.ModelRef, position: list[Any]) -> NDArray[np.int64]:
    value = np.array([model.eval(o, model_completion=True).as_long() for o in position], np.int64)
    return np.lexsort((np.arange(problem.n_ops), value))


def solve_formula(problem: Problem, encoding: str, *, timeout_s: float) -> Found:
    """Decide a region with z3. encoding: a key of ENCODINGS."""
    deadline = working_time() + timeout_s

    def on_time() -> None:
        if working_time() > deadline:
            raise OutOfTimeError

    encode, new_solver = ENCODINGS[encoding]
    solver = new_solver()
    try:
        position = encode(problem, solver, on_time)
    except OutOfTimeError:
        return Verdict.UNDECIDED.value, no_order(), "timeout"
    if position is None:
        return Verdict.ILLEGAL.value, no_order(), ""
    result = check_until(solver, deadline)
    if result == z3.sat:
        return Verdict.LEGAL.value, _sorted_order(problem, solver.model(), position), ""
    if result == z3.unsat:
        return Verdict.ILLEGAL.value, no_order(), ""
    late = working_time() >= deadline
    return Verdict.UNDECIDED.value, no_order(), "timeout" if late else "gave up"
