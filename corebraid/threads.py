"""Which thread of a Linux guest ran on a core, from the context headers of the core's log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recorder.reader import Recording, iter_core_records
from recorder.record import CONTEXT

Rows = NDArray[np.void]

_MOST = np.uint64(0xFFFFFFFF)


class _Core:
    """The context headers of one core's log, read as far as they are asked for."""

    def __init__(self, recording: Recording, core: int) -> None:
        self._frames = iter_core_records(recording, core)
        self._reached = -1
        self._counts: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._threads: NDArray[np.int64] = np.empty(0, np.int64)

    def at(self, counts: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The thread at each of `counts` (not empty): int64[n], 0 for none."""
        self._read_to(int(counts.max()))
        if not len(self._counts):
            return np.zeros(len(counts), np.int64)
        index = np.searchsorted(self._counts, counts, side="right").astype(np.int64) - 1
        found: NDArray[np.int64] = np.where(index < 0, 0, self._threads[np.maximum(index, 0)])
        return found

    def _read_to(self, count: int) -> None:
        """Read on until no further header can have a count up to `count`."""
        while self._reached <= count:
            rows, _ = next(self._frames, (None, None))
            if rows is None:
                return
            headers = rows[rows["kind"] == CONTEXT]
            self._counts = np.concatenate([self._counts, headers["count"]])
            self._threads = np.concatenate([self._threads, (headers["addr"] & _MOST).astype(np.int64)])
            self._reached = int(rows["count"][-1])


class Threads:
    """Threads of the Linux recording `recording`, by their number (TID)."""

    def __init__(self, recording: Recording) -> None:
        self._n_cores = recording.manifest.n_cores
        self._cores = [_Core(recording, core) for core in range(self._n_cores)]

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """The thread that made each of `rows` (EVENT[n]): int64[n], 0 where it is not known or the kernel.

        Raises FormatError.
        """
        found = np.zeros(len(rows), np.int64)
        for core in np.unique(rows["core"]).tolist():
            if core < self._n_cores:
                mine = rows["core"] == core
                found[mine] = self._cores[core].at(rows["count"][mine])
        return found


def threads_of(recording: Recording) -> Threads | None:
    """The threads of a Linux recording; firmware has none."""
    return Threads(recording) if recording.manifest.linux else None
