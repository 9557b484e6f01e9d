"""A legal order of one's choice: fewest switches, an event as early or late as can be, one before another.

All of it is exact where the graph of legal cuts (`solver.freedom.graph`) fits the budget. For an event as
early as possible there is a quicker way that mostly does: if an order exists in which nothing comes before it
but what must, that is the earliest, and clocks that know this wish find it. The same for late, mirrored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.errors import UsageError
from solver.freedom.freedom import Limits, Survey, path_through
from solver.freedom.graph import DEFAULT_CUTS, CutGraph, build_graph, cuts_of_order
from solver.regions.problem import Problem, Solution, Verdict, no_order

KINDS = ("fewest-switches", "earliest", "latest", "before")
_MANY = np.int32(1 << 30)


@dataclass(frozen=True)
class Choice:
    """Which legal order to choose. kind: one of KINDS. region, stream, row: the event that is meant, by its
    place among the rows of its stream in the region; other_stream, other_row: the one that it shall come
    before. fewest-switches is for all regions and needs no event."""

    kind: str
    region: int = -1
    stream: int = -1
    row: int = -1
    other_stream: int = -1
    other_row: int = -1

    def concerns(self, region: int) -> bool:
        """Whether the choice is about this region."""
        return self.kind == "fewest-switches" or self.region == region


@dataclass(frozen=True)
class Chosen:
    """What was chosen in a region. order: int64 (n_ops,), if one was found. figure: the switches, or the
    event's rank (0 is first) among the region's unfiltered operations. proven: whether no legal order does
    better; without an order, whether there is none."""

    verdict: Verdict
    order: NDArray[np.int64] | None
    figure: int
    proven: bool

    def words(self, choice: Choice) -> str:
        """What was reached."""
        proven = "" if self.proven else ", not proven to be the best: the budget ended"
        if choice.kind == "fewest-switches":
            return f"{self.figure:,} switch{'' if self.figure == 1 else 'es'}{proven}"
        if choice.kind == "before":
            return ""
        assert self.order is not None
        return f"event is number {self.figure + 1:,} of {len(self.order):,}{proven}"


@njit(cache=True)
def switches_to_go(child, alive, core, togo):  # type: ignore[no-untyped-def]
    """togo[i, s]: the fewest switches from node i to the last one, if stream s ran last (int32). core: int64
    (S,), the core of each stream."""
    n, n_streams = child.shape
    togo[n - 1] = 0
    for i in range(n - 2, -1, -1):
        for s in range(n_streams):
            togo[i, s] = _MANY
        for t in range(n_streams):
            if child[i, t] < 0 or not alive[child[i, t]]:
                continue
            on = togo[child[i, t], t]
            for s in range(n_streams):
                togo[i, s] = min(togo[i, s], on if core[s] == core[t] else on + 1)


def fewest(graph: CutGraph, core: NDArray[np.int64]) -> NDArray[np.int64]:
    """An order of the graph with the fewest switches: int64 (n_ops,). core: of each stream."""
    togo = np.full(graph.child.shape, _MANY, np.int32)
    switches_to_go(graph.child, graph.alive, core, togo)
    order, node, last = [], 0, -1
    for _ in range(len(graph.layer) - 2):
        costs = [
            (int(togo[child, s]) + (last < 0 or core[s] != core[last]), int(s))
            for s, child in enumerate(graph.child[node].tolist())
            if child >= 0 and graph.alive[child]
        ]
        _, last = min(costs)
        order.append(int(graph.position[node, last]))
        node = int(graph.child[node, last])
    return np.array(order, np.int64)


def count_switches(problem: Problem, order: NDArray[np.int64]) -> int:
    """How often another core goes on."""
    cores = problem.stream_core[problem.op_stream[order]]
    return int(np.count_nonzero(cores[1:] != cores[:-1]))


def op_of_row(problem: Problem, stream: int, row: int) -> int:
    """The operation that an unfiltered row of a stream is part of."""
    first, end = problem.stream_ptr[stream], problem.stream_ptr[stream + 1]
    return int(first + np.searchsorted(problem.end_row[first:end], row, side="right"))


def _graph(survey: Survey) -> CutGraph:
    """The graph of all legal cuts, or the part around the order in hand that the budget allows."""
    assert survey.clocks is not None
    assert survey.order is not None
    cuts = survey.limits.cuts
    graph = build_graph(survey.chains, survey.clocks, reduced=False, cuts=cuts, until=survey.until)
    if graph.complete:
        return graph
    guide = cuts_of_order(survey.chains, survey.order)
    return build_graph(
        survey.chains, survey.clocks, reduced=False, cuts=cuts, width=max(cuts // len(guide), 1), guide=guide,
        until=working_time() + max(survey.until - working_time(), 1.0),
    )  # fmt: skip


def _fewest_switches(survey: Survey) -> Chosen:
    assert survey.order is not None
    graph = _graph(survey)
    best = survey.order
    if graph.legal:
        found = fewest(graph, survey.chains.core)
        best = min((found, best), key=lambda order: count_switches(survey.problem, order))
    return Chosen(Verdict.LEGAL, best, count_switches(survey.problem, best), graph.complete)


def _bound(survey: Survey, op: int, *, late: bool) -> NDArray[np.int64] | None:
    """A legal order with nothing before `op` but what must be (late: nothing after it), if one is found."""
    assert survey.clocks is not None
    assert survey.order is not None
    clock, after = survey.clocks
    wishes = []
    for u in range(len(survey.chains.stream)):
        if u == survey.chains.op_stream[op]:
            continue
        first, end = int(survey.chains.stream_ptr[u]), int(survey.chains.stream_ptr[u + 1])
        if late and after[op, u] > first:
            wishes.append((int(after[op, u]) - 1, op))
        if not late and clock[op, u] < end:
            wishes.append((op, int(clock[op, u])))
    return survey.find(tuple(wishes))


def _extreme(survey: Survey, op: int, *, late: bool) -> Chosen:
    """The order with `op` as early or late as possible."""
    assert survey.order is not None
    order, proven = _bound(survey, op, late=late), True
    if order is None:
        graph = _graph(survey)
        order, proven = survey.order, graph.complete
        s = int(survey.chains.op_stream[op])
        child = graph.child[:, s]
        here = graph.alive & (graph.position[:, s] == op) & (child >= 0)
        here[here] = graph.alive[child[here]]
        nodes = np.flatnonzero(here)
        if len(nodes):
            found = path_through(graph, int(nodes[-1 if late else 0]), s)
            better = _rank(found, op) > _rank(order, op) if late else _rank(found, op) < _rank(order, op)
            order = found if better else order
    return Chosen(Verdict.LEGAL, order, _rank(order, op), proven)


def _rank(order: NDArray[np.int64], op: int) -> int:
    return int(np.flatnonzero(order == op)[0])


def choose(problem: Problem, choice: Choice, limits: Limits | None = None) -> Chosen:
    """Choose a legal order of a region that the choice concerns, within the limits."""
    survey = Survey(problem, limits or Limits(DEFAULT_CUTS))
    if survey.verdict is Verdict.ILLEGAL:
        return Chosen(Verdict.ILLEGAL, None, 0, True)
    if survey.order is None:
        return Chosen(Verdict.UNDECIDED, None, 0, False)
    if choice.kind == "fewest-switches":
        return _fewest_switches(survey)
    op = op_of_row(problem, choice.stream, choice.row)
    if choice.kind != "before":
        return _extreme(survey, op, late=choice.kind == "latest")
    other = op_of_row(problem, choice.other_stream, choice.other_row)
    order, decided = survey.witness(op, other)
    return Chosen(Verdict.LEGAL if order is not None else Verdict.UNDECIDED, order, 0, decided)


def choose_order(problem: Problem, choice: Choice, *, cuts: int, timeout_s: float) -> Solution:
    """`choose` as an engine's answer. Raises UsageError if no legal order is as wished."""
    began = working_time()
    chosen = choose(problem, choice, Limits(cuts, timeout_s))
    if (
        choice.kind == "before"
        and chosen.order is None
        and chosen.proven
        and chosen.verdict is not Verdict.ILLEGAL
    ):
        raise UsageError(
            "in no legal order does the first event come before the second",
            where=f"region {problem.region}",
            remedy="'corebraid pairs' says which pairs may go both ways",
        )
    seconds = working_time() - began
    if chosen.order is None:
        reason = "" if chosen.verdict is Verdict.ILLEGAL else "budget"
        return Solution(chosen.verdict, "choose", seconds, no_order(), reason)
    return Solution(Verdict.LEGAL, "choose", seconds, chosen.order, chosen.words(choice))
