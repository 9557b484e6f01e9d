"""The braid: all streams' events as one sequence, in a certificate's order, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import EVENT
from solver.check.certificate import ORDERED, Certificate
from solver.regions.traces import Events, Traces

_WINDOW_ROWS = 1 << 12
_OUT_ROWS = 1 << 14
_NEXT_RUN, _EMPTY, _FULL = 0, 1, 2


@njit(cache=True)
def merge(stream, left, run, window, at, fill, out, n):  # type: ignore[no-untyped-def]
    """Copy rows of the runs from `run` on to `out`, which holds n. Returns (run, n, status): _EMPTY asks for
    rows of stream[run], _FULL for room."""
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            if n == out.size:
                return run, n, _FULL
            if at[s] == fill[s]:
                return run, n, _EMPTY
            out[n] = window[s, at[s]]
            at[s] += 1
            left[run] -= 1
            n += 1
        run += 1
    return run, n, _NEXT_RUN


class _Braider:
    """The merge in progress: a window on every stream and one output chunk."""

    def __init__(self, traces: Traces) -> None:
        n = traces.n_streams
        self._window = np.zeros((n, _WINDOW_ROWS), EVENT)
        self._at, self._fill = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._pieces = [self._cut(traces, stream) for stream in range(n)]
        self._out: Events = np.zeros(_OUT_ROWS, EVENT)
        self._n = 0

    @staticmethod
    def _cut(traces: Traces, stream: int) -> Iterator[Events]:
        for chunk in traces.chunks(stream):
            for start in range(0, len(chunk), _WINDOW_ROWS):
                yield chunk[start : start + _WINDOW_ROWS]

    def _refill(self, stream: int) -> None:
        piece = next(self._pieces[stream], None)
        if piece is None:
            raise OrderError(
                "the certificate has more events of a stream than its trace",
                where=f"stream {stream}",
                remedy="order the recording again",
            )
        self._window[stream, : len(piece)] = piece
        self._at[stream], self._fill[stream] = 0, len(piece)

    def runs(self, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[Events]:
        """Merge runs; yields every chunk that fills up."""
        left, run = rows.copy(), 0
        while run < len(stream):
            run, self._n, status = merge(
                stream, left, run, self._window, self._at, self._fill, self._out, self._n
            )
            if status == _EMPTY:
                self._refill(int(stream[run]))
            elif status == _FULL:
                yield from self.flush()

    def flush(self) -> Iterator[Events]:
        """What is merged and not yet yielded."""
        if self._n:
            done, self._out, self._n = self._out[: self._n], np.zeros(_OUT_ROWS, EVENT), 0
            yield done


def braid(traces: Traces, certificate: Certificate) -> Iterator[tuple[Events, bool]]:
    """All events in the certificate's order as (rows, ordered): EVENT arrays of at most 16,384 rows.

    A region without an order comes stream by stream, with `ordered` False. Raises OrderError if the
    certificate is not for these traces, FormatError if it cannot be read.
    """
    certificate.expect(traces.n_streams, len(traces.strata) + 1)
    braider = _Braider(traces)
    ordered = True
    for block in certificate.blocks():
        now = block.status == ORDERED
        if now != ordered:
            for rows in braider.flush():
                yield rows, ordered
            ordered = now
        for rows in braider.runs(block.stream, block.rows):
            yield rows, ordered
    for rows in braider.flush():
        yield rows, ordered
