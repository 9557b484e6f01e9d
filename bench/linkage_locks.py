"""What locks protect (ICSE 2012, section V-C and Table III): variables whose accesses are all ordered by lock
words and program order. Stride leaves them out where the source code tells which they are.

A lock word is one that an atomic read-modify-write has changed. Happens-before is kept by vector clocks as in
FastTrack (Flanagan and Freund, PLDI 2009), on the run as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from corebraid.base.host_memory import host_memory
from corebraid.base.rows.event import READ, RMW, UNCACHED
from recorder.files.collectors import Collector, Guest, Rows

#: Lock words that are followed; more than that are plain words.
_LOCKS = 1 << 14
#: What is known of a word: touched by a second stream; two writes of it, or a read and a write, are not
#: ordered.
SHARED, WRITES_RACE, READS_RACE = 1, 2, 4
_U1, _U3 = np.uint64(1), np.uint64(3)


@njit(cache=True)
def _synchronise(clock, locks, lock, stream, writes):  # type: ignore[no-untyped-def]
    """An access to a lock word: its clock comes to the stream, and goes from it if it writes."""
    for t in range(clock.shape[1]):
        clock[stream, t] = max(clock[stream, t], locks[lock, t])
        if writes:
            locks[lock, t] = clock[stream, t]
    if writes:
        clock[stream, stream] += 1


class Seen(NamedTuple):
    """What is known of words. writer: uint8 (words,), 1 + the stream of the last write; written: int64
    (words,), its clock. read: int64 (words, streams), clocks of last reads. known: uint8 (words,)."""

    writer: NDArray[np.uint8]
    written: NDArray[np.int64]
    read: NDArray[np.int64]
    known: NDArray[np.uint8]


@njit(cache=True)
def race_rows(rows, stream, clock, locks, lock_of, seen):  # type: ignore[no-untyped-def]
    """Follow happens-before over a turn. clock: int64 (streams, streams). locks: int64 (locks, streams).
    lock_of: int32 (words,), 1 + a word's lock, the next free one in lock_of[0]."""
    writer, written, read, known = seen
    for i in range(rows.size):
        row = rows[i]
        if (row.flags & np.uint8(UNCACHED)) != 0:
            continue
        first = np.int64(row.addr >> _U3)
        last = np.int64((row.addr + np.uint64(row.size) - _U1) >> _U3)
        for word in range(first, last + 1):
            if row.kind == RMW and lock_of[word] == 0 and lock_of[0] < locks.shape[0]:
                lock_of[0] += 1
                lock_of[word] = lock_of[0]
            if lock_of[word] != 0:
                _synchronise(clock, locks, lock_of[word] - 1, stream, row.kind != READ)
                continue
            before = np.int64(writer[word]) - 1
            if before >= 0 and before != stream:
                known[word] |= np.uint8(SHARED)
                if written[word] > clock[stream, before]:
                    known[word] |= np.uint8(READS_RACE if row.kind == READ else WRITES_RACE)
            for t in range(clock.shape[1]):
                if t != stream and read[word, t] != 0:
                    known[word] |= np.uint8(SHARED)
                    if row.kind != READ and read[word, t] > clock[stream, t]:
                        known[word] |= np.uint8(READS_RACE)
            if row.kind == READ:
                read[word, stream] = clock[stream, stream]
            else:
                writer[word], written[word] = stream + 1, clock[stream, stream]


class Races:
    """Which words of a run a lock protects. known: uint8 (words,)."""

    def __init__(self, guest: Guest) -> None:
        words, streams = len(guest.memory) >> 3, guest.n_cores + 1
        self._clock = np.eye(streams, dtype=np.int64)
        self._locks = np.zeros((_LOCKS, streams), np.int64)
        self._lock_of = host_memory(4 * words).view(np.int32)
        read = host_memory(8 * words * streams).view(np.int64).reshape(words, streams)
        self._seen = Seen(host_memory(words), host_memory(8 * words).view(np.int64), read, host_memory(words))

    @property
    def known(self) -> NDArray[np.uint8]:
        """uint8 (words,): what is known of each word."""
        return self._seen.known

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        race_rows(rows, stream, self._clock, self._locks, self._lock_of, self._seen)

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def shares(self) -> tuple[int, float, float]:
        """Shared words that are no locks; the share of them without any race, and without one of two
        writes."""
        shared = self.known[(self.known & SHARED) != 0]
        n = len(shared)
        both, writes = (shared & (READS_RACE | WRITES_RACE)) == 0, (shared & WRITES_RACE) == 0
        return n, float(both.mean()) if n else 0.0, float(writes.mean()) if n else 0.0

    @property
    def protected(self) -> NDArray[np.bool_]:
        """bool (words,): shared, and no race."""
        found: NDArray[np.bool_] = self.known == SHARED
        return found


@dataclass
class WithoutProtected:
    """Hands a collector what does not touch a protected word."""

    collector: Collector
    protected: NDArray[np.bool_]

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        cached = (rows["flags"] & np.uint8(UNCACHED)) == 0
        first = np.where(cached, rows["addr"] >> _U3, 0)
        last = np.where(cached, (rows["addr"] + rows["size"] - _U1) >> _U3, 0)
        kept = rows[~(self.protected[first] | self.protected[last])]
        if len(kept):
            self.collector.take(stream, kept)

    def stratum(self) -> None:
        """See `Collector`."""
        self.collector.stratum()

    def flush(self) -> None:
        """See `Collector`."""
        self.collector.flush()

    def finish(self) -> None:
        """See `Collector`."""
        self.collector.finish()
