"""The new values of the members: each read that has an entry in a value log, with the address that the replay
gives it.

What a get has brought into a core's memory was written elsewhere: such a read is looked for at the place from
which the get took it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from recorder.hash_table import Table, find, find_or_insert, grow, has_room, new_table
from recorder.opr_accesses import GOT, STORE, AccessStream
from recorder.opr_log import OprLog

#: A new value: access `sn` of a member read `value` in `size` bytes at `addr`; `origin`: where they were written.
NEW_VALUE = np.dtype(
    [("sn", "<u8"), ("addr", "<u8"), ("origin", "<u8"), ("value", "<u8"), ("size", "<u8")]
)

_WORD_SHIFT, _WORD_MASK, _ONE = np.uint64(3), np.uint64(7), np.uint64(1)
_FIRST = 1 << 8


class _Brought(NamedTuple):
    """Words that gets have brought: origin, uint64[words], by the word's own number."""

    table: Table
    origin: NDArray[np.uint64]


@njit(cache=True)
def _follow(accesses, start, brought, new_values, at):  # type: ignore[no-untyped-def]
    """Go through accesses (ACCESS[n]) from `start`, and note the origin of new values from `at` on that they
    are. Returns (first access not done, first new value not done, words that it needs room for)."""
    for i in range(start, accesses.shape[0]):
        access = accesses[i]
        if access.kind == GOT:
            words = np.int64(access.size >> _WORD_SHIFT)
            if not has_room(brought.table, words) or brought.table.used[0] + words > brought.origin.shape[0]:
                return i, at, words
            for k in range(words):
                slot = find_or_insert(brought.table, (access.local >> _WORD_SHIFT) + np.uint64(k))
                brought.origin[slot] = (access.addr >> _WORD_SHIFT) + np.uint64(k)
            continue
        if at < new_values.shape[0] and new_values[at].sn == access.sn:
            wanted = new_values[at]
            slot = find(brought.table, access.addr >> _WORD_SHIFT)
            wanted.origin = access.addr
            if slot >= 0:
                wanted.origin = (brought.origin[slot] << _WORD_SHIFT) | (access.addr & _WORD_MASK)
            at += 1
        if access.kind == STORE:
            last = (access.addr + access.size - _ONE) >> _WORD_SHIFT
            word = access.addr >> _WORD_SHIFT
            while word <= last and access.put == 0:
                slot = find(brought.table, word)
                if slot >= 0:
                    brought.origin[slot] = word
                word += _ONE
    return accesses.shape[0], at, 0


class NewValues:
    """Collects the new values of one member while it is replayed."""

    def __init__(self, log: OprLog, member: int, memory: int) -> None:
        values = log.values(member)
        self.rows = np.zeros(len(values), NEW_VALUE)
        self.rows["sn"], self.rows["value"], self.rows["size"] = (
            values["sn"],
            values["value"],
            values["size"],
        )
        self._accesses = AccessStream(memory)
        self._brought = _Brought(new_table(2 * _FIRST), np.zeros(_FIRST, np.uint64))
        self._at = 0

    def take(self, rows: NDArray[np.void]) -> None:
        """The member's next accesses, EVENT[n], `seq` being SN - 1."""
        if not len(rows):
            return
        first = int(rows["seq"][0]) + 1
        low, high = np.searchsorted(self.rows["sn"], [first, first + len(rows)])
        mine = rows[(self.rows["sn"][low:high] - np.uint64(first)).astype(np.int64)]
        self.rows["addr"][low:high] = mine["addr"]
        accesses = self._accesses.take(rows, np.zeros(len(rows), np.uint8))
        done = 0
        while done < len(accesses):
            done, self._at, words = _follow(accesses, done, self._brought, self.rows, self._at)
            if words:
                n = max(2 * len(self._brought.origin), int(self._brought.table.used[0] + words))
                origin = np.zeros(n, np.uint64)
                origin[: len(self._brought.origin)] = self._brought.origin
                self._brought = _Brought(grow(self._brought.table, n), origin)
