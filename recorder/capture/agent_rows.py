"""Rows of the agent log that wait to be written: a frame for each stratum would cost more than it holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recorder.files.agent_codec import AGENT_OP, MARK

#: Rows, or batches of them, that wait at most.
_MOST = 1 << 14


class AgentRows:
    """Batches of rows (AGENT_OP[n]), in their order."""

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
        rows = np.concatenate(self._batches) if self._batches else np.zeros(0, AGENT_OP)
        self._batches, self._n = [], 0
        return rows
