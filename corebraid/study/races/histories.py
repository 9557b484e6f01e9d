"""Accesses and steps as one history of operations, for vector clocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.races.accesses import NOBODY, WORD, Rows, Shared
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
from corebraid.study.races.steps import Step
from emu.bus.sync_points import ENTER

_WORD = np.uint64(WORD)
#: An instruction count, or number of an access, above all.
_NEVER = 1 << 62


@dataclass(frozen=True)
class Braided:
    """history: see there. row: int64, of each operation the row of `Shared` that it is of, -1 for none.
    threads: who each of its threads is."""

    history: History
    row: NDArray[np.int64]
    threads: list[int]


def synchronising(
    rows: Rows, n_cores: int, words: NDArray[np.uint64], spans: Iterable[tuple[int, int]]
) -> NDArray[np.bool_]:
    """Which bytes of the words (uint64[n], addresses over 8) synchronise: bool (8 n,). rows: EVENT (m,); what
    a core updates indivisibly does. spans: (address, bytes) of others that do."""
    found = np.zeros(WORD * len(words), np.bool_)
    updates = rows[(rows["kind"] == RMW) & (rows["core"] < n_cores)]
    keys = np.unique(np.stack([updates["addr"], updates["size"].astype(np.uint64)], axis=1), axis=0)
    for address, size in [*keys.tolist(), *spans]:
        for byte in range(address, address + size):
            at = int(np.searchsorted(words, np.uint64(byte // WORD)))
            if at < len(words) and int(words[at]) == byte // WORD:
                found[WORD * at + byte % WORD] = True
    return found


def braided(
    shared: Shared, points: Rows, steps: Sequence[Step], words: NDArray[np.uint64],
    synchronises: NDArray[np.bool_], n_cores: int,
) -> Braided:  # fmt: skip
    """All in one order. steps: by `point`, each before those behind it."""
    parts, cells, sizes = _parts(shared.rows, words)
    threads = sorted({*np.unique(shared.who).tolist(), *(step.who for step in steps)} - {NOBODY})
    number = {who: n for n, who in enumerate(threads)}
    things: dict[Hashable, int] = {}
    places = _places(shared.rows, n_cores)
    at, step_who, step_what, step_cell = _placed(shared.rows, points, steps, n_cores, number, things)
    walls = shared.unordered
    n, m, k = len(parts), len(steps), len(walls)
    who = shared.who[parts]
    lookup = np.array(threads or [0], np.int64)
    dense = np.searchsorted(lookup, np.where(who == NOBODY, lookup[0], who)).astype(np.int32)
    what = np.concatenate([
        np.where(who == NOBODY, np.int8(CLEAR), np.int8(ACCESS)), step_what, np.full(k, WALL, np.int8)
    ]).astype(np.int8)  # fmt: skip
    position = np.concatenate([parts, at, walls])
    # Of what comes at the same place: walls, steps, then the row.
    rank = np.concatenate([np.full(n, 2), np.ones(m, np.int64), np.zeros(k, np.int64)])
    by = np.lexsort((np.arange(n + m + k), rank, position))

    def joined(mine: NDArray[np.int64], others: NDArray[np.int64], kind: type) -> NDArray[Any]:
        return np.concatenate([mine, others, np.zeros(k, np.int64)]).astype(kind)[by]

    none = np.zeros(m, np.int64)
    history = History(
        what[by],
        joined(dense.astype(np.int64), step_who, np.int32),
        joined(_does(shared.rows)[parts], none, np.int8),
        joined(places[parts], none, np.int64),
        joined(cells, step_cell, np.int64),
        joined(sizes, none, np.int8),
        synchronises,
        max(1, len(threads)),
        max(1, len(things)),
    )
    return Braided(history, joined(parts, none - 1, np.int64), threads)


def _parts(
    rows: Rows, words: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """(row, first cell, bytes) of what lies in the words of each row: one that goes on into another word is
    two."""
    start, end = rows["addr"], rows["addr"] + rows["size"].astype(np.uint64)
    border = (start // _WORD + np.uint64(1)) * _WORD
    numbers = np.arange(len(rows), dtype=np.int64)
    crosses = end > border
    first = np.concatenate([start, border[crosses]])
    last = np.concatenate([np.minimum(end, border), end[crosses]])
    number = np.concatenate([numbers, numbers[crosses]])
    at = np.searchsorted(words, first // _WORD)
    there = (at < len(words)) & (words[np.minimum(at, len(words) - 1)] == first // _WORD) if len(words) else (
        np.zeros(len(first), np.bool_)
    )  # fmt: skip
    cells = at.astype(np.int64) * WORD + (first % _WORD).astype(np.int64)
    by = np.argsort(number[there], kind="stable")
    return number[there][by], cells[there][by], (last - first)[there][by].astype(np.int64)


def _does(rows: Rows) -> NDArray[np.int64]:
    kind = rows["kind"]
    found = np.zeros(len(rows), np.int64)
    found[kind == READ], found[kind == WRITE], found[kind == RMW] = READS, WRITES, UPDATES
    found[(kind == RMW) & (rows["old"] == rows["new"])] = UPDATES | FAILED
    return found


def _places(rows: Rows, n_cores: int) -> NDArray[np.int64]:
    """A number for each place in the program: int64 (n,)."""
    agents = (rows["core"] == n_cores).astype(np.uint64)
    keys = rows["pc"] << np.uint64(1) | agents
    _, found = np.unique(keys, return_inverse=True)
    return found.astype(np.int64)


def _placed(
    rows: Rows, points: Rows, steps: Sequence[Step], n_cores: int, number: dict[int, int],
    things: dict[Hashable, int],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8], NDArray[np.int64]]:  # fmt: skip
    """(before which row each step stands, who, what it is, its object). An order keeps sync points: what is
    before one stands before what is behind it, whichever place between them a step is given."""
    cores = [_Counts(rows, core) for core in range(n_cores)]
    agents = _Counts(rows, n_cores)
    at, least = np.empty(len(steps), np.int64), 0
    for n, step in enumerate(steps):
        point = points[step.point]
        following = step.point + 1
        end = int(point["number"])
        if step.late:
            end = int(points["number"][following]) if following < len(points) else _NEVER
        here = max(cores[int(point["core"])].behind(int(point["count"])), agents.behind(end))
        # What the core does behind a point comes after all that is before earlier points, and these are
        # in the agents' order.
        at[n] = here = max(here, least)
        least = here if int(point["way"]) & ENTER else least
    who = np.array([number[step.who] for step in steps], np.int64)
    cell = np.array([things.setdefault(step.thing, len(things)) for step in steps], np.int64)
    what = np.array([RELEASE if step.releases else ACQUIRE for step in steps], np.int8)
    return at, who, what, cell


class _Counts:
    """Where rows of one stream stand among all, by their instruction counts. Under TSO stores stand behind
    what was executed after them."""

    def __init__(self, rows: Rows, stream: int) -> None:
        mine = np.flatnonzero(rows["core"] == stream)
        counts = rows["count"][mine]
        by = np.argsort(counts, kind="stable")
        self._counts = counts[by].astype(np.int64)
        self._last = np.maximum.accumulate(mine[by]) if len(mine) else mine

    def behind(self, count: int) -> int:
        """The first place behind all rows below a count."""
        n = int(np.searchsorted(self._counts, count))
        return int(self._last[n - 1]) + 1 if n else 0
