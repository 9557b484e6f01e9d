"""Room for the rows of a trace, lent out and used again.

Fresh memory is dear: a page costs more to get than to fill. So a buffer serves again as soon as nobody
has a view of it.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, copy_rows

#: A view keeps its whole buffer: of fewer rows than this share of it a copy is given away.
_SMALL = 8
#: References to a buffer that nobody views: the list, the loop, the call that counts.
_UNSEEN = 3


class TraceBuffers:
    """Buffers of `rows` EVENT rows; `current` is to be filled."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.current: NDArray[Any] = np.zeros(rows, EVENT)
        self._all = [self.current]

    def hand_over(self, n: int) -> NDArray[Any]:
        """The first n rows of the current buffer, which stay as they are; `current` is another one, unless
        they are few."""
        if not n or n * _SMALL < self._rows:
            return copy_rows(self.current[:n])
        full, self.current = self.current[:n], np.empty(0, EVENT)
        self.current = self._unseen()
        return full

    def _unseen(self) -> NDArray[Any]:
        for buffer in self._all:
            if sys.getrefcount(buffer) == _UNSEEN:
                return buffer
        self._all.append(np.zeros(self._rows, EVENT))
        return self._all[-1]
