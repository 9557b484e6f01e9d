"""Decides a trace: deduction first, then the search, then (if asked for) z3; every OK has a checked order.

Hints (docs/axe.md) are tried before that, as if they were demanded: an order that meets them is an order of
the trace. That there is none, or that none is found soon, says nothing: then it is decided without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import OrderError
from solver.axe.chains import make_chains
from solver.axe.checker import check_order
from solver.axe.deduce import CHANGED, CONFLICT, begin, one_pass
from solver.axe.facts import OPEN, no_facts
from solver.axe.hinted import says_all, search_hinted
from solver.axe.search import search_order, walk_straight
from solver.regions.problem import Verdict

if TYPE_CHECKING:
    from solver.axe.trace import Trace

ENGINES = ("auto", "search", "smt")
#: Operations times chains beyond which a trace is not begun: each takes about 16 bytes.
MOST_CELLS = 1 << 28
#: Cuts after which `auto` lets z3 try, and the largest trace for which it does.
AUTO_CUTS, AUTO_SMT_OPS = 2_000_000, 2_000
#: Cuts given up, and share of the time, after which the hints are let go.
HINT_CUTS, HINT_SHARE = 200_000, 0.5

#: There are none, or they were not tried; an order meets them; no order of the trace does; nobody knows.
HINTS = NO_HINTS, MET, CONTRADICTED, GIVEN_UP = "", "met", "contradicted", "given up"

Show = Callable[[str, int, int], None]


def show_nothing(_stage: str, _done: int, _total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True)
class Answer:
    """LEGAL is OK, ILLEGAL is NO. order: int64, the operations in a checked legal order, empty unless LEGAL.
    engine: what decided: "hints", "deduction", "search", "smt"; "" if nothing did. reason: why it is
    UNDECIDED. hints: what became of the hints, one of HINTS."""

    verdict: Verdict
    order: NDArray[np.int64]
    engine: str
    seconds: float
    reason: str = ""
    hints: str = NO_HINTS


def decide(
    trace: Trace, model: str, *, engine: str = "auto", timeout_s: float = 60.0, show: Show = show_nothing
) -> Answer:
    """Whether a trace is legal under `model`, "sc" or "tso". engine: one of ENGINES. show: called with what
    is being done, and how many operations of how many it has come to.

    An order is checked by `solver.axe.checker` before it is returned; it raises OrderError if that fails,
    which is a bug here and never a property of the trace.
    """
    began = working_time()
    deadline, hints = began + timeout_s, NO_HINTS
    if engine != "smt" and trace.has_hints and not _is_too_large(trace):
        hints, order = _by_hints(trace, model, began + HINT_SHARE * timeout_s, show)
        if hints == MET:
            return Answer(Verdict.LEGAL, order, "hints", working_time() - began, "", hints)
    verdict, order, by, reason = _decide(trace, model, engine, deadline, show)
    if verdict is Verdict.LEGAL:
        check_order(trace, order, model)
    return Answer(verdict, order, by, working_time() - began, reason, hints)


_Decision = tuple[Verdict, NDArray[np.int64], str, str]


def _is_too_large(trace: Trace) -> bool:
    n_chains = len(trace.threads) * 2
    return trace.n_ops * n_chains > MOST_CELLS or len(trace.addresses) * n_chains > MOST_CELLS


def _by_hints(trace: Trace, model: str, deadline: float, show: Show) -> tuple[str, NDArray[np.int64]]:
    """(one of HINTS; a checked order that meets the hints, if MET)."""
    if says_all(trace):
        verdict, order = search_hinted(trace, model, deadline, show)
    else:
        verdict, order, _, _ = _search(trace, model, deadline, HINT_CUTS, show, hints=True)
    if verdict is Verdict.LEGAL:
        try:
            check_order(trace, order, model)
        except OrderError:
            # What is left out of the parts' problems is read nowhere but there.
            return CONTRADICTED, np.empty(0, np.int64)
    return {Verdict.LEGAL: MET, Verdict.ILLEGAL: CONTRADICTED}.get(verdict, GIVEN_UP), order


def _decide(trace: Trace, model: str, engine: str, deadline: float, show: Show) -> _Decision:
    if not trace.n_ops and not len(trace.final_address):
        return Verdict.LEGAL, np.empty(0, np.int64), "deduction", ""
    if engine == "smt":
        return _by_smt(trace, model, deadline)
    if _is_too_large(trace):
        return Verdict.UNDECIDED, np.empty(0, np.int64), "", "too large"
    try_smt = engine == "auto" and trace.n_ops <= AUTO_SMT_OPS
    answer = _search(trace, model, deadline, AUTO_CUTS if try_smt else 1 << 62, show)
    if answer[0] is Verdict.UNDECIDED and try_smt and working_time() < deadline:
        return _by_smt(trace, model, deadline)
    return answer


def _search(
    trace: Trace, model: str, deadline: float, cuts: int, show: Show, *, hints: bool = False
) -> _Decision:
    """Deduction, then search until `cuts` cuts have been given up."""
    none = np.empty(0, np.int64)
    chains = make_chains(trace, model, hints=hints)
    facts = no_facts(chains)
    passes = 0

    def placed(n: int) -> None:
        show("search", n, trace.n_ops)

    result = CHANGED if begin(chains, facts) else CONFLICT
    while result == CHANGED:
        passes += 1
        show("deduction, pass", passes, 0)
        if working_time() > deadline:
            return Verdict.UNDECIDED, none, "", "timeout"
        result = one_pass(chains, facts)
        if result == CHANGED and passes == 1 and not facts.status[OPEN]:
            # Mostly the further passes find what no walk would have run into.
            nodes = walk_straight(chains, facts, len(trace.threads), placed)
            if len(nodes):
                return Verdict.LEGAL, chains.op[nodes], "search", ""
    if result == CONFLICT:
        return Verdict.ILLEGAL, none, "deduction", ""
    verdict, nodes = search_order(chains, facts, len(trace.threads), deadline, cuts, placed)
    if verdict is not Verdict.UNDECIDED:
        return verdict, chains.op[nodes], "search", ""
    return verdict, none, "", "timeout" if working_time() >= deadline else "too large"


def _by_smt(trace: Trace, model: str, deadline: float) -> _Decision:
    from solver.axe.by_smt import solve_axe

    return solve_axe(trace, model, deadline)
