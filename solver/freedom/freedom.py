"""What of a region's order is forced and what is free: clocks of must, clocks of may.

Two operations conflict if they touch the same granule and at least one of them changes it; a store of the
value that is already there counts as a read, nobody can tell it from one. For operation a and a stream t:

- must[a, t]: every operation of t below it comes before a, in every legal order;
- low[a, t]: the least position of t at any cut with a run, over all legal orders that are known.

low decides a before b, for b of stream t: if low[a, t] <= b, some legal order passes a cut where a has run
and b has not, so a is before b in it; and an order with a before b passes such a cut, the one right after
a. So where all orders are known, a can come before b if and only if low[a, t] <= b, and n_ops x n_streams
numbers decide all pairs. Instead of all orders one of each class (`solver.freedom.graph`) will do: orders of
a class agree on every conflicting pair.

The ways, each taken only for what the one before left: deduction; some orders from a narrow part of the
reduced graph; for every open pair, a search for an order with the wished direction, under clocks that know
the wish; the whole reduced graph. All are sound; what remains at the end of the budget is undecided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from corebraid.base.kernels import first_from
from solver.cuts.search import DEFAULT_NODES
from solver.deduction.chains import Chains, chains_of
from solver.deduction.deduction import MAX_PROJECTED, NO_LIMIT, Clocks, Deduction
from solver.engines.decide import solve_auto
from solver.freedom.graph import DEFAULT_CUTS, CutGraph, build_graph, cuts_of_order
from solver.freedom.pathfind import PathFinder
from solver.regions.links import with_links
from solver.regions.problem import Problem, Verdict

Pair = tuple[int, int]
_FIRST_WIDTH = 16
#: Operations before and after two conflicting ones within which an order is changed to exchange them, and
#: cuts tried for each.
_AROUND, _PATIENCE = (8, 64), 2
#: How often a search for a pair that is hard to settle is begun again with other preferences.
_TRIES = 60
_NEVER = np.int32(1 << 30)


@dataclass(frozen=True)
class Limits:
    """Budgets of one region. cuts: nodes of a graph. seconds: in all."""

    cuts: int = DEFAULT_CUTS
    seconds: float = 60.0


@njit(cache=True)
def lower(position, alive, low, stream_ptr):  # type: ignore[no-untyped-def]
    """Lower `low` to what the live cuts show; one row a cut (int32 (n, S), bool (n,))."""
    n_streams = position.shape[1]
    for i in range(position.shape[0]):
        if alive[i]:
            for s in range(n_streams):
                a = position[i, s] - 1
                if a >= stream_ptr[s]:
                    for t in range(n_streams):
                        low[a, t] = min(low[a, t], position[i, t])
    for s in range(n_streams):
        for a in range(stream_ptr[s + 1] - 2, stream_ptr[s] - 1, -1):
            for t in range(n_streams):
                low[a, t] = min(low[a, t], low[a + 1, t])


@njit(cache=True)
def open_pairs(must, low, best, c):  # type: ignore[no-untyped-def]
    """best[a, t]: the first operation b of stream t that conflicts with a, and of which it is not known
    whether a can come before it; -1 if there is none. Returns how many there are."""
    found = 0
    for a in range(best.shape[0]):
        best[a] = -1
        for p in range(c.part_ptr[a], c.part_ptr[a + 1]):
            g = c.granule[p]
            for k in range(c.segment_ptr[g], c.segment_ptr[g + 1]):
                t = c.segment_stream[k]
                if c.core[t] == c.core[c.op_stream[a]] or must[a, t] >= low[a, t]:
                    continue
                end = c.access_ptr[k + 1]
                j = first_from(c.access_op, c.access_ptr[k], end, must[a, t])
                while j < end and c.access_op[j] < low[a, t]:
                    if c.old[p] != c.new[p] or c.access_old[j] != c.access_new[j]:
                        if best[a, t] < 0:
                            found += 1
                        if best[a, t] < 0 or c.access_op[j] < best[a, t]:
                            best[a, t] = c.access_op[j]
                        break
                    j += 1
    return found


@dataclass
class Freedom:
    """What is known of a region. must, low: int32 (n_ops, S), see above; S counts streams that have
    operations (`chains.stream`). order: a legal order, int64 (n_ops,), if one is known. exact: no pair is
    undecided. granules: those of the chains that are memory, the first ones."""

    chains: Chains
    verdict: Verdict
    must: NDArray[np.int32]
    low: NDArray[np.int32]
    order: NDArray[np.int64] | None
    exact: bool
    granules: int


def path_through(graph: CutGraph, node: int, stream: int | None = None) -> NDArray[np.int64]:
    """A legal order of the graph through a live node, from where `stream` goes on if it is given:
    int64 (n_ops,)."""
    order: list[int] = []
    at = node
    depth = int(np.searchsorted(graph.layer, node, side="right")) - 1
    for layer in range(depth - 1, -1, -1):
        first, end = int(graph.layer[layer]), int(graph.layer[layer + 1])
        row, last = (int(x[0]) for x in np.nonzero(graph.child[first:end] == at))
        at = first + row
        order.append(int(graph.position[at, last]))
    order.reverse()
    at = node
    for _ in range(len(graph.layer) - 2 - depth):
        children = graph.child[at]
        s = int(np.flatnonzero((children >= 0) & graph.alive[children])[0]) if stream is None else stream
        stream = None
        order.append(int(graph.position[at, s]))
        at = int(children[s])
    return np.array(order, np.int64)


class Survey:
    """One region under study. chains, clocks: of the region; clocks is None if deduction shows that it has
    no legal order. order: the first legal order found."""

    def __init__(self, problem: Problem, limits: Limits) -> None:
        problem = with_links(problem)
        self.problem, self.limits = problem, limits
        self._granules = len(problem.address) - problem.links
        self.until = working_time() + limits.seconds
        self.chains = chains_of(problem)
        self._known = Deduction(problem, chains=self.chains, max_clocks=NO_LIMIT).go_on(MAX_PROJECTED)
        self.clocks: Clocks | None = None if self._known.contradiction >= 0 else self._known.clocks
        self.verdict = Verdict.ILLEGAL if self.clocks is None else Verdict.UNDECIDED
        self.order: NDArray[np.int64] | None = None
        shape = (problem.n_ops, len(self.chains.stream))
        self.low = np.full(shape, _NEVER, np.int32)
        self.graph: CutGraph | None = None
        if self.clocks is not None:
            self._finder = PathFinder(self.chains, self.clocks)
            self._first_order()

    def _first_order(self) -> None:
        order, decided = self._finder.find()
        if order is None and not decided:
            left = max(self.until - working_time(), 0.001)
            solution = solve_auto(self.problem, timeout_s=left, nodes=DEFAULT_NODES)
            order = solution.order if solution.verdict is Verdict.LEGAL else None
            decided = solution.verdict is Verdict.ILLEGAL
        if order is None and decided:
            self.verdict = Verdict.ILLEGAL
        elif order is not None:
            self._first(order)

    def _first(self, order: NDArray[np.int64]) -> None:
        self.verdict, self.order = Verdict.LEGAL, order
        self._finder.stay_close(order)
        self._rank, self._cuts = np.argsort(order), cuts_of_order(self.chains, order)
        self._learn(self._cuts)

    def _learn(self, cuts: NDArray[np.int32], alive: NDArray[np.bool_] | None = None) -> None:
        lower(cuts, np.ones(len(cuts), bool) if alive is None else alive, self.low, self.chains.stream_ptr)

    def search(self, first: int, second: int, *, hard: bool) -> tuple[NDArray[np.int64] | None, bool]:
        """(a legal order with `first` before `second`, True), (None, True) if there is none, (None, False)
        if the budget ended. hard: deduce as much as possible, and search longer."""
        supposed = self._known.supposing((first, second))
        if hard:
            supposed.go_on(MAX_PROJECTED)
        if supposed.contradiction >= 0:
            return None, True
        clocks = supposed.clocks
        order = self._nearby(first, second, clocks)
        if order is not None:
            return order, True
        steps = self._finder.steps if hard else 2 * self.problem.n_ops + 200
        order, decided = self._finder.find(clocks, steps)
        if not decided:
            order, decided = self._finder.find(clocks, steps, soon=first)
        if not decided and hard:
            order, decided = self._finder.shaken(clocks, 4 * self.problem.n_ops, _TRIES, self.until)
        return order, decided

    def _nearby(self, first: int, second: int, clocks: Clocks) -> NDArray[np.int64] | None:
        """The order in hand, changed between the two and a little around them; None if that is not enough."""
        if self.order is None or self._rank[first] < self._rank[second]:
            return self.order
        for around in _AROUND:
            low = max(int(self._rank[second]) - around, 0)
            high = min(int(self._rank[first]) + 1 + around, len(self.order))
            steps = _PATIENCE * (high - low) + 100
            way = self._finder.between(self._cuts[low], self._cuts[high], clocks, steps)[0]
            if way is not None:
                return np.concatenate([self.order[:low], way, self.order[high:]])
        return None

    def decide(self, wishes: tuple[Pair, ...]) -> tuple[NDArray[np.int64] | None, bool]:
        """(a legal order with the first of each pair before the second, True), (None, True) if there is none,
        (None, False) if the budget ended."""
        if not wishes and self.order is not None:
            return self.order, True
        supposed = self._known.supposing(*wishes)
        if supposed.contradiction < 0:
            supposed = supposed.go_on(MAX_PROJECTED)
        if supposed.contradiction >= 0:
            return None, True
        order, decided = self._finder.find(supposed.clocks)
        if not decided:
            order, decided = self._finder.shaken(supposed.clocks, 4 * self.problem.n_ops, _TRIES, self.until)
        return order, decided

    def find(self, wishes: tuple[Pair, ...]) -> NDArray[np.int64] | None:
        """A legal order with the first of each pair before the second, if a search finds one."""
        supposed = self._known.supposing(*wishes).go_on(MAX_PROJECTED)
        return None if supposed.contradiction >= 0 else self._finder.find(supposed.clocks)[0]

    def decide_all(self) -> Freedom:
        """Decide every conflicting pair, within the limits."""
        if self.verdict is Verdict.ILLEGAL or self.clocks is None:
            return Freedom(self.chains, Verdict.ILLEGAL, self.low, self.low, None, True, self._granules)
        if self.order is not None:
            self._narrow()
            self._targeted(hard=False)
            self._targeted(hard=True)
        must = self.clocks[0]
        left = self._count_open()
        if left and working_time() < self.until:
            must = self._whole()
            left = open_pairs(must, self.low, np.empty_like(self.low), self.chains)
        return Freedom(self.chains, self.verdict, must, self.low, self.order, left == 0, self._granules)

    def _count_open(self) -> int:
        assert self.clocks is not None
        self._best = np.empty_like(self.low)
        return int(open_pairs(self.clocks[0], self.low, self._best, self.chains))

    def _narrow(self) -> None:
        """Many orders at once, from a narrow part of the reduced graph around the order in hand."""
        assert self.order is not None
        assert self.clocks is not None
        if not self._count_open():
            return
        guide = cuts_of_order(self.chains, self.order)
        cuts = min(self.limits.cuts, (_FIRST_WIDTH + 1) * self.problem.n_ops + 1000)
        graph = build_graph(
            self.chains, self.clocks, reduced=True, cuts=cuts, width=_FIRST_WIDTH, guide=guide,
            until=self.until,
        )  # fmt: skip
        self._learn(graph.position, graph.alive)

    def _targeted(self, *, hard: bool) -> None:
        """For every open pair an order with the open direction, or that there is none."""
        tried: set[Pair] = set()
        while self._count_open() and working_time() < self.until:
            progress, proved = False, False
            for a, t in np.argwhere(self._best >= 0).tolist():
                b = int(self._best[a, t])
                if self.low[a, t] <= b or (a, b) in tried or working_time() > self.until:
                    continue
                tried.add((a, b))
                order, decided = self.search(a, b, hard=hard)
                if order is not None:
                    self._learn(cuts_of_order(self.chains, order))
                elif decided:
                    self._known = self._known.supposing((b, a))
                    proved = True
                progress |= decided
            if proved:
                self.clocks = self._known.go_on().clocks
            if not progress:
                return

    def _whole(self) -> NDArray[np.int32]:
        """The whole reduced graph, if the budget allows. Returns what is must for conflicting pairs."""
        assert self.clocks is not None
        self.graph = build_graph(
            self.chains, self.clocks, reduced=True, cuts=self.limits.cuts, until=self.until
        )
        self._learn(self.graph.position, self.graph.alive)
        if self.graph.legal and self.order is None:
            self._first(path_through(self.graph, 0))
        if not self.graph.complete:
            return self.clocks[0]
        if not self.graph.legal:
            self.verdict = Verdict.ILLEGAL
            return self.clocks[0]
        return np.maximum(self.low, self.clocks[0])

    def witness(self, first: int, second: int) -> tuple[NDArray[np.int64] | None, bool]:
        """As `search`, with all means there are."""
        if self.verdict is Verdict.ILLEGAL or self.clocks is None:
            return None, True
        if self.order is not None:
            for hard in (False, True):
                order, decided = self.search(first, second, hard=hard)
                if decided:
                    return order, True
        if self.graph is None:
            self._whole()
        assert self.graph is not None
        s, t = self.chains.op_stream[[first, second]]
        through = np.flatnonzero(
            self.graph.alive & (self.graph.position[:, s] > first) & (self.graph.position[:, t] <= second)
        )
        if len(through):
            return path_through(self.graph, int(through[0])), True
        return None, self.graph.complete


def freedom_of(problem: Problem, limits: Limits | None = None) -> Freedom:
    """Decide every conflicting pair of a region, within the limits."""
    return Survey(problem, limits or Limits()).decide_all()
