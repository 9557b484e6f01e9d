"""Losses among the rows of a region: which of a core's rows ran before it lost a line, and which after.

A core notes its instruction count when it loses a line, or its right to write to it (docs/format.md). All
that it did before lies before the loss, and what it does next lies after it, whatever the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.bus.losses import INSIDE, LOSS
from recorder.evidence.losses.log import RegionCount
from solver.regions.traces import Events


class Placed(NamedTuple):
    """The losses of a core in a region, in the order in which they happened.

    line: int64 (n,), address / bytes in a line. way: uint8 (n,). before: int64 (n,), the last row that is
    known to lie before, -1 for none. after: int64 (n,), the first row that is known to lie after; as many as
    the stream has there for none.
    """

    line: NDArray[np.int64]
    way: NDArray[np.uint8]
    before: NDArray[np.int64]
    after: NDArray[np.int64]


def nothing_lost() -> Placed:
    """Of a stream that notes no losses, or has none."""
    none = np.empty(0, np.int64)
    return Placed(none, np.empty(0, np.uint8), none, none)


class LossesOfRegions:
    """The losses of one core, region after region. pieces: LOSS (n,), in order."""

    def __init__(self, pieces: Iterator[Events]) -> None:
        self._pieces, self._rest = pieces, np.empty(0, LOSS)

    @property
    def next_region(self) -> int | None:
        """The region of the next loss behind those taken, None if there is none."""
        return int(self._rest["stratum"][0]) if len(self._rest) else None

    def take(self, region: int) -> Events:
        """Those of a region, LOSS (n,). Regions come in order. Raises ExcessError."""
        found, count = [self._rest[:0]], RegionCount()
        while True:
            n = int(np.searchsorted(self._rest["stratum"], region, side="right"))
            if n:
                found.append(self._rest[:n])
                count.add(self._rest["stratum"][:n])
            self._rest = self._rest[n:]
            piece = next(self._pieces, None) if not len(self._rest) else None
            if piece is None:
                break
            self._rest = piece
        return np.concatenate(found[1:]) if len(found) > 2 else found[-1]


class LossCursor:
    """The losses of one core, region after region. pieces: LOSS (n,), in order. line_bytes: in a line."""

    def __init__(self, pieces: Iterator[Events], line_bytes: int) -> None:
        self._losses, self._here = LossesOfRegions(pieces), np.empty(0, LOSS)
        self._shift = np.uint64(line_bytes.bit_length() - 1)
        self._region = -1
        self._low = self._high = np.empty(0, np.int64)

    def _begin(self, region: int) -> None:
        """Regions come in order. Raises ExcessError."""
        self._here, self._region = self._losses.take(region), region
        self._low, self._high = np.zeros(len(self._here), np.int64), np.zeros(len(self._here), np.int64)

    @property
    def next_region(self) -> int | None:
        """The region of the next loss behind those taken, None if there is none."""
        return self._losses.next_region

    def add(self, region: int, rows: Events) -> None:
        """The core's rows of a region that come next."""
        if region != self._region:
            self._begin(region)
        if len(self._here):
            counts = np.ascontiguousarray(rows["count"])
            self._low += np.searchsorted(counts, self._here["count"], side="left")
            self._high += np.searchsorted(counts, self._here["count"], side="right")

    def take(self, region: int) -> Placed:
        """The losses of a region, all of whose rows were added."""
        if region != self._region:
            self._begin(region)
        losses, low, high = self._here, self._low, self._high
        if not len(losses):
            return nothing_lost()
        line = (losses["line"] >> self._shift).astype(np.int64)
        inside = (losses["way"] & INSIDE) != 0
        return Placed(line, losses["way"] & ~np.uint8(INSIDE), low - 1, np.where(inside, high, low))
