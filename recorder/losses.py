"""Evidence `losses`: when each core lost a line, or the right to write it (docs/format.md, section 11)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from emu.losses import DOWNGRADED, INSIDE, LOSS, LOSS_NOTE, LOST
from isa.errors import FormatError
from recorder.columns import decode_table, encode_table
from recorder.evidence import LOSSES, evidence_log
from recorder.frame import DamageError
from recorder.reader import Recording, iter_evidence

__all__ = ["DOWNGRADED", "INSIDE", "LOSS", "LOST", "iter_all_losses", "iter_losses"]

Rows = npt.NDArray[np.void]

#: Losses in a frame at most.
FRAME_ROWS = 1 << 14
_U1 = np.uint64(1)


def encode(rows: Rows, line: int) -> bytes:
    """One frame's payload. rows: LOSS_NOTE[n], ascending by core, of each core in their order."""
    table = np.empty((len(rows), 3), np.uint64)
    table[:, 0] = rows["count"]
    table[:, 1] = (rows["line"] // np.uint64(line)) << _U1 | (rows["way"] == LOST)
    table[:, 2] = rows["core"]
    return encode_table(table)


def decode(raw: bytes, records: int, line: int) -> Rows:
    """The losses of one payload, LOSS_NOTE[n]. Raises FormatError."""
    table = decode_table(raw, records, 3)
    rows = np.zeros(records, LOSS_NOTE)
    rows["count"], rows["core"] = table[:, 0], table[:, 2]
    rows["line"] = (table[:, 1] >> _U1) * np.uint64(line)
    rows["way"] = np.where(table[:, 1] & _U1, LOST, DOWNGRADED)
    return rows


def iter_all_losses(recording: Recording) -> Iterator[Rows]:
    """The stream frame by frame: LOSS_NOTE[n], ascending by core, of each core in the order in which it lost.

    Raises UsageError if the recording has none, FormatError.
    """
    path, number = recording.path / evidence_log(LOSSES), 0
    for frame, raw in iter_evidence(recording, LOSSES):
        try:
            rows = decode(raw, frame.records, recording.manifest.line)
        except FormatError as error:
            raise DamageError(
                path, frame.offset, error.what, expected=error.expected, found=error.found
            ) from None
        if (frame.first, frame.last) != (number, number + frame.records - 1):
            raise DamageError(path, frame.offset, "a frame's records are not in the range it declares")
        number += frame.records
        yield rows


def iter_losses(recording: Recording, core: int) -> Iterator[npt.NDArray[np.void]]:
    """What a core lost, in the order in which it happened, in pieces: LOSS[n]; counts never fall.

    Raises UsageError if the recording has no losses, FormatError.
    """
    for rows in iter_all_losses(recording):
        mine = rows[rows["core"] == core]
        if len(mine):
            losses = np.empty(len(mine), LOSS)
            losses["count"], losses["line"], losses["way"] = mine["count"], mine["line"], mine["way"]
            yield losses
