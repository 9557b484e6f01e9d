"""Tiny random runs of cores, with store buffers or without, with agents that meet them at sync points or
without, step by step in plain Python."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, FENCE, OWNED, READ, RMW, UNCACHED, WRITE
from corebraid.base.rows.record import (
    CONTEXT,
    CONTEXT_FORGOTTEN,
    MISS,
    MISS_OWNED,
    MISS_WRITE,
    RECEIVED,
    RECORD,
    STRATUM,
)
from emu.bus.sync_points import ENTER, LEAVE, SYNC_POINT
from recorder.evidence.losses.log import DOWNGRADED, LOSS, LOST
from solver.regions.traces import Events, MemoryTraces

_MEMORY = 64
#: Bytes in a line of the cores' caches.
LINE = 16
#: How a core holds a line: with others, or alone.
_SHARED, _ALONE = 1, 2


@dataclass
class _Store:
    seq: int
    count: int
    address: int
    size: int
    value: int


@dataclass
class _Core:
    seq: int = 0
    count: int = 0
    buffer: list[_Store] = field(default_factory=list)
    loads: list[tuple[int, ...]] = field(default_factory=list)
    stores: list[tuple[int, ...]] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    losses: list[tuple[int, ...]] = field(default_factory=list)
    held_by: dict[int, int] = field(default_factory=dict)
    lost_by: list[int] = field(default_factory=list)
    records: list[tuple[int, ...]] = field(default_factory=list)
    blob: bytearray = field(default_factory=bytearray)


class Run:
    """A random run of 2 to 4 cores. model: "tso", or "sc": a store commits at once, and is one of the core's
    other rows. agents: there are such, which meet cores, where threads move between them. evicting: now and
    then a core gives a line back. forgetting: at half of the strata all cores give back all, their store
    buffers empty, as where an interval of a ring begins. strata: where each stream stands at each stratum.
    order: the stream of each row, as it ran."""

    def __init__(
        self,
        seed: int,
        model: str = "tso",
        *,
        agents: bool = False,
        evicting: bool = False,
        forgetting: bool = False,
    ) -> None:
        self.order: list[int] = []
        self.unbounded, self._evict = not evicting, random.Random(seed)
        self._tso = model == "tso"
        self._rng = rng = random.Random(seed)
        self.memory = bytearray(rng.randrange(3) for _ in range(_MEMORY))
        self.before = bytes(self.memory)
        self._cores = [_Core() for _ in range(rng.randint(2, 4))]
        self._places = [rng.choice((0, 8, 16, 24)) for _ in range(rng.randint(1, 3))]
        self._room, self._stratum = rng.randint(1, 4), 0
        self.strata: list[list[int]] = []
        self._of_agents: list[tuple[int, ...]] = []
        self._points: list[tuple[int, ...]] = []
        self._running = [0] * len(self._cores)
        for _ in range(rng.randint(6, 24)):
            if agents and rng.random() < 0.45:
                self._agents_step()
                continue
            self._step(rng.randrange(len(self._cores)))
            if evicting and self._evict.random() < 0.2:
                self._cores[self._evict.randrange(len(self._cores))].held.clear()
            if rng.random() < (0.2 if forgetting else 0.08):
                forgets = forgetting and rng.random() < 0.5
                for k, core in enumerate(self._cores):
                    while forgets and core.buffer:
                        self._commit(k)
                self._cut()
                if forgets:
                    self._forget()
        for k, core in enumerate(self._cores):
            while core.buffer:
                self._commit(k)

    def _read(self, address: int, size: int) -> int:
        return int.from_bytes(self.memory[address : address + size], "little")

    def _write(self, address: int, size: int, value: int) -> None:
        self.memory[address : address + size] = value.to_bytes(size, "little")

    def _claim(self, k: int, line: int, for_write: bool) -> bool:
        """Stream k takes a line from everybody else, or their right to write to it. Whether one had it."""
        others = [core for other, core in enumerate(self._cores) if other != k and line in core.held]
        for core in others:
            way = LOST if for_write else DOWNGRADED
            if for_write or core.held[line] == _ALONE:
                core.losses.append((core.count, line * LINE, self._stratum, way))
                core.lost_by.append(core.held_by[line])
            core.held[line] = _SHARED
            if for_write:
                del core.held[line]
        return bool(others)

    def _owned(self, line: int) -> bool:
        return any(core.held.get(line) == _ALONE for core in self._cores)

    def _take(self, k: int, address: int, size: int) -> None:
        """A write of core k, which holds its lines, takes them from everybody else."""
        for line in range(address // LINE, (address + size - 1) // LINE + 1):
            if self._cores[k].held[line] != _ALONE:
                self._claim(k, line, True)
            self._cores[k].held[line] = _ALONE

    def _obtain(self, k: int, address: int, size: int, count: int, for_write: bool = False) -> None:
        """Core k misses on the lines that it does not hold."""
        core = self._cores[k]
        for line in range(address // LINE, (address + size - 1) // LINE + 1):
            if line in core.held:
                continue
            flags = MISS_WRITE * for_write | MISS_OWNED * self._owned(line)
            shared = self._claim(k, line, for_write)
            core.held[line] = _SHARED if shared and not for_write else _ALONE
            core.held_by[line] = sum(record[5] == MISS for record in core.records)
            received = self.memory[line * LINE : (line + 1) * LINE]
            seen = bytearray(received)
            for store in core.buffer:
                for b in range(store.size):
                    if store.count < count and (store.address + b) // LINE == line:
                        seen[(store.address + b) % LINE] = (store.value >> (8 * b)) & 0xFF
            committed = len(core.stores) if self._tso else 0
            for kind, content in ((MISS, seen), (RECEIVED, received)):
                if kind == MISS or content != seen:
                    value = committed if kind == MISS else 0
                    core.records.append(
                        (count, line * LINE, value, len(core.blob), LINE, kind, flags * (kind == MISS))
                    )
                    core.blob += content

    def _cut(self) -> None:
        loads = [core.count for core in self._cores]
        stores = [len(core.stores) for core in self._cores]
        for core, committed in zip(self._cores, stores, strict=True):
            core.records.append((core.count, committed, self._stratum, 0, len(core.buffer), STRATUM, 0))
        self.strata.append([*loads, len(self._of_agents), *(stores if self._tso else [])])
        self._stratum += 1

    def _forget(self) -> None:
        for core in self._cores:
            core.held.clear()
            core.records.append((core.count, 0, 0, len(core.blob), 0, CONTEXT, CONTEXT_FORGOTTEN))

    def _commit(self, k: int) -> None:
        core = self._cores[k]
        store = core.buffer[0]
        self._obtain(k, store.address, store.size, core.count if self._tso else store.count, True)
        self._take(k, store.address, store.size)
        core.buffer.pop(0)
        self.order.append(len(self._cores) + 1 + k if self._tso else k)
        old = self._read(store.address, store.size)
        self._write(store.address, store.size, store.value)
        place = (store.address, old, store.value, self._stratum, k, store.size, WRITE, 0)
        to = core.stores if self._tso else core.loads
        to.append((store.seq, store.count, 0x1000 + store.count, *place))

    def _load(self, k: int, address: int, size: int, kind: int, new: int | None, flags: int = 0) -> None:
        core = self._cores[k]
        old, forwarded = self._read(address, size), False
        for store in reversed(core.buffer):
            if store.address < address + size and address < store.address + store.size:
                whole = store.address <= address and address + size <= store.address + store.size
                if not whole:
                    while store in core.buffer:
                        self._commit(k)
                    old = self._read(address, size)
                else:
                    forwarded = True
                    old = (store.value >> (8 * (address - store.address))) & ((1 << (8 * size)) - 1)
                break
        if not forwarded:
            self._obtain(k, address, size, core.count)
        self.order.append(k)
        if new is not None:
            self._take(k, address, size)
            self._write(address, size, new)
        place = (address, old, old if new is None else new, self._stratum, k, size, kind, flags)
        core.loads.append((core.seq, core.count, 0x1000 + core.count, *place))
        core.seq += 1

    def _agents_step(self) -> None:
        """An access of the agents, or a sync point."""
        rng, number = self._rng, len(self._of_agents)
        if rng.random() < 0.6:
            return self._meet(rng.randrange(len(self._cores)), rng.choice((ENTER, LEAVE, ENTER | LEAVE)))
        kind, size = rng.choice((READ, WRITE, RMW)), rng.choice((1, 4, 8, 8))
        address = rng.choice(self._places)
        old = self._read(address, size)
        new = old if kind == READ else rng.choice((0, 1, 2, rng.randrange(1 << (8 * size))))
        self._write(address, size, new)
        lines = range(address // LINE, (address + size - 1) // LINE + 1)
        flags = OWNED * any(map(self._owned, lines))
        for line in lines:
            self._claim(len(self._cores), line, kind != READ)
        self.order.append(len(self._cores))
        place = (address, old, new, self._stratum, len(self._cores), size, kind, flags)
        self._of_agents.append((number, number, 1, *place))
        return None

    def _meet(self, k: int, way: int) -> None:
        core, now = self._cores[k], self._running[k]
        who = now or self._rng.choice([0, *({1, 2, 3} - set(self._running))])
        if way & ENTER:
            while core.buffer:
                self._commit(k)
            self._running[k] = 0
        if way & LEAVE and who:
            self._running[k] = who
        self._points.append((len(self._of_agents), core.count, self._stratum, who, k, way, 0, 0))

    def _step(self, k: int) -> None:
        rng, core = self._rng, self._cores[k]
        what = rng.random()
        size = rng.choice((1, 2, 4, 8, 8, 8))
        address = rng.choice(self._places) + rng.choice((0, 0, 0, rng.randrange(8)))
        address = min(address, _MEMORY - size)
        value = rng.choice((0, 1, 2, rng.randrange(1 << (8 * size))))
        if what < 0.25 and core.buffer:
            self._commit(k)
        elif what < 0.6:
            while len(core.buffer) >= self._room:
                self._commit(k)
            core.buffer.append(_Store(core.seq, core.count, address, size, value))
            core.seq += 1
            core.count += 1
            if not self._tso:
                self._commit(k)
        elif what < 0.88:
            self._load(k, address, size, READ, None)
            core.count += 1
        else:
            while core.buffer:
                self._commit(k)
            if what < 0.95:
                self._load(k, address, size, RMW, value)
            elif self._tso:
                core.loads.append((core.seq, core.count, 0, 0, 0, 0, self._stratum, k, 1, FENCE, UNCACHED))
                core.seq += 1
                self.order.append(k)
            core.count += 1

    def rows(self) -> list[Events]:
        """The streams as EVENT arrays: each core's, without its stores under TSO; no agents; then those."""
        streams = [[core.loads for core in self._cores], [self._of_agents]]
        if self._tso:
            streams.append([core.stores for core in self._cores])
        return [np.array(rows, EVENT) for group in streams for rows in group]

    def ranks(self) -> list[list[int]]:
        """When each row of each stream ran."""
        found: list[list[int]] = [[] for _ in self.rows()]
        for number, stream in enumerate(self.order):
            found[stream].append(number)
        return found

    def logs(self) -> list[tuple[Events, NDArray[np.uint8]]]:
        """The miss records of each core, as of `MemoryTraces`."""
        return [
            (np.array(core.records, RECORD), np.frombuffer(bytes(core.blob), np.uint8))
            for core in self._cores
        ]

    def lost_by(self) -> list[list[int]]:
        """Of what each core lost the number of the miss record by which it held it."""
        return [core.lost_by for core in self._cores]

    def lost(self) -> list[Events]:
        """What each core lost, as of `MemoryTraces`."""
        return [np.array(core.losses, LOSS) for core in self._cores]

    def traces(
        self, rows: list[Events] | None = None, *, tenures: bool = False, losses: bool = False
    ) -> MemoryTraces:
        """The run, or the same with other rows, as traces. tenures: with the miss records. losses: with what
        the cores lost too."""
        n = len(self._cores) if self._tso else 0
        strata = np.array(self.strata, np.uint64).reshape(-1, len(self._cores) + 1 + n)
        before, after = (np.frombuffer(bytes(memory), np.uint8) for memory in (self.before, self.memory))
        syncs = np.array(self._points, SYNC_POINT)
        traces = MemoryTraces(
            rows or self.rows(), strata, before, after, chunk_rows=3, buffered=n, syncs=syncs
        )
        if tenures:
            traces.line_bytes, traces.logs, traces.misses_prove_writes = LINE, self.logs(), self.unbounded
            traces.unbounded, traces.agents_say_owned = self.unbounded, True
            traces.lost = self.lost() if losses else []
        return traces


def damage(rows: list[Events], seed: int) -> list[Events]:
    """The same with values of two loads exchanged, or two accesses of a core."""
    rng, rows = random.Random(seed), [stream.copy() for stream in rows]
    for _ in range(20):
        stream = rng.choice(rows)
        if len(stream) < 2:
            continue
        i, j = rng.sample(range(len(stream)), 2)
        a, b = stream[i], stream[j]
        if a["stratum"] != b["stratum"] or a["size"] != b["size"] or a["kind"] != b["kind"]:
            continue
        same = ("old", "new") if a["kind"] == READ and a["addr"] == b["addr"] else ("old", "new", "addr")
        for name in same:
            a[name], b[name] = b[name].copy(), a[name].copy()
        if rng.random() < 0.6:
            break
    return rows


def displace(traces: MemoryTraces, seed: int) -> MemoryTraces:
    """The same with some sync points at other places, each in its region and between those before and after
    it; what is then true of threads is not looked at."""
    rng, points = random.Random(seed), traces.syncs.copy()
    n_cores = traces.n_streams - traces.buffered - 1
    last = [[int(rows["count"][-1]) + 1 if len(rows) else 0 for rows in traces.rows]]
    edges = np.concatenate([np.zeros((1, traces.n_streams), np.int64), traces.strata.astype(np.int64), last])
    for i in rng.sample(range(len(points)), rng.randint(0, min(4, len(points)))):
        point = points[i]
        core, region = int(point["core"]), int(point["stratum"])
        mine = np.flatnonzero(points["core"] == core).tolist()
        low, high = edges[region, core], edges[region + 1, core]
        before, after = points[[m for m in mine if m < i]], points[[m for m in mine if m > i]]
        low = max([low, *before["count"].tolist()])
        high = max(low, min([high, *after["count"].tolist()]))
        point["count"] = rng.randint(int(low), int(high))
        first = max([int(edges[region, n_cores]), *points["number"][max(i - 1, 0) : i].tolist()])
        end = min([int(edges[region + 1, n_cores]), *points["number"][i + 1 : i + 2].tolist()])
        point["number"] = rng.randint(first, max(first, end))
    return replace(traces, syncs=points)
