"""Regions to order, made by simulated cores on one memory in a random interleaving.

A class says which values the granules hold, and so how much the values tell about the order:

- unique: every write leaves a value that was never there before.
- mixed: a third each of flags (0 and 1), counters (incremented) and granules of unique values.
- domain:K: every write leaves one of K values.
- locks: a lock word guards two counters. A core takes a lock (0 -> 1 in one access), reads or increments
  the counters and frees it (1 -> 0); while the lock is taken it reads 1, now and then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from solver.regions.problem import Problem

CLASSES = ("unique", "mixed", "domain:16", "domain:4", "domain:2", "locks")
#: (granule, value before, value after)
Access = tuple[int, int, int]
#: One core: each step it accesses memory, which it may read and write, and says what it did.
Core = Iterator[Access]
_SIZE = 8


def _accesses(memory: list[int], rng: random.Random, new_value: Callable[[int, int], int]) -> Core:
    """Half reads, half accesses that leave new_value(granule, old)."""
    while True:
        g = rng.randrange(len(memory))
        old = memory[g]
        if rng.random() >= 0.5:
            memory[g] = new_value(g, old)
        yield g, old, memory[g]


def new_values(kind: str, rng: random.Random) -> Callable[[int, int], int]:
    """What a write leaves in a granule, of the granule and its old value, by class."""
    fresh = iter(range(1 << 32, 1 << 62))
    if kind == "unique":
        return lambda _g, _old: next(fresh)
    if kind == "mixed":
        return lambda g, old: (1 - old, old + 1, next(fresh))[g % 3]
    domain = int(kind.partition(":")[2])
    return lambda _g, _old: rng.randrange(domain)


def _locker(memory: list[int], rng: random.Random) -> Core:
    """Granules in threes: a lock word and the two counters that it guards."""
    while True:
        lock = 3 * rng.randrange(len(memory) // 3)
        while memory[lock]:
            yield lock, 1, 1
        memory[lock] = 1
        yield lock, 0, 1
        for _ in range(rng.randrange(1, 4)):
            g = lock + rng.choice((1, 2))
            old = memory[g]
            memory[g] += rng.random() < 0.6
            yield g, old, memory[g]
        memory[lock] = 0
        yield lock, 1, 0


def region(
    kind: str, *, cores: int = 8, events: int = 500, granules: int = 16, seed: int = 0, burst: float = 0.0
) -> Problem:
    """A region of one of the CLASSES that has a legal order, already filtered.

    events: operations over all cores, repeats of an identical read by one core not counted. burst: chance
    that the core that ran last goes on.
    """
    rng = random.Random(f"{kind} {cores} {events} {granules} {seed}")
    memory = [0] * (granules if kind != "locks" else max(granules // 3, 1) * 3)
    initial = memory.copy()
    values = None if kind == "locks" else new_values(kind, rng)
    running = [_accesses(memory, rng, values) if values else _locker(memory, rng) for _ in range(cores)]
    done: list[list[Access]] = [[] for _ in range(cores)]
    left, core = events, 0
    while left:
        if rng.random() >= burst:
            core = rng.randrange(cores)
        access = next(running[core])
        if not (done[core] and done[core][-1] == access and access[1] == access[2]):
            done[core].append(access)
            left -= 1
    return problem_of(done, initial, memory)


def problem_of(done: list[list[Access]], initial: list[int], final: list[int]) -> Problem:
    """The problem of each core's accesses, one granule each, between two memories."""
    flat = [access for accesses in done for access in accesses]
    lengths = np.array([len(accesses) for accesses in done], np.int64)
    return Problem(
        region=0,
        rows=lengths,
        stream_ptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        end_row=np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.int64),
        part_ptr=np.arange(len(flat) + 1, dtype=np.int64),
        granule=np.array([g for g, _, _ in flat], np.int32),
        old=np.array([old for _, old, _ in flat], np.uint64),
        new=np.array([new for _, _, new in flat], np.uint64),
        address=0x1000 + _SIZE * np.arange(len(initial), dtype=np.uint64),
        size=np.full(len(initial), _SIZE, np.uint8),
        initial=np.array(initial, np.uint64),
        final=np.array(final, np.uint64),
    )
