"""The pass that orders a recording: traces to a certificate that the checker has accepted (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isa.errors import OrderError, UsageError
from solver.buffered_runs import buffered_runs_of
from solver.checker import CheckReport
from solver.choose import Choice, choose_order
from solver.cut import DEFAULT_NODES, solve_cut
from solver.decide import solve_auto
from solver.filters import Counts
from solver.links import with_links
from solver.problem import DROPPED, Problem, Solution, Verdict, implied_initial, no_order
from solver.regions import Region
from solver.sync_runs import synced_runs_of
from solver.traces import Traces

ENGINES = ("auto", "cut", "smt")
#: Engines that need evidence of their own: the stream of that name.
EVIDENCE_ENGINES = ("linkage", "slices", "opr")


class EvidenceEngine(Protocol):
    """Solves regions from evidence, each once and in their order, in one process."""

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of a region; also asked where there is nothing to order."""


@dataclass(frozen=True)
class Options:
    """How to solve. engine: one of ENGINES. timeout_s: per region. nodes: cuts that a cut search may
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
        known = ENGINES if self.evidence is None else EVIDENCE_ENGINES
        if self.engine not in known:
            raise UsageError("unknown engine", expected=", ".join(known), found=self.engine)
        if self.encoding not in ("paper", "chain"):
            raise UsageError("unknown encoding", expected="paper or chain", found=self.encoding)
        if not self.timeout_s > 0 or self.nodes < 1:
            raise UsageError("a limit that is not positive", found=f"{self.timeout_s} s, {self.nodes} cuts")


@dataclass(frozen=True)
class RegionResult:
    """One region: its event rows by what became of them, and the engine's answer.

    engine: the one that answered, "" where nothing was left to solve. reason: why it is undecided.
    """

    region: int
    counts: Counts
    verdict: Verdict
    engine: str
    seconds: float
    reason: str


@dataclass(frozen=True)
class OrderResult:
    """A whole recording. regions: from the first to the last. check: the checker's report on the
    certificate; every region whose verdict is LEGAL passed."""

    regions: list[RegionResult]
    counts: Counts
    check: CheckReport

    @property
    def verdict(self) -> Verdict:
        """ILLEGAL if any region is, else UNDECIDED if any is, else LEGAL."""
        found = {region.verdict for region in self.regions}
        for verdict in (Verdict.ILLEGAL, Verdict.UNDECIDED):
            if verdict in found:
                return verdict
        return Verdict.LEGAL


@dataclass(frozen=True)
class Resources:
    """What to order a recording with. jobs: processes. cluster: address of a dask.distributed scheduler that
    solves the regions. keep: file in which finished regions are kept while others are not; what it holds
    already is used, unless `fresh`. say: told in a line what the user should know of that.
    """

    jobs: int = 1
    cluster: str = ""
    keep: Path | None = None
    fresh: bool = False
    say: Callable[[str], None] = field(default=lambda _: None)

    def check(self) -> None:
        """Raises UsageError for values that make no sense."""
        if self.jobs < 1:
            raise UsageError("jobs", expected="at least 1", found=self.jobs)


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

    Edges that were deduced from tenures never make a region illegal: then it is solved without them."""
    if problem.n_ops == 0:
        return Solution(Verdict.LEGAL, "", 0.0, np.empty(0, np.int64))
    solution = _solve_linked(with_links(problem), options)
    if solution.verdict is Verdict.ILLEGAL and problem.deduced:
        problem = problem.by_values()
        solution = _solve_linked(with_links(problem), options)
    if solution.verdict is Verdict.LEGAL and problem.dropped:
        told = [DROPPED[problem.dropped], solution.reason]
        return replace(solution, reason="; ".join(filter(None, told)))
    return solution


def _solve_linked(problem: Problem, options: Options) -> Solution:
    if options.choice and options.choice.concerns(problem.region):
        return choose_order(problem, options.choice, cuts=options.nodes, timeout_s=options.timeout_s)
    if options.engine == "cut":
        return solve_cut(problem, timeout_s=options.timeout_s, nodes=options.nodes)
    if options.engine == "auto":
        return solve_auto(
            problem, timeout_s=options.timeout_s, nodes=options.nodes, encoding=options.encoding
        )
    from solver.smt import solve_smt

    return solve_smt(problem, timeout_s=options.timeout_s, encoding=options.encoding)


@dataclass(frozen=True)
class Answer:
    """What became of a region's problem. stream, rows: int64, the runs that place all of its rows, if LEGAL.

    engine, seconds, reason: as in `Solution`.
    """

    verdict: Verdict
    engine: str
    seconds: float
    reason: str
    stream: NDArray[np.int64]
    rows: NDArray[np.int64]


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
    if solution.verdict is Verdict.LEGAL:
        _compare_initial(problem, solution)
        runs = runs_of(problem, solution.order)
    return Answer(solution.verdict, solution.engine, solution.seconds, solution.reason, *runs)


def _compare_initial(problem: Problem, solution: Solution) -> None:
    wrong = np.flatnonzero(implied_initial(problem, solution.order) != problem.initial)
    if len(wrong):
        g = int(wrong[0])
        raise OrderError(
            "a solved order implies another initial value than the recording",
            expected=f"{int(problem.initial[g]):#x}",
            found=f"{int(implied_initial(problem, solution.order)[g]):#x}",
            where=f"region {problem.region}, address {int(problem.address[g]):#x}, engine {solution.engine}",
            remedy="this is a defect of corebraid: please report it",
        )


def order_recording(
    traces: Traces,
    certificate: Path,
    recording: bytes,
    options: Options | None = None,
    on_region: Callable[[int, int], None] | None = None,
    resources: Resources | None = None,
) -> OrderResult:
    """Order a recording region by region and write the certificate.

    certificate: the file to write; one that is there is replaced, but only by one that the checker has
    accepted. recording: 16 bytes, the recording's id. on_region(done, all): called after each region.
    resources: processes, a cluster, and where finished regions are kept; one process and nothing kept
    unless given. The certificate is the same whatever they are.
    A region that cannot be decided within the limits is reported and the others are ordered nevertheless.
    Raises OrderError if the recording is damaged (no order can exist, whatever the regions' insides), or
    if the checker rejects what an engine returned; UsageError for the paper's encoding under TSO.
    """
    # Loaded only here: the pipeline is built from this module's `answer`.
    from solver.pipeline import order_all

    options, resources = options or Options(), resources or Resources()
    options.check()
    resources.check()
    if options.evidence is not None and (resources.jobs > 1 or resources.cluster):
        raise UsageError(
            "an engine with evidence takes the regions one after the other",
            found=f"{resources.jobs} jobs{' and a cluster' if resources.cluster else ''}",
            remedy="leave --jobs and --cluster out",
        )
    if traces.buffered and options.encoding == "paper" and options.engine in ("auto", "smt"):
        raise UsageError(
            "the paper's encoding knows no store buffers, and this recording is of model tso",
            remedy="use --encoding chain",
        )
    return order_all(traces, certificate, recording, options, on_region, resources)
