"""The engine `linkage`: regions ordered from Stride's evidence (ICSE 2012, section IV)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from recorder.files.evidence_names import LINKAGE
from recorder.files.reader import Recording
from solver.engines.reorder import keep_edges
from solver.evidence.linkage.edges import tighten
from solver.evidence.linkage.log import LinkageLog, read_linkage
from solver.evidence.linkage.match import COMPARED, CYCLE, MATCHED, OTHER_VALUE, Linkages, link
from solver.evidence.linkage.place import MISSING, Misfit, Placed, place
from solver.evidence.linkage.searched import search_within_bounds
from solver.regions.contradiction import contradicts, event_of_row
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region

NAME = LINKAGE

_WITHIN = "a search within the bounds"


class LinkageEngine:
    """Solves the regions of one recording, each once and in their order. with_edges: bounds are made tighter
    by edges of fork and join, and where linkages go against these all the same a search finds others.

    lowered: bounds that these have lowered. reads: reads of shared variables so far. compared: int64
    (COMPARED,), of those that were to be linked, how many took 1, 2, ... comparisons, the last as many or
    more. seconds: spent on inference.
    """

    name = NAME

    def __init__(self, log: LinkageLog, killed: bool = False, with_edges: bool = True) -> None:
        self._log, self._killed, self._with_edges = log, killed, with_edges
        self._skipped = log.guards.skipped.tolist()
        self.lowered = 0
        self.reads, self.seconds = 0, 0.0
        self.compared = np.zeros(COMPARED, np.int64)

    @classmethod
    def of(cls, recording: Recording, with_values: bool = False) -> LinkageEngine:
        """The engine for a recording. with_values: it also compares the values of the read log with those
        that were replayed. Raises UsageError if the recording has no linkages, FormatError."""
        return cls(read_linkage(recording, with_values), recording.killed)

    @property
    def values(self) -> dict[str, int]:
        """Values of the read log so far, by what became of them; zeros unless they are compared."""
        return dict(zip(("written", "predicted", "left_out"), self._log.values.tally.tolist(), strict=True))

    def miscounted(self) -> str:
        """Whether the stream says, of a whole run all of whose regions were solved, that others than these
        accesses were skipped: what it says; empty if it does not."""
        said, left = self._skipped, self._log.guards.skipped.tolist()
        if self._killed or not any(left):
            return ""
        return (
            f"{said[0]:,} accesses are said to be skipped, {said[1]:,} of them writes, where there are "
            f"{said[0] - left[0]:,}, {said[1] - left[1]:,} of them writes"
        )

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of the region from its linkages. Raises Contradiction, which names the event, where the
        evidence does not go with the events; the engine cannot go on then."""
        began = working_time()
        placed = place(self._log, region, problem)
        if isinstance(placed, Misfit):
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, "no evidence")
            where = f"stream {placed.stream}, event {placed.seq}: {placed.what}"
            raise contradicts(NAME, region.index, where)
        self.reads += placed.reads
        if problem.n_ops == 0:
            return self._answer(began, Verdict.LEGAL, "")
        if (placed.kind == MISSING).any():
            part = int(np.flatnonzero(placed.kind == MISSING)[0])
            raise contradicts(NAME, region.index, f"{_named(region, problem, part)} no event of the traces")
        if self._with_edges:
            self.lowered += tighten(problem, placed)
        linked = link(problem, placed)
        self.compared += linked.compared
        if linked.status == MATCHED:
            order = keep_edges(problem, linked.order)
            if order is None:
                return self._searched(began, problem, placed)
            return self._answer(began, Verdict.LEGAL, "", order)
        raise contradicts(NAME, region.index, _why(region, problem, linked))

    def _searched(self, began: float, problem: Problem, placed: Placed) -> Solution:
        """Of values that repeat it has linked reads to other writes than they saw."""
        if not self._with_edges:
            return self._answer(began, Verdict.UNDECIDED, "gave up")
        found = search_within_bounds(problem, placed)
        if found.verdict is Verdict.ILLEGAL:
            raise contradicts(NAME, problem.region, "no order keeps bounds and edges of fork and join")
        why = _WITHIN if found.verdict is Verdict.LEGAL else found.reason
        return self._answer(began, found.verdict, why, found.order)

    def _answer(
        self, began: float, verdict: Verdict, why: str, order: NDArray[np.int64] | None = None
    ) -> Solution:
        seconds = working_time() - began
        self.seconds += seconds
        return Solution(verdict, NAME, seconds, no_order() if order is None else order, why)


def _named(region: Region, problem: Problem, part: int) -> str:
    op = int(problem.part_op[part])
    event = event_of_row(region, int(problem.op_stream[op]), int(problem.end_row[op]) - 1)
    return f"{event}, address {int(problem.address[problem.granule[part]]):#x}:"


def _why(region: Region, problem: Problem, linked: Linkages) -> str:
    if linked.status == CYCLE:
        return (
            f"{_named(region, problem, linked.part)} the linkages have a cycle, which is before this or in it"
        )
    what = (
        "found another value than the write before it left"
        if linked.status == OTHER_VALUE
        else ("returned what no write up to its bound wrote")
    )
    return f"{_named(region, problem, linked.part)} {what}"
