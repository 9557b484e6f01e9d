"""What the tasks of a learning run did while there were several, turn by turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recorder.files.collectors import Rows

#: A system call, beside kinds of events, and what stands for its words.
CALL = 255
_NO_WORD = (1 << 64) - 1


class Done(NamedTuple):
    """Accesses and system calls, n in all, in their order. whos: int64[n], the tasks. rows: uint64[n, 5], of
    an access its first word, its last, the count and place of its instruction, and its address; of a call its
    number as the place. kinds: uint8[n], of events, or CALL."""

    whos: NDArray[np.int64]
    rows: NDArray[np.uint64]
    kinds: NDArray[np.uint8]


class Turns:
    """Collects them."""

    def __init__(self) -> None:
        self._whos, self._rows = list[int](), [np.zeros((0, 5), np.uint64)]
        self._kinds = [np.zeros(0, np.uint8)]

    def use(self, who: int, first: NDArray[np.uint64], last: NDArray[np.uint64], data: Rows) -> None:
        """Accesses of a task. first, last: their words."""
        rows = np.stack([first, last, data["count"], data["pc"], data["addr"]], axis=1)
        self._add(who, rows, data["kind"].copy())

    def call(self, who: int, number: int) -> None:
        """A task makes a system call."""
        row = np.array([[_NO_WORD, _NO_WORD, 0, number, 0]], np.uint64)
        self._add(who, row, np.array([CALL], np.uint8))

    def _add(self, who: int, rows: NDArray[np.uint64], kinds: NDArray[np.uint8]) -> None:
        self._whos.append(who)
        self._rows.append(rows)
        self._kinds.append(kinds)

    def done(self) -> Done:
        """All of them."""
        whos = np.repeat(np.array([0, *self._whos], np.int64), [len(rows) for rows in self._rows])
        return Done(whos, np.concatenate(self._rows), np.concatenate(self._kinds))
