"""How far an ordering has come: instructions replayed and regions ordered, in however many processes."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from recorder.files.reader import Recording, strata


class Replayed:
    """Make it before processes are forked: what they replay is counted in memory that they share.

    works: what there is to do, and how much, for `console.progress_of`.
    """

    def __init__(self, recording: Recording) -> None:
        manifest = recording.manifest
        self._counts: NDArray[np.int64] = np.frombuffer(mmap.mmap(-1, 8 * manifest.n_cores), np.int64)
        self._ordered = 0
        self._instructions, regions = _extent(recording)
        self.works = (("instructions replayed", self._instructions), ("regions ordered", regions))

    def replayed(self, core: int, count: int) -> None:
        """A core's replay has come so far, in this process or in another."""
        self._counts[core] = count

    def ordered(self, regions: int, _: int) -> None:
        """So many regions have their answer."""
        self._ordered = regions

    def done(self) -> tuple[int, int]:
        """How much of `works` is done."""
        # A replay tells from time to time, not of its end.
        over = self._ordered == self.works[1][1]
        replayed = self._instructions if over else min(int(self._counts.sum()), self._instructions)
        return replayed, self._ordered


def _extent(recording: Recording) -> tuple[int, int]:
    """(instructions, regions). Of a recording whose recorder was killed, what precedes its last stratum; of
    another the manifest has both, so that no log is read for them."""
    manifest = recording.manifest
    counted = manifest.totals.get("strata")
    if manifest.complete and isinstance(counted, int):
        return sum(manifest.instructions), counted + 1
    cuts = strata(recording)
    return int(cuts[-1, : manifest.n_cores].sum()) if len(cuts) else 0, len(cuts) + 1
