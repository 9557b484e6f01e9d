"""The minimal constraints of a slice that was decided (LightPlay, section 2.5)."""

from __future__ import annotations

from corebraid.base.clock import working_time
from solver.evidence.lightplay.constraints import Minimal, minimal_constraints
from solver.evidence.lightplay.decide import Decided
from solver.evidence.lightplay.search_cut import cut_graph


def minimal_of(decided: Decided, nodes: int) -> Minimal:
    """Those of a slice that has an order; as they are known, if they are. nodes: cuts to explore at most."""
    if decided.minimal is not None:
        return decided.minimal
    began = working_time()
    graph = cut_graph(decided.problem.real(), nodes)
    if not graph.any:
        return Minimal([], 0, working_time() - began)
    found = minimal_constraints(decided.problem, graph.before(), decided.order)
    return Minimal(found, graph.total, working_time() - began)
