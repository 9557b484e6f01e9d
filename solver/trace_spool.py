"""All streams of a recording in unnamed temporary files, cut at the strata, for several processes to read.

Each stream is extracted once, by one process, and read as soon as a region is there. The files have no
names: they are gone when the last process that has them open is, however it ended. 56 bytes an event.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator

import numpy as np

from isa.errors import CorebraidError
from recorder.event import EVENT
from solver.regions import Cursor, Region
from solver.traces import Events, Traces

#: A stream's progress is told after so many rows or regions.
_ROWS_A_MESSAGE, _REGIONS_A_MESSAGE = 1 << 14, 64


class SpooledRows:
    """One stream's rows of one region in the spool: `first` to `end` of the file."""

    def __init__(self, file: int, first: int, end: int) -> None:
        self._file, self._first, self._end = file, first, end

    def __len__(self) -> int:
        return self._end - self._first

    def pieces(self) -> Iterator[Events]:
        """The rows, mapped from the file and not copied."""
        if self._first == self._end:
            return
        start = self._first * EVENT.itemsize
        aligned = start - start % mmap.ALLOCATIONGRANULARITY
        length = self._end * EVENT.itemsize - aligned
        # Private and writable, so that kernels see arrays of one type only; nobody writes.
        held = mmap.mmap(self._file, length, flags=mmap.MAP_PRIVATE, offset=aligned)
        yield np.frombuffer(held, EVENT, count=len(self), offset=start - aligned)


class TraceSpool:
    """Room for the events of `traces`. Make it before the processes that share it are forked."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._files = [tempfile.TemporaryFile(prefix="corebraid-trace-") for _ in range(traces.n_streams)]
        self._ends: list[list[int]] = [[0] for _ in self._files]

    def extract(self, stream: int) -> Iterator[list[int]]:
        """Write a stream's events to its file. Yields, in batches, how many rows stand in the file after each
        region, from the first to the last; `learn` wants to hear of them.

        Raises what the traces raise, FormatError as `regions.Cursor`, and CorebraidError when the disk is
        full; what was yielded before is good.
        """
        cursor = Cursor(self._traces, stream)
        rows = told = 0
        ends: list[int] = []
        for region in range(len(self._traces.strata) + 1):
            try:
                for piece in cursor.take(region):
                    self._write(stream, rows, piece)
                    rows += len(piece)
            except CorebraidError:
                yield ends
                raise
            ends.append(rows)
            if rows - told >= _ROWS_A_MESSAGE or len(ends) >= _REGIONS_A_MESSAGE:
                yield ends
                ends, told = [], rows
        yield ends

    def _write(self, stream: int, row: int, piece: Events) -> None:
        data = memoryview(np.ascontiguousarray(piece).view(np.uint8).data)
        at, file = row * EVENT.itemsize, self._files[stream].fileno()
        while data:
            try:
                n = os.pwrite(file, data, at)
            except OSError as error:
                raise CorebraidError(
                    f"no room for the events of stream {stream} ({error.strerror})",
                    where=tempfile.gettempdir(),
                    remedy=f"set TMPDIR to a folder with room ({EVENT.itemsize} bytes an event), or use "
                    "--jobs 1, which needs none",
                ) from None
            data, at = data[n:], at + n

    def learn(self, stream: int, ends: list[int]) -> None:
        """Take note of what `extract` yielded, in this process or another."""
        self._ends[stream] += ends

    def complete(self, stream: int) -> int:
        """How many regions of a stream are in its file, as far as `learn` was told."""
        return len(self._ends[stream]) - 1

    def borders(self, region: int) -> list[tuple[int, int]]:
        """(first row, end) of a region in every stream's file."""
        return [(ends[region], ends[region + 1]) for ends in self._ends]

    def region(self, index: int, borders: list[tuple[int, int]]) -> Region:
        """A region from the files. borders: as the process that learnt of them knows."""
        files = zip(self._files, borders, strict=True)
        return Region(index, [SpooledRows(file.fileno(), *border) for file, border in files])

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()
