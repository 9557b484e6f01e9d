"""Rows that wait to be written: a frame for each stratum or slice would cost more than it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recorder.files.agent_codec import AGENT_OP, MARK
from recorder.files.truth import TRUTH

#: Rows, or batches of them, that wait at most.
_MOST = 1 << 14


def _joined(batches: list[NDArray[np.void]], dtype: np.dtype[Any]) -> NDArray[np.void]:
    """One behind the other. By their bytes: of rows NumPy would ask of each two what type both are of."""
    if not batches:
        return np.zeros(0, dtype)
    return np.concatenate([batch.view(np.uint8) for batch in batches]).view(dtype)


class AgentRows:
    """Of the agent log: batches (AGENT_OP[n]), in their order."""

    def __init__(self) -> None:
        self._batches: list[NDArray[np.void]] = []
        self._n = 0

    def append(self, rows: NDArray[np.void]) -> bool:
        """Add some. Returns whether they should be taken."""
        if len(rows):
            self._batches.append(rows)
            self._n += len(rows)
        return self._n >= _MOST

    def mark(self, number: int, stratum: int) -> bool:
        """Add a stratum. number: accesses before it. stratum: its own number."""
        mark = np.zeros(1, AGENT_OP)
        mark["number"], mark["stratum"], mark["kind"] = number, stratum, MARK
        return self.append(mark)

    def take(self) -> NDArray[np.void]:
        """All of them: AGENT_OP[n]. None are left."""
        rows = _joined(self._batches, AGENT_OP)
        self._batches, self._n = [], 0
        return rows


def slices_of_commits(commits: NDArray[np.uint64], core: int, stores: int, stood: int) -> NDArray[np.uint64]:
    """How far a core and its stores' stream (`stores`) came: uint64[m, 2], stream and end. commits:
    uint64[n, 2], the core's instruction count and its stores that had committed by then, ascending. stood:
    up to which count it has been told."""
    counts, before = commits[:, 0], np.full(len(commits), stood, np.uint64)
    before[1:] = np.maximum(counts[:-1], before[1:])
    rows = np.empty((len(commits), 2, 2), np.uint64)
    rows[:, 0, 0], rows[:, 0, 1] = core, counts
    rows[:, 1, 0], rows[:, 1, 1] = stores, commits[:, 1]
    told = np.column_stack([counts > before, np.ones(len(commits), bool)])
    return rows.reshape(-1, 2)[told.ravel()]


class Slices:
    """Of the sealed truth. n: how many."""

    def __init__(self) -> None:
        self.n = 0
        self._rows: list[NDArray[np.void]] = []
        self._single: list[tuple[int, int]] = []

    def append(self, stream: int, end: int) -> None:
        """Add one."""
        self._single.append((stream, end))
        self.n += 1

    def append_all(self, slices: NDArray[np.uint64]) -> None:
        """Add some: uint64[n, 2], stream and end."""
        self._settle()
        rows = np.empty(len(slices), TRUTH)
        rows["stream"], rows["end"] = slices[:, 0], slices[:, 1]
        self._rows.append(rows)
        self.n += len(slices)

    def take(self) -> NDArray[np.void]:
        """All of them, in their order: TRUTH[n]. None are left."""
        self._settle()
        rows = _joined(self._rows, TRUTH)
        self._rows, self.n = [], 0
        return rows

    def _settle(self) -> None:
        if self._single:
            self._rows.append(np.array(self._single, TRUTH))
            self._single.clear()
