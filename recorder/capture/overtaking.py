"""Stores that a task's later loads overtake where cores have store buffers.

Where two tasks each store to what the other one loads afterwards, and nothing in between empties the store
buffer, both may load what was there before (Sewell et al., x86-TSO, CACM 53(7), 2010, section 2: store
buffering). That is the shortest cycle that makes a run under x86's total store order unlike all that are
sequentially consistent (Shasha and Snir, TOPLAS 10(2), 1988).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, WRITE
from emu.bus.store_buffer import OLDEST
from recorder.capture.turns import CALL, Done

#: Stores that a buffer is taken to hold, as by default.
MOST_HELD = 16
#: Pairs of addresses that are kept of the loads at one place: of large arrays there are millions.
MOST_PAIRS = 1000
#: Where a task's store and the load that overtakes it stand, by the addresses that they are to.
_Pairs = dict[tuple[int, int], tuple[int, int]]


class _Task:
    """What one task has overtaken so far: `pairs`."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, int]] = {}
        self._kept = Counter[int]()
        self.pairs: _Pairs = {}

    def drain(self) -> None:
        """The buffer is empty."""
        self._held.clear()

    def store(self, address: int, count: int, place: int) -> None:
        """The oldest store leaves a buffer that is full."""
        self._held.pop(address, None)
        if len(self._held) == MOST_HELD:
            del self._held[next(iter(self._held))]
        self._held[address] = count, place

    def load(self, address: int, count: int, place: int) -> None:
        """It overtakes what the buffer still holds."""
        if not self._held or self._kept[place] >= MOST_PAIRS:
            return
        for stored, (then, where) in list(self._held.items()):
            # On another core the task goes on with another count, and nothing in the buffer.
            if not 0 <= count - then < int(OLDEST):
                del self._held[stored]
            elif stored != address and (stored, address) not in self.pairs:
                self.pairs[stored, address] = where, place
                self._kept[place] += 1


def overtaken(done: Done, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Where two tasks store and load crosswise, unfenced. words: that tasks share, ascending. Returns uint64
    [n, 4], ascending: where the store and the load of one task stand, and those of the other. Of loads at one
    place that overtake very many stores not all."""
    whos, rows, kinds = done
    uses = np.isin(rows[:, 0], words) & ((kinds == READ) | (kinds == WRITE))
    kept = uses | (kinds == RMW) | (kinds == CALL)
    tasks = {who: _Task() for who in np.unique(whos).tolist()}
    for who, (count, place, address), kind in zip(
        whos[kept].tolist(), rows[kept, 2:].tolist(), kinds[kept].tolist(), strict=True
    ):
        task = tasks[who]
        if kind == WRITE:
            task.store(address, count, place)
        elif kind == READ:
            task.load(address, count, place)
        else:
            task.drain()
    return _crossed([task.pairs for task in tasks.values()])


def _crossed(tasks: list[_Pairs]) -> NDArray[np.uint64]:
    rows = {
        (*one, *other[load, store])
        for k, mine in enumerate(tasks)
        for other in tasks[k + 1 :]
        for (store, load), one in mine.items()
        if (load, store) in other
    }
    return np.array(sorted(rows), np.uint64).reshape(-1, 4)
