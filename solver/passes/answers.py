"""Answering one region: its problem goes to an engine, and what that says becomes runs of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError, UsageError
from corebraid.base.wording import Text
from recorder.files.evidence_names import STREAMS
from solver.cuts.search import DEFAULT_NODES, solve_cut
from solver.engines.decide import solve_auto
from solver.passes.apart import keep_apart
from solver.passes.results import Answer
from solver.regions.links import with_links
from solver.regions.problem import DROPPED, Problem, Solution, Verdict, implied_initial, no_order
from solver.regions.region import Region
from solver.sifting.buffered_runs import buffered_runs_of
from solver.sifting.sync_runs import synced_runs_of

if TYPE_CHECKING:
    from recorder.files.reader import Recording
    from solver.freedom.choose import Choice


class EvidenceEngine(Protocol):
    """Solves regions from evidence, each once and in their order, in one process. name: the engine's."""

    name: str

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of a region; also asked where there is nothing to order."""


@runtime_checkable
class TakesOver(Protocol):
    """An engine with evidence that can take over what was found before."""

    def take_over(self, recording: Recording) -> None:
        """Use what was found of the recording whose regions it is to solve."""

    def told(self) -> list[Text]:
        """What a user should know of it, when all is solved."""


@runtime_checkable
class Counts(Protocol):
    """An engine with evidence that says how many there are of something that it meets as it solves."""

    def miscounted(self) -> str:
        """What the evidence says of it that is not so, now that all regions are solved; empty: nothing."""


@dataclass(frozen=True)
class Options:
    """How to solve. engine: one of SOLVERS. timeout_s: per region. nodes: cuts that a cut search may
    explore per region. encoding: of the SMT engine, "paper" or "chain". choice: which legal order to choose
    in the regions that it concerns, instead of the engine's. evidence: what solves the regions in place of
    all that, from evidence of its own; `engine` is its name then."""

    engine: str = "auto"
    timeout_s: float = 60.0
    nodes: int = DEFAULT_NODES
    encoding: str = "chain"
    choice: Choice | None = None
    evidence: EvidenceEngine | None = None

    def check(self) -> None:
        """Raises UsageError for values that make no sense."""
        known = tuple(SOLVERS) if self.evidence is None else (self.evidence.name,)
        if self.engine not in known:
            raise UsageError("unknown engine", expected=", ".join(known), found=self.engine)
        if self.encoding not in ("paper", "chain"):
            raise UsageError("unknown encoding", expected="paper or chain", found=self.encoding)
        if not self.timeout_s > 0 or self.nodes < 1:
            raise UsageError("a limit that is not positive", found=f"{self.timeout_s} s, {self.nodes} cuts")


@njit(cache=True)
def make_runs(order, op_stream, end_row, rows, stream, run):  # type: ignore[no-untyped-def]
    """Runs of rows for an order of operations. Before each operation come its stream's earlier filtered
    rows; what remains of each stream comes last. Returns the number of runs."""
    placed = np.zeros(rows.size, np.int64)
    n = 0
    for i in range(order.size + rows.size):
        if i < order.size:
            s = op_stream[order[i]]
            end = end_row[order[i]]
        else:
            s = i - order.size
            end = rows[s]
        if end == placed[s]:
            continue
        if n > 0 and stream[n - 1] == s:
            run[n - 1] += end - placed[s]
        else:
            stream[n] = s
            run[n] = end - placed[s]
            n += 1
        placed[s] = end
    return n


def runs_of(problem: Problem, order: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(stream, rows) of the runs that place all rows of a region (int64 each)."""
    if problem.buffered:
        return buffered_runs_of(problem, order)
    if len(problem.syncs):
        return synced_runs_of(order, problem.op_stream, problem.end_row, problem.rows, problem.syncs)
    n = problem.n_ops + problem.n_streams
    stream, run = np.zeros(n, np.int64), np.zeros(n, np.int64)
    n = make_runs(order, problem.op_stream, problem.end_row, problem.rows, stream, run)
    return stream[:n], run[:n]


def solve(problem: Problem, options: Options) -> Solution:
    """Give a region to the engine or engines that the options name.

    Edges that were deduced from tenures never make a region illegal: then it is solved without them. Raises
    OrderError if of holds no order was found, or none in which nobody has a page while another has it
    alone."""
    if problem.n_ops == 0:
        return Solution(Verdict.LEGAL, "", 0.0, np.empty(0, np.int64))
    solution = _solve_linked(with_links(problem), options)
    if solution.verdict is Verdict.ILLEGAL and problem.deduced:
        problem = problem.by_values()
        solution = _solve_linked(with_links(problem), options)
    if solution.reason == "budget" and len(problem.rights):
        raise OrderError("found no order within a number of cuts", where=f"region {problem.region}")
    if solution.verdict is Verdict.LEGAL and len(problem.rights):
        linked = with_links(problem)
        solution = keep_apart(
            linked,
            solution,
            lambda more: _solve_briefly(more, options),
            lambda order: runs_of(problem, order),
        )
    if solution.verdict is Verdict.LEGAL and problem.dropped:
        told = [DROPPED[problem.dropped], solution.reason]
        return replace(solution, reason="; ".join(filter(None, told)))
    return solution


def _solve_linked(problem: Problem, options: Options) -> Solution:
    if options.choice and options.choice.concerns(problem.region):
        from solver.freedom.choose import choose_order

        return choose_order(problem, options.choice, cuts=options.nodes, timeout_s=options.timeout_s)
    return SOLVERS[options.engine](problem, options)


#: Cuts that a search opens at most for a region in which presence is told, and more for each operation.
_BRIEFLY = 20_000
#: The same of a region of holds: if there are more, its accesses are likely to be ordered sooner.
_OF_HOLDS, _OF_EACH = 50_000, 2


def _solve_briefly(problem: Problem, options: Options) -> Solution:
    """Within a number of cuts, not a time: what comes of it is the same everywhere."""
    nodes = min(options.nodes, _BRIEFLY + problem.n_ops)
    if options.engine == "smt":
        return _smt(problem, options)
    if options.engine == "cut":
        return solve_cut(problem, timeout_s=options.timeout_s, nodes=nodes)
    return solve_auto(problem, timeout_s=options.timeout_s, nodes=nodes, briefly=True)


def _auto(problem: Problem, options: Options) -> Solution:
    nodes, holds = options.nodes, len(problem.rights) > 0
    if holds:
        nodes = min(nodes, _OF_HOLDS + _OF_EACH * problem.n_ops)
    return solve_auto(
        problem, timeout_s=options.timeout_s, nodes=nodes, encoding=options.encoding, bounded=holds
    )


def _cut(problem: Problem, options: Options) -> Solution:
    return solve_cut(problem, timeout_s=options.timeout_s, nodes=options.nodes)


def _smt(problem: Problem, options: Options) -> Solution:
    # Loaded only here: z3 takes its time.
    from solver.smt.engine import solve_smt

    return solve_smt(problem, timeout_s=options.timeout_s, encoding=options.encoding)


#: Engines that need no evidence.
SOLVERS = {"auto": _auto, "cut": _cut, "smt": _smt}


def answer(problem: Problem, options: Options, region: Region | None = None) -> Answer:
    """Solve a region and place its rows. region: the problem's, for an engine that has evidence. Raises
    OrderError if the engine contradicts the recording."""
    return answer_of(problem, solution_of(problem, options, region))


def solution_of(problem: Problem, options: Options, region: Region | None) -> Solution:
    """What the engine that the options name says of a region."""
    if options.evidence is not None and region is not None:
        return options.evidence.solve(region, problem)
    return solve(problem, options)


def answer_of(problem: Problem, solution: Solution) -> Answer:
    """Place the rows of a region as its solution has them. Raises OrderError if the engine contradicts the
    recording."""
    runs = (no_order(), no_order())
    if solution.verdict is Verdict.LEGAL and problem.rows.any():
        _compare_initial(problem, solution)
        runs = solution.runs or runs_of(problem, solution.order)
    return Answer(solution.verdict, solution.engine, solution.seconds, solution.reason, *runs)


#: An engine that goes by values alone cannot be led astray; evidence may be damaged, or that which it is of.
_OF_VALUES = "this is a defect of corebraid: please report it"
_OF_EVIDENCE = "the recording is damaged: record again, or run 'corebraid verify' to see where"


def _compare_initial(problem: Problem, solution: Solution) -> None:
    wrong = np.flatnonzero(implied_initial(problem, solution.order) != problem.initial)
    if len(wrong):
        g = int(wrong[0])
        raise OrderError(
            "a solved order implies another initial value than the recording",
            expected=f"{int(problem.initial[g]):#x}",
            found=f"{int(implied_initial(problem, solution.order)[g]):#x}",
            where=f"region {problem.region}, address {int(problem.address[g]):#x}, engine {solution.engine}",
            remedy=_OF_EVIDENCE if solution.engine in STREAMS else _OF_VALUES,
        )
