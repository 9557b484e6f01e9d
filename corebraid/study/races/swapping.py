"""Two accesses exchanged in an order, with as little else as can be: the first comes later, with what depends
on it, or the second earlier, with what it depends on. Then memory is followed: if every read finds what it
found, and memory ends as it ended, that is an order too, and nothing in the run tells it from the other.

A store does not look at what it overwrites, so that may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import WRITE
from corebraid.study.races.accesses import Rows

#: (row, row): the first comes before the second.
Edges = Sequence[tuple[int, int]]


def exchanged(rows: Rows, who: NDArray[np.int64], edges: Edges, pair: tuple[int, int]) -> bool:
    """Whether there is such an order of rows, EVENT (n,), in which the second of a pair comes before the
    first. who: int64 (n,), whose program order they keep. edges: between rows, which it keeps too."""
    first, second = pair
    ends = explained(rows, range(len(rows)))
    if ends is None:
        return False
    behind = _depending(who, edges, first, second)
    before = _needed(who, edges, first, second)
    between = range(first, second + 1)
    orders = []
    if second not in behind:
        orders.append([*(n for n in between if n not in behind), *(n for n in between if n in behind)])
    if first not in before:
        orders.append([*(n for n in between if n in before), *(n for n in between if n not in before)])
    return any(
        explained(rows, [*range(first), *order, *range(second + 1, len(rows))]) == ends for order in orders
    )


def _depending(who: NDArray[np.int64], edges: Edges, first: int, last: int) -> set[int]:
    """The rows up to `last` that program order, or an edge, puts behind `first`, and itself."""
    found, threads = {first}, {int(who[first])}
    targets: dict[int, list[int]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    after = set(targets.get(first, ()))
    for row in range(first + 1, last + 1):
        if int(who[row]) in threads or row in after:
            found.add(row)
            threads.add(int(who[row]))
            after.update(targets.get(row, ()))
    return found


def _needed(who: NDArray[np.int64], edges: Edges, first: int, last: int) -> set[int]:
    """The rows from `first` on that program order, or an edge, puts before `last`, and itself."""
    found, threads = {last}, {int(who[last])}
    sources: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    before = set(sources.get(last, ()))
    for row in range(last - 1, first - 1, -1):
        if int(who[row]) in threads or row in before:
            found.add(row)
            threads.add(int(who[row]))
            before.update(sources.get(row, ()))
    return found


def explained(rows: Rows, order: Iterable[int]) -> dict[int, int] | None:
    """What bytes hold behind rows, EVENT (n,), in this order, if every read finds what it found; else None.
    What a byte holds before is what the first of `rows` that touches it found there."""
    columns = (rows[name].tolist() for name in ("addr", "size", "kind", "old", "new"))
    every = list(zip(*columns, strict=True))
    holds: dict[int, int] = {}
    for address, size, _, old, _ in reversed(every):
        for byte in range(size):
            holds[address + byte] = old >> 8 * byte & 0xFF
    for n in order:
        address, size, kind, old, new = every[n]
        for byte in range(size):
            if kind != WRITE and holds[address + byte] != old >> 8 * byte & 0xFF:
                return None
            holds[address + byte] = new >> 8 * byte & 0xFF
    return holds
