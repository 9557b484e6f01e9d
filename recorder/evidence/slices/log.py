"""Reading the evidence stream `slices` of a recording."""

from __future__ import annotations

from collections.abc import Iterator

from recorder.evidence.slices.codec import Damage, Sequence, SliceTable
from recorder.files.evidence_names import SLICES, evidence_log
from recorder.files.frame import DamageError
from recorder.files.reader import Recording, iter_evidence


def iter_slices(recording: Recording) -> Iterator[SliceTable]:
    """The slices of a recording, frame by frame. Raises UsageError if it has none, FormatError."""
    sequence = Sequence(recording.manifest.n_streams)
    for frame, raw in iter_evidence(recording, SLICES):
        try:
            yield sequence.next(raw, frame.records, frame.first, frame.last)
        except Damage as error:
            path = recording.path / evidence_log(SLICES)
            raise DamageError(
                path, frame.offset, error.what, expected=error.expected, found=error.found
            ) from None
