"""Where tenures begin, in unnamed temporary files, for several processes to read."""

from __future__ import annotations

import os
import tempfile

import numpy as np
from numpy.typing import NDArray

from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.placed import Placed, nothing_lost
from solver.tenures.scan import Begins

#: Where the begins of a core in a region are: first byte, how many, how many losses follow, and loose lines.
Border = tuple[int, int, int, int]
_LOSS = np.dtype([("line", "<i8"), ("way", "u1"), ("before", "<i8"), ("after", "<i8")])


class BeginsSpool:
    """Room for the `Begins` of every core, under TSO its `BufferedBegins`. Make it before the processes that
    share it are forked."""

    def __init__(self, n_cores: int, line_bytes: int, *, buffered: bool = False) -> None:
        self._kind: type[Begins] | type[BufferedBegins] = BufferedBegins if buffered else Begins
        self._columns = [name for name in self._kind._fields if name not in ("losses", "loose")]
        self._row = np.dtype([_field(name, line_bytes) for name in self._columns])
        self._files = [
            tempfile.TemporaryFile(prefix="corebraid-tenures-")  # noqa: SIM115
            for _ in range(n_cores)
        ]
        self._end = [0] * n_cores

    def write(self, core: int, begins: Begins | BufferedBegins) -> Border:
        """Append those of the core's next region; one process writes those of a core. Raises OSError."""
        rows = np.empty(len(begins.line), self._row)
        for name in self._columns:
            rows[name] = getattr(begins, name)
        lost = begins.losses if isinstance(begins, Begins) else nothing_lost()
        losses = np.empty(len(lost.line), _LOSS)
        for name in Placed._fields:
            losses[name] = getattr(lost, name)
        loose = begins.loose if isinstance(begins, Begins) else np.empty(0, np.int64)
        data, at = memoryview(rows.tobytes() + losses.tobytes() + loose.tobytes()), self._end[core]
        border = at, len(rows), len(losses), len(loose)
        while data:
            n = os.pwrite(self._files[core].fileno(), data, at)
            data, at = data[n:], at + n
        self._end[core] = at
        return border

    def read(self, core: int, border: Border) -> Begins | BufferedBegins:
        """What `write` has returned the border of."""
        first, n, m, k = border
        size = n * self._row.itemsize
        end = size + m * _LOSS.itemsize
        raw = os.pread(self._files[core].fileno(), end + k * 8, first)
        rows, losses = np.frombuffer(raw, self._row, n), np.frombuffer(raw, _LOSS, m, size)
        columns = {name: np.ascontiguousarray(_column(rows, name)) for name in self._columns}
        if self._kind is BufferedBegins:
            return BufferedBegins(**columns)
        placed = Placed(*(np.ascontiguousarray(_column(losses, name)) for name in Placed._fields))
        return Begins(**columns, losses=placed, loose=np.frombuffer(raw, np.int64, k, end))

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()


def _field(name: str, line_bytes: int) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    if name == "image":
        return name, "u1", (line_bytes,)
    return name, "u1" if name in ("how", "flags") else "<i8"


def _column(rows: NDArray[np.void], name: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = rows[name]
    return column
