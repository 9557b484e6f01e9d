"""Windows on the streams of a region, so that one kernel can take rows of all of them in any order."""

from __future__ import annotations

import numpy as np

from recorder.event import EVENT, put_rows
from solver.regions import Region
from solver.traces import Events

#: Rows of a stream that are copied at a time.
_WINDOW_ROWS = 1 << 10


class Windows:
    """A window on every stream of a region, and what follows it. rows: EVENT (n_streams, n), of which those
    from `at` to `fill` (int64, n_streams) are next."""

    def __init__(self, region: Region) -> None:
        n = len(region.streams)
        self.rows = np.zeros((n, _WINDOW_ROWS), EVENT)
        self.at, self.fill = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._pieces = [rows.pieces() for rows in region.streams]
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
        rows = self.rest(stream)[:_WINDOW_ROWS]
        put_rows(self.rows[stream], rows)
        self.skip(stream, len(rows))
        self.at[stream], self.fill[stream] = 0, len(rows)
        return len(rows) > 0
