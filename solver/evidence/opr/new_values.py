"""The new values of the members: each read that has an entry in a value log, with the address that the replay
gives it.

What a get has brought into a core's memory was written elsewhere: such a read is looked for at the place from
which the get took it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.hash_table import Table, find_or_insert, grow, has_room, new_table
from recorder.evidence.opr.accesses import GOT, STORE, AccessStream
from recorder.evidence.opr.log import OprLog

#: A new value: access `sn` of a member read `value` in `size` bytes at `addr`; `origin`: where they were
#: written; `before`: the member's last access before to all of these bytes, if it was the last to their
#: word, else 0.
NEW_VALUE = np.dtype(
    [
        ("sn", "<u8"),
        ("addr", "<u8"),
        ("origin", "<u8"),
        ("value", "<u8"),
        ("size", "<u8"),
        ("before", "<u8"),
    ]
)

_WORD_SHIFT, _WORD_MASK = np.uint64(3), np.uint64(7)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_FIRST = 1 << 8


class _Words(NamedTuple):
    """Words that a member has accessed. origin: uint64[words], where what is there was written: the word's
    own number, or that from which a get brought it. access: uint64[words, 3], SN, address and size of the
    last."""

    table: Table
    origin: NDArray[np.uint64]
    access: NDArray[np.uint64]


@njit(cache=True)
def _word(words, number):  # type: ignore[no-untyped-def]
    slot = find_or_insert(words.table, number)
    if words.origin[slot] == _ZERO:
        words.origin[slot] = number
    return slot


@njit(cache=True)
def _answer(words, access, wanted):  # type: ignore[no-untyped-def]
    """Fill in what is known of a new value, which `access` read."""
    slot = _word(words, access.addr >> _WORD_SHIFT)
    wanted.origin = (words.origin[slot] << _WORD_SHIFT) | (access.addr & _WORD_MASK)
    sn, addr, size = words.access[slot, 0], words.access[slot, 1], words.access[slot, 2]
    whole = addr <= access.addr and access.addr + access.size <= addr + size
    # What a get brought may be old news at its origin.
    brought = wanted.origin != access.addr
    wanted.before = sn if whole and not brought else _ZERO


@njit(cache=True)
def _follow(accesses, start, words, new_values, at):  # type: ignore[no-untyped-def]
    """Go through accesses (ACCESS[n]) from `start`, and fill in new values from `at` on that they are.
    Returns (first access not done, first new value not done, words that it needs room for)."""
    for i in range(start, accesses.shape[0]):
        access = accesses[i]
        first = (access.local if access.kind == GOT else access.addr) >> _WORD_SHIFT
        n = np.int64(access.size >> _WORD_SHIFT) + 2
        if not has_room(words.table, n) or words.table.used[0] + n > words.origin.shape[0]:
            return i, at, n
        if access.kind == GOT:
            for k in range(n - 2):
                slot = _word(words, first + np.uint64(k))
                words.origin[slot] = (access.addr >> _WORD_SHIFT) + np.uint64(k)
            continue
        if access.put != 0:
            continue
        if at < new_values.shape[0] and new_values[at].sn == access.sn:
            _answer(words, access, new_values[at])
            at += 1
        last = (access.addr + access.size - _ONE) >> _WORD_SHIFT
        for k in range(np.int64(last - first) + 1):
            slot = _word(words, first + np.uint64(k))
            words.access[slot, 0], words.access[slot, 1] = access.sn, access.addr
            words.access[slot, 2] = access.size
            if access.kind == STORE:
                words.origin[slot] = first + np.uint64(k)
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
        self._words = _Words(
            new_table(2 * _FIRST), np.zeros(_FIRST, np.uint64), np.zeros((_FIRST, 3), np.uint64)
        )
        self._at = 0

    def take(self, rows: NDArray[np.void]) -> None:
        """The member's next accesses, EVENT[n], `seq` being SN - 1."""
        if not len(rows):
            return
        first = int(rows["seq"][0]) + 1
        low, high = np.searchsorted(self.rows["sn"], np.array([first, first + len(rows)], np.uint64))
        mine = rows[(self.rows["sn"][low:high] - np.uint64(first)).astype(np.int64)]
        self.rows["addr"][low:high] = mine["addr"]
        accesses = self._accesses.take(rows, np.zeros(len(rows), np.uint8))
        done = 0
        while done < len(accesses):
            done, self._at, more = _follow(accesses, done, self._words, self.rows, self._at)
            if more:
                self._words = _grown(self._words, int(more))


def _grown(words: _Words, more: int) -> _Words:
    """The same, with room for `more` words beyond those that are there."""
    old = len(words.origin)
    n = max(2 * old, int(words.table.used[0]) + more)
    origin, access = np.zeros(n, np.uint64), np.zeros((n, 3), np.uint64)
    origin[:old], access[:old] = words.origin, words.access
    return _Words(grow(words.table, n), origin, access)
