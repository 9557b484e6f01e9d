"""The pass that orders a recording: traces to a certificate that the checker has accepted (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from isa.errors import OrderError, UsageError
from solver.boundary import Backward, Delta, Forward
from solver.certificate import REASONS, Certificate, CertificateWriter, Head
from solver.checker import CheckReport, check_certificate
from solver.choose import Choice, choose_order
from solver.cut import DEFAULT_NODES, solve_cut
from solver.decide import solve_auto
from solver.filters import Counts, unfiltered
from solver.granules import find_granules
from solver.problem import Problem, Solution, Verdict, implied_initial
from solver.regions import iter_regions
from solver.spool import Spool
from solver.traces import Traces

ENGINES = ("auto", "cut", "smt")
_STATUS = {reason: status for status, reason in REASONS.items()}


@dataclass(frozen=True)
class Options:
    """How to solve. engine: one of ENGINES. timeout_s: per region. nodes: cuts that a cut search may
    explore per region. encoding: of the SMT engine, "paper" or "chain". choice: which legal order to choose
    in the regions that it concerns, instead of the engine's."""

    engine: str = "auto"
    timeout_s: float = 60.0
    nodes: int = DEFAULT_NODES
    encoding: str = "chain"
    choice: Choice | None = None

    def check(self) -> None:
        """Raises UsageError for values that make no sense."""
        if self.engine not in ENGINES:
            raise UsageError("unknown engine", expected=", ".join(ENGINES), found=self.engine)
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
    n = problem.n_ops + problem.n_streams
    stream, run = np.zeros(n, np.int64), np.zeros(n, np.int64)
    n = make_runs(order, problem.op_stream, problem.end_row, problem.rows, stream, run)
    return stream[:n], run[:n]


def solve(problem: Problem, options: Options) -> Solution:
    """Give a region to the engine or engines that the options name."""
    if problem.n_ops == 0:
        return Solution(Verdict.LEGAL, "", 0.0, np.empty(0, np.int64))
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


_PROBLEM_FIELDS = (
    "rows", "stream_ptr", "end_row", "part_ptr", "granule", "old", "new", "address", "size",
    "initial", "final",
)  # fmt: skip


class _Shelf:
    """Problems, changes and runs of all regions, on disk until they are needed."""

    def __init__(self) -> None:
        self._problems, self._deltas, self._runs = Spool(), Spool(), Spool()

    def put(self, problem: Problem, delta: Delta) -> None:
        self._problems.put(problem.region, [getattr(problem, name) for name in _PROBLEM_FIELDS])
        self._deltas.put(problem.region, [delta.word, delta.mask, delta.before, delta.after])

    def problem(self, region: int) -> Problem:
        arrays: list[NDArray[Any]] = self._problems.get(region)
        return Problem(region, *arrays)

    def delta(self, region: int) -> Delta:
        return Delta(*self._deltas.get(region))

    def put_runs(self, region: int, runs: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
        self._runs.put(region, list(runs))

    def runs(self, region: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        stream, rows = self._runs.get(region)
        return stream, rows

    def close(self) -> None:
        for spool in (self._problems, self._deltas, self._runs):
            spool.close()


def _forward(traces: Traces, shelf: _Shelf) -> list[Counts]:
    """First pass: unfiltered events and boundary values of every region."""
    forward = Forward(traces.initial())
    counts = []
    for region in iter_regions(traces):
        granules = find_granules(region)
        problem, count = unfiltered(region, granules)
        shelf.put(*forward.advance(region, granules, problem))
        counts.append(count)
    return counts


def _solve_all(
    traces: Traces,
    shelf: _Shelf,
    counts: list[Counts],
    options: Options,
    on_region: Callable[[int, int], None] | None,
) -> list[RegionResult]:
    """Second pass: the regions from the last to the first, as the paper does (section 4.2)."""
    backward = Backward(traces.final()) if traces.has_final else None
    results = []
    for done, region in enumerate(reversed(range(len(counts)))):
        problem = shelf.problem(region)
        if backward:
            backward.retreat(problem, shelf.delta(region))
        solution = solve(problem, options)
        if solution.verdict is Verdict.LEGAL:
            _compare_initial(problem, solution)
            shelf.put_runs(region, runs_of(problem, solution.order))
        results.append(
            RegionResult(
                region, counts[region], solution.verdict, solution.engine, solution.seconds, solution.reason
            )
        )
        if on_region:
            on_region(done + 1, len(counts))
    return results[::-1]


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


def _write(
    path: Path, recording: bytes, traces: Traces, shelf: _Shelf, results: list[RegionResult], engine: str
) -> None:
    writer = CertificateWriter(path, recording, Head(engine, traces.n_streams, len(results)))
    totals = np.zeros(traces.n_streams, np.int64)
    for result in results:
        rows = shelf.problem(result.region).rows
        totals += rows
        if result.verdict is Verdict.LEGAL:
            writer.ordered(result.region, *shelf.runs(result.region))
        else:
            reason = "illegal" if result.verdict is Verdict.ILLEGAL else result.reason
            writer.unordered(result.region, _STATUS[reason], rows)
    writer.finish(totals)


def order_recording(
    traces: Traces,
    certificate: Path,
    recording: bytes,
    options: Options | None = None,
    on_region: Callable[[int, int], None] | None = None,
) -> OrderResult:
    """Order a recording region by region and write the certificate.

    certificate: the file to write; one that is there is replaced, but only by one that the checker has
    accepted. recording: 16 bytes, the recording's id. on_region(done, all): called after each region.
    A region that cannot be decided within the limits is reported and the others are ordered nevertheless.
    Raises OrderError if the recording is damaged (no order can exist, whatever the regions' insides), or
    if the checker rejects what an engine returned.
    """
    options = options or Options()
    options.check()
    shelf = _Shelf()
    unchecked = certificate.with_name(certificate.name + ".unchecked")
    try:
        counts = _forward(traces, shelf)
        results = _solve_all(traces, shelf, counts, options, on_region)
        unchecked.unlink(missing_ok=True)
        _write(unchecked, recording, traces, shelf, results, options.engine)
        open_regions = [r.region for r in results if r.verdict is not Verdict.LEGAL]
        rebase = {region: _bytes_after(shelf.delta(region)) for region in open_regions}
        report = check_certificate(traces, Certificate(unchecked, recording), rebase)
        unchecked.replace(certificate)
    finally:
        shelf.close()
        unchecked.unlink(missing_ok=True)
    total = counts[0]
    for count in counts[1:]:
        total = total + count
    return OrderResult(results, total, report)


def _bytes_after(delta: Delta) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Address (uint64) and value (uint8) of every byte that a region wrote, after it."""
    lane = np.arange(8, dtype=np.uint64)
    address = delta.word[:, None] * np.uint64(8) + lane
    value = (delta.after[:, None] >> (lane * np.uint64(8))) & np.uint64(0xFF)
    written = (delta.mask[:, None] >> lane.astype(np.uint8)) & 1 != 0
    return address[written], value[written].astype(np.uint8)
