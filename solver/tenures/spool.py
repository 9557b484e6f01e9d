"""Where tenures begin, in unnamed temporary files, for several processes to read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.scratch_file import ScratchFile
from solver.tenures.buffered_placed import Matched
from solver.tenures.buffered_scan import BufferedBegins
from solver.tenures.placed import Placed
from solver.tenures.scan import Begins

#: Where the begins of a core in a region are: first byte, how many, how many losses follow, and loose lines.
Border = tuple[int, int, int, int]


class BeginsSpool:
    """Room for the `Begins` of every core, under TSO its `BufferedBegins`. Make it before the processes that
    share it are forked."""

    def __init__(self, n_cores: int, line_bytes: int, *, buffered: bool = False) -> None:
        self._kind: type[Begins] | type[BufferedBegins] = BufferedBegins if buffered else Begins
        self._columns = [name for name in self._kind._fields if name not in ("losses", "loose")]
        self._losses: type[Placed] | type[Matched] = Matched if buffered else Placed
        self._loss = np.dtype([_field(name, 0) for name in self._losses._fields])
        self._row = np.dtype([_field(name, line_bytes) for name in self._columns])
        self._files = [ScratchFile() for _ in range(n_cores)]
        self._end = [0] * n_cores

    def write(self, core: int, begins: Begins | BufferedBegins) -> Border:
        """Append those of the core's next region; one process writes those of a core. Raises
        ShortageError where there is no room."""
        rows = np.empty(len(begins.line), self._row)
        for name in self._columns:
            rows[name] = getattr(begins, name)
        losses = np.empty(len(begins.losses.line), self._loss)
        for name in self._losses._fields:
            losses[name] = getattr(begins.losses, name)
        data, at = rows.tobytes() + losses.tobytes() + begins.loose.tobytes(), self._end[core]
        self._end[core] = self._files[core].write(at, data)
        return at, len(rows), len(losses), len(begins.loose)

    def nothing(self, core: int) -> Border:
        """What `write` returns for begins of which there are none."""
        return self._end[core], 0, 0, 0

    def read(self, core: int, border: Border) -> Begins | BufferedBegins:
        """What `write` has returned the border of."""
        first, n, m, k = border
        size = n * self._row.itemsize
        end = size + m * self._loss.itemsize
        raw = self._files[core].read(first, end + k * 8)
        rows, losses = np.frombuffer(raw, self._row, n), np.frombuffer(raw, self._loss, m, size)
        columns = {name: np.ascontiguousarray(_column(rows, name)) for name in self._columns}
        lost: Any = self._losses(
            *(np.ascontiguousarray(_column(losses, name)) for name in self._losses._fields)
        )
        return self._kind(**columns, losses=lost, loose=np.frombuffer(raw, np.int64, k, end))

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()


def _field(name: str, line_bytes: int) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    if name == "image":
        return name, "u1", (line_bytes,)
    return name, "u1" if name in ("how", "flags", "way") else "<i8"


def _column(rows: NDArray[np.void], name: str) -> NDArray[np.generic]:
    column: NDArray[np.generic] = rows[name]
    return column
