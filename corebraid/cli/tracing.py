"""From a recording to an exporter: which rows, in which order, without ever holding more than a piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol

from corebraid.names.program import GuestProgram
from corebraid.names.selection import Rows, Selection
from corebraid.names.threads import Threads
from recorder.files.reader import Recording, iter_agent_trace
from recorder.replay.core import CoreReplay
from recorder.replay.traces import RecordingTraces
from solver.check.braid import braid
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
        from corebraid.cli.export.parquet import ParquetExporter

        return ParquetExporter(sink, program, n_cores, threads)
    if format_name == "jsonl":
        from corebraid.cli.export.jsonl import JsonLinesExporter

        return JsonLinesExporter(sink, program, n_cores, threads)
    from corebraid.cli.export.text import TextExporter

    return TextExporter(sink, program, n_cores, threads)


def one_by_one(recording: Recording, wanted: Selection) -> Iterator[Piece]:
    """The wanted rows stream by stream in program order: cores first, then the agents.

    Raises FormatError, Divergence.
    """
    n_cores = recording.manifest.n_cores
    for stream in range(n_cores + 1) if wanted.core is None else (wanted.core,):
        if stream == n_cores:
            pieces = iter_agent_trace(recording)
        else:
            pieces = CoreReplay(recording, stream, traced=True).run()
        for rows in pieces:
            if len(rows):
                yield rows[wanted.mask(rows)], True
                if wanted.past(rows, braided=False):
                    break


def braided(recording: Recording, certificate: Certificate, wanted: Selection) -> Iterator[Piece]:
    """The wanted rows of all streams in the certificate's order.

    Raises FormatError, Divergence, OrderError.
    """
    for rows, has_order in braid(RecordingTraces(recording), certificate):
        yield rows[wanted.mask(rows)], has_order
        if wanted.past(rows, braided=True):
            return


def first_rows(pieces: Iterator[Piece], limit: int | None) -> Iterator[Piece]:
    """At most `limit` rows of `pieces`."""
    left = limit
    for rows, has_order in pieces:
        if left is not None and len(rows) >= left:
            yield rows[:left], has_order
            return
        left = None if left is None else left - len(rows)
        yield rows, has_order
