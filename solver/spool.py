"""Arrays put aside, in a temporary file once they are many, so that what is kept per region costs disk and
not memory."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray


#: Up to this many bytes stay in memory.
HELD = 1 << 23
#: Arrays begin at multiples of this in their group, so that kernels can work on them.
_ALIGN = 8


class Spool:
    """Numbered groups of one-dimensional arrays, in an unnamed temporary file once they take more than `held`
    bytes."""

    def __init__(self, held: int = HELD) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=held, prefix="corebraid-spool-")  # noqa: SIM115
        self._end = 0
        self._groups: dict[int, tuple[int, int, list[tuple[int, np.dtype[Any], int]]]] = {}

    def put(self, number: int, arrays: list[NDArray[Any]]) -> None:
        """Keep a group of arrays under a number (once each)."""
        group, parts, n = [], [], 0
        for array in arrays:
            group.append((n, array.dtype, len(array)))
            parts += [array.tobytes(), bytes(-array.nbytes % _ALIGN)]
            n += array.nbytes + len(parts[-1])
        self._file.seek(self._end)
        self._file.write(b"".join(parts))
        self._groups[number] = self._end, n, group
        self._end += n

    def get(self, number: int) -> list[NDArray[Any]]:
        """The arrays kept under a number, writable copies. Raises KeyError if there are none."""
        first, size, group = self._groups[number]
        self._file.seek(first)
        raw = bytearray(self._file.read(size))
        return [np.frombuffer(raw, dtype, n, at) for at, dtype, n in group]

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()
