"""Losses under TSO: by which miss record a core held the line that it lost, and where it stood.

A loss has the core's instruction count, as a miss record has; what came first at one count, while the core
stood there, neither says. But a line that is held is lost before it is fetched again, and one that is not
fetched before it is lost: so of each line losses and records take turns. Where they do not, as with a line
that was fetched for an instruction that did not run and given back, nothing is told of the line from there
on, or until the core gives back all of its lines, where an interval of a ring begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.rows.record import CONTEXT, CONTEXT_FORGOTTEN, MISS, STRATUM
from emu.bus.losses import INSIDE, LOST
from solver.regions.image import zeros
from solver.regions.traces import Events
from solver.tenures.placed import LossesOfRegions

#: Of a line, beside the number of the record by which it is held, plus 1: it is not; nothing is told.
_GONE, _LOOSE = 0, -1
#: Records of one count that are looked through for each loss.
_FEW = 16


class Matched(NamedTuple):
    """The losses of a core in a region, in order. line: int64 (n,), address / bytes in a line. way: uint8
    (n,). at: int64 (n,), instruction count. piece: int64 (n,), number of the miss record by which the core
    held the line, -1 if that is not told. loads: int64 (n,), how many of the core's loads in the region come
    before; low, high: int64 (n,), how many of its stores have committed then, at least and at most."""

    line: NDArray[np.int64]
    way: NDArray[np.uint8]
    at: NDArray[np.int64]
    piece: NDArray[np.int64]
    loads: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]


def nothing_matched() -> Matched:
    """Of a core that notes no losses, or has none."""
    none = np.empty(0, np.int64)
    return Matched(none, np.empty(0, np.uint8), none, none, none, none, none)


class _Losses(NamedTuple):
    """Losses, ascending by `at`. at, line: int64 (n,), way: uint8 (n,), as of `Matched`."""

    at: NDArray[np.int64]
    line: NDArray[np.int64]
    way: NDArray[np.uint8]


class _Records(NamedTuple):
    """Miss records, ascending. at, line: int64 (m,). used: bool (m,), whether a loss has taken it."""

    at: NDArray[np.int64]
    line: NDArray[np.int64]
    used: NDArray[np.bool_]


@njit(cache=True, nogil=True)
def take_in(line, number, held):  # type: ignore[no-untyped-def]
    """A record of a line, which must not be held."""
    if held[line] == _GONE:
        held[line] = number + 1
    else:
        held[line] = _LOOSE


@njit(cache=True, nogil=True)
def sorted_lines(lines, first, end):  # type: ignore[no-untyped-def]
    """Places of lines[first:end] by their lines, where they are too many to be looked through."""
    if end - first <= _FEW:
        return np.zeros(0, np.int64)
    return first + np.argsort(lines[first:end], kind="mergesort")


@njit(cache=True, nogil=True)
def find_record(lines, line, first, end, order):  # type: ignore[no-untyped-def]
    """(the last of lines[first:end] that is this one, or -1; how many are, 2 for more). order: of
    `sorted_lines`."""
    mine, same = -1, 0
    if order.size == 0:
        for k in range(first, end):
            if lines[k] == line:
                mine = k
                same += 1
        return mine, min(same, 2)
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        if lines[order[middle]] <= line:
            low = middle + 1
        else:
            high = middle
    if low > 0 and lines[order[low - 1]] == line:
        mine = order[low - 1]
        same = 2 if low > 1 and lines[order[low - 2]] == line else 1
    return mine, same


@njit(cache=True, nogil=True)
def match_losses(losses, records, first, held, piece):  # type: ignore[no-untyped-def]
    """Give losses (`_Losses`) the records (`_Records`, number `first` on) by which lines were held. held:
    int64[lines], see _GONE. piece: int64 (n,), filled. Returns how many records were taken in."""
    at, line, way = losses
    r_at, r_line, used = records
    r = i = 0
    while i < at.size:
        count = at[i]
        while r < r_at.size and r_at[r] < count:
            take_in(r_line[r], first + r, held)
            r += 1
        here = r
        while here < r_at.size and r_at[here] == count:
            here += 1
        order = sorted_lines(r_line, r, here)
        while i < at.size and at[i] == count:
            mine, same = find_record(r_line, line[i], r, here, order)
            if same > 1:
                held[line[i]] = _LOOSE
            elif held[line[i]] == _GONE:
                if mine < 0 or used[mine]:
                    held[line[i]] = _LOOSE
                else:
                    held[line[i]] = first + mine + 1
                    used[mine] = True
            piece[i] = max(held[line[i]], 0) - 1
            if way[i] == LOST and held[line[i]] > 0:
                held[line[i]] = _GONE
            i += 1
        while r < here:
            if not used[r]:
                take_in(r_line[r], first + r, held)
            r += 1
    return r


class LossMatcher:
    """The losses of one core, region after region, and by which records the core held the lines.

    losses: LOSS (n,), records: RECORD (n,) and their bytes, both of the core, in order, in pieces.
    """

    def __init__(
        self,
        losses: Iterator[Events],
        records: Iterator[tuple[Events, NDArray[np.uint8]]],
        memory_bytes: int,
        line_bytes: int,
    ) -> None:
        self._losses, self._records = LossesOfRegions(losses), records
        self._shift = np.uint64(line_bytes.bit_length() - 1)
        self._lines = memory_bytes // line_bytes
        self._held = self._nothing_held()
        none = np.empty(0, np.int64)
        self._at, self._line, self._first, self._ended = none, none, 0, False
        self._read, self._cuts = 0, 0
        #: Where the core gave back all: the region that begins there, the number of the next record.
        self._forgot: deque[tuple[int, int]] = deque()

    def _nothing_held(self) -> NDArray[np.int64]:
        return zeros(8 * self._lines).view(np.int64)

    @property
    def next_region(self) -> int | None:
        """The region of the next loss behind those taken, None if there is none."""
        return self._losses.next_region

    def take(
        self, region: int
    ) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """(line, way, count, number of the record or -1) of the losses of the next region. Raises
        ExcessError."""
        here = self._losses.take(region)
        at, line = here["count"].astype(np.int64), (here["line"] >> self._shift).astype(np.int64)
        way = (here["way"] & ~np.uint8(INSIDE)).astype(np.uint8)
        self._read_behind(int(at[-1]) if len(at) else -1)
        number = np.empty(len(at), np.int64)
        while self._forgot and self._forgot[0][0] <= region:
            self._take_in(self._forgot.popleft()[1] - self._first)
            self._held = self._nothing_held()
        # What came behind the next border is of a later region, though it may have the same count.
        n = self._forgot[0][1] - self._first if self._forgot else len(self._at)
        records = _Records(self._at[:n], self._line[:n], np.zeros(n, np.bool_))
        self._take_in(match_losses(_Losses(at, line, way), records, self._first, self._held, number))
        return line, way, at, number

    def _take_in(self, n: int) -> None:
        """So many records have been dealt with."""
        self._at, self._line, self._first = self._at[n:], self._line[n:], self._first + n

    def loose(self, lines: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of which lines nothing is told."""
        answer: NDArray[np.bool_] = self._held[lines] == _LOOSE
        return answer

    def _note_forgotten(self, rows: Events) -> None:
        kind = rows["kind"]
        missed, cuts = kind == MISS, kind == STRATUM
        for at in np.flatnonzero((kind == CONTEXT) & (rows["flags"] == CONTEXT_FORGOTTEN)).tolist():
            region, records = self._cuts + int(cuts[:at].sum()), self._read + int(missed[:at].sum())
            self._forgot.append((region, records))
        self._cuts += int(cuts.sum())

    def _read_behind(self, count: int) -> None:
        parts_at, parts_line = [self._at], [self._line]
        while not self._ended and not (len(parts_at[-1]) and parts_at[-1][-1] > count):
            piece = next(self._records, None)
            if piece is None:
                self._ended = True
                break
            self._note_forgotten(piece[0])
            rows = piece[0][piece[0]["kind"] == MISS]
            self._read += len(rows)
            if len(rows):
                parts_at.append(rows["count"].astype(np.int64))
                parts_line.append((rows["addr"] >> self._shift).astype(np.int64))
        self._at, self._line = np.concatenate(parts_at), np.concatenate(parts_line)
