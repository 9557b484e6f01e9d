"""The braid: all streams' events as one sequence, in a certificate's order, with bounded memory.

A certificate may count the rows of accesses to contested pages alone, and the traces still be of all
accesses, the others marked UNCOUNTED. Nobody but their stream had those pages, so that they may stand
anywhere between the counted ones; and where agents met their core, nothing that came before moves behind
(`emu.bus.sync_points`). They come as late as that allows: what agents did before it then stands before them
too. Rows that stand for what became of a page (ALONE) are counted, and not shown.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from corebraid.base.rows.event import ALONE, EVENT, UNCOUNTED
from emu.bus.sync_points import ENTER
from solver.check.certificate import ORDERED, Certificate
from solver.regions.traces import Events, Traces

_WINDOW_ROWS = 1 << 12
_OUT_ROWS = 1 << 14
_DONE, _EMPTY, _FULL, _MEETS = 0, 1, 2, 3
#: Instruction count above all.
_NO_COUNT = np.uint64(0xFFFFFFFFFFFFFFFF)
#: Region above all.
_NO_REGION = 0xFFFFFFFF
_SHOWN, _COUNTED = np.uint8(0), np.uint8(0)


@njit(cache=True)
def merge(stream, left, run, windows, out, n, meets):  # type: ignore[no-untyped-def]
    """Copy rows of the runs from `run` on to `out`, which holds n. windows: rows of each stream, EVENT
    (n_streams, some), which is next, and how many there are, int64 (n_streams,). meets: the number of the
    agents' stream and of its row before which cores' rows must come. Returns (run, n, status): _EMPTY asks
    for rows of stream[run], _FULL for room, _MEETS for those rows."""
    window, at, fill = windows
    while run < stream.size:
        s = stream[run]
        while left[run] > 0:
            if n == out.size:
                return run, n, _FULL
            if at[s] == fill[s]:
                return run, n, _EMPTY
            row = window[s, at[s]]
            if s == meets[0] and np.int64(row.seq) >= meets[1]:
                return run, n, _MEETS
            at[s] += 1
            if row.flags & np.uint8(UNCOUNTED) == _COUNTED:
                left[run] -= 1
            if row.flags & np.uint8(ALONE) == _SHOWN:
                out[n] = row
                out[n].flags &= ~np.uint8(UNCOUNTED)
                n += 1
        run += 1
    return run, n, _DONE


@njit(cache=True)
def release(s, region, below, windows, out, n):  # type: ignore[no-untyped-def]
    """Copy rows of stream s to `out`, which holds n, up to one that is counted, is of a later region or has
    an instruction count of `below` or more. Returns (n, status)."""
    window, at, fill = windows
    while at[s] < fill[s]:
        row = window[s, at[s]]
        if row.flags & np.uint8(UNCOUNTED) == _COUNTED or row.stratum > region or row.count >= below:
            return n, _DONE
        if n == out.size:
            return n, _FULL
        out[n] = row
        out[n].flags &= ~np.uint8(UNCOUNTED)
        at[s] += 1
        n += 1
    return n, _EMPTY


class _Braider:
    """The merge in progress: a window on every stream and one output chunk."""

    def __init__(self, traces: Traces) -> None:
        n = traces.n_streams
        self._window = np.zeros((n, _WINDOW_ROWS), EVENT)
        self._at, self._fill = np.zeros(n, np.int64), np.zeros(n, np.int64)
        self._pieces = [self._cut(traces, stream) for stream in range(n)]
        self._out: Events = np.zeros(_OUT_ROWS, EVENT)
        self._n = 0
        self._agents = n - traces.buffered - 1
        syncs = traces.syncs
        self._enters = syncs[(syncs["way"] & ENTER) != 0] if traces.marked else syncs[:0]
        self._entered = 0

    @staticmethod
    def _cut(traces: Traces, stream: int) -> Iterator[Events]:
        for chunk in traces.chunks(stream):
            for start in range(0, len(chunk), _WINDOW_ROWS):
                yield chunk[start : start + _WINDOW_ROWS]

    def _refill(self, stream: int) -> bool:
        """Whether there was more of a stream."""
        piece = next(self._pieces[stream], None)
        if piece is None:
            return False
        self._window[stream, : len(piece)] = piece
        self._at[stream], self._fill[stream] = 0, len(piece)
        return True

    def runs(self, region: int, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> Iterator[Events]:
        """Merge runs of a region; yields every chunk that fills up."""
        left, run = rows.copy(), 0
        while run < len(stream):
            run, self._n, status = merge(stream, left, run, self._windows, self._out, self._n, self._meets)
            if status == _EMPTY and not self._refill(int(stream[run])):
                raise OrderError(
                    "the certificate has more events of a stream than its trace",
                    where=f"stream {int(stream[run])}",
                    remedy="order the recording again",
                )
            if status == _FULL:
                yield from self.flush()
            if status == _MEETS:
                meets = self._enters[self._entered]
                self._entered += 1
                yield from self._release(int(meets["core"]), region, meets["count"])

    @property
    def _windows(self) -> tuple[Events, NDArray[np.int64], NDArray[np.int64]]:
        return self._window, self._at, self._fill

    @property
    def _meets(self) -> NDArray[np.int64]:
        """Of `merge`."""
        if self._entered == len(self._enters):
            return np.array([-1, 0])
        return np.array([self._agents, int(self._enters[self._entered]["number"])])

    def ends(self, first: int, last: int) -> Iterator[Events]:
        """`end` of each region from `first` to `last`."""
        region = first
        while region <= last:
            yield from self.end(region)
            region = max(region + 1, self._next_region())

    def _next_region(self) -> int:
        """The first region of those that the next rows of the streams are of."""
        for stream in np.flatnonzero(self._at == self._fill).tolist():
            self._refill(stream)
        there = np.flatnonzero(self._at < self._fill)
        return int(self._window["stratum"][there, self._at[there]].min(initial=_NO_REGION))

    def end(self, region: int) -> Iterator[Events]:
        """The rows of a region that no run counts and that are still to come."""
        for stream in range(len(self._at)):
            yield from self._release(stream, region, _NO_COUNT)

    def _release(self, stream: int, region: int, below: np.uint64) -> Iterator[Events]:
        status = _FULL
        while status != _DONE:
            self._n, status = release(stream, region, below, self._windows, self._out, self._n)
            if status == _FULL:
                yield from self.flush()
            if status == _EMPTY and not self._refill(stream):
                return

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
    for block in certificate.stretches():
        now = block.status == ORDERED
        if now != ordered:
            for rows in braider.flush():
                yield rows, ordered
            ordered = now
        for rows in braider.runs(block.region, block.stream, block.rows):
            yield rows, ordered
        if block.last and traces.marked:
            for rows in braider.ends(block.region, block.region + block.regions - 1):
                yield rows, ordered
    for rows in braider.flush():
        yield rows, ordered
