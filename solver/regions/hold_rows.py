"""The rows of a region that are of holds of pages (`corebraid.base.rows.event`), side by side; and those of
agents that access such pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.event import BESIDE_AGENTS, HAD_IT, OF_HOLD, OF_WORD, READ, UNCACHED

#: A stream's number in a key.
STREAM_BITS, STREAM_MASK = np.uint64(8), np.uint64(0xFF)
_HOLD, _PAGE_SHIFT = np.uint8(OF_HOLD), np.uint64(PAGE_BYTES.bit_length() - 1)
#: What a row tells, whether the page was had before, and whether agents use words of it.
_TOLD = np.uint64(3 | HAD_IT | BESIDE_AGENTS)
_BESIDE, _OF_WORD, _ONE = np.uint8(BESIDE_AGENTS), np.uint64(OF_WORD), np.uint64(1)
#: What a row of an agent's tells, that reads, or writes to, a page of which others have rows of holds.
LOOKS, CHANGES = 32, 64


class Pieces(Protocol):
    """A stream's rows of a region (`solver.regions.region.RowSource`)."""

    def pieces(self) -> Iterator[NDArray[Any]]:
        """EVENT arrays, from the first row to the last."""


class HoldRows(NamedTuple):
    """key: uint64 (n,), page and stream in one. row: int64 (n,), number in the stream. told: uint8 (n,), what
    it tells. address: uint64 (n,), the place that stands for the page. old, new: uint64 (n,), what was there
    before and after. by: int64 (n,), their order by key. Of words of a page that agents use there are none:
    they stand with those of their page."""

    key: NDArray[np.uint64]
    row: NDArray[np.int64]
    told: NDArray[np.uint8]
    address: NDArray[np.uint64]
    old: NDArray[np.uint64]
    new: NDArray[np.uint64]
    by: NDArray[np.int64]


_KINDS = (np.uint64, np.int64, np.uint8, np.uint64, np.uint64, np.uint64)


@njit(cache=True, nogil=True)
def gather_holds(rows, stream, number, room):  # type: ignore[no-untyped-def]
    """Fill columns of `HoldRows` with the rows (EVENT (n,)) that are of holds; `number` is that of rows[0].
    Returns how many."""
    key, at, told, address, old, new = room
    n = 0
    for i in range(rows.size):
        if rows[i].flags & _HOLD == _HOLD and rows[i].pc & _OF_WORD == np.uint64(0):
            row = rows[i]
            key[n], at[n] = (row.pc >> _PAGE_SHIFT) << STREAM_BITS | np.uint64(stream), number + i
            told[n], address[n], old[n], new[n] = row.pc & _TOLD, row.addr, row.old, row.new
            n += 1
    return n


def holds_of(streams: Sequence[Pieces]) -> HoldRows:
    """Those of a region's streams."""
    found = [[np.empty(0, kind) for kind in _KINDS]]
    for stream, source in enumerate(streams):
        number = 0
        for rows in source.pieces():
            room = tuple(np.empty(len(rows), kind) for kind in _KINDS)
            if n := gather_holds(rows, stream, number, room):
                found.append([column[:n] for column in room])
            number += len(rows)
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    return HoldRows._make([*columns, np.argsort(columns[0], kind="stable")])


@njit(cache=True, nogil=True)
def gather_agents(rows, stream, number, pages, room):  # type: ignore[no-untyped-def]
    """Fill key, row and told (see `HoldRows`) with the rows (EVENT (n,)) that access these pages, uint64
    (m,), ascending. There is room for twice as many. `number` is that of rows[0]. Returns how many."""
    key, at, told = room
    n = 0
    for i in range(rows.size):
        row = rows[i]
        if row.flags & np.uint8(UNCACHED):
            continue
        first, last = row.addr >> _PAGE_SHIFT, (row.addr + np.uint64(row.size) - _ONE) >> _PAGE_SHIFT
        for page in range(first, last + _ONE):
            k = np.searchsorted(pages, page)
            if k < pages.size and pages[k] == page:
                key[n], at[n] = page << STREAM_BITS | np.uint64(stream), number + i
                told[n] = LOOKS if row.kind == np.uint8(READ) else CHANGES
                n += 1
    return n


def with_agents(holds: HoldRows, stream: int, source: Pieces) -> HoldRows:
    """These rows, and the agents' that access pages of theirs. stream, source: the agents'. Of these no place
    and no value is told."""
    pages = np.unique(holds.key[(holds.told & _BESIDE) != 0] >> STREAM_BITS)
    if not len(pages):
        return holds
    found: list[tuple[NDArray[Any], ...]] = [holds[:3]]
    number = 0
    for rows in source.pieces():
        room = tuple(np.empty(2 * len(rows), kind) for kind in _KINDS[:3])
        n = gather_agents(rows, stream, number, pages, room)
        found.append(tuple(column[:n] for column in room))
        number += len(rows)
    key, row, told = (np.concatenate(column) for column in zip(*found, strict=True))
    none = np.zeros(len(key), np.uint64)
    return HoldRows(key, row, told, none, none, none, np.argsort(key, kind="stable"))


def no_holds() -> HoldRows:
    """None at all."""
    return holds_of(())


@njit(cache=True, nogil=True)
def has_one_order(holds):  # type: ignore[no-untyped-def]
    """Whether what the rows of each page found and left tells their order, but for that of those which find
    the same: nothing is left twice, nor found twice by who leaves something else, and one thing is found that
    nobody left."""
    low = 0
    while low < holds.by.size:
        high, page = low, holds.key[holds.by[low]] >> STREAM_BITS
        while high < holds.by.size and holds.key[holds.by[high]] >> STREAM_BITS == page:
            high += 1
        found, left = np.empty(high - low, np.uint64), np.empty(high - low, np.uint64)
        taken, n = np.empty(high - low, np.uint64), 0
        for k in range(low, high):
            i = holds.by[k]
            found[k - low] = holds.old[i]
            if holds.old[i] != holds.new[i]:
                taken[n], left[n] = holds.old[i], holds.new[i]
                n += 1
        if not _is_chain(np.sort(found), np.sort(taken[:n]), np.sort(left[:n])):
            return False
        low = high
    return True


@njit(cache=True, nogil=True)
def _is_chain(found, taken, left):  # type: ignore[no-untyped-def]
    for k in range(1, left.size):
        if left[k] == left[k - 1] or taken[k] == taken[k - 1]:
            return False
    first = 0
    for k in range(found.size):
        if k == 0 or found[k] != found[k - 1]:
            at = np.searchsorted(left, found[k])
            first += at == left.size or left[at] != found[k]
    return first == 1
