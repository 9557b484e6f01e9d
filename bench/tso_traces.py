"""Regions to order under TSO: simulated cores with store buffers, in a random interleaving, with the
classes of values of `bench.ordering_traces`."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np

from bench.ordering_traces import new_values, problem_of
from solver.regions.problem import Problem

CLASSES = ("unique", "mixed", "domain:16", "domain:4", "domain:2")
_ROOM = 8


@dataclass
class _Core:
    """buffer: (granule, new value, number of the store). loads, stores: (granule, old, new) each, stores in
    the order of their numbers. after, source: as in `Problem`, by number in the other stream."""

    buffer: list[tuple[int, int, int]] = field(default_factory=list)
    loads: list[tuple[int, int, int]] = field(default_factory=list)
    stores: list[tuple[int, int, int]] = field(default_factory=list)
    issued: list[tuple[int, int]] = field(default_factory=list)
    store_after: list[int] = field(default_factory=list)
    load_after: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)


def buffered_region(kind: str, *, cores: int, events: int, granules: int, seed: int = 0) -> Problem:
    """A region of one of the CLASSES under TSO that has a legal order. Half of the events are loads. A store
    leaves its buffer after a random while; no fences."""
    rng = random.Random(f"tso {kind} {cores} {events} {granules} {seed}")
    memory, values = [0] * granules, new_values(kind, rng)
    all_cores = [_Core() for _ in range(cores)]
    newest: list[dict[int, int]] = [{} for _ in range(cores)]
    for _ in range(events):
        k = rng.randrange(cores)
        core, g = all_cores[k], rng.randrange(granules)
        while core.buffer and (len(core.buffer) == _ROOM or rng.random() < 0.3):
            _commit(core, memory)
        if rng.random() < 0.5:
            _load(core, newest[k], g, memory)
            continue
        core.store_after.append(len(core.loads) - 1)
        newest[k][g] = len(core.issued)
        seen = next((new for at, new, _ in reversed(core.buffer) if at == g), memory[g])
        core.issued.append((g, values(g, seen)))
        core.buffer.append((g, core.issued[-1][1], len(core.issued) - 1))
    for core in all_cores:
        while core.buffer:
            _commit(core, memory)
    return _problem(all_cores, granules, memory)


def _commit(core: _Core, memory: list[int]) -> None:
    g, new, _ = core.buffer.pop(0)
    core.stores.append((g, memory[g], new))
    memory[g] = new


def _load(core: _Core, newest: dict[int, int], g: int, memory: list[int]) -> None:
    buffered = next((new for at, new, _ in reversed(core.buffer) if at == g), None)
    value = memory[g] if buffered is None else buffered
    source = newest.get(g, -1)
    answers = source >= 0 and core.issued[source][1] == value
    core.source.append(source if answers else -1)
    core.load_after.append(-1 if answers else source)
    core.loads.append((g, value, value))


def _problem(cores: list[_Core], granules: int, memory: list[int]) -> Problem:
    streams = [core.loads for core in cores] + [core.stores for core in cores]
    problem = problem_of(streams, [0] * granules, memory)
    ptr, n = problem.stream_ptr, len(cores)
    after, source = np.full(problem.n_ops, -1, np.int64), np.full(problem.n_ops, -1, np.int64)
    for k, core in enumerate(cores):
        loads, stores = slice(ptr[k], ptr[k + 1]), slice(ptr[n + k], ptr[n + k + 1])
        after[loads] = _rises(core.load_after, int(ptr[n + k]))
        after[stores] = _rises(core.store_after, int(ptr[k]))
        source[loads] = [s + ptr[n + k] if s >= 0 else -1 for s in core.source]
    waiting = np.flatnonzero(after >= 0)
    edges = np.stack([after[waiting], waiting], axis=1)
    return replace(problem, buffered=n, edges=edges, source=source)


def _rises(after: list[int], base: int) -> list[int]:
    """What each operation waits for, unless one before it does already."""
    found, most = [], -1
    for number in after:
        found.append(base + number if number > most else -1)
        most = max(most, number)
    return found
