"""Which orders of a tiny run (`bench.tiny_runs`) are legal: what sync points put before each row, and a
search over all orders of a trace without granules, regions or reductions."""

from __future__ import annotations

from corebraid.base.rows.event import READ, UNCACHED
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.traces import Events, MemoryTraces

Streams = list[list[tuple[int, ...]]]


def must_precede(streams: Streams, points: Events, n_cores: int) -> list[list[tuple[int, ...]]]:
    """What sync points put before each row: how many rows of every stream. Each pair of them is looked at:
    what its core did before one ENTER comes before what a core does after any LEAVE from there on."""
    below = [lambda count, s=s: sum(row[1] < count for row in streams[s]) for s in range(len(streams))]
    needs = [[[0] * len(streams) for _ in rows] for rows in streams]
    for j, (number, count, _, _, core, way, *_) in enumerate(points.tolist()):
        chains = [core] if len(streams) == n_cores + 1 else [core, n_cores + 1 + core]
        if way & ENTER:
            for row, need in zip(streams[n_cores], needs[n_cores], strict=True):
                for s in chains if row[1] >= number else ():
                    need[s] = max(need[s], below[s](count))
        if not way & LEAVE:
            continue
        before = {n_cores: below[n_cores](number)}
        for _, count_i, _, _, core_i, way_i, *_ in points[: j + 1].tolist():
            for s in (core_i, n_cores + 1 + core_i) if way_i & ENTER else ():
                if s < len(streams):
                    before[s] = max(before.get(s, 0), below[s](count_i))
        for t in chains:
            for row, need in zip(streams[t], needs[t], strict=True):
                for s, n in before.items() if row[1] >= count else ():
                    need[s] = max(need[s], n)
    return [[tuple(need) for need in of_stream] for of_stream in needs]


def _too_late(traces: MemoryTraces) -> bool:
    """Whether a store commits in a later region than an ENTER that it came before."""
    first = traces.n_streams - traces.buffered
    return any(
        way & ENTER and ((rows["count"] < count) & (rows["stratum"] > stratum)).any()
        for _, count, stratum, _, core, way, *_ in traces.syncs.tolist()
        for rows in traces.rows[first + core : first + core + 1]
    )


def is_legal(traces: MemoryTraces) -> bool:
    """Whether any order of all rows is legal: every state that can be reached is looked at."""
    if _too_late(traces):
        return False
    streams = [rows.tolist() for rows in traces.rows]
    n = traces.buffered
    needs = must_precede(streams, traces.syncs, traces.n_streams - n - 1) if len(traces.syncs) else None
    start = (0,) * len(streams)
    todo, seen = [(start, traces.before.tobytes())], {start}
    while todo:
        at, memory = todo.pop()
        left = [rows[i] for i, rows in zip(at, streams, strict=True) if i < len(rows)]
        if not left:
            if memory == traces.after.tobytes():
                return True
            continue
        now = min(row[6] for row in left)
        for s, rows in enumerate(streams):
            if at[s] == len(rows) or rows[at[s]][6] != now:
                continue
            if needs and any(have < need for have, need in zip(at, needs[s][at[s]], strict=True)):
                continue
            after = take_row(streams, at, s, n, memory)
            to = (*at[:s], at[s] + 1, *at[s + 1 :])
            if after is not None and to not in seen:
                seen.add(to)
                todo.append((to, after))
    return False


def take_row(
    streams: list[list[tuple[int, ...]]], at: tuple[int, ...], s: int, n: int, memory: bytes
) -> bytes | None:
    """Memory after the next row of a stream, None if it may not stand here."""
    seq, _, _, address, old, new, _, _, size, kind, flags = streams[s][at[s]]
    if n and s > n:
        core = s - n - 1
        loads = streams[core]
        if at[core] < len(loads) and loads[at[core]][0] < seq:
            return None
    elif n and s < n:
        stores = streams[n + 1 + s]
        buffered = [row for row in stores[at[n + 1 + s] :] if row[0] < seq]
        if kind != READ or flags & UNCACHED:
            if buffered:
                return None
            if flags & UNCACHED:
                return memory
        for store in reversed(buffered):
            if store[3] < address + size and address < store[3] + store[8]:
                if address < store[3] or address + size > store[3] + store[8]:
                    return None
                seen = (store[5] >> (8 * (address - store[3]))) & ((1 << (8 * size)) - 1)
                return memory if seen == old else None
    if int.from_bytes(memory[address : address + size], "little") != old:
        return None
    return memory[:address] + new.to_bytes(size, "little") + memory[address + size :]
