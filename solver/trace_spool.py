"""All streams of a recording in unnamed temporary files, cut at the strata, for several processes to read.

Each stream is extracted once, by one process, and read as soon as a region is there. The files have no
names: they are gone when the last process that has them open is, however it ended. About 28 bytes an event.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from isa.errors import CorebraidError
from recorder.event import EVENT
from solver.packed_rows import MOST_WORDS, ROWS, pack_rows, room, start_of_region, unpack_rows
from solver.regions import Cursor, Region
from solver.traces import Events, Traces

#: A stream's progress is told after so many rows or regions.
_ROWS_A_MESSAGE, _REGIONS_A_MESSAGE = 1 << 14, 64


_WORD = 8
#: A stream's rows of a region stay unpacked while the region is worked on, up to this many.
_HELD_ROWS = 1 << 16
#: A stream's rows and words up to the end of a region.
Ends = tuple[int, int]
#: Where a stream's rows of a region are: how many, first word, end.
Border = tuple[int, int, int]


class SpooledRows:
    """One stream's rows of one region in the spool."""

    def __init__(self, file: int, region: int, stream: int, border: Border) -> None:
        self._file, self._region, self._stream = file, region, stream
        self._n, self._first, self._end = border
        self._held: Events | None = None

    def __len__(self) -> int:
        return self._n

    def pieces(self) -> Iterator[Events]:
        """The rows, unpacked; a piece is good until the next one is asked for."""
        if self._held is not None:
            yield self._held
        if self._held is not None or not self._n:
            return
        start = self._first * _WORD
        aligned = start - start % mmap.ALLOCATIONGRANULARITY
        length = self._end * _WORD - aligned
        # Private and writable, so that kernels see arrays of one type only; nobody writes.
        mapped = mmap.mmap(self._file, length, flags=mmap.MAP_PRIVATE, offset=aligned)
        words = np.frombuffer(mapped, np.uint64, count=self._end - self._first, offset=start - aligned)
        last, at = start_of_region(), 0
        if self._n <= _HELD_ROWS:
            self._held = np.empty(self._n, EVENT)
            unpack_rows(words, 0, self._region, self._stream, last, self._held, self._n)
            yield self._held
            return
        rows = room()
        while at < len(words):
            n, at = unpack_rows(words, at, self._region, self._stream, last, rows, ROWS)
            yield rows[:n]


class TraceSpool:
    """Room for the events of `traces`. Make it before the processes that share it are forked."""

    def __init__(self, traces: Traces) -> None:
        self._traces = traces
        self._files = [
            tempfile.TemporaryFile(prefix="corebraid-trace-")  # noqa: SIM115
            for _ in range(traces.n_streams)
        ]
        self._ends: list[list[Ends]] = [[(0, 0)] for _ in self._files]

    def extract(self, stream: int) -> Iterator[list[Ends]]:
        """Write a stream's events to its file. Yields, in batches, how many rows and words stand in the file
        after each region, from the first to the last; `learn` wants to hear of them.

        Raises what the traces raise, FormatError as `regions.Cursor`, and CorebraidError when the disk is
        full; what was yielded before is good.
        """
        cursor = Cursor(self._traces, stream)
        rows = words = told = 0
        ends: list[Ends] = []
        for region in range(len(self._traces.strata) + 1):
            last = start_of_region()
            try:
                for piece in cursor.take(region):
                    packed = np.empty(len(piece) * MOST_WORDS, np.uint64)
                    packed = packed[: pack_rows(piece, packed, last)]
                    self._write(stream, words, packed)
                    rows, words = rows + len(piece), words + len(packed)
            except CorebraidError:
                yield ends
                raise
            ends.append((rows, words))
            if rows - told >= _ROWS_A_MESSAGE or len(ends) >= _REGIONS_A_MESSAGE:
                yield ends
                ends, told = [], rows
        yield ends

    def _write(self, stream: int, word: int, packed: NDArray[np.uint64]) -> None:
        data = memoryview(packed.view(np.uint8).data)
        at, file = word * _WORD, self._files[stream].fileno()
        while data:
            try:
                n = os.pwrite(file, data, at)
            except OSError as error:
                raise CorebraidError(
                    f"no room for the events of stream {stream} ({error.strerror})",
                    where=tempfile.gettempdir(),
                    remedy="set TMPDIR to a folder with room (about 28 bytes an event), or use "
                    "--jobs 1, which needs none",
                ) from None
            data, at = data[n:], at + n

    def learn(self, stream: int, ends: list[Ends]) -> None:
        """Take note of what `extract` yielded, in this process or another."""
        self._ends[stream] += ends

    def complete(self, stream: int) -> int:
        """How many regions of a stream are in its file, as far as `learn` was told."""
        return len(self._ends[stream]) - 1

    def borders(self, region: int) -> list[Border]:
        """Where a region is in every stream's file."""
        pairs = [(ends[region], ends[region + 1]) for ends in self._ends]
        return [(rows - before, first, end) for (before, first), (rows, end) in pairs]

    def region(self, index: int, borders: list[Border]) -> Region:
        """A region from the files. borders: as the process that learnt of them knows."""
        files = enumerate(zip(self._files, borders, strict=True))
        rows = [SpooledRows(file.fileno(), index, stream, border) for stream, (file, border) in files]
        return Region(index, rows)

    def close(self) -> None:
        """Give the disk space back, once all processes have."""
        for file in self._files:
            file.close()
