"""Where tenures begin, in unnamed temporary files, for several processes to read."""

from __future__ import annotations

import os
import tempfile

import numpy as np
from numpy.typing import NDArray

from solver.tenures.placed import Placed
from solver.tenures.scan import Begins

#: Where the begins of a core in a region are: first byte, how many, and how many losses follow.
Border = tuple[int, int, int]
_COLUMNS = ("row", "line", "how", "image", "flags")
_LOSS = np.dtype([("line", "<i8"), ("way", "u1"), ("before", "<i8"), ("after", "<i8")])


class BeginsSpool:
    """Room for the `Begins` of every core. Make it before the processes that share it are forked."""

    def __init__(self, n_cores: int, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self._row = np.dtype(
            [("row", "<i8"), ("line", "<i8"), ("how", "u1"), ("image", "u1", (line_bytes,)), ("flags", "u1")]
        )
        self._files = [
            tempfile.TemporaryFile(prefix="corebraid-tenures-")  # noqa: SIM115
            for _ in range(n_cores)
        ]
        self._end = [0] * n_cores

    def write(self, core: int, begins: Begins) -> Border:
        """Append those of the core's next region; one process writes those of a core. Raises OSError."""
        rows = np.empty(len(begins.row), self._row)
        for name in _COLUMNS:
            rows[name] = getattr(begins, name)
        losses = np.empty(len(begins.losses.line), _LOSS)
        for name in Placed._fields:
            losses[name] = getattr(begins.losses, name)
        data, at = memoryview(rows.tobytes() + losses.tobytes()), self._end[core]
        border = at, len(rows), len(losses)
        while data:
            n = os.pwrite(self._files[core].fileno(), data, at)
            data, at = data[n:], at + n
        self._end[core] = at
        return border

    def read(self, core: int, border: Border) -> Begins:
        """What `write` has returned the border of."""
        first, n, m = border
        size = n * self._row.itemsize
        raw = os.pread(self._files[core].fileno(), size + m * _LOSS.itemsize, first)
        rows, losses = np.frombuffer(raw, self._row, n), np.frombuffer(raw, _LOSS, m, size)
        return Begins(
            *(np.ascontiguousarray(_column(rows, name)) for name in _COLUMNS),
            Placed(*(np.ascontiguousarray(_column(losses, name)) for name in Placed._fields)),
        )

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()


def _column(rows: NDArray[np.void], name: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = rows[name]
    return column
