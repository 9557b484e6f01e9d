"""A core's trace under TSO as two streams: its loads, fences and atomic accesses in program order, and
its stores in the order in which they left its store buffer, which is program order too. `seq` counts both
together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, UNCACHED, WRITE
from corebraid.base.scratch_file import ScratchFile

Rows = NDArray[np.void]

#: Rows that wait for their reader in memory; more go to a temporary file.
_HELD_ROWS = 1 << 17


def is_buffered(rows: Rows) -> NDArray[np.bool_]:
    """bool (n,): which of the rows (EVENT[n]) are stores that went through a store buffer."""
    stores: NDArray[np.bool_] = (rows["kind"] == WRITE) & (rows["flags"] & UNCACHED == 0)
    return stores


class _Waiting:
    """Rows on their way to a reader, first in, first out."""

    def __init__(self) -> None:
        self._held: deque[Rows] = deque()
        self._rows = 0
        self._file: ScratchFile | None = None
        self._sizes: deque[int] = deque()
        self._read_at = self._written = 0

    def put(self, rows: Rows) -> None:
        """Append EVENT[n]."""
        if not len(rows):
            return
        if not self._sizes and self._rows + len(rows) <= _HELD_ROWS:
            self._held.append(rows)
            self._rows += len(rows)
            return
        if self._file is None:
            self._file = ScratchFile()
        self._written = self._file.write(self._written, np.ascontiguousarray(rows).view(np.uint8).data)
        self._sizes.append(len(rows))

    def take(self) -> Rows | None:
        """The next rows, None if there are none now."""
        if self._held:
            rows = self._held.popleft()
            self._rows -= len(rows)
            return rows
        if not self._sizes:
            return None
        assert self._file is not None
        data = self._file.read(self._read_at, self._sizes.popleft() * EVENT.itemsize)
        self._read_at += len(data)
        if not self._sizes:
            self._read_at = self._written = 0
        return np.frombuffer(data, EVENT)


class SideBySide:
    """One pass over a core's trace that serves both of its streams; each may be read once.

    pieces: the core's trace, EVENT[n] after EVENT[n].
    """

    def __init__(self, pieces: Iterator[Rows]) -> None:
        self._pieces = pieces
        self._waiting = (_Waiting(), _Waiting())

    def loads(self, *, alone: bool = False) -> Iterator[Rows]:
        """All but the buffered stores. alone: nobody reads those."""
        return self._stream(0, alone)

    def stores(self, *, alone: bool = False) -> Iterator[Rows]:
        """The buffered stores. alone: nobody reads the others."""
        return self._stream(1, alone)

    def _stream(self, side: int, alone: bool) -> Iterator[Rows]:
        while True:
            rows = self._waiting[side].take()
            if rows is None:
                piece = next(self._pieces, None)
                if piece is None:
                    return
                if not len(piece):
                    continue
                stores = is_buffered(piece)
                # As words: numpy copies structured rows one by one.
                words = piece.view(np.uint64).reshape(len(piece), -1)
                for k, kept in enumerate((~stores, stores)):
                    if k == side or not alone:
                        self._waiting[k].put(words[kept].view(EVENT).reshape(-1))
                continue
            yield rows
