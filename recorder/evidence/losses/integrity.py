"""Whether the losses of a recording go with its cores' logs: nobody loses what he did not have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.record import MISS
from recorder.evidence.losses.log import DOWNGRADED, LOST, iter_all_losses, iter_losses
from recorder.files.reader import Recording, iter_core_records


def loss_fault(recording: Recording, table: NDArray[np.uint64]) -> str:
    """What is wrong with the losses of a complete recording whose files are sound, "" if nothing is. table:
    `strata` of the recording. Raises FormatError.
    """
    manifest = recording.manifest
    expected = manifest.totals.get("downgrades")
    found = sum(len(rows) for rows in iter_all_losses(recording))
    if found != expected:
        return f"losses: expected {expected}, as the bus counted them, found {found}"
    for core in range(manifest.n_cores):
        if fault := _core_fault(recording, core, table):
            return f"core {core}, {fault}"
    return ""


class _Records:
    """When a core last missed on each line. Walked along with its losses."""

    def __init__(self, recording: Recording, core: int) -> None:
        self._frames = self._misses(recording, core)
        self._counts, self._lines, self._at = np.zeros(0, np.uint64), np.zeros(0, np.uint64), 0
        self.latest: dict[int, int] = {}

    @staticmethod
    def _misses(recording: Recording, core: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, _ in iter_core_records(recording, core):
            misses = rows[rows["kind"] == MISS]
            yield misses["count"], misses["addr"]

    def go_to(self, count: int) -> None:
        """Take in all records up to an instruction count."""
        while True:
            end = int(np.searchsorted(self._counts, np.uint64(count), side="right"))
            new = slice(self._at, end)
            self.latest.update(zip(self._lines[new].tolist(), self._counts[new].tolist(), strict=True))
            self._at = end
            if end < len(self._counts):
                return
            piece = next(self._frames, None)
            if piece is None:
                return
            self._counts, self._lines = piece
            self._at = 0


def _core_fault(recording: Recording, core: int, table: NDArray[np.uint64]) -> str:
    manifest = recording.manifest
    # The last instruction may have failed.
    most = manifest.instructions[core] + 1
    # A core that stands still wins no right: not with a store that is taken back, not with one that commits.
    still = manifest.misses_prove_writes and manifest.model == "sc"
    records, reached = _Records(recording, core), -1
    gone: dict[int, int] = {}
    shared: dict[int, int] = {}
    for piece in iter_losses(recording, core, table):
        for count, line, way in piece[["count", "line", "way"]].tolist():
            if count > most:
                return f"instruction count {count}: a loss after the core's end at {most - 1}"
            if count != reached:
                records.go_to(count)
                reached = count
            had = records.latest.get(line, -1)
            where = f"instruction count {count}: line {line:#x}"
            if had < gone.get(line, 0):
                return f"{where} is lost, and was not there"
            if way == DOWNGRADED and still and shared.get(line) == count and had < count:
                return f"{where} loses the right to be written, and had none"
            (gone if way == LOST else shared)[line] = count
    return ""
