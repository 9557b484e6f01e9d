"""Decides a trace: deduction first, then the search, then (if asked for) z3; every OK has a checked order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from solver.axe.chains import make_chains
from solver.axe.checker import check_order
from solver.axe.deduce import deduce, no_facts
from solver.axe.search import search_order
from solver.problem import Verdict

if TYPE_CHECKING:
    from solver.axe.trace import Trace

ENGINES = ("auto", "search", "smt")
#: Operations times chains beyond which a trace is not begun: each takes about 16 bytes.
MOST_CELLS = 1 << 28
#: Cuts after which `auto` lets z3 try, and the largest trace for which it does.
AUTO_CUTS, AUTO_SMT_OPS = 2_000_000, 2_000


@dataclass(frozen=True)
class Answer:
    """LEGAL is OK, ILLEGAL is NO. order: int64, the operations in a checked legal order, empty unless LEGAL.
    engine: what decided: "deduction", "search", "smt"; "" if nothing did. reason: why it is UNDECIDED."""

    verdict: Verdict
    order: NDArray[np.int64]
    engine: str
    seconds: float
    reason: str = ""


class _OutOfTimeError(Exception):
    """The time is used up."""


def decide(trace: Trace, model: str, *, engine: str = "auto", timeout_s: float = 60.0) -> Answer:
    """Whether a trace is legal under `model`, "sc" or "tso". engine: one of ENGINES.

    An order is checked by `solver.axe.checker` before it is returned; it raises OrderError if that fails,
    which is a bug here and never a property of the trace.
    """
    began = time.monotonic()
    verdict, order, by, reason = _decide(trace, model, engine, began + timeout_s)
    if verdict is Verdict.LEGAL:
        check_order(trace, order, model)
    return Answer(verdict, order, by, time.monotonic() - began, reason)


_Decision = tuple[Verdict, NDArray[np.int64], str, str]


def _decide(trace: Trace, model: str, engine: str, deadline: float) -> _Decision:
    none = np.empty(0, np.int64)
    if engine == "smt":
        return _by_smt(trace, model, deadline)
    n_chains = len(trace.threads) * 2
    if trace.n_ops * n_chains > MOST_CELLS or len(trace.addresses) * n_chains > MOST_CELLS:
        return Verdict.UNDECIDED, none, "", "too large"
    chains = make_chains(trace, model)
    facts = no_facts(chains)

    def on_time() -> None:
        if time.monotonic() > deadline:
            raise _OutOfTimeError

    try:
        if not deduce(chains, facts, on_time):
            return Verdict.ILLEGAL, none, "deduction", ""
    except _OutOfTimeError:
        return Verdict.UNDECIDED, none, "", "timeout"
    try_smt = engine == "auto" and trace.n_ops <= AUTO_SMT_OPS
    cuts = AUTO_CUTS if try_smt else 1 << 62
    verdict, nodes = search_order(chains, facts, len(trace.threads), deadline, cuts)
    if verdict is not Verdict.UNDECIDED:
        return verdict, chains.op[nodes], "search", ""
    if time.monotonic() < deadline and try_smt:
        return _by_smt(trace, model, deadline)
    return verdict, none, "", "timeout" if time.monotonic() >= deadline else "too large"


def _by_smt(trace: Trace, model: str, deadline: float) -> _Decision:
    from solver.smt import solve_axe

    return solve_axe(trace, model, deadline)
