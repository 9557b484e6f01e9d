"""An axe trace's order by satisfiability (`solver.smt.engine`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from solver.axe.trace import Trace
from solver.regions.problem import Verdict, no_order
from solver.smt.engine import why_undecided
from solver.smt.process import PROCESSES, DiedError, TooLateError

#: What z3's process runs (`solver.smt.child`).
_SOLVE = "solver.axe.smt:solve_trace"


def solve_axe(trace: Trace, model: str, deadline: float) -> tuple[Verdict, NDArray[np.int64], str, str]:
    """(verdict, order of operations if LEGAL, "smt", why it is UNDECIDED). deadline: working_time().
    Raises CorebraidError if z3 cannot be started."""
    seconds = max(deadline - working_time(), 0.001)
    try:
        verdict, order, reason = PROCESSES.ask(_SOLVE, trace, model, timeout_s=seconds)
    except (TooLateError, DiedError) as error:
        return Verdict.UNDECIDED, no_order(), "", why_undecided(error)
    decided = verdict != Verdict.UNDECIDED.value
    return Verdict(verdict), order, "smt" if decided else "", reason
