"""The ordered accesses of a short recording to words that threads share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.names.program import GuestProgram
from corebraid.study.causes.code_names import CodeNames
from corebraid.study.shared_rows import Access, OrderedAccesses
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes.answers import Options
from solver.passes.order import order_recording

#: Instructions of a recording whose accesses are looked at.
_MOST_INSTRUCTIONS = 30_000_000


def ordered_accesses(
    path: Path, more: NDArray[np.uint64] | None = None, names: CodeNames | None = None
) -> tuple[list[Access], NDArray[np.uint64]]:
    """(accesses, shared words). Orders the recording, which keeps the certificate. more: words, as addresses
    over 8, to be looked at as well. names: of its program, if they are known. Raises CorebraidError."""
    recording = Recording.open(path)
    manifest = recording.manifest
    if sum(manifest.instructions) > _MOST_INSTRUCTIONS:
        raise UsageError("the recording is too long to look for suspicious accesses in passing")
    order_recording(
        RecordingTraces(recording), path / ORDER_CERT, manifest.id, Options("auto", timeout_s=20.0)
    )
    names = names or CodeNames(GuestProgram.of(path, manifest))
    found = OrderedAccesses(recording, names)
    words = found.shared_words()
    return found.of_words(words if more is None else np.union1d(words, more)), words
