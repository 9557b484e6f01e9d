"""How many legal orders a region has, exactly: paths through the graph of its legal cuts.

What is counted are the orders of the region's unfiltered operations. Orders that differ only in where
filtered accesses (local, read-only, repeats of an identical read) stand are one.

A region falls apart first. In time: at a cut that every legal order passes, the orders before it and those
after it combine freely, so the counts multiply. In space: streams that share no granule interleave freely,
so the counts multiply, times the number of ways to interleave. What is left is counted over the graph,
layer by layer, in integers of as many 64-bit words as it takes.

Where a graph is over the budget, the answer is a lower bound: the paths of a part of the graph around one
legal order. Every one of them is a legal order.

Most of these orders are harmless freedom. How many different *executions* they are is counted over the same
graphs (`solver.freedom.executions`); parts in space and in time multiply.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.compiled import njit
from solver.deduction.chains import Chains, held
from solver.deduction.deduction import Clocks
from solver.freedom.executions import classes
from solver.freedom.freedom import Limits, Survey
from solver.freedom.graph import DEFAULT_CUTS, CutGraph, build_graph, cuts_of_order
from solver.freedom.limbs import TOP, add_limbs
from solver.regions.links import with_links
from solver.regions.problem import Problem, Verdict


@dataclass(frozen=True)
class Executions:
    """The number of executions that differ in what a read reads from, or in the order of the writes to a
    location: between `least` and `most` (None: no bound is known)."""

    least: int
    most: int | None

    @property
    def words(self) -> str:
        """What it means, in words."""
        if self.most == 0:
            return "no execution"
        if self.least == self.most:
            return "one execution" if self.least == 1 else f"{shorten(self.least)} different executions"
        if self.most is None:
            return f"at least {_executions(self.least)}"
        return f"{shorten(self.least)} to {_executions(self.most)}"

    def facts(self) -> dict[str, str | None]:
        """As JSON: decimal strings, they may have any number of digits."""
        return {"least": str(self.least), "most": None if self.most is None else str(self.most)}

    def __mul__(self, other: Executions) -> Executions:
        """Of two parts that combine freely."""
        most = None if self.most is None or other.most is None else self.most * other.most
        return Executions(self.least * other.least, 0 if 0 in (self.most, other.most) else most)


ONE, NONE, UNKNOWN = Executions(1, 1), Executions(0, 0), Executions(0, None)


def _executions(number: int) -> str:
    return f"{shorten(number)} execution{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Count:
    """The number of legal orders: exactly `orders`, or, if not `exact`, at least that many. cuts: explored
    in all. budget: cuts allowed. executions: how many different ones these are (`solver.freedom.executions`),
    exactly or at least, too."""

    orders: int
    exact: bool
    cuts: int
    budget: int
    executions: Executions = UNKNOWN

    @property
    def words(self) -> str:
        """What it means, in words."""
        if self.exact and self.orders == 0:
            return "no legal order: the recording is damaged"
        if self.exact and self.orders == 1:
            return "exactly this order is possible"
        if self.exact:
            return f"{shorten(self.orders)} orders of the unfiltered events fit the evidence"
        reached = f"(budget of {self.budget:,} cuts or its time reached)"
        if self.orders == 0:
            return f"not known whether there is a legal order {reached}"
        return f"more than {shorten(self.orders - 1)} orders fit the evidence {reached}"


def shorten(number: int) -> str:
    """A number of up to 15 digits as it is; a longer one as 'about 1.23e45'."""
    text = str(number) if number < 10**15 else ""
    if text:
        return f"{number:,}"
    digits = int(math.log10(number)) if number < 10**300 else int(number.bit_length() * math.log10(2))
    while 10 ** (digits + 1) <= number:
        digits += 1
    while 10**digits > number:
        digits -= 1
    return f"about {number // 10 ** (digits - 2) / 100:.2f}e{digits}"


@njit(cache=True)
def count_paths(child, layer, alive):  # type: ignore[no-untyped-def]
    """Paths from the first node to the last one: uint64 words, the least significant first."""
    words = 1
    now = np.zeros((1, 1), np.uint64)
    now[0, 0] = np.uint64(1)
    for depth in range(layer.size - 2):
        first, end, last = layer[depth], layer[depth + 1], layer[depth + 2]
        # A count grows at most by the number of streams, below 2**8, in a layer.
        for i in range(end - first):
            if now[i, words - 1] >= TOP:
                words += 1
                break
        after = np.zeros((last - end, words), np.uint64)
        wide = np.zeros(words, np.uint64)
        for i in range(first, end):
            if not alive[i]:
                continue
            for k in range(now.shape[1]):
                wide[k] = now[i - first, k]
            for s in range(child.shape[1]):
                if child[i, s] >= 0 and alive[child[i, s]]:
                    add_limbs(after[child[i, s] - end], wide)
        now = after
    return now[0]


def paths(graph: CutGraph) -> int:
    """Number of paths from the first cut to the last."""
    if not graph.legal:
        return 0
    words = count_paths(graph.child, graph.layer, graph.alive)
    return int.from_bytes(words.astype("<u8").tobytes(), "little")


def waists(chains: Chains, clocks: Clocks, order: NDArray[np.int64]) -> list[int]:
    """Numbers of operations run at the cuts that every legal order passes, as far as the clocks know: what
    follows must come after all that precedes. 0 and n_ops are among them."""
    cuts = cuts_of_order(chains, order)
    clock = np.vstack([clocks[0], np.full(len(chains.stream), 1 << 30, np.int32)])
    ends = chains.stream_ptr[1:]
    found = []
    for depth in range(len(cuts)):
        following = np.where(cuts[depth] < ends, cuts[depth], len(clock) - 1)
        known = clock[following]
        if (known >= cuts[depth]).all():
            found.append(depth)
    return found


def piece(problem: Problem, chains: Chains, start: NDArray[np.int32], end: NDArray[np.int32]) -> Problem:
    """The region between two cuts (int32 (S,)) as a problem of its own."""
    ops = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True)]).astype(np.int64)
    n_granules = len(problem.address)
    initial = np.array([held(g, start, chains) for g in range(n_granules)], np.uint64)
    final = np.array([held(g, end, chains) for g in range(n_granules)], np.uint64)
    chosen = choose_ops(problem, ops, end - start).bounded(initial, final)
    if len(source := problem.source[ops] if len(problem.source) else problem.source):
        # A source before the piece has left the store buffer; one behind it, which an operation by itself
        # stands for, has not.
        outside = (source >= 0) & (chosen.source < 0)
        later = source >= end[chains.op_stream[source]]
        chosen = replace(chosen, source=np.where(outside & later, np.arange(len(ops)), chosen.source))
    return chosen


def choose_ops(problem: Problem, ops: NDArray[np.int64], lengths: NDArray[np.int32]) -> Problem:
    """Only the operations `ops`, ascending, so many of each stream."""
    number = np.full(problem.n_ops + 1, -1, np.int64)
    number[ops] = np.arange(len(ops))
    sizes = np.diff(problem.part_ptr)[ops]
    parts = np.repeat(problem.part_ptr[ops] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    parts = (parts + np.arange(sizes.sum())).astype(np.int64)
    return replace(
        problem,
        buffered=0,
        rows=lengths.astype(np.int64),
        stream_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        end_row=problem.end_row[ops],
        part_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        granule=problem.granule[parts],
        old=problem.old[parts],
        new=problem.new[parts],
        source=number[problem.source[ops]] if len(problem.source) else problem.source,
    )


def components(problem: Problem) -> list[Problem]:
    """The region as problems of streams that share no granule with the others'."""
    group = list(range(problem.n_streams))

    def root(s: int) -> int:
        while group[s] != s:
            group[s] = group[group[s]]
            s = group[s]
        return s

    streams = problem.op_stream[problem.part_op]
    seen: dict[int, int] = {}
    for s, g in sorted(set(zip(streams.tolist(), problem.granule.tolist(), strict=True))):
        group[root(s)] = root(seen.setdefault(g, s))
    roots = np.array([root(s) for s in range(problem.n_streams)])
    lengths = np.diff(problem.stream_ptr)
    found = []
    for number in np.unique(roots[lengths > 0]):
        mine = np.flatnonzero((roots == number) & (lengths > 0))
        ops = np.concatenate([np.arange(*problem.stream_ptr[s : s + 2]) for s in mine])
        found.append(choose_ops(problem, ops, lengths[mine]))
    return found


def _interleavings(sizes: list[int]) -> int:
    ways, total = 1, 0
    for size in sizes:
        total += size
        ways *= math.comb(total, size)
    return ways


def count_orders(problem: Problem, limits: Limits | None = None) -> Count:
    """Count the legal orders of a region's operations, within the limits."""
    limits = limits or Limits(DEFAULT_CUTS)
    problem = with_links(problem)
    if problem.n_ops == 0:
        return Count(1, True, 0, limits.cuts, ONE)
    survey = Survey(problem, limits)
    until = survey.until
    if survey.verdict is Verdict.ILLEGAL or survey.clocks is None:
        return Count(0, True, 0, limits.cuts, NONE)
    if survey.order is None:
        graph = build_graph(survey.chains, survey.clocks, reduced=True, cuts=limits.cuts, until=until)
        if not graph.legal:
            some = NONE if graph.complete else UNKNOWN
            return Count(0, graph.complete, graph.cuts, limits.cuts, some)
        return Count(1, False, graph.cuts, limits.cuts, Executions(1, None))
    cuts = cuts_of_order(survey.chains, survey.order)
    orders, explored, exact, executions = 1, 0, True, ONE
    marks = waists(survey.chains, survey.clocks, survey.order)
    used = replace(problem, rows=problem.rows[survey.chains.stream], stream_ptr=survey.chains.stream_ptr)
    for first, end in itertools.pairwise(marks):
        if end - first < 2:
            continue
        window = piece(used, survey.chains, cuts[first], cuts[end])
        parts = components(window)
        orders *= _interleavings([part.n_ops for part in parts])
        for part in parts:
            if np.count_nonzero(np.diff(part.stream_ptr)) > 1:
                left = max(limits.cuts - explored, 1)
                ways, known, tried, some = _count_one(part, replace(limits, cuts=left), until)
                orders, exact, explored = orders * ways, exact and known, explored + tried
                executions = executions * some
    return Count(orders, exact, explored, limits.cuts, executions)


def _executions_of(graph: CutGraph, problem: Problem, chains: Chains) -> Executions:
    """Of a graph with legal orders that is not reduced. A load that its core's store buffer may answer
    conflicts with others' writes only if it does not: then classes are more than executions."""
    found, buffered = classes(graph, chains), bool(len(problem.part_source))
    least = 1 if found is None or buffered else max(found, 1)
    return Executions(least, found if graph.complete else None)


def _count_one(problem: Problem, limits: Limits, until: float) -> tuple[int, bool, int, Executions]:
    """(orders, whether that is exact, cuts explored, executions) of a piece, which has a legal order."""
    survey = Survey(problem, replace(limits, seconds=max(until - working_time(), 0.0)))
    assert survey.clocks is not None
    graph = build_graph(survey.chains, survey.clocks, reduced=False, cuts=limits.cuts, until=until)
    if graph.complete:
        return paths(graph), True, graph.cuts, _executions_of(graph, problem, survey.chains)
    if survey.order is None:
        return 1, False, graph.cuts, Executions(1, None)
    guide = cuts_of_order(survey.chains, survey.order)
    width = max(limits.cuts // problem.n_ops, 1)
    part = build_graph(
        survey.chains,
        survey.clocks,
        reduced=False,
        cuts=limits.cuts,
        width=width,
        guide=guide,
        until=until + 1,
    )
    some = _executions_of(part, problem, survey.chains)
    return max(paths(part), 1), False, graph.cuts, Executions(some.least, None)
