"""The collector of evidence `losses`: the bus notes them natively (`emu/bus/losses.py`), this only writes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from recorder.evidence.losses.codec import FRAME_ROWS, encode
from recorder.files.collectors import EvidenceWriter, Guest, IntervalSource, Rows
from recorder.files.evidence_names import LOSSES
from recorder.files.rebase import Base


class LossCollector:
    """Takes losses down. Frames are written ahead of the cores' logs, so that where those are cut short this
    stream reaches as far as they do."""

    def __init__(self, guest: Guest, writer: EvidenceWriter) -> None:
        assert guest.losses is not None
        self._notes, self._writer, self._records = guest.losses, writer, 0
        self._cores, self._line = guest.n_cores, guest.line
        self._notes.keep()
        self._back: Base | None = None

    def take(self, stream: int, rows: Rows) -> None:
        """Events of the cores: nothing of this evidence is made of them."""

    def stratum(self) -> None:
        """A stratum was cut: it means nothing here."""

    def write_ahead(self) -> None:
        """See `AheadOfLogs`."""
        rows = self._notes.take()
        if not len(rows):
            return
        if self._back is not None:
            rows = self._back.of_losses(rows)
        for start in range(0, len(rows), FRAME_ROWS):
            part = rows[start : start + FRAME_ROWS]
            ordered = part[np.argsort(part["core"], kind="stable")]
            first, self._records = self._records, self._records + len(part)
            self._writer.append(encode(ordered, self._line), len(part), first, self._records - 1)

    def begin_interval(self, source: IntervalSource, base: Base) -> None:
        """See `InIntervals`."""
        self._writer, self._back, self._records = source.evidence(LOSSES), base.back, 0

    def flush(self) -> None:
        """Write what there is."""
        self.write_ahead()

    def finish(self) -> None:
        """The run is over."""
        self.write_ahead()


def make_losses(guest: Guest, writer: EvidenceWriter, _: Mapping[str, object]) -> LossCollector:
    """The collector for a machine."""
    return LossCollector(guest, writer)
