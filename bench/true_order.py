"""The order that really ran, walked naively in plain Python: what the sealed truth and the traces say of
memory.

Shares no code with the solver. Under TSO a core's load sees the newest of its own earlier stores that it
overlaps, as long as that has not committed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import EVENT, RMW, UNCACHED, WRITE
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.passes.stages import sift_region
from solver.regions.traces import MemoryTraces
from solver.sifting.boundary import Forward
from solver.sifting.strata import iter_regions


class Broken(Exception):
    """A recording that does not keep a promise."""


def held_traces(recording: Recording) -> MemoryTraces:
    """Every stream's events, by a traced replay of each core."""
    lazy = RecordingTraces(recording)
    rows = [np.concatenate([np.zeros(0, EVENT), *chunks]) for chunks in lazy.streams()]
    return MemoryTraces(
        rows, lazy.strata, lazy.initial(), lazy.final(), buffered=lazy.buffered, syncs=lazy.syncs
    )


def in_true_order(traces: MemoryTraces, truth: NDArray[np.void]) -> NDArray[np.void]:
    """All events in the order that really ran."""
    at = [0] * traces.n_streams
    pieces = []
    first_store = traces.n_streams - traces.buffered
    for stream, rows in enumerate(traces.rows):
        counts = rows["count"].astype(np.int64)
        if len(counts) and (np.diff(counts) < 0).any():
            raise Broken(f"the counts of stream {stream} run backwards")
    for stream, end in truth.tolist():
        rows, upto = traces.rows[stream], end
        if stream < first_store:
            upto = int(np.searchsorted(rows["count"], np.uint64(end), side="left"))
        pieces.append(rows[at[stream] : upto])
        at[stream] = max(at[stream], upto)
    for stream, rows in enumerate(traces.rows):
        if at[stream] != len(rows):
            raise Broken(f"stream {stream} has {len(rows) - at[stream]} events after its last slice")
    return np.concatenate([np.zeros(0, EVENT), *pieces])


class NaiveMemory:
    """Bytes of memory, changed event by event. stores: of each core under TSO, as (seq, address, size,
    new)."""

    def __init__(self, content: bytearray, stores: list[list[tuple[int, ...]]] | None = None) -> None:
        self.content = content
        self._stores = stores or []
        self._committed = [0] * len(self._stores)

    @classmethod
    def of(cls, traces: MemoryTraces) -> NaiveMemory:
        """Memory before the first event."""
        streams = traces.rows[traces.n_streams - traces.buffered :]
        columns = ("seq", "addr", "size", "new")
        stores = [list(zip(*(rows[c].tolist() for c in columns), strict=True)) for rows in streams]
        return cls(bytearray(traces.initial()), stores)

    def apply(self, events: NDArray[np.void]) -> None:
        """Each event's old bytes must be what it can see. Raises Broken."""
        cached = events[(events["flags"] & UNCACHED) == 0]
        columns = [cached[c].tolist() for c in ("core", "seq", "kind", "addr", "size", "old", "new")]
        for number, (core, seq, kind, *access) in enumerate(zip(*columns, strict=True)):
            address, size, old, new = access
            if core < len(self._stores) and kind == WRITE:
                self._committed[core] += 1
            elif (
                core < len(self._stores)
                and (seen := self._buffered(core, seq, kind, address, size)) is not None
            ):
                if seen != old:
                    raise Broken(f"the truth: {cached[number]} finds {seen:#x} in its store buffer")
                continue
            found = self.content[address : address + size]
            if found != old.to_bytes(8, "little")[:size]:
                raise Broken(f"the truth: {cached[number]} finds {found.hex()} (low byte first)")
            self.content[address : address + size] = new.to_bytes(8, "little")[:size]

    def _buffered(self, core: int, seq: int, kind: int, address: int, size: int) -> int | None:
        """What a load sees of its core's store buffer, None if nothing."""
        waiting = []
        stores = self._stores[core]
        for k in range(self._committed[core], len(stores)):
            if stores[k][0] > seq:
                break
            waiting.append(stores[k])
        if waiting and kind == RMW:
            raise Broken(f"the truth: an atomic access at {address:#x} ran before an earlier store")
        for _, at, length, new in reversed(waiting):
            if at < address + size and address < at + length:
                if address < at or address + size > at + length:
                    raise Broken(f"the truth: a load of {size} bytes at {address:#x} ran before its store")
                return (new >> (8 * (address - at))) & ((1 << (8 * size)) - 1)
        return None

    def values(self, addresses: NDArray[Any], sizes: NDArray[Any]) -> list[int]:
        """The little-endian values at the addresses."""
        return [
            int.from_bytes(self.content[a : a + n], "little")
            for a, n in zip(addresses.tolist(), sizes.tolist(), strict=True)
        ]


def compare_boundaries(traces: MemoryTraces, truth: NDArray[np.void]) -> int:
    """Memory at every stratum as the solver's forward pass has it, against the truth.

    Returns how many values were compared. Raises Broken at the first difference.
    """
    ordered = in_true_order(traces, truth)
    if (np.diff(ordered["stratum"].astype(np.int64)) < 0).any():
        raise Broken("in the true order an event of a later stratum precedes one of an earlier")
    memory, forward = NaiveMemory.of(traces), Forward(traces.initial())
    compared = 0
    for region in iter_regions(traces):
        sifted = sift_region(region)
        bounded, delta = forward.compose(region, sifted.problem, sifted.chains, sifted.net)
        compared += _same(region.index, "initial", memory, bounded.address, bounded.size, bounded.initial)
        low, high = np.searchsorted(ordered["stratum"], [region.index, region.index + 1], side="left")
        memory.apply(ordered[low:high])
        compared += _same(region.index, "final", memory, bounded.address, bounded.size, bounded.final)
        words = delta.word * np.uint64(8)
        compared += _same(region.index, "final word", memory, words, np.full(len(words), 8), delta.after)
    if memory.content != bytearray(traces.final()):
        raise Broken("memory after the true order is not the final image")
    return compared


def _same(
    region: int, end: str, memory: NaiveMemory, address: NDArray[Any], size: NDArray[Any], value: NDArray[Any]
) -> int:
    true = memory.values(address, size)
    for a, expected, found in zip(address.tolist(), true, value.tolist(), strict=True):
        if expected != found:
            raise Broken(f"region {region}: {end} value at {a:#x} is {expected:#x}, computed {found:#x}")
    return len(true)
