"""The SMT engine: a region's order by satisfiability modulo difference logic (MICRO 2009, section 4.3)."""

from __future__ import annotations

import math
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
#: How late z3's answer may come: a share of the time that it had, and seconds.
_LATE_SHARE, _LATE_S = 0.1, 1.0
#: How long z3 is waited for when all is to end.
_PARTING_S = 2.0


class OutOfTimeError(Exception):
    """The time for one region is used up while its formula is being built."""


def _check(solver: z3.Solver, deadline: float) -> z3.CheckSatResult:
    left = deadline - time.monotonic()
    if left <= 0:
        return z3.unknown
    solver.set("timeout", max(1, int(left * 1000)))
    # z3's own handler of Ctrl-C would take it from Python's.
    solver.set("ctrl_c", False)
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


class _Attempt:
    """One formula, built and solved in a thread of its own: an exception that Ctrl-C raises inside z3's
    Python wrappers can leave them with an object that is freed twice."""

    def __init__(self, problem: Problem, encoding: str, began: float, deadline: float) -> None:
        self._problem, self._encoding, self._began, self._deadline = problem, encoding, began, deadline
        self._context = z3.Context()
        self._solution: Solution | None = None
        self._error: BaseException | None = None
        self._stopped = False

    def _on_time(self) -> None:
        if self._stopped or time.monotonic() > self._deadline:
            raise OutOfTimeError

    def _answer(self, verdict: Verdict, order: NDArray[np.int64], reason: str = "") -> Solution:
        return Solution(verdict, f"smt-{self._encoding}", time.monotonic() - self._began, order, reason)

    def _solve(self) -> Solution:
        encode, new_solver = ENCODINGS[self._encoding]
        solver = new_solver(self._context)
        try:
            position = encode(self._problem, solver, self._on_time)
        except OutOfTimeError:
            return self._answer(Verdict.UNDECIDED, no_order(), "timeout")
        if position is None:
            return self._answer(Verdict.ILLEGAL, no_order())
        result = _check(solver, self._deadline)
        if result == z3.sat:
            return self._answer(Verdict.LEGAL, _sorted_order(self._problem, solver.model(), position))
        if result == z3.unsat:
            return self._answer(Verdict.ILLEGAL, no_order())
        late = time.monotonic() >= self._deadline
        return self._answer(Verdict.UNDECIDED, no_order(), "timeout" if late else "gave up")

    def _run(self) -> None:
        try:
            self._solution = self._solve()
        except BaseException as error:
            self._error = error

    def _wait(self, thread: threading.Thread, until: float = math.inf) -> None:
        """Until the thread has ended; from the deadline on with interrupts, since z3 overruns its own timeout
        in some of its preprocessing."""
        while thread.is_alive() and time.monotonic() < until:
            late = self._stopped or time.monotonic() >= self._deadline
            if late:
                self._context.interrupt()
            thread.join(_KNOCK_S if late else max(self._deadline - time.monotonic(), 0.0))

    def result(self) -> Solution:
        """Start, and wait for the answer. A thread that does not heed its interrupts in time is left alone:
        it goes on being interrupted, and its answer is not waited for."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        late = (self._deadline - self._began) * _LATE_SHARE + _LATE_S
        try:
            self._wait(thread, self._deadline + late)
            if thread.is_alive():
                self._stopped = True
                threading.Thread(target=self._wait, args=(thread,), daemon=True).start()
                return self._answer(Verdict.UNDECIDED, no_order(), "timeout")
        except BaseException:
            self._stopped = True
            self._wait(thread, time.monotonic() + _PARTING_S)
            raise
        if self._error is not None:
            raise self._error
        assert self._solution is not None
        return self._solution


def solve_smt(problem: Problem, *, timeout_s: float, encoding: str = "chain") -> Solution:
    """Decide a region with z3. encoding: a key of ENCODINGS. Undecided after `timeout_s` seconds."""
    began = time.monotonic()
    if count_pairs(problem) > MAX_PAIRS:
        seconds = time.monotonic() - began
        return Solution(Verdict.UNDECIDED, f"smt-{encoding}", seconds, no_order(), "too large")
    return _Attempt(problem, encoding, began, began + timeout_s).result()
