"""Kept slices as they are handed over while the machine runs, against the evidence and the run itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from slice_factory import Kept, collect, turns
from trace_factory import Made, Shape, make

from corebraid.base.rows.event import GLUED
from recorder.evidence.slices.codec import join_tables
from recorder.evidence.slices.collector import SliceCollector
from recorder.evidence.slices.handover import BATCH, HandedSlice, batch_bytes, slices_of

SHAPES = [
    Shape(streams=2, steps=80, domain=3),
    Shape(streams=3, steps=150, domain=2, sizes=(8,), aligned=True, glued=0.0),
    Shape(streams=4, steps=150, domain=0, switch=0.15),
    Shape(streams=3, steps=200, domain=3, hot=200, glued=0.2),
]


class Taken:
    """A follower that keeps what it is handed."""

    def __init__(self) -> None:
        self.slices: list[HandedSlice] = []
        self.batches = 0

    def begin(self, path: Path, recording: bytes) -> None:
        raise AssertionError("that is for whoever makes the collector to tell")

    def take(self, batch: bytes) -> None:
        head, body = batch[: BATCH.size], batch[BATCH.size :]
        assert batch_bytes(head) == len(body) > 0
        self.slices += slices_of(head, body)
        self.batches += 1

    def over(self) -> None:
        raise AssertionError("that is for whoever runs the machine to tell")


def followed(made: Made, accesses: int, seed: int) -> tuple[Taken, Kept]:
    """As `collect`, with somebody who follows."""
    taken, kept = Taken(), Kept()
    collector = SliceCollector(made.traces.n_streams, made.traces.memory_bytes, seed, kept, accesses)
    collector.follow(taken)
    for turn in turns(made.traces, made.slices):
        if turn is None:
            collector.stratum()
        else:
            collector.take(*turn)
    collector.finish()
    return taken, kept


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sampled(8)
def test_what_is_handed_over_is_what_the_evidence_and_the_replayed_cores_say(seed: int) -> None:
    shape, accesses = SHAPES[seed % 4], (3, 8, 16, 40)[seed // 4]
    made = make(seed, shape)
    taken, kept = followed(made, accesses, seed)
    alone = collect(made.traces, made.slices, accesses, seed)
    assert kept.frames == alone.frames, "the evidence is the same"
    table = join_tables(list(alone.tables(shape.streams)))
    numbers = np.flatnonzero(table.kept)
    assert [one.number for one in taken.slices] == numbers.tolist()
    assert len(numbers) > 0
    for one in taken.slices:
        n = one.number
        told = table.accesses[table.access_ptr[n] : table.access_ptr[n + 1]]
        for name in ("seq", "stream", "size", "kind", "glued"):
            assert one.checkpoints[name].tolist() == told[name].tolist(), name
        reads, writes = told["kind"] != 2, told["kind"] != 1
        assert one.checkpoints["before"][reads].tolist() == told["before"][reads].tolist()
        assert one.checkpoints["after"][writes].tolist() == told["after"][writes].tolist()
        assert one.updated.tolist() == table.updated[table.updated_ptr[n] : table.updated_ptr[n + 1]].tolist()
        for row, stream in zip(one.rows, told["stream"].tolist(), strict=True):
            real = made.traces.rows[stream][int(row["seq"])]
            assert row["core"] == stream
            for name in ("addr", "size", "kind", "old", "new"):
                assert row[name] == real[name]
            assert row["flags"] & GLUED == real["flags"] & GLUED


def test_it_tells_nothing_of_the_order_of_streams() -> None:
    """Whoever ran first: rows come stream by stream."""
    taken, _ = followed(make(2, SHAPES[2]), 16, 2)
    for one in taken.slices:
        streams = one.rows["core"].tolist()
        assert streams == sorted(streams)
        assert not one.rows["count"].any()
        assert not one.rows["pc"].any()


@pytest.mark.parametrize("seed", range(4))
def test_a_turn_ends_one_slice_with_a_race_at_most(seed: int) -> None:
    """However long it is: there is room for no more."""
    made = make(seed, Shape(streams=2, steps=2000, domain=3, strata=0.0, spin=0.0))
    rows, taken = [made.traces.rows[s] for s in range(2)], Taken()
    collector = SliceCollector(2, made.traces.memory_bytes, seed, Kept(), 4)
    collector.follow(taken)
    for piece in range(40):
        for stream in range(2):
            n, before = len(rows[stream]), len(taken.slices)
            collector.take(stream, rows[stream][n * piece // 40 : n * (piece + 1) // 40])
            assert len(taken.slices) <= before + 1
    collector.finish()
    assert len(taken.slices) > 10
    assert collector.slices > 2 * len(taken.slices)
    assert taken.batches == len(taken.slices) == collector.kept
