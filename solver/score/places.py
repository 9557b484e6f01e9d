"""Orders of a region's accesses: as a certificate's runs say, and as slices of the truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import OrderError
from solver.score.shared import Accesses


class Ends(NamedTuple):
    """Of a region: cut: uint64 (n_streams,), where it ends. numbered: the first stream whose slices end at a
    number of rows, of which `before` (int64 (n_streams,)) lie in earlier regions."""

    cut: NDArray[np.uint64]
    numbered: int
    before: NDArray[np.int64]


@njit(cache=True, nogil=True)
def follow_runs(stream, rows, accesses, at, done, out, n):  # type: ignore[no-untyped-def]
    """Put the accesses in the order of runs of rows. at: int64 (n_streams,), the next access of each stream;
    done: int64 (n_streams,), rows passed. Returns how many are in `out`."""
    placed, place = accesses.placed, accesses.place
    for run in range(stream.size):
        s = stream[run]
        done[s] += rows[run]
        while at[s] < placed[s] and place[at[s]] < done[s]:
            out[n] = at[s]
            at[s] += 1
            n += 1
    return n


@njit(cache=True, nogil=True)
def follow_slices(slices, run, ends, accesses, at, out, n):  # type: ignore[no-untyped-def]
    """Put the accesses in the order of slices (stream, end), from `run` on, up to the first slice that goes
    past the end of the region; of that what lies before. Returns (the slice that is next, how many are in
    `out`)."""
    stream, end = slices
    cut, numbered, before = ends
    placed, count, place = accesses.placed, accesses.instruction, accesses.place
    while run < stream.size:
        s = stream[run]
        upto = min(end[run], cut[s])
        while at[s] < placed[s]:
            here = np.uint64(before[s] + place[at[s]]) if s >= numbered else count[at[s]]
            if here >= upto:
                break
            out[n] = at[s]
            at[s] += 1
            n += 1
        if end[run] > cut[s]:
            break
        run += 1
    return run, n


class TruthPlaces:
    """The order that ran, region by region. slices: batches of (stream int64 (n,), end uint64 (n,)), as
    `checker.check_slices` takes them. cuts: uint64 (regions, n_streams), where each region ends."""

    def __init__(
        self,
        slices: Iterable[tuple[NDArray[np.int64], NDArray[np.uint64]]],
        cuts: NDArray[np.uint64],
        buffered: int,
    ) -> None:
        self._slices, self._cuts = iter(slices), cuts
        self._numbered = cuts.shape[1] - buffered
        self._stream, self._end = np.empty(0, np.int64), np.empty(0, np.uint64)
        self._run = 0
        self._before = np.zeros(cuts.shape[1], np.int64)

    def order(self, region: int, accesses: Accesses, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The accesses of the next region in the order in which they ran: int64 (n,). rows: int64
        (n_streams,), how many rows the region has. Raises OrderError if the slices leave one out."""
        at, total = accesses.begin[:-1].copy(), int((accesses.placed - accesses.begin[:-1]).sum())
        out, n = np.empty(total, np.int64), 0
        ends = Ends(self._cuts[region], self._numbered, self._before)
        while True:
            slices = self._stream, self._end
            self._run, n = follow_slices(slices, self._run, ends, accesses, at, out, n)
            if self._run < len(self._stream):
                break
            batch = next(self._slices, None)
            if batch is None:
                break
            (self._stream, self._end), self._run = batch, 0
        self._before += rows
        return _whole(out, int(n), region, "the sealed truth")


class CertificatePlaces:
    """The order of one region of a certificate, to be filled block by block."""

    def __init__(self, accesses: Accesses, region: int) -> None:
        self._accesses, self._region = accesses, region
        self._at = accesses.begin[:-1].copy()
        self._done = np.zeros(len(self._at), np.int64)
        self._out = np.empty(int((accesses.placed - accesses.begin[:-1]).sum()), np.int64)
        self._n = 0

    def add(self, stream: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        """The runs that come next."""
        self._n = follow_runs(stream, rows, self._accesses, self._at, self._done, self._out, self._n)

    def order(self) -> NDArray[np.int64]:
        """The accesses in order, int64 (n,). Raises OrderError if the runs leave one out."""
        return _whole(self._out, int(self._n), self._region, "the certificate")


def _whole(order: NDArray[np.int64], n: int, region: int, what: str) -> NDArray[np.int64]:
    if n < len(order):
        raise OrderError(
            f"{what} leaves out accesses", expected=str(len(order)), found=str(n), where=f"region {region}"
        )
    return order
