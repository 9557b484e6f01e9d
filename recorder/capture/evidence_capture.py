"""Handing events to the collectors of evidence while the machine runs, in the order in which they ran."""

from __future__ import annotations

import numpy as np

from emu.board.board import Board
from recorder.files.collectors import AheadOfLogs, Collector, InIntervals, IntervalSource
from recorder.files.rebase import Base


class EvidenceCapture:
    """The collectors of one recording in the making. Without any, every call does nothing."""

    def __init__(self, machine: Board, collectors: list[Collector]) -> None:
        self._machine, self._collectors = machine, collectors
        #: Those that take events: none where there are no taps.
        self._takers = collectors if machine.config.tapped else []
        self._ahead = [collector for collector in collectors if isinstance(collector, AheadOfLogs)]
        self._agents_seen = 0

    def write_ahead(self) -> None:
        """See `AheadOfLogs.write_ahead`."""
        for collector in self._ahead:
            collector.write_ahead()

    def turn(self, number: int) -> None:
        """Core `number` has run for a while, and stands between two instructions."""
        if self._takers:
            rows = self._machine.cores[number].take_tap()
            if len(rows):
                for collector in self._takers:
                    collector.take(number, rows)

    def agents(self) -> None:
        """The agents have had their turn."""
        if not self._takers:
            return
        rows = self._machine.agent_rows_from(self._agents_seen)
        if len(rows):
            self._agents_seen += len(rows)
            for collector in self._takers:
                collector.take(len(self._machine.cores), rows)

    def agents_drained(self) -> None:
        """The machine's buffer of agents' rows is about to be emptied."""
        self.agents()
        self._agents_seen = 0

    def stratum(self, number: int) -> None:
        """A stratum was cut: events from here on are of region `number`."""
        if self._collectors:
            self._machine.core_rows["trace_stratum"] = np.uint64(number)
            for collector in self._collectors:
                collector.stratum()

    def begin_interval(self, source: IntervalSource, base: Base) -> None:
        """What follows counts from `base`, and goes where `source` says."""
        for collector in self._collectors:
            if isinstance(collector, InIntervals):
                collector.begin_interval(source, base)

    def flush(self) -> None:
        """See `Collector.flush`."""
        for collector in self._collectors:
            collector.flush()

    def finish(self) -> None:
        """The run is over."""
        for collector in self._collectors:
            collector.finish()
