"""A recording of which nothing is written: for runs of which only the end matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from recorder.files.collectors import EvidenceWriter
from recorder.files.end import End
from recorder.files.json_fields import Scalar
from recorder.files.manifest import Manifest, check
from recorder.files.writer import RecordingWriter

Rows = npt.NDArray[np.void]


class _NoFrames:
    """Frames that go nowhere."""

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        """Nothing."""


class UnwrittenRecording(RecordingWriter):
    """Takes what a `RecordingWriter` does, and keeps the manifest alone."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = replace(manifest, complete=False, end=None, instructions=(), totals={}, files={})
        check(self._manifest)

    def append_core(self, core: int, rows: Rows, blob: npt.NDArray[np.uint8]) -> None:
        """Nothing."""

    def append_agent(self, rows: Rows) -> None:
        """Nothing."""

    def append_truth(self, rows: Rows) -> None:
        """Nothing."""

    def evidence(self, name: str) -> EvidenceWriter:
        """Where frames go nowhere."""
        return _NoFrames()

    def write_image(
        self, which: Literal["initial", "final"], pages: Iterable[tuple[int, npt.NDArray[np.uint8]]]
    ) -> None:
        """Nothing; pages are not looked at."""

    def finish(
        self, end: End, instructions: Iterable[int], totals: Mapping[str, Scalar] | None = None
    ) -> Manifest:
        """The manifest as a recording's would be, without what it says of files."""
        counts = tuple(int(count) for count in instructions)
        return replace(self._manifest, end=end, instructions=counts, totals=dict(totals or {}))

    def close(self) -> None:
        """Nothing."""

    def discard(self) -> None:
        """Nothing."""
