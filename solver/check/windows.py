"""Windows on streams, of a region or whole, so that one kernel can take rows of all of them in any order."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from corebraid.base.rows.event import EVENT, put_rows
from solver.regions.traces import Events

#: Rows of a stream that are copied at a time.
_WINDOW_ROWS = 1 << 10


class Windows:
    """A window on every stream, and what follows it. rows: EVENT (n_streams, n), of which those from `at` to
    `fill` (int64, n_streams) are next. ended: bool (n_streams,), whether a refill found no more.

    pieces: the rows of each stream. room: how many a window holds.
    """

    def __init__(self, pieces: list[Iterator[Events]], room: int = _WINDOW_ROWS) -> None:
        n = len(pieces)
        self.rows = np.zeros((n, room), EVENT)
        self.at, self.fill = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.ended = np.zeros(n, bool)
        self._pieces = pieces
        self._rest: list[Events] = [self.rows[s, :0] for s in range(n)]

    def rest(self, stream: int) -> Events:
        """Rows that follow the window: some, unless the stream is at its end."""
        while not len(self._rest[stream]):
            piece = next(self._pieces[stream], None)
            if piece is None:
                break
            self._rest[stream] = piece
        return self._rest[stream]

    def skip(self, stream: int, n: int) -> None:
        """The first n rows of `rest` are done with."""
        self._rest[stream] = self._rest[stream][n:]

    def refill(self, stream: int) -> bool:
        """More rows of a stream whose window is used up; False at its end."""
        rows = self.rest(stream)[: self.rows.shape[1]]
        put_rows(self.rows[stream], rows)
        self.skip(stream, len(rows))
        self.at[stream], self.fill[stream] = 0, len(rows)
        self.ended[stream] = not len(rows)
        return len(rows) > 0
