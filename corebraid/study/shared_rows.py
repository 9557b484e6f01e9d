"""Accesses to words that several threads use, in a legal order of the whole recording."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import FETCH, READ, RMW, UNCACHED
from corebraid.names.threads import Threads, threads_of
from corebraid.study.causes.callers import Callers, Code, LastOwn
from corebraid.study.certificates import all_traces_of
from recorder.files.manifest import ORDER_CERT
from recorder.files.reader import Recording
from solver.check.braid import braid
from solver.check.certificate import Certificate

Rows = NDArray[np.void]
WORD = 8
_FIELDS = ("core", "count", "pc", "addr", "size", "kind", "old", "new")
#: Accesses that are looked at, at most: the last ones; and those of a recording that are kept.
_MOST, _MOST_KEPT = 400_000, 1_000_000
#: Place in the order of the first row, rows, thread of each: data accesses of cores only.
_Piece = tuple[int, Rows, NDArray[np.int64]]


class Access(NamedTuple):
    """One access. at: its place in the order. who: the thread, or of firmware the core. retired: instructions
    of the core before it. caller: if this is a library's, where own code has called it; 0 if that is not
    known, or none has."""

    at: int
    who: int
    core: int
    retired: int
    pc: int
    address: int
    size: int
    kind: int
    old: int
    new: int
    caller: int = 0

    @property
    def word(self) -> int:
        """The address of its first word."""
        return self.address & -WORD

    @property
    def reads(self) -> bool:
        """Whether it sees a value."""
        return self.kind in (READ, RMW)

    @property
    def writes(self) -> bool:
        """Whether it stores one."""
        return self.kind != READ

    @property
    def atomic(self) -> bool:
        """Whether it does both, as one."""
        return self.kind == RMW

    def overlaps(self, other: Access) -> bool:
        """Whether they share a byte."""
        return self.address < other.address + other.size and other.address < self.address + self.size


class OrderedAccesses:
    """The data accesses of a recording that has an order. Raises FormatError, OrderError, Divergence."""

    def __init__(self, recording: Recording, code: Code) -> None:
        self._recording, self._code = recording, code
        self._n_cores = recording.manifest.n_cores
        self._kept: list[_Piece] | None = None

    def _pieces(self) -> Iterator[_Piece]:
        """All of them, as often as somebody asks: of a short recording they are kept."""
        if self._kept is not None:
            yield from self._kept
            return
        kept, n = [], 0
        for piece in self._braided():
            n += len(piece[1])
            if n <= _MOST_KEPT:
                kept.append(piece)
            else:
                kept.clear()
            yield piece
        self._kept = kept if n <= _MOST_KEPT else None

    def _braided(self) -> Iterator[_Piece]:
        certificate = Certificate(self._recording.path / ORDER_CERT, self._recording.manifest.id)
        threads: Threads | None = threads_of(self._recording)
        at = 0
        for rows, has_order in braid(all_traces_of(self._recording, certificate), certificate):
            begins, at = at, at + len(rows)
            kept = (rows["flags"] & np.uint8(UNCACHED | FETCH)) == 0
            kept &= rows["core"] < self._n_cores
            if has_order and kept.any():
                data = rows[kept]
                who = data["core"].astype(np.int64) if threads is None else threads.of(data, called=False)
                yield begins, data, who

    def shared(self) -> list[Access]:
        """Accesses to words that two threads use and one of them writes."""
        return self.of_words(self.shared_words())

    def of_words(self, words: NDArray[np.uint64]) -> list[Access]:
        """Accesses to these words, as addresses over 8: uint64[n]."""
        found: deque[Access] = deque(maxlen=_MOST)
        callers = (LastOwn if self._recording.manifest.model == "tso" else Callers)(self._code)
        for begins, rows, who in self._pieces():
            wanted = np.isin(rows["addr"] // WORD, words)
            called = callers.of(rows, who)
            for k in np.flatnonzero(wanted).tolist():
                found.append(access_of(rows[k], begins + k, int(who[k]), int(called[k])))
        return list(found)

    def shared_words(self) -> NDArray[np.uint64]:
        """Words that two threads use and one of them writes, as addresses over 8: uint64[n]."""
        uses = [np.zeros((0, 2), np.int64), *(uses_of(rows, who) for _, rows, who in self._pieces())]
        return used_by_several(np.unique(np.concatenate(uses), axis=0))


def uses_of(rows: Rows, who: NDArray[np.int64]) -> NDArray[np.int64]:
    """Who uses which words: int64 (m, 2), see `used_by_several`. rows: EVENT[n]; who: their threads."""
    word = (rows["addr"] // WORD).astype(np.int64)
    wrote = (rows["kind"] != READ).astype(np.int64)
    return np.unique(np.stack([word, who << 1 | wrote], axis=1), axis=0)


def used_by_several(uses: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The words that two threads use and one of them writes: uint64[n]. uses: int64 (n, 2), sorted, each row
    once: a word, and twice the thread plus one if it wrote."""
    word, who, wrote = uses[:, 0], uses[:, 1] >> 1, uses[:, 1] & 1
    if not len(word):
        return np.zeros(0, np.uint64)
    begins = np.flatnonzero(np.concatenate([[True], word[1:] != word[:-1]]))
    ends = np.append(begins[1:], len(word))
    several = who[begins] != who[ends - 1]
    written = np.add.reduceat(wrote, begins) > 0
    return word[begins[several & written]].astype(np.uint64)


def access_of(row: np.void, at: int, who: int, caller: int) -> Access:
    """The access of a row of EVENT. at, who, caller: see `Access`."""
    core, count, pc, address, size, kind, old, new = (int(row[name]) for name in _FIELDS)
    return Access(at, who, core, count, pc, address, size, kind, old, new, caller)
