"""The recorders that benchmarks compare with, against naive twins on random turns."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from linkage_factory import guest, random_turns

from bench.linkage_baselines import Counter, Global, Leap
from bench.linkage_locks import READS_RACE, SHARED, WRITES_RACE, Races
from corebraid.base.rows.event import READ, RMW, UNCACHED
from recorder.files.columns import decode_table

N_CORES = 3


class Kept(Counter):
    """A counter that also keeps the tables, of three columns or two."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[tuple[int, ...]] = []

    def table(self, table: Any) -> None:
        super().table(table)
        self.rows += [tuple(int(x) for x in row) for row in table]


def events(seed: int) -> list[tuple[int, Any]]:
    """(stream, row) of every cached event, in order."""
    return [(s, row) for s, rows in random_turns(seed) for row in rows if not row["flags"] & UNCACHED]


def words(row: Any) -> list[int]:
    """The words that an event touches."""
    first, last = int(row["addr"]) >> 3, (int(row["addr"]) + int(row["size"]) - 1) >> 3
    return list(dict.fromkeys((first, last)))


def watched(seed: int, watcher: Any) -> Any:
    """The watcher after the turns of a seed."""
    for stream, rows in random_turns(seed):
        watcher.take(stream, rows)
    watcher.finish()
    return watcher


class Sharing:
    """First-touch sharing by hand."""

    def __init__(self) -> None:
        self.owner: dict[int, int] = {}
        self.shared: set[int] = set()

    def touch(self, word: int, stream: int) -> bool:
        if self.owner.setdefault(word, stream) != stream:
            self.shared.add(word)
        return word in self.shared


@pytest.mark.parametrize("seed", range(5))
def test_leap(seed: int) -> None:
    leap = Leap(guest(N_CORES))
    leap.counter = Kept()
    watched(seed, leap)
    sharing, accesses = Sharing(), defaultdict(list)
    for stream, row in events(seed):
        for word in words(row):
            if sharing.touch(word, stream):
                accesses[word].append(stream)
    found = defaultdict(list)
    for word, stream, n in leap.counter.rows:
        found[word] += [stream] * n
    assert found == accesses
    assert leap.counter.raw > 0


@pytest.mark.parametrize("seed", range(5))
def test_global(seed: int) -> None:
    whole = Global(guest(N_CORES))
    kept = Kept()
    whole.counter = kept
    watched(seed, whole)
    sharing, order, looked = Sharing(), [], 0
    for stream, row in events(seed):
        touched = [sharing.touch(word, stream) for word in words(row)]
        if any(touched):
            looked += row["kind"] == READ
            if row["kind"] != READ:
                order.append(stream)
    runs = sum(1 for k, stream in enumerate(order) if k == 0 or order[k - 1] != stream)
    # The run of writes that is open at the end is the table's last row.
    last = len(order) - next((k for k in range(len(order), 0, -1) if order[k - 1] != order[-1]), 0)
    assert kept.rows[-1] == (order[-1], last)
    assert sum(row[1] for row in kept.rows[: runs - 1]) + kept.rows[-1][1] == len(order)
    assert looked > 0


@pytest.mark.parametrize("seed", range(5))
def test_races(seed: int) -> None:
    """Happens-before by the transitive closure of program order and lock words."""
    found = watched(seed, Races(guest(N_CORES)))
    clock = np.eye(N_CORES + 1, dtype=int)
    locks: dict[int, Any] = {}
    past: dict[int, list[tuple[int, bool, int]]] = defaultdict(list)
    known: dict[int, int] = defaultdict(int)
    for stream, row in events(seed):
        is_write = row["kind"] != READ
        for word in words(row):
            if row["kind"] == RMW:
                locks.setdefault(word, np.zeros(N_CORES + 1, int))
            if word in locks:
                clock[stream] = np.maximum(clock[stream], locks[word])
                if is_write:
                    locks[word] = clock[stream].copy()
                    clock[stream, stream] += 1
                continue
            # The newest write, and each stream's newest read: others come before those, or raced with them.
            latest_write = next((one for one in reversed(past[word]) if one[1]), None)
            latest_reads = {one[0]: one for one in past[word] if not one[1]}
            for one in [latest_write, *latest_reads.values()]:
                if one is None or one[0] == stream:
                    continue
                known[word] |= SHARED
                if (one[1] or is_write) and one[2] > clock[stream, one[0]]:
                    both = one[1] and is_write
                    known[word] |= WRITES_RACE if both else READS_RACE
            past[word].append((stream, is_write, int(clock[stream, stream])))
    assert {int(w): int(found.known[w]) for w in np.flatnonzero(found.known)} == dict(known)


def test_a_kept_table_is_what_was_counted() -> None:
    counter = Kept()
    counter.table(np.array([[3, 4], [1, 2]], np.uint64))
    assert counter.rows == [(3, 4), (1, 2)]
    assert decode_table(bytes([6, 4, 3, 2]), 2, 2).tolist() == [[3, 4], [1, 2]]
    assert counter.raw == 4
