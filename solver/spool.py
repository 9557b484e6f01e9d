"""Arrays put aside in a temporary file, so that what is kept per region costs disk and not memory."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Spool:
    """Numbered groups of one-dimensional arrays in an unnamed temporary file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="corebraid-spool-")  # noqa: SIM115
        self._groups: dict[int, list[tuple[int, np.dtype[Any], int]]] = {}

    def put(self, number: int, arrays: list[NDArray[Any]]) -> None:
        """Keep a group of arrays under a number (once each)."""
        group = []
        for array in arrays:
            at = self._file.seek(0, os.SEEK_END)
            self._file.write(np.ascontiguousarray(array).view(np.uint8).data)
            group.append((at, array.dtype, len(array)))
        self._groups[number] = group

    def get(self, number: int) -> list[NDArray[Any]]:
        """The arrays kept under a number, writable copies. Raises KeyError if there are none."""
        out = []
        for at, dtype, n in self._groups[number]:
            self._file.seek(at)
            out.append(np.frombuffer(bytearray(self._file.read(n * dtype.itemsize)), dtype))
        return out

    def __contains__(self, number: int) -> bool:
        return number in self._groups

    def close(self) -> None:
        """Give the disk space back."""
        self._file.close()
