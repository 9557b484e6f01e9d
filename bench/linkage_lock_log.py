"""What a lock log, as the Stride paper has it (ICSE 2012, III-A), would take, and what it would spare.

Here a lock's word is a variable like others, and the order of its writers is a part of the evidence: an
acquisition and its release are two writes of one core, which are one run. The paper's lock log has, for each
lock, who took it next. Were there one, the writes that take a lock and give it back could be left out of the
orders; other writes to the word (a waiter's mark, an attempt that fails) could not.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.linkage_baselines import Counter
from corebraid.base.rows.event import READ, RMW, UNCACHED
from recorder.files.collectors import Rows

_THREE = np.uint64(3)


@dataclass
class Lock:
    """A place in a word that an atomic instruction has made nonzero. takers: who took it, one after the
    other. broken: another than its holder made it 0, or somebody wrote over it."""

    address: int
    size: int
    holder: int = -1
    broken: bool = False
    takers: list[int] = field(default_factory=list)


class LockLog:
    """A recorder of locks alone. writers: word -> who wrote it, one after the other. others: the same,
    without those that took its lock or gave it back."""

    def __init__(self) -> None:
        self.locks: dict[int, Lock] = {}
        self.writers: dict[int, list[int]] = defaultdict(list)
        self.others: dict[int, list[int]] = defaultdict(list)

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        word = rows["addr"] >> _THREE
        whole = word == (rows["addr"] + rows["size"] - np.uint64(1)) >> _THREE
        taking = whole & (rows["kind"] == RMW) & (rows["old"] == 0) & (rows["new"] != 0)
        known = np.array(list(self.locks), np.uint64)
        met = np.isin(word, np.concatenate([known, word[taking]]))
        met &= (rows["kind"] != READ) & ((rows["flags"] & UNCACHED) == 0)
        for i in np.flatnonzero(met).tolist():
            row = rows[i]
            self._write(stream, int(word[i]), row, taking=bool(taking[i]))

    def _write(self, stream: int, word: int, row: np.void, *, taking: bool) -> None:
        place = int(row["addr"]), int(row["size"])
        lock = self.locks.get(word)
        if lock is None:
            if not taking:
                return
            lock = self.locks[word] = Lock(*place)
        self.writers[word].append(stream)
        mine = place == (lock.address, lock.size)
        if lock.holder < 0:
            if mine and taking and not lock.broken:
                lock.holder = stream
                lock.takers.append(stream)
            else:
                self.others[word].append(stream)
            return
        apart = place[0] + place[1] <= lock.address or lock.address + lock.size <= place[0]
        if apart or (mine and row["new"] != 0):
            self.others[word].append(stream)
            return
        lock.broken |= lock.holder != stream or not mine
        if lock.broken:
            self.others[word].append(stream)
        lock.holder = -1

    def stratum(self) -> None:
        """See `Collector`."""

    def flush(self) -> None:
        """See `Collector`."""

    def finish(self) -> None:
        """See `Collector`."""

    def sizes(self) -> tuple[int, int, int, int, int]:
        """Locks that are not broken and more than one stream took; how often; bytes of the orders of their
        words; of a lock log; of the orders that are left beside it."""
        kept = [word for word, lock in self.locks.items() if not lock.broken and len(set(lock.takers)) > 1]
        taken = sum(len(self.locks[word].takers) for word in kept)
        bytes_of = [
            _stored({word: of[word] for word in kept})
            for of in (self.writers, {word: self.locks[word].takers for word in kept}, self.others)
        ]
        return len(kept), taken, *bytes_of  # type: ignore[return-value]


def _stored(sequences: dict[int, list[int]]) -> int:
    """Bytes of a table (word, who, how many in a row), encoded and packed like the evidence."""
    tables = [np.empty((0, 3), np.uint64)]
    for word, streams in sorted(sequences.items()):
        if streams:
            tables.append(_runs(word, np.array(streams, np.uint64)))
    counter = Counter()
    counter.table(np.concatenate(tables))
    return counter.stored


def _runs(word: int, streams: NDArray[np.uint64]) -> NDArray[np.uint64]:
    begins = np.flatnonzero(np.append(True, streams[1:] != streams[:-1]))
    n = np.diff(np.append(begins, len(streams)))
    return np.stack([np.full(len(begins), word, np.uint64), streams[begins], n.astype(np.uint64)], axis=1)
