"""A recording's accesses: which rows, in which order and format, without ever holding more than a piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol

from corebraid.base.errors import UsageError
from corebraid.base.wording import Option, Phrase
from corebraid.names.places import Places
from corebraid.names.program import GuestProgram
from corebraid.names.selection import Rows, Selection
from corebraid.names.threads import Threads, threads_of
from corebraid.study.windows.trace_windows import Window, braid_window, stream_window
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording, iter_agent_trace
from recorder.replay.seek import accesses

if TYPE_CHECKING:
    from solver.check.certificate import Certificate

Piece = tuple[Rows, bool]


class Exporter(Protocol):
    """A format being written."""

    def write(self, rows: Rows, has_order: bool) -> None:
        """Write EVENT[n]. has_order: False for rows of a region that has no order."""

    def close(self) -> None:
        """Write the end. The sink stays open."""


def make_exporter(
    format_name: str, sink: BinaryIO, program: GuestProgram, n_cores: int, threads: Threads | None
) -> Exporter:
    """An exporter that writes to `sink`; 'text', 'jsonl' or 'parquet'. threads: of a Linux guest."""
    if format_name == "parquet":
        from corebraid.study.export.parquet import ParquetExporter

        return ParquetExporter(sink, program, n_cores, threads)
    if format_name == "jsonl":
        from corebraid.study.export.jsonl import JsonLinesExporter

        return JsonLinesExporter(sink, program, n_cores, threads)
    from corebraid.study.export.text import TextExporter

    return TextExporter(sink, program, n_cores, threads)


@dataclass(frozen=True)
class Written:
    """What was written of a trace. rows: how many. unordered: regions of them that have no order."""

    rows: int
    unordered: tuple[int, ...] = ()

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {"rows": self.rows, "unordered": list(self.unordered)}


@dataclass(frozen=True)
class Traced:
    """The wanted rows of a recording: pieces of (EVENT[n], whether their regions have an order), or written
    in a format. certificate: the order in which they come; None: stream by stream. limit: rows at most.
    window: only that, of the braid; without a certificate only one around an event, of its stream."""

    recording: Recording
    program: GuestProgram
    wanted: Selection
    certificate: Certificate | None
    limit: int | None
    window: Window | None = None

    def __iter__(self) -> Iterator[Piece]:
        """Raises UsageError, FormatError, Divergence, OrderError."""
        return first_rows(self._pieces(), self.limit)

    def _pieces(self) -> Iterator[Piece]:
        recording, certificate, window = self.recording, self.certificate, self.window
        if certificate is None:
            if window is None or window.around is None:
                return one_by_one(recording, self.wanted)
            return stream_window(recording, window.around, self.wanted, window.rows)
        if window is None:
            return braided(recording, certificate, self.wanted)
        buffered = recording.manifest.store_buffer
        return braid_window(lambda: whole_braid(recording, certificate), window, self.wanted, buffered)

    def write(
        self, sink: BinaryIO, format: str = "text", progress: Callable[[int], None] = lambda _: None
    ) -> Written:
        """Write the rows as "text", "jsonl", "parquet" or "axe". progress: called with the rows written.

        axe: of the whole recording, or of some addresses. Raises UsageError, FormatError, Divergence,
        OrderError.
        """
        if format == "axe":
            return self._write_axe(sink, progress)
        n_cores = self.recording.manifest.n_cores
        exporter = make_exporter(format, sink, self.program, n_cores, threads_of(self.recording))
        written, unordered = 0, set[int]()
        for rows, has_order in self:
            if len(rows):
                exporter.write(rows, has_order)
                written += len(rows)
                progress(written)
                if not has_order:
                    unordered.update(set(rows["stratum"].tolist()))
        exporter.close()
        return Written(written, tuple(sorted(unordered)))

    def _write_axe(self, sink: BinaryIO, progress: Callable[[int], None]) -> Written:
        from corebraid.study.export.axe import export_axe
        from recorder.replay.traces import RecordingTraces

        self.check_whole()
        manifest = self.recording.manifest
        places = Places(self.program, manifest.n_cores)
        traces = RecordingTraces(self.recording, constraints=LOSSES)
        name = f"{manifest.program.name}: shared accesses of {manifest.n_cores} cores"
        return Written(export_axe(traces, sink, places, name, self.wanted.addresses, progress))

    def check_whole(self) -> None:
        """Raises UsageError for some of the accesses to a location: they are not a legal trace of it."""
        parts = replace(self.wanted, addresses=None, fetches=True, agents=None) != Selection()
        if parts or self.certificate is not None or self.limit is not None or self.window is not None:
            raise some_of_axe()


def some_of_axe() -> UsageError:
    """The error of a trace in the axe format that is of some accesses alone."""
    names = (
        "core",
        "ordered",
        "first",
        "until",
        "kind",
        "region",
        "limit",
        "thread",
        "function",
        "pc",
        "around",
    )
    options = [Option(name, True if name == "ordered" else None) for name in names]
    listed = [part for option in options for part in (", ", option)][1:]
    return UsageError(
        Phrase(Option("format", "axe"), " writes all accesses to a location, each core's in program order"),
        remedy=Phrase("leave out ", *listed, "; keep ", Option("addr")),
    )


def one_by_one(recording: Recording, wanted: Selection) -> Iterator[Piece]:
    """The wanted rows stream by stream in program order: cores first, then the agents.

    Raises FormatError, Divergence.
    """
    n_cores = recording.manifest.n_cores
    for stream in range(n_cores + 1) if wanted.core is None else (wanted.core,):
        if stream == n_cores:
            pieces = iter_agent_trace(recording)
        else:
            pieces = accesses(recording, stream, wanted.first, wanted.region)
        for rows in pieces:
            if len(rows):
                yield rows[wanted.mask(rows)], True
                if wanted.past(rows, braided=False):
                    break


def braided(recording: Recording, certificate: Certificate, wanted: Selection) -> Iterator[Piece]:
    """The wanted rows of all streams in the certificate's order.

    Raises FormatError, Divergence, OrderError.
    """
    for rows, has_order in whole_braid(recording, certificate):
        yield rows[wanted.mask(rows)], has_order
        if wanted.past(rows, braided=True):
            return


def whole_braid(recording: Recording, certificate: Certificate) -> Iterator[Piece]:
    """All rows of all streams in the certificate's order. Raises FormatError, Divergence, OrderError."""
    from corebraid.study.certificates import all_traces_of
    from solver.check.braid import braid

    return braid(all_traces_of(recording, certificate), certificate)


def first_rows(pieces: Iterator[Piece], limit: int | None) -> Iterator[Piece]:
    """At most `limit` rows of `pieces`."""
    left = limit
    for rows, has_order in pieces:
        if left is not None and len(rows) >= left:
            yield rows[:left], has_order
            return
        left = None if left is None else left - len(rows)
        yield rows, has_order
