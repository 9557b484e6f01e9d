"""The engine `slices`: regions ordered from LightPlay's evidence, slice after slice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import FormatError
from recorder.evidence import SLICES
from recorder.reader import Recording, iter_evidence
from recorder.slice_codec import SliceTable, iter_regions_of
from recorder.slice_log import iter_slices
from solver.lightplay.decide import UNDECIDED, Decided, Settings, decide
from solver.lightplay.place import Rows, accesses_of, ends_in
from solver.lightplay.slice_problem import Misfit, make_problem
from solver.problem import Problem, Solution, Verdict, no_order
from solver.regions import Region

NAME = SLICES
#: Called with each kept slice that was decided: (Decided, EVENT (n,), its accesses).
OnSlice = Callable[[Decided, Any], None]


class SlicesEngine:
    """Solves the regions of one recording, each once and in their order.

    tables: the slices of each region. streams: cores and agents. killed: whether the recorder was killed, so
    that slices may be missing at the end. on_slice: shown every slice that was kept.
    """

    def __init__(
        self,
        tables: Iterator[SliceTable],
        streams: int,
        settings: Settings | None = None,
        *,
        killed: bool = False,
        on_slice: OnSlice | None = None,
    ) -> None:
        self._tables, self._killed, self._on_slice = tables, killed, on_slice
        self._settings = settings or Settings()
        self._settings.check()
        self._begin = np.zeros(streams, np.uint64)
        #: Slices so far.
        self.slices = 0

    @classmethod
    def of(
        cls, recording: Recording, settings: Settings | None = None, on_slice: OnSlice | None = None
    ) -> SlicesEngine:
        """The engine for a recording. Raises UsageError if it has no slices."""
        streams = recording.manifest.n_streams
        iter_evidence(recording, NAME)
        tables = iter_regions_of(iter_slices(recording))
        return cls(tables, streams, settings, killed=recording.killed, on_slice=on_slice)

    def solve(self, region: Region, problem: Problem) -> Solution:
        """An order of the region: its slices one after the other. UNDECIDED where a slice is; "no evidence"
        where the recorder was killed before it had written it. Raises FormatError where the evidence is not
        about these events."""
        began = time.monotonic()
        table = next(self._tables, None)
        if table is None:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, "no evidence")
            raise self._misfit(region, "a region without slices")
        try:
            rows = Rows(region, problem)
            ends = ends_in(table, self._begin, rows)
            why = self._slices(table, ends, rows)
            self._begin = table.end[-1].copy()
            self.slices += len(table)
            if why:
                return self._answer(began, Verdict.UNDECIDED, why)
            return self._answer(began, Verdict.LEGAL, "", rows.order())
        except Misfit as error:
            if self._killed:
                return self._answer(began, Verdict.UNDECIDED, "no evidence")
            raise self._misfit(region, str(error)) from None

    def _slices(self, table: SliceTable, ends: NDArray[np.int64], rows: Rows) -> str:
        """Go over a region's slices. Returns why it is undecided, or ""."""
        why = ""
        kept = table.kept.tolist()
        for number, end in enumerate(ends.tolist()):
            if kept[number]:
                decided, events = self._decide(table, number, rows)
                if self._on_slice:
                    self._on_slice(decided, events)
                if decided.how == UNDECIDED:
                    why = why or decided.why
                for op in decided.order.tolist():
                    access = events[decided.problem.access[op]]
                    stream = int(decided.problem.stream[op])
                    rows.advance(stream, int(access["seq"] - self._begin[stream]) + 1)
            for stream, to in enumerate(end):
                rows.advance(stream, to)
        return why

    def _decide(self, table: SliceTable, number: int, rows: Rows) -> tuple[Decided, Any]:
        events, checkpoints = accesses_of(table, number, self._begin, rows)
        updated = table.updated[table.updated_ptr[number] : table.updated_ptr[number + 1]]
        problem = make_problem(table.first + number, events, checkpoints, updated)
        problem = replace(problem, initial=rows.values(problem.address, problem.size))
        return decide(problem, self._settings), events

    def _misfit(self, region: Region, what: str) -> FormatError:
        return FormatError(
            "evidence slices is not about the events of this recording",
            found=what,
            where=f"region {region.index}, slice {self.slices} and later",
            remedy="record again with --evidence slices",
        )

    def _answer(
        self, began: float, verdict: Verdict, why: str, order: NDArray[np.int64] | None = None
    ) -> Solution:
        found = no_order() if order is None else order
        return Solution(verdict, NAME, time.monotonic() - began, found, why)
