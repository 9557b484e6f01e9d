"""Random traces with a known legal order, ways to damage them, and a brute-force oracle."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corebraid.base.rows.event import EVENT, GLUED, READ, RMW, UNCACHED, WRITE
from solver.regions.problem import Problem
from solver.regions.region import Region
from solver.regions.traces import MemoryTraces
from solver.sifting.boundary import Forward
from solver.sifting.filters import Counts, unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions

MEMORY_BYTES = 3 * 4096


@dataclass
class Shape:
    """What a random trace is like. domain: how many different values a write may store (0: all unique).

    hot: bytes that the streams share, around `where`. strata: chance of a stratum after a step.
    """

    streams: int = 3
    steps: int = 30
    domain: int = 0
    hot: int = 24
    where: int = 4096 - 12
    strata: float = 0.05
    sizes: tuple[int, ...] = (1, 2, 4, 8)
    aligned: bool = False
    switch: float = 0.4
    glued: float = 0.05
    spin: float = 0.1
    private: float = 0.1
    uncached: float = 0.03
    reads: float = 0.35


@dataclass
class Made:
    """A random trace, the slices of the interleaving that ran, and memory at every stratum."""

    traces: MemoryTraces
    slices: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
    memories: list[np.ndarray[Any, Any]]
    order: list[int] = field(default_factory=list)


class _Machine:
    """One flat memory and streams that access it in a random interleaving."""

    def __init__(self, shape: Shape, rng: random.Random) -> None:
        self.shape, self.rng = shape, rng
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        for a in range(shape.where, shape.where + shape.hot):
            self.memory[a] = rng.randrange(max(shape.domain, 1))
        self.rows: list[list[tuple[int, ...]]] = [[] for _ in range(shape.streams)]
        self.count = [0] * shape.streams
        self.strata: list[list[int]] = []
        self.unique = 0
        self.order: list[int] = []

    def load(self, a: int, size: int) -> int:
        return int.from_bytes(self.memory[a : a + size].tobytes(), "little")

    def value(self, size: int) -> int:
        if self.shape.domain:
            v = self.rng.randrange(self.shape.domain)
        else:
            self.unique += 1
            v = self.unique
        return v & ((1 << (8 * size)) - 1)

    def access(self, s: int, a: int, size: int, kind: int, new: int | None = None, flags: int = 0) -> None:
        old = self.load(a, size)
        new = old if new is None or kind == READ else new
        self.memory[a : a + size] = np.frombuffer(new.to_bytes(size, "little"), np.uint8)
        self.emit(s, a, size, kind, old, new, flags)

    def emit(self, s: int, a: int, size: int, kind: int, old: int, new: int, flags: int) -> None:
        seq, count = len(self.rows[s]), self.count[s]
        self.rows[s].append((seq, count, 0x1000 + count, a, old, new, len(self.strata), s, size, kind, flags))
        self.order.append(s)

    def place(self, size: int) -> int:
        a = self.shape.where + self.rng.randrange(self.shape.hot - size + 1)
        return a - a % size if self.shape.aligned else a

    def step(self, s: int) -> None:
        rng, shape = self.rng, self.shape
        self.count[s] += rng.choice((0, 0, 1, 5))
        size = rng.choice(shape.sizes)
        a = self.place(size)
        dice = rng.random()
        if dice < shape.glued:
            self.pair(s, GLUED if rng.random() < 0.7 else 0)
        elif dice < shape.glued + shape.spin:
            for _ in range(rng.randrange(1, 5)):
                self.access(s, a, size, READ)
                self.count[s] += 1
        elif dice < shape.glued + shape.spin + shape.private:
            self.access(s, 8 * (s + 1), size, rng.choice((READ, WRITE)), self.value(size))
        elif dice < shape.glued + shape.spin + shape.private + shape.uncached:
            self.emit(s, 1 << 40, 4, READ, 7, 7, UNCACHED)
        else:
            reads = rng.random() < shape.reads
            kind = READ if reads else rng.choice((WRITE, RMW))
            self.access(s, a, size, kind, self.load(a, size) if rng.random() < 0.1 else self.value(size))
        self.count[s] += 1

    def pair(self, s: int, flags: int) -> None:
        if self.shape.hot < 16:
            return
        a = self.place(16)
        kind = self.rng.choice((READ, RMW))
        self.access(s, a, 8, kind, self.value(8), flags)
        self.access(s, a + 8, 8, kind, self.value(8))


def make(seed: int, shape: Shape, chunk_rows: int = 7) -> Made:
    """A random trace that is legal by construction."""
    rng = random.Random(seed)
    machine = _Machine(shape, rng)
    before = machine.memory.copy()
    streams, ends, memories = [], [], [before]
    s = 0
    for _ in range(shape.steps):
        if rng.random() < shape.switch:
            s = rng.randrange(shape.streams)
        machine.step(s)
        streams.append(s)
        ends.append(machine.count[s])
        if rng.random() < shape.strata:
            machine.strata.append(list(machine.count))
            memories.append(machine.memory.copy())
    memories.append(machine.memory.copy())
    strata = np.array(machine.strata, np.uint64).reshape(-1, shape.streams)
    rows = [np.array(rows, EVENT) for rows in machine.rows]
    traces = MemoryTraces(rows, strata, before, machine.memory.copy(), chunk_rows)
    return Made(traces, (np.array(streams, np.int64), np.array(ends, np.uint64)), memories, machine.order)


def by_hand(
    cores: list[list[tuple[int, int, int]]], initial: dict[int, int], final: dict[int, int]
) -> MemoryTraces:
    """Traces from (address, old, new) triples of 8-byte accesses, one list a core, one region."""
    rows = []
    for s, events in enumerate(cores):
        rows.append(
            np.array(
                [
                    (i, i, 0x1000 + i, a, old, new, 0, s, 8, READ if old == new else RMW, 0)
                    for i, (a, old, new) in enumerate(events)
                ],
                EVENT,
            )
        )
    images = []
    for values in (initial, final):
        image = np.zeros(MEMORY_BYTES, np.uint8)
        for a, v in values.items():
            image[a : a + 8] = np.frombuffer(v.to_bytes(8, "little"), np.uint8)
        images.append(image)
    return MemoryTraces(rows, np.empty((0, len(cores)), np.uint64), *images)


def rows_of(region: Region, stream: int) -> np.ndarray[Any, Any]:
    """All rows of a stream in a region as one array."""
    return np.concatenate([np.empty(0, EVENT), *region.streams[stream].pieces()])


def problems(traces: MemoryTraces) -> Iterator[tuple[Problem, Counts]]:
    """The regions as engines get them."""
    forward = Forward(traces.initial())
    for region in iter_regions(traces):
        granules = find_granules(region)
        problem, counts = unfiltered(region, granules)
        problem, _delta = forward.advance(region, granules, problem)
        yield problem, counts


def copy(traces: MemoryTraces) -> MemoryTraces:
    """An independent copy, to be damaged."""
    rows = [r.copy() for r in traces.rows]
    return MemoryTraces(
        rows, traces.strata.copy(), traces.before.copy(), traces.after.copy(), traces.chunk_rows
    )


def damage(traces: MemoryTraces, rng: random.Random) -> tuple[MemoryTraces, str]:
    """A copy that is damaged in one random way, and the name of the way. It may still be legal."""
    bad = copy(traces)
    s = rng.choice([s for s, rows in enumerate(bad.rows) if len(rows)])
    rows = bad.rows[s]
    i = rng.randrange(len(rows))
    way = rng.choice(("flip", "drop", "swap", "swap", "swap", "exchange", "exchange", "final"))
    if way == "flip":
        side = rng.choice(("old", "new"))
        rows[side][i] ^= np.uint64(1 << rng.randrange(8 * int(rows["size"][i])))
    elif way == "drop":
        bad.rows[s] = np.delete(rows, i)
    elif way == "final":
        bad.after[int(rows["addr"][i]) % MEMORY_BYTES] ^= 1
    elif way == "swap" and i + 1 < len(rows):
        _trade(rows, i, rows, i + 1)
    elif way == "exchange":
        t = rng.randrange(len(bad.rows))
        if len(bad.rows[t]):
            _trade(rows, i, bad.rows[t], rng.randrange(len(bad.rows[t])))
    return bad, way


def _trade(a: np.ndarray[Any, Any], i: int, b: np.ndarray[Any, Any], j: int) -> None:
    """Two events change places; count, stratum and stream stay where they are."""
    for name in ("addr", "old", "new", "size", "kind", "flags"):
        a[name][i], b[name][j] = b[name][j].copy(), a[name][i].copy()


def oracle(traces: MemoryTraces) -> bool:
    """Is there a legal order that ends in the final image at every touched byte? Every interleaving is
    tried on a byte memory; nothing is reduced."""
    touched = sorted({a for rows in traces.rows for row in rows.tolist() for a in _bytes_of(row)})
    final = bytes(traces.after[touched])
    streams = [[tuple(row) for row in rows.tolist()] for rows in traces.rows]
    end = tuple(len(rows) for rows in streams)
    start = (tuple(0 for _ in streams), traces.before.tobytes())
    seen, stack = {start}, [start]
    while stack:
        position, memory = stack.pop()
        if position == end:
            if bytes(memory[a] for a in touched) == final:
                return True
            continue
        stratum = min(streams[s][position[s]][6] for s in range(len(end)) if position[s] < end[s])
        for s in range(len(end)):
            moved = _run(streams[s], position[s], stratum, memory)
            if moved is not None:
                state = ((*position[:s], moved[0], *position[s + 1 :]), moved[1])
                if state not in seen:
                    seen.add(state)
                    stack.append(state)
    return False


def _bytes_of(row: tuple[int, ...]) -> range:
    return range(0) if row[10] & UNCACHED else range(row[3], row[3] + row[8])


def _run(rows: list[Any], at: int, stratum: int, memory: bytes) -> tuple[int, bytes] | None:
    """One indivisible access of a stream, if it can run now."""
    count = None
    while True:
        if at == len(rows) or rows[at][6] != stratum or count not in (None, rows[at][1]):
            return None
        count = rows[at][1]
        _seq, _count, _pc, a, old, new, _stratum, _core, size, _kind, flags = rows[at]
        at += 1
        if not flags & UNCACHED:
            if memory[a : a + size] != old.to_bytes(8, "little")[:size]:
                return None
            memory = memory[:a] + new.to_bytes(8, "little")[:size] + memory[a + size :]
        if not flags & GLUED:
            return at, memory
