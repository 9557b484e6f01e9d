"""Slices of a run whose order is known, and naive twins of what takes them down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recorder.evidence.slices.codec import Sequence, SliceTable
from recorder.evidence.slices.collector import SliceCollector
from solver.regions.traces import MemoryTraces


class Kept:
    """A writer that keeps its frames: (payload, records, first, last)."""

    def __init__(self) -> None:
        self.frames: list[tuple[bytes, int, int, int]] = []

    def append(self, raw: bytes | memoryview, records: int, first: int, last: int) -> None:
        self.frames.append((bytes(raw), records, first, last))

    def tables(self, streams: int) -> Iterator[SliceTable]:
        """The frames, decoded."""
        sequence = Sequence(streams)
        for frame in self.frames:
            yield sequence.next(*frame)


def turns(
    traces: MemoryTraces, truth: tuple[NDArray[Any], NDArray[Any]]
) -> Iterator[tuple[int, NDArray[Any]] | None]:
    """What each stream did in each of its turns, None where a stratum lies between two."""
    at, stratum = [0] * traces.n_streams, 0
    for stream, end in zip(*(side.tolist() for side in truth), strict=True):
        rows = traces.rows[stream]
        upto = int(np.searchsorted(rows["count"], np.uint64(end)))
        piece, at[stream] = rows[at[stream] : upto], max(at[stream], upto)
        while len(piece):
            while stratum < int(piece["stratum"][0]):
                stratum += 1
                yield None
            now = int(np.searchsorted(piece["stratum"], piece["stratum"][0], side="right"))
            yield stream, piece[:now]
            piece = piece[now:]
    for _ in range(stratum, len(traces.strata)):
        yield None


def collect(
    traces: MemoryTraces, truth: tuple[NDArray[Any], NDArray[Any]], accesses: int = 16, seed: int = 1
) -> Kept:
    """The evidence of a run, as the recorder would have taken it down."""
    kept = Kept()
    collector = SliceCollector(traces.n_streams, traces.memory_bytes, seed, kept, accesses)
    for turn in turns(traces, truth):
        if turn is None:
            collector.stratum()
        else:
            collector.take(*turn)
    collector.finish()
    return kept
