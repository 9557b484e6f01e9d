"""Collectors of evidence, the further streams that a recording may have (docs/format.md, section 11).

A collector takes one stream down while the machine runs. It is handed every event in the order in which they
ran; what of that its paper's recorder could not have seen it must not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from recorder.files.evidence_names import STREAMS, loaded
from recorder.files.rebase import Base

if TYPE_CHECKING:
    from emu.bus.losses import LossNotes
    from emu.devices.post import Post

Rows = npt.NDArray[np.void]


@dataclass(frozen=True)
class Guest:
    """What a collector is told of the machine. memory: uint8[memory_bytes], home memory before the run; it
    changes once that begins. symbols: (first byte, bytes) of each object that the program names. executable:
    uint8[pages], nonzero for pages from which the program may run code; late_code: numbers of pages that
    became such when they held something. Both grow as it runs where there is such a list; else it is None.
    mail: the messages between cores, which evidence rpc is made of. used: numbers of the pages that may hold
    something; None: any may. losses: of all cores, which evidence losses is made of."""

    n_cores: int
    line: int
    seed: int
    memory: npt.NDArray[np.uint8]
    symbols: tuple[tuple[int, int], ...] = ()
    executable: npt.NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))
    mail: Post | None = None
    used: npt.NDArray[np.int64] | None = None
    losses: LossNotes | None = None
    late_code: list[int] | None = None


class Collector(Protocol):
    """Takes one evidence stream down while the machine runs."""

    def take(self, stream: int, rows: Rows) -> None:
        """What a core, or the agents (stream n_cores), did since its last turn, in the order in which all
        ran: EVENT[n], as a traced replay gives them later. A view, good during the call."""

    def stratum(self) -> None:
        """A stratum was cut here."""

    def flush(self) -> None:
        """Write what there is, so that a killed recorder loses no more than what comes after."""

    def finish(self) -> None:
        """The run is over: write what is left."""


@runtime_checkable
class AheadOfLogs(Protocol):
    """A collector whose stream is on disk before what the cores' logs say of the same time."""

    def write_ahead(self) -> None:
        """A core's log is about to be written, or the collector's source is full: write what there is."""


class Follower(Protocol):
    """Who is handed what a collector takes down, as it comes. It must not keep the recorder waiting."""

    def begin(self, path: Path, recording: bytes) -> None:
        """The recording in the directory `path` begins. recording: 16 bytes, its id."""

    def take(self, batch: bytes) -> None:
        """More of it, in the collector's own form."""

    def over(self) -> None:
        """The run is over; the last of it may still come."""


@runtime_checkable
class Followed(Protocol):
    """A collector whose stream can be followed as it comes. What is written is the same."""

    def follow(self, follower: Follower) -> None:
        """Hand it to `follower` from now on."""


class IntervalSource(Protocol):
    """What is being written interval by interval."""

    def evidence(self, name: str) -> EvidenceWriter:
        """Where frames of a stream go in the present interval."""


@runtime_checkable
class InIntervals(Protocol):
    """A collector whose stream can go on in another file, where it begins anew."""

    def begin_interval(self, source: IntervalSource, base: Base) -> None:
        """What follows counts from `base`. All before has been written."""


class EvidenceWriter(Protocol):
    """Where a collector writes its frames."""

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """One frame, see `FrameWriter.append`."""


def make_collector(
    name: str, guest: Guest, writer: EvidenceWriter, options: Mapping[str, object]
) -> Collector:
    """The collector of one stream. options: what the manifest says of how it is recorded. Raises
    UsageError."""
    collector: Collector = loaded(STREAMS[name].collector)(guest, writer, options)
    return collector
