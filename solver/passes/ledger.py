"""What is known of every region while a recording is ordered, and what follows once all is known."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError, OrderError
from solver.check.certificate import ORDERED, REASONS, Block, Certificate, CertificateWriter, Head
from solver.check.checker import CheckReport
from solver.check.seams import Seam, Seams
from solver.passes.results import Answer, OrderResult, RegionResult
from solver.passes.spool import Spool
from solver.passes.stages import Sifted
from solver.regions.problem import Problem, Verdict, no_order
from solver.regions.quiet import Quiet
from solver.regions.region import Region
from solver.regions.traces import Traces
from solver.sifting.boundary import Backward, Delta, Forward, Net
from solver.sifting.filters import Counts

STATUS = {reason: status for status, reason in REASONS.items()}
_PROBLEM_FIELDS = tuple(field for field in fields(Problem) if field.name != "region")
_NAMES = tuple(field.name for field in _PROBLEM_FIELDS)
#: Those that are numbers, and those of two dimensions with how many columns each has, as their defaults say.
_NUMBERS = tuple(field.name for field in _PROBLEM_FIELDS if isinstance(field.default, int))
_COLUMNS = {
    field.name: empty.shape[1]
    for field in _PROBLEM_FIELDS
    if field.default_factory is not MISSING and (empty := field.default_factory()).ndim == 2
}
#: What becomes of the rows of a region that has none.
_NO_ROWS = Counts(0, 0, 0, 0, 0, 0)
_SEAM_FIELDS = ("word", "known", "first", "last")


class Ledger:
    """The regions of a recording: composed from the first to the last, answered in any order, crossed by the
    checker from the first to the last. What is kept of them is on disk."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self.n = len(traces.strata) + 1
        self._forward, self._seams = Forward(traces.initial()), Seams(traces.initial())
        self._problems, self._ends, self._runs, self._waiting = (Spool() for _ in range(4))
        self._quiet = np.zeros(self.n, np.bool_)
        self._counts: list[Counts] = []
        self._results: dict[int, RegionResult] = {}
        self._walked: dict[int, int] = {}
        self._crossed = 0

    @property
    def composed(self) -> int:
        """How many regions have their values at both ends: always the first ones."""
        return len(self._counts)

    @property
    def answered(self) -> int:
        """How many regions an engine or the ledger has answered for."""
        return len(self._results)

    @property
    def complete(self) -> bool:
        """Whether all regions are answered and the checker has crossed them."""
        return self._crossed == self.n

    def compose(self, region: Region, sifted: Sifted) -> Problem:
        """The next region: its problem with the values at both ends, which are composed from those of the
        regions before. After the last one, the same backwards. Raises OrderError for a damaged recording."""
        problem, delta = self._forward.compose(region, sifted.problem, sifted.chains, sifted.net)
        self._problems.put(problem.region, [np.ravel(getattr(problem, name)) for name in _NAMES])
        net = sifted.net
        self._ends.put(
            problem.region,
            [delta.word, delta.mask, delta.before, delta.after, net.changes, net.initial, net.final],
        )
        self._counts.append(sifted.counts)
        self._compose_backwards()
        return problem

    def compose_quiet(self, quiet: Quiet) -> None:
        """The next regions, which leave memory as it is."""
        self._quiet[quiet.first : quiet.end] = True
        self._counts += [_NO_ROWS] * (quiet.end - quiet.first)
        self._compose_backwards()

    def _compose_backwards(self) -> None:
        if self.composed < self.n or not self._traces.has_final:
            return
        backward = Backward(self._traces.final())
        for number in np.flatnonzero(~self._quiet)[::-1].tolist():
            backward.retreat(self.problem(number), *self._ends_of(number))

    def problem(self, region: int) -> Problem:
        """The problem of a composed region."""
        arrays: list[NDArray[Any]] = self._problems.get(region)
        named: dict[str, Any] = dict(zip(_NAMES, arrays, strict=True))
        for name in _NUMBERS:
            named[name] = int(named[name][0])
        return Problem(region, **named | {name: named[name].reshape(-1, n) for name, n in _COLUMNS.items()})

    def _ends_of(self, region: int) -> tuple[Delta, Net]:
        arrays = self._ends.get(region)
        return Delta(*arrays[:4]), Net(*arrays[4:])

    def answer(self, region: int, answer: Answer) -> bool:
        """Take an engine's answer. Returns whether there is an order for the checker to walk; that of a quiet
        region has nothing to walk."""
        walkable = answer.verdict is Verdict.LEGAL and not self._quiet[region]
        if walkable:
            self._runs.put(region, [answer.stream, answer.rows])
        self._results[region] = RegionResult(
            region, self._counts[region], answer.verdict, answer.engine, answer.seconds, answer.reason
        )
        if not walkable:
            self._cross()
        return walkable

    def take_back(self, region: int) -> None:
        """Forget an answer."""
        del self._results[region]

    def runs(self, region: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(stream, rows) of the runs of a region with an order."""
        if self._quiet[region]:
            return no_order(), no_order()
        stream, rows = self._runs.get(region)
        return stream, rows

    def _rows(self, region: int) -> NDArray[np.int64]:
        """How many rows each stream has in a region."""
        return (
            np.zeros(self._traces.n_streams, np.int64) if self._quiet[region] else self.problem(region).rows
        )

    def walked(self, seam: Seam) -> None:
        """Take what the checker found in a region. Raises OrderError if it does not fit to the one before."""
        self._walked[seam.region] = seam.rows
        if seam.region != self._crossed:
            self._waiting.put(seam.region, [getattr(seam, name) for name in _SEAM_FIELDS])
            return
        self._seams.cross(seam)
        self._crossed += 1
        self._cross()

    def _cross(self) -> None:
        """Go over all regions whose turn it is."""
        while self._crossed < self.n:
            region = self._crossed
            if region in self._walked:
                self._seams.cross(Seam(region, self._walked[region], *self._waiting.get(region)))
            elif region in self._results and self._quiet[region]:
                pass
            elif region in self._results and self._results[region].verdict is not Verdict.LEGAL:
                self._seams.pass_over(*_bytes_after(self._ends_of(region)[0]))
            else:
                return
            self._crossed += 1

    def finish(self, final: NDArray[np.uint8]) -> None:
        """Finish the check: memory at the end. Raises OrderError if it is not `final`."""
        self._seams.finish(final)

    def certify(
        self, path: Path, recording: bytes, engine: str, *, spare_complete: bool = False
    ) -> OrderResult:
        """Finish the check and write the certificate of what was checked, under another name first.

        spare_complete: not over one that orders every region, where this one would leave some undecided.
        Raises OrderError if memory at the end is not the final image, FormatError if it cannot be written.
        """
        if self._traces.has_final:
            self.finish(self._traces.final())
        results = [self._results[region] for region in range(self.n)]
        undecided = {result.verdict for result in results} == {Verdict.LEGAL, Verdict.UNDECIDED}
        kept = spare_complete and undecided and _orders_all(path, recording)
        unchecked = path.with_name(path.name + ".unchecked")
        unchecked.unlink(missing_ok=True)
        try:
            self._write(unchecked, recording, results, engine)
            self._read_back(unchecked, recording)
            if not kept:
                unchecked.replace(path)
        finally:
            unchecked.unlink(missing_ok=True)
        total = _NO_ROWS
        for region in np.flatnonzero(~self._quiet).tolist():
            total = total + self._counts[region]
        left = [(r.region, _reason(r)) for r in results if r.verdict is not Verdict.LEGAL]
        passed = sum(self._counts[region].total for region, _ in left)
        return OrderResult(results, total, CheckReport(self._seams.events, passed, left), kept)

    def write(self, path: Path, recording: bytes, engine: str) -> None:
        """Write the certificate of what is answered as it is. Raises FormatError if it cannot be written."""
        self._write(path, recording, [self._results[region] for region in range(self.n)], engine)

    def _write(self, path: Path, recording: bytes, results: list[RegionResult], engine: str) -> None:
        traces, n_streams = self._traces, self._traces.n_streams
        head = Head(engine, n_streams, len(results), traces.contested, traces.holds, traces.handovers)
        writer = CertificateWriter(path, recording, head)
        totals = np.zeros(n_streams, np.int64)
        legal = np.array([result.verdict is Verdict.LEGAL for result in results])
        done = 0
        for region in np.flatnonzero(~(self._quiet & legal)).tolist():
            writer.empty(done, region)
            done, result = region + 1, results[region]
            rows = self._rows(region)
            totals += rows
            if result.verdict is Verdict.LEGAL:
                writer.ordered(result.region, *self.runs(result.region))
            else:
                writer.unordered(result.region, STATUS[_reason(result)], rows)
        writer.empty(done, self.n)
        writer.finish(totals)

    def _read_back(self, path: Path, recording: bytes) -> None:
        """The file must hold the runs that were walked, and not what a writer made of them."""
        at = 0
        for block in Certificate(path, recording).stretches():
            if block.status != ORDERED:
                continue
            end = at + len(block.stream)
            for region in self._said(block):
                stream, rows = self.runs(region)
                if not (
                    np.array_equal(block.stream, stream[at:end])
                    and np.array_equal(block.rows, rows[at:end])
                    and (not block.last or end == len(stream))
                ):
                    raise OrderError(
                        "the certificate is not the order that was checked",
                        where=f"{path}, region {region}",
                        remedy="this is a defect of corebraid or of the disk: try again",
                    )
            at = 0 if block.last else end

    def _said(self, block: Block) -> list[int]:
        """The regions whose runs a block has to be, without those that can have none as it has none."""
        said = np.arange(block.region, block.region + block.regions)
        found: list[int] = said[~self._quiet[said]].tolist() if not len(block.stream) else said.tolist()
        return found

    def close(self) -> None:
        """Give the disk space back."""
        for spool in (self._problems, self._ends, self._runs, self._waiting):
            spool.close()


def _orders_all(path: Path, recording: bytes) -> bool:
    """Whether there is a certificate of this recording that gives every region an order."""
    try:
        return all(block.status == ORDERED for block in Certificate(path, recording).stretches())
    except FormatError:
        return False


def _reason(result: RegionResult) -> str:
    return "illegal" if result.verdict is Verdict.ILLEGAL else result.reason


def _bytes_after(delta: Delta) -> tuple[NDArray[np.uint64], NDArray[np.uint8]]:
    """Address (uint64) and value (uint8) of every byte that a region wrote, after it."""
    lane = np.arange(8, dtype=np.uint64)
    address = delta.word[:, None] * np.uint64(8) + lane
    value = (delta.after[:, None] >> (lane * np.uint64(8))) & np.uint64(0xFF)
    written = (delta.mask[:, None] >> lane.astype(np.uint8)) & 1 != 0
    return address[written], value[written].astype(np.uint8)
