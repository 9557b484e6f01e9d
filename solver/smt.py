"""The SMT engine: a region's order by satisfiability modulo difference logic (MICRO 2009, section 4.3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import z3
from numpy.typing import NDArray

from solver.problem import Problem, Solution, Verdict, no_order
from solver.smt_chain import encode_chain
from solver.smt_paper import encode_paper

_Encode = Callable[[Problem, z3.Solver, Callable[[], None]], list[Any] | None]


def _difference_logic(context: z3.Context) -> z3.Solver:
    return z3.SolverFor("QF_IDL", ctx=context)


def _bellman_ford(context: z3.Context) -> z3.Solver:
    solver = z3.SimpleSolver(ctx=context)
    solver.set("arith.solver", 1)
    solver.set("relevancy", 0)
    return solver


#: The encodings by name, each with the solver that was the fastest on it: "paper" is Algorithm 1 as
#: printed, "chain" the better one (DESIGN 6.7).
ENCODINGS: dict[str, tuple[_Encode, Callable[[z3.Context], z3.Solver]]] = {
    "paper": (encode_paper, _difference_logic),
    "chain": (encode_chain, _bellman_ford),
}
#: Possible neighbours (pairs of accesses) beyond which no formula is built: each costs about 1 KB.
MAX_PAIRS = 1_000_000
#: An interrupt that comes while z3 is between two steps can be lost, so it is repeated.
_KNOCK_S = 0.05


class OutOfTimeError(Exception):
    """The time for one region is used up while its formula is being built."""


class _Watchdog:
    """Interrupts a z3 context from a deadline on, until closed: z3 overruns its own timeout in some of
    its preprocessing."""

    def __init__(self, context: z3.Context, deadline: float) -> None:
        self._context, self._deadline = context, deadline
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        if self._done.wait(max(0.0, self._deadline - time.monotonic())):
            return
        while not self._done.wait(_KNOCK_S):
            self._context.interrupt()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def _check(solver: z3.Solver, context: z3.Context, deadline: float) -> z3.CheckSatResult:
    left = deadline - time.monotonic()
    if left <= 0:
        return z3.unknown
    solver.set("timeout", max(1, int(left * 1000)))
    with _Watchdog(context, deadline):
        try:
            return solver.check()
        except z3.Z3Exception:
            return z3.unknown


def count_pairs(problem: Problem) -> int:
    """How many pairs of accesses to one granule there are whose second may follow the first by value."""
    pairs = np.empty(2 * len(problem.granule), [("granule", np.int32), ("value", np.uint64)])
    pairs["granule"] = np.concatenate([problem.granule, problem.granule])
    pairs["value"] = np.concatenate([problem.old, problem.new])
    distinct, number = np.unique(pairs, return_inverse=True)
    old = np.bincount(number[: len(problem.old)], minlength=len(distinct))
    new = np.bincount(number[len(problem.old) :], minlength=len(distinct))
    return int((old * new).sum())


def _sorted_order(problem: Problem, model: z3.ModelRef, position: list[Any]) -> NDArray[np.int64]:
    value = np.array([model.eval(o, model_completion=True).as_long() for o in position], np.int64)
    return np.lexsort((np.arange(problem.n_ops), value))


def solve_smt(problem: Problem, *, timeout_s: float, encoding: str = "chain") -> Solution:
    """Decide a region with z3. encoding: a key of ENCODINGS. Undecided after `timeout_s` seconds."""
    began = time.monotonic()
    deadline = began + timeout_s
    context = z3.Context()
    encode, new_solver = ENCODINGS[encoding]
    solver = new_solver(context)

    def on_time() -> None:
        if time.monotonic() > deadline:
            raise OutOfTimeError

    def answer(verdict: Verdict, order: NDArray[np.int64], reason: str = "") -> Solution:
        return Solution(verdict, f"smt-{encoding}", time.monotonic() - began, order, reason)

    if count_pairs(problem) > MAX_PAIRS:
        return answer(Verdict.UNDECIDED, no_order(), "too large")
    try:
        position = encode(problem, solver, on_time)
    except OutOfTimeError:
        return answer(Verdict.UNDECIDED, no_order(), "timeout")
    if position is None:
        return answer(Verdict.ILLEGAL, no_order())
    result = _check(solver, context, deadline)
    if result == z3.sat:
        return answer(Verdict.LEGAL, _sorted_order(problem, solver.model(), position))
    if result == z3.unsat:
        return answer(Verdict.ILLEGAL, no_order())
    late = time.monotonic() >= deadline
    return answer(Verdict.UNDECIDED, no_order(), "timeout" if late else "gave up")
