"""Evidence `losses`: when each core lost a line, or the right to write it (docs/format.md, section 11)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt

from corebraid.base.errors import ExcessError, FormatError
from emu.bus.losses import DOWNGRADED, INSIDE, LOSS, LOST
from recorder.evidence.losses.codec import decode
from recorder.files.evidence_names import LOSSES, evidence_log
from recorder.files.frame import DamageError
from recorder.files.reader import Recording, iter_evidence, strata

__all__ = ["DOWNGRADED", "INSIDE", "LOSS", "LOST", "RegionCount", "iter_all_losses", "iter_losses"]

#: Of one core in a region. Whoever orders holds some 40 bytes for each.
_MOST_IN_A_REGION = 1 << 24

Rows = npt.NDArray[np.void]


def iter_all_losses(recording: Recording, first: int = 0) -> Iterator[Rows]:
    """The stream frame by frame: LOSS_NOTE[n], ascending by core, of each core in the order in which it lost.
    first: so many frames are passed over.

    Raises UsageError if the recording has none, FormatError.
    """
    manifest, path = recording.manifest, recording.path / evidence_log(LOSSES)
    number, reached, passed = None, np.zeros(manifest.n_cores, np.uint64), count()
    for frame, raw in iter_evidence(recording, LOSSES, lambda _: next(passed) >= first):
        try:
            rows = decode(raw, frame.records, manifest.line, manifest.n_cores, manifest.memory)
        except FormatError as error:
            sides = error.expected, error.found
            raise DamageError(path, frame.offset, error.what, expected=sides[0], found=sides[1]) from None
        if number is None:
            number = frame.first if first else 0
        if (frame.first, frame.last) != (number, number + frame.records - 1):
            raise DamageError(path, frame.offset, "a frame's records are not in the range it declares")
        if (rows["count"] < reached[rows["core"]]).any():
            raise DamageError(path, frame.offset, "a core's instruction count goes back")
        np.maximum.at(reached, rows["core"], rows["count"])
        number += frame.records
        yield rows


class RegionCount:
    """Counts the losses of one core in the region that it is in."""

    def __init__(self) -> None:
        self._region, self._n = -1, 0

    def add(self, regions: npt.NDArray[np.int64]) -> None:
        """Those of its losses that come next, int64[n], ascending. Raises ExcessError."""
        if not len(regions):
            return
        last = int(regions[-1])
        here = len(regions) - int(np.searchsorted(regions, last))
        self._n = here + (self._n if last == self._region else 0)
        self._region = last
        if self._n > _MOST_IN_A_REGION:
            raise ExcessError(
                "a core lost more lines in a region than can be held",
                expected=f"at most {_MOST_IN_A_REGION:,}",
                found=f"{self._n:,} and more",
                where=f"region {last}",
                remedy="record again, with more strata",
            )


def first_notes(cuts: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The least count that a core's loss is noted with behind each stratum, uint64[strata]. cuts: where the
    core stands at each."""
    behind: npt.NDArray[np.uint64] = np.arange(1, len(cuts) + 1, dtype=np.uint64)
    return behind + cuts


def losses_strata(notes: Rows, firsts: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """How many strata come before losses of one core. notes: LOSS_NOTE[n]; firsts: `first_notes`."""
    return np.searchsorted(firsts, notes["count"], side="right")


def iter_losses(
    recording: Recording, core: int, table: npt.NDArray[np.uint64] | None = None
) -> Iterator[npt.NDArray[np.void]]:
    """What a core lost, in the order in which it happened, in pieces: LOSS[n]; counts and strata never fall.

    table: `strata` of the recording, for which all logs are read unless it is given. Raises UsageError if the
    recording has no losses, FormatError.
    """
    return (rows for _, rows in iter_losses_from(recording, core, 0, table))


def iter_losses_from(
    recording: Recording, core: int, first: int, table: npt.NDArray[np.uint64] | None = None
) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
    """`iter_losses` behind so many frames of the stream, each piece with the number of its frame."""
    cuts = (strata(recording) if table is None else table)[:, core]
    firsts = first_notes(cuts)
    for number, rows in enumerate(iter_all_losses(recording, first), first):
        mine = rows[rows["core"] == core]
        if len(mine):
            losses = np.empty(len(mine), LOSS)
            losses["stratum"] = losses_strata(mine, firsts)
            losses["count"] = mine["count"] - losses["stratum"]
            losses["line"], losses["way"] = mine["line"], mine["way"]
            yield number, losses
