"""What tenures and losses prove of a recording's shared accesses, as hints of its axe trace (docs/axe.md,
"Hints"): an operation that others have to wait for gets a name, and they say which ones they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import UNCACHED
from solver.regions.region import Region, RowSource
from solver.tenures.buffered_edges import not_told
from solver.tenures.edges import row_edges

Rows = NDArray[np.void]
_Ints = NDArray[np.int64]
#: Of rows, those (indices, ascending) that touch a location.
Touching = Callable[[Rows], _Ints]


class _Exported(NamedTuple):
    """The exported rows of one stream of a region. row: int64 (n,), its number in the region, ascending.
    seq: int64 (n,)."""

    row: _Ints
    seq: _Ints


class Ties:
    """Names and what waits for them, by thread and `seq` of the row. A name stands with the last operation of
    a row, what waits with its first. Of a region at a time, or of all of them."""

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._names: list[dict[int, int]] = [{} for _ in range(n_threads)]
        self._afters: list[dict[int, list[int]]] = [{} for _ in range(n_threads)]
        self._named = 0

    def clear(self) -> None:
        """Forget those of the regions so far; names go on."""
        for names, afters in zip(self._names, self._afters, strict=True):
            names.clear()
            afters.clear()

    def add(self, region: Region, touching: Touching) -> None:
        """Those of one more region. Raises OrderError under TSO for rows that contradict the model."""
        for first, before, then, seq in region_edges(region, touching):
            names = self._names[self._thread(first)]
            if before not in names:
                self._named += 1
                names[before] = self._named
            self._afters[self._thread(then)].setdefault(seq, []).append(names[before])

    def _thread(self, stream: int) -> int:
        return stream if stream < self._n_threads else stream - self._n_threads

    def name(self, thread: int, seq: int) -> str:
        """The hint behind the last operation of a row, or ''."""
        name = self._names[thread].get(seq)
        return "" if name is None else f" is @{name}"

    def afters(self, thread: int, seq: int) -> str:
        """The hints behind the first operation of a row, or ''."""
        return "".join(f" after @{name}" for name in self._afters[thread].get(seq, ()))

    def __bool__(self) -> bool:
        return any(self._names)


def _exported(rows: RowSource, touching: Touching, *, fences: bool) -> _Exported:
    at, row, seq = 0, [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for piece in rows.pieces():
        here = touching(piece)
        if fences:
            here = np.union1d(here, np.flatnonzero(piece["flags"] & np.uint8(UNCACHED)))
        row.append(at + here)
        seq.append(piece["seq"][here].astype(np.int64))
        at += len(piece)
    return _Exported(np.concatenate(row), np.concatenate(seq))


def region_edges(region: Region, touching: Touching) -> Iterator[tuple[int, int, int, int]]:
    """(stream, seq, other stream, seq) of exported rows of a region, of which the first is proved to come
    before the second, without those that others say already."""
    streams = region.streams
    if region.tenures is None or sum(len(rows) > 0 for rows in streams) < 2:
        return
    deduced = region.tenures.deduced(region)
    edges = not_told(row_edges(deduced.clocks), deduced.ties)
    if not len(edges):
        return
    exported = [_exported(rows, touching, fences=bool(region.tails)) for rows in streams]
    for then, of in enumerate(exported):
        for first, source in enumerate(exported):
            mine = edges[(edges[:, 0] == first) & (edges[:, 2] == then)]
            before = np.searchsorted(source.row, mine[:, 1]) - 1
            at = np.searchsorted(of.row, mine[:, 3])
            for i, k in zip(*_reduced(before, at, len(of.row)), strict=True):
                yield first, int(source.seq[i]), then, int(of.seq[k])


def _reduced(before: _Ints, at: _Ints, end: int) -> tuple[_Ints, _Ints]:
    """Of waits of row `at` for row `before`, those that no earlier row says already."""
    said = (before >= 0) & (at < end)
    before, at = before[said], at[said]
    by = np.lexsort((-before, at))
    before, at = before[by], at[by]
    told = np.maximum.accumulate(np.concatenate([[-1], before]))[:-1].astype(np.int64)
    return before[before > told], at[before > told]
