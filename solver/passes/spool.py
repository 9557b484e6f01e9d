"""Arrays put aside, in a temporary file once they are many, so that what is kept per region does not cost
memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.scratch_file import ScratchFile

#: Up to this many bytes stay in memory.
HELD = 1 << 24


class Spool:
    """Numbered groups of one-dimensional arrays; what comes once there are more than `held` bytes goes to an
    unnamed temporary file."""

    def __init__(self, held: int = HELD) -> None:
        self._left = held
        self._held: dict[int, list[NDArray[Any]]] = {}
        self._file: ScratchFile | None = None
        self._end = 0
        self._groups: dict[int, list[tuple[int, np.dtype[Any], int]]] = {}

    def put(self, number: int, arrays: list[NDArray[Any]]) -> None:
        """Keep a group of arrays under a number (once each). Nobody may change them after."""
        size = sum(array.nbytes for array in arrays)
        if size <= self._left:
            self._left -= size
            self._held[number] = arrays
            return
        if self._file is None:
            self._file = ScratchFile()
        group = []
        for array in arrays:
            group.append((self._end, array.dtype, len(array)))
            self._end = self._file.write(self._end, np.ascontiguousarray(array).view(np.uint8).data)
        self._groups[number] = group

    def get(self, number: int) -> list[NDArray[Any]]:
        """The arrays kept under a number, writable copies. Raises KeyError if there are none."""
        if number in self._held:
            return [array.copy() for array in self._held[number]]
        out = []
        for at, dtype, n in self._groups[number]:
            assert self._file is not None
            out.append(np.frombuffer(self._file.read(at, n * dtype.itemsize), dtype))
        return out

    def __contains__(self, number: int) -> bool:
        return number in self._held or number in self._groups

    def close(self) -> None:
        """Give memory and disk space back."""
        self._held.clear()
        if self._file is not None:
            self._file.close()
