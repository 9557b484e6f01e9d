"""Which accesses race, by a graph of what comes before what: no clocks and no epochs."""

from __future__ import annotations

import numpy as np

from corebraid.study.races.clocks import (
    ACCESS,
    ACQUIRE,
    CLEAR,
    FAILED,
    READS,
    RELEASE,
    UPDATES,
    WALL,
    WRITES,
    History,
)


def random_history(seed: int, length: int = 120) -> History:
    """3 or 4 threads, 6 bytes of which 2 synchronise, 2 objects."""
    draw = np.random.default_rng(seed)
    threads = int(draw.integers(2, 5))
    what = draw.choice([ACCESS] * 12 + [RELEASE, ACQUIRE] * 2 + [CLEAR] * int(seed % 3 == 0), length)
    what[draw.random(length) < 0.01] = WALL
    does = draw.choice([READS, READS, WRITES, UPDATES, UPDATES | FAILED], length)
    size = draw.choice([1, 1, 2], length)
    cell = np.where(
        np.isin(what, (RELEASE, ACQUIRE)), draw.integers(0, 2, length), draw.integers(0, 5, length)
    )
    synchronises = np.zeros(6, np.bool_)
    synchronises[draw.choice(6, 2, replace=False)] = True
    return History(
        what.astype(np.int8), draw.integers(0, threads, length).astype(np.int32), does.astype(np.int8),
        draw.integers(0, 4, length).astype(np.int64), cell.astype(np.int64), size.astype(np.int8),
        synchronises, threads, 2,
    )  # fmt: skip


def before(h: History) -> np.ndarray:
    """bool (n, n): whether one operation comes before another."""
    n = len(h.what)
    found = np.eye(n, dtype=bool)
    last_of: dict[int, int] = {}
    writes: dict[int, int] = {}
    wall = -1
    for i in range(n):
        who = int(h.who[i])
        sources = [wall] if wall >= 0 else []
        if who in last_of:
            sources.append(last_of[who])
        if h.what[i] == ACQUIRE:
            sources += [j for j in range(i) if h.what[j] == RELEASE and h.cell[j] == h.cell[i]]
        if h.what[i] == WALL:
            sources += range(i)
            wall = i
        bytes_of = range(int(h.cell[i]), int(h.cell[i] + h.size[i])) if h.what[i] == ACCESS else ()
        for byte in bytes_of:
            if h.synchronises[byte] and h.does[i] & READS and byte in writes:
                sources.append(writes[byte])
        for j in sources:
            found[:, i] |= found[:, j]
        for byte in bytes_of:
            if h.synchronises[byte] and h.does[i] & WRITES and not h.does[i] & FAILED:
                writes[byte] = i
        last_of[who] = i
    return found


def races(h: History) -> tuple[set[int], set[tuple[int, int]]]:
    """(bytes in which something races, pairs of operations: of every byte each access with the last one of
    every other thread at each place)."""
    known = before(h)
    in_bytes, pairs = set[int](), set[tuple[int, int]]()
    for byte in np.flatnonzero(~h.synchronises).tolist():
        last: dict[tuple[int, int, int], int] = {}
        for i in range(len(h.what)):
            if not h.cell[i] <= byte < h.cell[i] + h.size[i] or h.what[i] not in (ACCESS, CLEAR):
                continue
            if h.what[i] == CLEAR:
                last.clear()
                continue
            for (who, _, does), j in last.items():
                if who != h.who[i] and (does | h.does[i]) & WRITES and not known[j, i]:
                    in_bytes.add(byte)
                    pairs.add((j, i))
            last[int(h.who[i]), int(h.place[i]), int(h.does[i] & UPDATES)] = i
    return in_bytes, pairs
