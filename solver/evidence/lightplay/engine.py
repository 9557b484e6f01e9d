"""The engine `slices`: regions ordered from LightPlay's evidence, slice after slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.clock import working_time
from corebraid.base.errors import Contradiction
from corebraid.base.wording import Text
from recorder.evidence.slices.codec import SliceTable, iter_regions_of
from recorder.evidence.slices.log import iter_slices
from recorder.files.evidence_names import SLICES, evidence_log
from recorder.files.reader import Recording, iter_evidence
from solver.engines.reorder import keep_edges
from solver.evidence.lightplay.decide import (
    CONTRADICTED,
    UNDECIDED,
    Decided,
    Settings,
    decide,
    search_together,
)
from solver.evidence.lightplay.known import KnownSlices
from solver.evidence.lightplay.place import Rows, Runs, accesses_of, begun_before, ends_in
from solver.evidence.lightplay.slice_problem import Misfit, SliceProblem, make_problem
from solver.regions.contradiction import contradicts, event_of_row
from solver.regions.problem import Problem, Solution, Verdict, no_order
from solver.regions.region import Region

NAME = SLICES
#: Called with each kept slice that was decided: (Decided, EVENT (n,), its accesses).
OnSlice = Callable[[Decided, Any], None]


class SlicesEngine:
    """Solves the regions of one recording, each once and in their order.

    tables: the slices of each region. streams: cores and agents. killed: whether the recorder was killed, so
    that slices may be missing at the end. on_slice: shown every slice that was kept.
    """

    name = NAME

    def __init__(
        self,
        tables: Iterator[SliceTable],
        streams: int,
        settings: Settings | None = None,
        *,
        killed: bool = False,
        on_slice: OnSlice | None = None,
    ) -> None:
        #: What was found of slices while they were recorded; slices in which there is something to search.
        self._known: KnownSlices | None = None
        self._searched = 0
        self._tables, self._killed, self._on_slice = tables, killed, on_slice
        self._settings = settings or Settings()
        self._settings.check()
        self._begin = np.zeros(streams, np.uint64)
        #: Slices so far, and how many entries of the evidence these are, which is how they are numbered.
        self.slices = self.entries = 0

    @classmethod
    def of(
        cls, recording: Recording, settings: Settings | None = None, on_slice: OnSlice | None = None
    ) -> SlicesEngine:
        """The engine for a recording. Raises UsageError if it has no slices."""
        streams = recording.manifest.n_streams
        iter_evidence(recording, NAME)
        where = str(recording.path / evidence_log(NAME))
        tables = iter_regions_of(iter_slices(recording), where)
        return cls(tables, streams, settings, killed=recording.killed, on_slice=on_slice)

    def take_over(self, recording: Recording) -> None:
        """Search none of the slices of which something was found while they were recorded."""
        self._known = KnownSlices.of(recording, self._settings)

    def told(self) -> list[Text]:
        """What there is to say of slices that were searched while they were recorded."""
        if self._known is None:
            return []
        used = f"slices that were searched while they were recorded: {self._known.used:,}"
        return [f"{used} of {self._searched:,}", *([self._known.note] if self._known.note else [])]

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of the region: its slices one after the other. UNDECIDED where a slice is, "no evidence"
        where the recorder was killed before it had written it. Raises Contradiction where a slice's evidence
        does not go with its events, which are named."""
        began = working_time()
        table = next(self._tables, None)
        if table is None:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, "no evidence")
            raise self._misfit(region, "a region without slices")
        try:
            rows = Rows(region, problem)
            ends = ends_in(table, self._begin, rows)
            decided = self._decide(self._problems(table, ends, rows))
            verdict, why = _verdict([one for one, _ in decided.values()])
            broken = next((one for one in decided.values() if one[0].how == CONTRADICTED), None)
            order = no_order()
            if verdict is Verdict.LEGAL and broken is None:
                kept = keep_edges(problem, self._order(problem, ends, decided))
                if kept is None:
                    verdict, why = Verdict.UNDECIDED, "gave up"
                else:
                    order = kept
            self._begin = table.end[-1].copy()
            self.slices += int(table.slices.sum())
            self.entries += len(table)
            if broken is not None:
                raise contradicts(NAME, region.index, _told(*broken))
            return self._answer(began, verdict, why, order)
        except Misfit as error:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, "no evidence")
            raise self._misfit(region, str(error)) from None

    def _problems(
        self, table: SliceTable, ends: NDArray[np.int64], rows: Rows
    ) -> dict[int, tuple[SliceProblem, Any]]:
        """The kept slices of a region as problems, with their accesses (EVENT (n,)), by index in the table.

        Memory between two slices is known before any is solved: what is not raced for from the accesses, the
        rest from the evidence."""
        found: dict[int, tuple[SliceProblem, Any]] = {}
        kept = table.kept.tolist()
        for number, end in enumerate(ends.tolist()):
            if not kept[number]:
                rows.advance(end)
                continue
            events, checkpoints = accesses_of(table, number, self._begin, rows)
            updated = table.updated[table.updated_ptr[number] : table.updated_ptr[number + 1]]
            problem = make_problem(table.first + number, events, checkpoints, updated, rows.covers)
            initial = rows.values(problem.address, problem.size)
            begun = begun_before(events, self._begin, rows)
            found[number] = replace(problem, initial=initial, begun=begun), events
            rows.advance(end)
            rows.set_values(problem.address, problem.size, problem.final)
        return found

    def _decide(self, problems: dict[int, tuple[SliceProblem, Any]]) -> dict[int, tuple[Decided, Any]]:
        known = {number: self._found_ahead(problem) for number, (problem, _) in problems.items()}
        left = [problem for number, (problem, _) in problems.items() if known[number] is None]
        searched = iter(search_together(left, self._settings))
        decided: dict[int, tuple[Decided, Any]] = {}
        for number, (problem, events) in problems.items():
            one = known[number] or decide(problem, self._settings, next(searched))
            decided[number] = one, events
            if self._on_slice:
                self._on_slice(one, events)
        return decided

    def _found_ahead(self, problem: SliceProblem) -> Decided | None:
        self._searched += problem.n > 0
        return None if self._known is None else self._known.find(problem)

    def _order(
        self, problem: Problem, ends: NDArray[np.int64], decided: dict[int, tuple[Decided, Any]]
    ) -> NDArray[np.int64]:
        """The order of a region's operations: slice after slice, and what does not race where it may be."""
        runs = Runs(problem)
        for number, end in enumerate(ends.tolist()):
            if number in decided:
                one, events = decided[number]
                for op in one.order.tolist():
                    stream = int(one.problem.stream[op])
                    seq = int(events["seq"][one.problem.access[op]])
                    runs.advance(stream, seq - int(self._begin[stream]) + 1)
            for stream, to in enumerate(end):
                runs.advance(stream, to)
        return runs.order()

    def _misfit(self, region: Region, what: str) -> Contradiction:
        stream = next((s for s, rows in enumerate(region.streams) if len(rows)), 0)
        where = f"slice {self.entries} or later, from {event_of_row(region, stream, 0)} on"
        return contradicts(NAME, region.index, f"{where}: {what}")

    def _answer(
        self, began: float, verdict: Verdict, why: str, order: NDArray[np.int64] | None = None
    ) -> Solution:
        found = no_order() if order is None else order
        return Solution(verdict, NAME, working_time() - began, found, why)


def _verdict(decided: list[Decided]) -> tuple[Verdict, str]:
    """Of a region, from those of its slices, and why there is no order."""
    undecided = next((one for one in decided if one.how == UNDECIDED), None)
    return (Verdict.UNDECIDED, undecided.why) if undecided else (Verdict.LEGAL, "")


def _told(decided: Decided, events: Any) -> str:
    """A slice whose evidence contradicts its accesses (EVENT (n,)), and where it begins."""
    problem = decided.problem
    where = f"slice {problem.number}"
    if problem.n:
        seq = int(events["seq"][problem.access[0]])
        where += f", from stream {int(problem.stream[0])}, event {seq} on"
    return f"{where}: {decided.why}"
