"""Kept slices as they end, for a search that goes on while the machine runs (LightPlay, sections 2 and 2.2:
the search "can be done online").

What is handed over is what the evidence has of a slice and, of its accesses, what a replay of their core
alone tells later: addresses, and the values before and after. In which order the streams ran is not in it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, GLUED
from recorder.evidence.slices.codec import CHECKPOINT
from recorder.evidence.slices.kernels import (
    ENTRY,
    HANDED,
    ROWS_WAIT,
    SLICES_WAIT,
    VALUES_WAIT,
    WAIT,
    Handed,
)

#: How a batch begins: slices, rows and values in it.
BATCH = struct.Struct("<III")
#: Slices for which there is room. Behind the first slice that ends in a turn only one stream goes on, so that
#: there is no race: a turn ends one that is kept, and a stratum another one.
_SLICES = 2


class HandedSlice(NamedTuple):
    """A kept slice. number: of its entry. rows: EVENT (n,), its accesses stream by stream, of which `count`,
    `pc` and `stratum` are not known. checkpoints: CHECKPOINT (n,), of the same. updated: uint64."""

    number: int
    rows: NDArray[Any]
    checkpoints: NDArray[Any]
    updated: NDArray[np.uint64]


def room_for(longest: int) -> Handed:
    """Room for slices of so many accesses; 0: for none."""
    slices, rows = (_SLICES, _SLICES * longest) if longest else (0, 0)
    return Handed(
        np.zeros(slices, HANDED), np.zeros(rows, ENTRY), np.zeros(rows, np.uint64), np.zeros(WAIT, np.int64)
    )


def take_batch(handed: Handed) -> bytes:
    """All slices that wait, as bytes; none if none do. They wait no more."""
    slices, rows, values = (int(handed.at[which]) for which in (SLICES_WAIT, ROWS_WAIT, VALUES_WAIT))
    if not slices:
        return b""
    handed.at[:] = 0
    columns = handed.slices[:slices], handed.rows[:rows], handed.values[:values]
    return BATCH.pack(slices, rows, values) + b"".join(column.tobytes() for column in columns)


def batch_bytes(head: bytes) -> int:
    """How many bytes of a batch follow its head."""
    slices, rows, values = BATCH.unpack(head)
    return slices * HANDED.itemsize + rows * ENTRY.itemsize + values * 8


def slices_of(head: bytes, body: bytes) -> Iterator[HandedSlice]:
    """The slices of a batch (`take_batch`): of its head and of what follows that."""
    n, n_rows, n_values = BATCH.unpack(head)
    slices = np.frombuffer(body, HANDED, n)
    rows = np.frombuffer(body, ENTRY, n_rows, slices.nbytes)
    values = np.frombuffer(body, np.uint64, n_values, slices.nbytes + rows.nbytes)
    row = value = 0
    for number, its_rows, its_values in slices.tolist():
        mine = rows[row : row + its_rows]
        yield HandedSlice(number, _events(mine), _checkpoints(mine), values[value : value + its_values])
        row, value = row + its_rows, value + its_values


def _events(entries: NDArray[Any]) -> NDArray[Any]:
    rows = np.zeros(len(entries), EVENT)
    for name in ("seq", "addr", "old", "new", "size", "kind", "flags"):
        rows[name] = entries[name]
    rows["core"] = entries["stream"]
    return rows


def _checkpoints(entries: NDArray[Any]) -> NDArray[Any]:
    rows = np.zeros(len(entries), CHECKPOINT)
    for name in ("seq", "before", "after", "stream", "size", "kind"):
        rows[name] = entries[name]
    rows["glued"] = (entries["flags"] & np.uint8(GLUED)) != 0
    return rows
