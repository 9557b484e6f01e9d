"""The collector of slices against a naive twin, and its stream against damage.

The twin knows memory at every moment of the run and redoes the collector's rules in plain Python.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from slice_factory import Kept, collect, turns
from trace_factory import Made, Shape, make

from corebraid.base.errors import UsageError
from corebraid.base.rows.event import GLUED, READ, RMW, UNCACHED, WRITE
from recorder.evidence.slices.codec import Damage, Sequence, SliceTable, decode, iter_regions_of, join_tables
from recorder.evidence.slices.collector import SliceCollector
from recorder.evidence.slices.kernels import ALONE, EARLY

SHAPES = [
    Shape(streams=2, steps=80, domain=3),
    Shape(streams=3, steps=150, domain=2, sizes=(8,), aligned=True, glued=0.0),
    Shape(streams=4, steps=150, domain=0, switch=0.15),
    Shape(streams=3, steps=200, domain=3, hot=200, glued=0.2),
]


def table_of(kept: Kept, streams: int) -> SliceTable:
    return join_tables(list(kept.tables(streams)))


class Twin:
    """The run, access by access in the order that ran. values: memory after each access."""

    def __init__(self, made: Made) -> None:
        self.made = made
        memory = made.traces.initial().copy()
        self.accesses: list[tuple[int, Any, int]] = []
        self.values = [memory.copy()]
        self.cuts: list[int] = []
        for number, turn in enumerate(turns(made.traces, made.slices)):
            if turn is None:
                self.cuts.append(len(self.accesses))
                continue
            stream, rows = turn
            for row in rows:
                self.accesses.append((stream, row, number))
                if not row["flags"] & UNCACHED and row["kind"] != READ:
                    a, n = int(row["addr"]), int(row["size"])
                    memory[a : a + n] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:n], np.uint8)
                self.values.append(memory.copy())
        self.when = {(stream, int(row["seq"])): k for k, (stream, row, _) in enumerate(self.accesses)}

    def value(self, moment: int, row: Any) -> int:
        a, n = int(row["addr"]), int(row["size"])
        return int.from_bytes(self.values[moment][a : a + n].tobytes(), "little")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(8)
def test_slices_are_what_ran(seed: int) -> None:
    shape, most = SHAPES[seed % 4], (3, 8, 16, 30)[seed // 4 % 4]
    made = make(seed, shape)
    twin = Twin(made)
    table = table_of(collect(made.traces, made.slices, most, seed), shape.streams)
    begin = np.zeros(shape.streams, np.uint64)
    touched: dict[int, set[int]] = {}
    strata = 0
    for n in range(len(table)):
        end = table.end[n]
        inside = [
            (k, stream, row)
            for k, (stream, row, _) in enumerate(twin.accesses)
            if begin[stream] <= row["seq"] < end[stream]
        ]
        cached = [(k, s, row) for k, s, row in inside if not row["flags"] & UNCACHED]
        for _, s, row in cached:
            for word in range(int(row["addr"]) >> 3, (int(row["addr"]) + int(row["size"]) - 1 >> 3) + 1):
                touched.setdefault(word, set()).add(s)
        shared = [(k, s, row) for k, s, row in cached if any(len(touched[w]) > 1 for w in words(row))]
        whole = [
            (k, s, row)
            for k, s, row in cached
            if in_group(made, s, row, {(t, int(r["seq"])) for _, t, r in shared})
        ]
        times = int(table.slices[n])
        assert len(whole) < times * (most + 16)
        if not table.flags[n] & EARLY and not table.cut_here[n] and n < len(table) - 1:
            assert len(whole) >= times * most, f"seed {seed}, slice {n}"
        if table.flags[n] & ALONE:
            assert len({s for _, s, _ in inside}) == 1
        else:
            assert times == 1
        race = any(
            s != t and (r["kind"] != READ or q["kind"] != READ) and overlap(r, q)
            for _, s, r in cached
            for _, t, q in cached
        )
        assert bool(table.kept[n]) == race, f"seed {seed}, slice {n}"
        if table.kept[n]:
            check_kept(twin, table, n, whole)
        strata += int(table.cut_here[n])
        if table.cut_here[n]:
            done = [
                sum(int(row["seq"] < end[s]) for t, row, _ in twin.accesses if t == s)
                for s in range(len(end))
            ]
            assert sum(done) == twin.cuts[strata - 1], "a stratum is a cut of the run"
        begin = end
    assert strata == len(made.traces.strata)
    assert begin.tolist() == [len(rows) for rows in made.traces.rows]


def words(row: Any) -> range:
    return range(int(row["addr"]) >> 3, (int(row["addr"]) + int(row["size"]) - 1 >> 3) + 1)


def overlap(r: Any, q: Any) -> bool:
    return bool(r["addr"] < q["addr"] + q["size"] and q["addr"] < r["addr"] + r["size"])


def in_group(made: Made, stream: int, row: Any, shared: set[tuple[int, int]]) -> bool:
    """Whether any access of the indivisible group of a row is shared."""
    rows, first = made.traces.rows[stream], int(row["seq"])
    last = first
    while first and rows["flags"][first - 1] & GLUED:
        first -= 1
    while rows["flags"][last] & GLUED:
        last += 1
    return any((stream, k) in shared for k in range(first, last + 1))


def check_kept(twin: Twin, table: SliceTable, n: int, shared: list[tuple[int, int, Any]]) -> None:
    """A kept slice lists its shared accesses; each checkpoint holds what was there at a moment that it may
    have been taken at, in the order in which a core takes them."""
    listed = table.accesses[table.access_ptr[n] : table.access_ptr[n + 1]]
    by_stream = sorted(shared, key=lambda one: (one[1], int(one[2]["seq"])))
    assert [(int(c["stream"]), int(c["seq"])) for c in listed] == [
        (s, int(r["seq"])) for _, s, r in by_stream
    ]
    first = min(k for k, _, _ in shared)
    last = max(k for k, _, _ in shared) + 1
    for i, (checkpoint, (k, s, row)) in enumerate(zip(listed, by_stream, strict=True)):
        assert (checkpoint["kind"], checkpoint["size"]) == (row["kind"], row["size"])
        low = high = i
        while low and listed["glued"][low - 1]:
            low -= 1
        while listed["glued"][high]:
            high += 1
        before = first if low == 0 or by_stream[low - 1][1] != s else by_stream[low - 1][0]
        after = last if high == len(listed) - 1 or by_stream[high + 1][1] != s else by_stream[high + 1][0]
        # What a group of indivisible accesses finds of its own is of no interest: no machine makes one.
        own = any(overlap(row, by_stream[k][2]) for k in range(low, high + 1) if k != i)
        if row["kind"] != WRITE and not own:
            seen = {twin.value(moment, row) for moment in range(before, k + 1)}
            assert int(checkpoint["before"]) in seen
        if row["kind"] != READ and not own:
            seen = {twin.value(moment, row) for moment in range(k + 1, after + 1)}
            assert int(checkpoint["after"]) in seen
    updated, at = table.updated[table.updated_ptr[n] : table.updated_ptr[n + 1]].tolist(), 0
    places = []
    for _, _, row in by_stream:
        place = int(row["addr"]), int(row["size"])
        if row["kind"] != READ and place not in places:
            places.append(place)
            assert updated[at] == twin.value(last, row)
            at += 1
    assert at == len(updated)


def test_checkpoints_are_not_atomic() -> None:
    """Other cores do slip between an access and its checkpoints, on both sides."""
    late = early = 0
    for seed in range(10):
        made = make(seed, SHAPES[1])
        table = table_of(collect(made.traces, made.slices, 16, seed), 3)
        for c in table.accesses:
            row = made.traces.rows[c["stream"]][int(c["seq"])]
            late += int(c["kind"] != READ and c["after"] != row["new"])
            early += int(c["kind"] in (READ, RMW) and c["before"] != row["old"])
    assert late > 10
    assert early > 10


def test_the_same_run_gives_the_same_bytes_and_another_seed_others() -> None:
    made = make(5, SHAPES[1])
    one, two, other = (collect(made.traces, made.slices, 16, seed).frames for seed in (1, 1, 2))
    assert one == two
    assert one != other


def test_cutting_turns_into_pieces_changes_no_event_count() -> None:
    made = make(3, SHAPES[2])
    kept = Kept()
    collector = SliceCollector(4, made.traces.memory_bytes, 1, kept, 16)
    for turn in turns(made.traces, made.slices):
        if turn is None:
            collector.stratum()
        else:
            collector.take(turn[0], turn[1])
            collector.flush()
    collector.finish()
    whole = table_of(collect(made.traces, made.slices, 16, 1), 4)
    assert len(kept.frames) > 1
    split = table_of(kept, 4)
    assert np.array_equal(split.end[split.kept], whole.end[whole.kept])
    assert split.slices.sum() == whole.slices.sum()
    assert split.accesses.tobytes() == whole.accesses.tobytes()


def test_regions_end_where_strata_are() -> None:
    made = make(1, SHAPES[0])
    kept = collect(made.traces, made.slices, 8)
    tables = list(iter_regions_of(kept.tables(2)))
    assert len(tables) == len(made.traces.strata) + 1
    assert all(table.cut_here.sum() == 1 and table.cut_here[-1] for table in tables[:-1])


@pytest.mark.parametrize("accesses", [0, 1, 257])
def test_lengths_that_make_no_sense_are_refused(accesses: int) -> None:
    with pytest.raises(UsageError, match="shared accesses in a slice"):
        SliceCollector(2, 4096, 0, Kept(), accesses)


@pytest.mark.sampled(100)
@pytest.mark.parametrize("seed", range(150))
def test_damage_is_refused_or_changes_what_is_read(seed: int) -> None:
    """Any changed payload: one clear error, or other slices; never the same ones, never a crash."""
    rng = random.Random(seed)
    made = make(seed % 7, SHAPES[seed % 4])
    streams = SHAPES[seed % 4].streams
    raw, records, first, last = collect(made.traces, made.slices, 8).frames[0]
    bad = bytearray(raw)
    way = rng.choice(("flip", "cut", "insert"))
    at = rng.randrange(len(bad))
    if way == "flip":
        bad[at] ^= 1 << rng.randrange(8)
    elif way == "cut":
        del bad[at:]
    else:
        bad[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
    good = Sequence(streams).next(raw, records, first, last)
    try:
        table = Sequence(streams).next(bytes(bad), records, first, last)
    except Damage:
        return
    same = [
        np.array_equal(getattr(table, name), getattr(good, name))
        for name in ("flags", "slices", "end", "access_ptr", "accesses", "updated")
    ]
    assert not all(same) or bytes(bad) == raw


def test_a_frame_that_lies_about_its_slices_is_refused() -> None:
    made = make(1, SHAPES[0])
    raw, records, first, last = collect(made.traces, made.slices, 8).frames[0]
    for declared in ((records + 1, first, last), (records - 1, first, last), (records, first + 1, last + 1)):
        with pytest.raises(Damage):
            Sequence(2).next(raw, *declared)
    assert decode(raw, 2, 1)[3] != 0


def test_a_frame_that_does_not_go_on_is_refused() -> None:
    made = make(1, SHAPES[0])
    frame = collect(made.traces, made.slices, 8).frames[0]
    sequence = Sequence(2)
    sequence.next(*frame)
    with pytest.raises(Damage):
        sequence.next(frame[0], frame[1], frame[3] + 1, frame[3] + frame[1])
