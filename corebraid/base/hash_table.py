"""A hash table in arrays, for kernels: from a 64-bit key to a slot number, in the order of insertion.

Open addressing with linear probing. Slots are never freed. A kernel asks for what is there, or inserts as
long as `has_room`; when there is none it returns to Python, which calls `grow` and lets it go on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.golden_ratio import GOLDEN
from corebraid.base.kernels import inner

_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FOLD = np.uint64(32)


class Table(NamedTuple):
    """keys: uint64[2**k], key + 1, or 0 where nothing is. slots: int64[2**k]. used: int64[1], keys held."""

    keys: npt.NDArray[np.uint64]
    slots: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]

    @property
    def bytes(self) -> int:
        """Bytes that the table takes."""
        return self.keys.nbytes + self.slots.nbytes


def new_table(capacity: int) -> Table:
    """An empty table of `capacity` places, a power of two."""
    return Table(np.zeros(capacity, np.uint64), np.zeros(capacity, np.int64), np.zeros(1, np.int64))


@inner
def _place(keys, key):  # type: ignore[no-untyped-def]
    """Where `key` (plus 1) is, or where it would go."""
    mask = np.uint64(keys.shape[0] - 1)
    at = (key * GOLDEN) >> _FOLD
    while True:
        found = keys[np.int64(at & mask)]
        if found in (key, _ZERO):
            return np.int64(at & mask)
        at += _ONE


@inner
def find(table, key):  # type: ignore[no-untyped-def]
    """The slot of `key` (uint64), or -1."""
    at = _place(table.keys, key + _ONE)
    if table.keys[at] == _ZERO:
        return np.int64(-1)
    return table.slots[at]


@inner
def find_or_insert(table, key):  # type: ignore[no-untyped-def]
    """The slot of `key` (uint64); a new one if there is none, for which there must be room."""
    at = _place(table.keys, key + _ONE)
    if table.keys[at] == _ZERO:
        table.keys[at] = key + _ONE
        table.slots[at] = table.used[0]
        table.used[0] += 1
    return table.slots[at]


@inner
def has_room(table, more):  # type: ignore[no-untyped-def]
    """Whether `more` keys can be inserted with the table at most half full."""
    return (table.used[0] + more) * 2 <= table.keys.shape[0]


@njit(cache=True)
def _reinsert(old, new):  # type: ignore[no-untyped-def]
    for k in range(old.keys.shape[0]):
        if old.keys[k] != _ZERO:
            at = _place(new.keys, old.keys[k])
            new.keys[at] = old.keys[k]
            new.slots[at] = old.slots[k]
    new.used[0] = old.used[0]


def grow(table: Table, least: int) -> Table:
    """A table with the same keys and slots, and room for `least` keys in all."""
    capacity = len(table.keys)
    while capacity < 2 * least:
        capacity *= 2
    new = new_table(capacity)
    _reinsert(table, new)
    return new
