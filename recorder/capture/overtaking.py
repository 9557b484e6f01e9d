"""Stores that a task's later loads overtake where cores have store buffers.

Where two tasks each store to what the other one loads afterwards, and nothing in between empties the store
buffer, both may load what was there before (Sewell et al., x86-TSO, CACM 53(7), 2010, section 2: store
buffering). That is the shortest cycle that makes a run under x86's total store order unlike all that are
sequentially consistent (Shasha and Snir, TOPLAS 10(2), 1988).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, WRITE
from emu.bus.store_buffer import OLDEST

#: A system call, beside kinds of events: the kernel waits for the store buffer.
CALL = 255
#: What one task did in a turn: who, uint64[n, 5] of first word, last word, instruction count, place and
#: address, and uint8[n] of kinds.
Turn = tuple[int, NDArray[np.uint64], NDArray[np.uint8]]
#: Where a task's store and the load that overtakes it stand, by the addresses that they are to.
_Overtaken = dict[tuple[int, int], tuple[int, int]]


def overtaken(turns: Sequence[Turn], words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Where two tasks store and load crosswise, unfenced. turns: of all tasks, in their order. words: that
    they share, ascending. Returns uint64[n, 4], ascending: where the store and the load of one task stand,
    and those of the other."""
    if not turns:
        return np.zeros((0, 4), np.uint64)
    whos = np.repeat([who for who, *_ in turns], [len(rows) for _, rows, _ in turns])
    rows = np.concatenate([rows for _, rows, _ in turns])
    kinds = np.concatenate([kinds for *_, kinds in turns])
    uses = np.isin(rows[:, 0], words) & ((kinds == READ) | (kinds == WRITE))
    kept = uses | (kinds == RMW) | (kinds == CALL)
    steps = zip(whos[kept].tolist(), rows[kept, 2:].tolist(), kinds[kept].tolist(), strict=True)
    held: dict[int, dict[int, tuple[int, int]]] = {}
    found: dict[int, _Overtaken] = {}
    for who, (count, place, address), kind in steps:
        stores, pairs = held.setdefault(who, {}), found.setdefault(who, {})
        if kind == WRITE:
            stores[address] = count, place
        elif kind == READ:
            _overtake(stores, pairs, address, count, place)
        else:
            stores.clear()
    return _crossed(list(found.values()))


def _overtake(
    stores: dict[int, tuple[int, int]], pairs: _Overtaken, address: int, count: int, place: int
) -> None:
    """A load overtakes what the buffer still holds."""
    for stored, (then, where) in list(stores.items()):
        # On another core the task goes on with another count, and nothing in the buffer.
        if not 0 <= count - then < int(OLDEST):
            del stores[stored]
        elif stored != address:
            pairs.setdefault((stored, address), (where, place))


def _crossed(tasks: list[_Overtaken]) -> NDArray[np.uint64]:
    rows = {
        (*one, *other[load, store])
        for k, mine in enumerate(tasks)
        for other in tasks[k + 1 :]
        for (store, load), one in mine.items()
        if (load, store) in other
    }
    return np.array(sorted(rows), np.uint64).reshape(-1, 4)
