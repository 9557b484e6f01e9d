"""ReRun's race log of a run (Hower and Hill, ISCA 2008), as the MICRO 2009 paper compares with it (Figure 8).

A core's execution is a sequence of episodes. One ends when another core's access conflicts with one that was
made in it; what is logged is its length in memory references and a Lamport time stamp. Read and write sets
are exact, or Bloom filters of the sizes that the MICRO paper names: 32 bytes for reads, 128 for writes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import READ, UNCACHED
from recorder.files.collectors import Guest, Rows

READ_BYTES, WRITE_BYTES = 32, 128
#: Bytes of a log entry: two of the episode's length and two of its time stamp, more where they do not fit, as
#: varints of 16-bit words.
_WORD_BITS = np.uint64(15)
_HASHES = 4
_LONGEST = 1 << 16

_U1 = np.uint64(1)


class Episodes(NamedTuple):
    """reads, writes: exact, int64 (lines, cores), 1 + the last episode that the line was read or written in.
    filters: Bloom, uint64 (cores, 2, words). number, length, stamp: int64 (cores,), the episode that runs.
    logged: int64 (2,), entries and bytes."""

    reads: NDArray[np.int64]
    writes: NDArray[np.int64]
    filters: NDArray[np.uint64]
    number: NDArray[np.int64]
    length: NDArray[np.int64]
    stamp: NDArray[np.int64]
    logged: NDArray[np.int64]


@njit(cache=True)
def _mix(key):  # type: ignore[no-untyped-def]
    """splitmix64's finaliser: the hash that the filters' bit numbers are taken from."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


@njit(cache=True)
def _has(words, bits, key, put):  # type: ignore[no-untyped-def]
    """Whether the filter may hold the key; put: it does from now on."""
    found, hashed = True, _mix(key)
    for k in range(_HASHES):
        bit = (hashed >> np.uint64(16 * k)) % np.uint64(bits)
        mask = _U1 << (bit & np.uint64(63))
        found = found and (words[bit >> np.uint64(6)] & mask) != 0
        if put:
            words[bit >> np.uint64(6)] |= mask
    return found


@njit(cache=True)
def _words_of(value):  # type: ignore[no-untyped-def]
    n, value = 1, np.uint64(value) >> _WORD_BITS
    while value:
        n, value = n + 1, value >> _WORD_BITS
    return n


@njit(cache=True)
def _end(episodes, core, last):  # type: ignore[no-untyped-def]
    """The core's episode ends; last: the stamp of its episode before, which stamps are logged against."""
    if episodes.length[core] == 0:
        return
    episodes.logged[0] += 1
    episodes.logged[1] += 2 * (
        _words_of(episodes.length[core]) + _words_of(episodes.stamp[core] - last[core])
    )
    last[core] = episodes.stamp[core]
    episodes.number[core] += 1
    episodes.length[core] = 0
    episodes.stamp[core] += 1
    episodes.filters[core] = 0


@njit(cache=True)
def _conflicts(episodes, other, line, is_write, bloom):  # type: ignore[no-untyped-def]
    if bloom:
        key = np.uint64(line)
        if _has(episodes.filters[other, 1], 8 * WRITE_BYTES, key, False):
            return True
        return is_write and _has(episodes.filters[other, 0], 8 * READ_BYTES, key, False)
    mine = episodes.number[other] + 1
    return episodes.writes[line, other] == mine or (is_write and episodes.reads[line, other] == mine)


@njit(cache=True)
def rerun_rows(rows, core, shift, episodes, last, bloom):  # type: ignore[no-untyped-def]
    """Follow a turn of one core, which is not an agent's."""
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        is_write = row.kind != READ
        first = np.int64(row.addr >> shift)
        end = np.int64((row.addr + np.uint64(row.size) - _U1) >> shift) + 1
        for line in range(first, end):
            for other in range(episodes.number.size):
                if other != core and _conflicts(episodes, other, line, is_write, bloom):
                    # The answer to the request carries the stamp, and the requester comes after it.
                    episodes.stamp[core] = max(episodes.stamp[core], episodes.stamp[other] + 1)
                    _end(episodes, other, last)
            if bloom:
                bits = 8 * (WRITE_BYTES if is_write else READ_BYTES)
                _has(episodes.filters[core, 1 if is_write else 0], bits, np.uint64(line), True)
            elif is_write:
                episodes.writes[line, core] = episodes.number[core] + 1
            else:
                episodes.reads[line, core] = episodes.number[core] + 1
        episodes.length[core] += 1
        if episodes.length[core] == _LONGEST:
            _end(episodes, core, last)


class Rerun:
    """ReRun's log of a run, as a watcher. bloom: its filters, else exact sets."""

    def __init__(self, guest: Guest, bloom: bool) -> None:
        n, lines = guest.n_cores, len(guest.memory) // guest.line
        self._bloom, self._shift, self._n = bloom, np.uint64(guest.line.bit_length() - 1), n
        exact = 0 if bloom else lines
        sets = [
            host_memory(max(8, 8 * exact * n)).view(np.int64)[: exact * n].reshape(exact, n) for _ in range(2)
        ]
        self._last = np.zeros(n, np.int64)
        numbers = [np.zeros(n, np.int64) for _ in range(3)]
        self.episodes = Episodes(
            sets[0], sets[1], np.zeros((n, 2, WRITE_BYTES // 8), np.uint64), *numbers, np.zeros(2, np.int64)
        )

    def take(self, stream: int, rows: Rows) -> None:
        """See `recorder.files.collectors.Collector`. ReRun knows no agents."""
        if stream < self._n:
            rerun_rows(rows, stream, self._shift, self.episodes, self._last, self._bloom)

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """The episodes that run."""
        for core in range(self._n):
            _end(self.episodes, core, self._last)

    @property
    def bytes(self) -> int:
        """Bytes of log so far."""
        return int(self.episodes.logged[1])
