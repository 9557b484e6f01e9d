"""Taking down, step by step, what a machine's tasks touch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, FETCH, READ, RMW, UNCACHED, WRITE, copy_rows
from corebraid.study.exhaustive.racing import Touched, Words
from corebraid.study.exhaustive.steps import Key
from emu.linux.memory.bus_memory import CAUSE_PAGE
from recorder.files.collectors import Rows

_THREE = np.uint64(3)
#: Bits of an address within a processor's line, of 64 bytes.
_LINE = np.uint64(6)


class Observer:
    """A collector (`recorder.files.collectors`) of the accesses of one step. active: it listens."""

    def __init__(self, n_cores: int) -> None:
        self._n_cores = n_cores
        self._cores: list[Rows] = []
        self._kernel: list[Rows] = []
        self._looked = 0
        self.active = False

    def take(self, stream: int, rows: Rows) -> None:
        """See `Collector`."""
        if self.active:
            (self._kernel if stream == self._n_cores else self._cores).append(copy_rows(rows))

    def stratum(self) -> None:
        """Nothing."""

    def flush(self) -> None:
        """Nothing."""

    def finish(self) -> None:
        """Nothing."""

    def changes(self) -> bool:
        """Whether cores have changed anything in memory since the last call, in the step under way."""
        new, self._looked = self._cores[self._looked :], len(self._cores)
        return any(((rows["kind"] != READ) & (rows["old"] != rows["new"])).any() for rows in new)

    def step(self) -> tuple[Rows, Rows]:
        """The accesses of cores and those of the kernel since the last call, EVENT[n] each; without those
        that make a page present, which are the same whoever asks for it."""
        cores, kernel = joined(self._cores), joined(self._kernel)
        self._cores, self._kernel, self._looked = [], [], 0
        return cores, kernel[kernel["pc"] != CAUSE_PAGE]


def joined(parts: Sequence[Rows]) -> Rows:
    """Accesses one after the other, EVENT[n]."""
    # Rows are put together slowly, and most steps have one part.
    some = [rows for rows in parts if len(rows)]
    if len(some) > 1:
        return np.concatenate(some)
    return some[0] if some else np.zeros(0, EVENT)


def touched_by(rows: Rows) -> Touched:
    """The words that accesses (EVENT[n]) use."""
    rows = rows[(rows["flags"] & np.uint8(UNCACHED)) == 0]
    first, last = rows["addr"] >> _THREE, rows["addr"] + rows["size"] - np.uint64(1) >> _THREE
    words, kind = np.stack([first, last]), rows["kind"]
    return Touched(np.unique(words), _those(words, kind != READ), _those(words, kind == RMW))


def _those(words: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> Words:
    """Of the words of accesses (uint64[2, n]: first, last) those of the chosen ones."""
    return np.unique(words[:, chosen]) if chosen.any() else words[0, :0]


def watched_rows(rows: Rows, watched: Words) -> Rows:
    """Those of the accesses (EVENT[n]) that touch watched words (ascending)."""
    first, last = rows["addr"] >> _THREE, rows["addr"] + rows["size"] - np.uint64(1) >> _THREE
    return rows[_among(first, watched) | _among(last, watched)]


def _among(words: NDArray[np.uint64], watched: Words) -> NDArray[np.bool_]:
    if not len(watched):
        return np.zeros(len(words), bool)
    at = np.minimum(np.searchsorted(watched, words), len(watched) - 1)
    return watched[at] == words


def uses_in(rows: Rows) -> tuple[dict[Key, bool], set[Key]]:
    """The bytes that accesses to watched words use, and whether they change them; those that an atomic access
    left as they were, but might change elsewhere."""
    keys: dict[Key, bool] = {}
    may: set[Key] = set()
    for address, size, kind, old, new in rows[["addr", "size", "kind", "old", "new"]].tolist():
        changed = kind == WRITE or (kind == RMW and old != new)
        for byte in range(address, address + size):
            keys[byte] = keys.get(byte, False) or changed
            if kind == RMW and not changed:
                may.add(byte)
    return keys, {key for key in may if not keys[key]}


def is_split(rows: Rows) -> bool:
    """Whether a processor may let another's access come between those of an instruction, or between the parts
    of one, and the emulator does not. rows: EVENT[n], of one step's event: it uses several places, reads
    one and then writes it, or one lies in two lines; and it is not atomic."""
    if (rows["kind"] == RMW).all():
        return False
    last = rows["addr"] + rows["size"] - np.uint64(1)
    return len(rows) > 1 or bool((rows["addr"] >> _LINE != last >> _LINE).any())


def is_fetch(rows: Rows) -> NDArray[np.bool_]:
    """Which of the accesses fetched instructions."""
    return (rows["flags"] & np.uint8(FETCH)) != 0
