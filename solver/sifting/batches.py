"""Many pieces of a region's rows in one array: between two sync points often lie a few rows only, and to call
a kernel for each such piece costs more than what it does there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solver.regions.sync_order import Piece
from solver.regions.traces import Events

#: Rows of a batch from which on no piece is added to it.
BATCH_ROWS = 1 << 14


class Pieces(NamedTuple):
    """Pieces of rows that lie one behind the other, (n,) each. end: int64, the row behind its last. The
    others as in `Piece`; stream, owner: int64; goes_on: bool."""

    end: NDArray[np.int64]
    stream: NDArray[np.int64]
    owner: NDArray[np.int64]
    goes_on: NDArray[np.bool_]

    def stream_of(self, row: int) -> int:
        """The stream of a row."""
        return int(self.stream[np.searchsorted(self.end, row, side="right")])


class Batch(NamedTuple):
    """rows: EVENT (n,). pieces: which of them are whose."""

    rows: Events
    pieces: Pieces


def batches(pieces: Iterable[Piece], rows: int = BATCH_ROWS) -> Iterator[Batch]:
    """Pieces in batches, in their order. rows: from how many on a batch is full. A piece of so many comes
    alone and is not copied."""
    held: list[Piece] = []
    total = 0
    for piece in pieces:
        if held and total + len(piece.rows) > rows:
            yield _joined(held)
            held, total = [], 0
        held.append(piece)
        total += len(piece.rows)
    if held:
        yield _joined(held)


def _joined(held: list[Piece]) -> Batch:
    stream, owner, each, goes_on = zip(*held, strict=True)
    rows = each[0] if len(held) == 1 else np.concatenate(each)
    ends = np.cumsum([len(one) for one in each], dtype=np.int64)
    whose = np.array(stream, np.int64), np.array(owner, np.int64)
    return Batch(rows, Pieces(ends, *whose, np.array(goes_on, np.bool_)))
