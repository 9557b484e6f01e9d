"""Rows of a region segment by segment, whatever batches the segments are put into, and their operations,
against naive twins that take each segment by itself."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
from engine_suite import SOAK, shape_of
from test_solver_kernels import naive_granules, naive_ops
from trace_factory import make, rows_of

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import EVENT, GLUED
from solver.regions.batches import batches
from solver.regions.region import Region
from solver.regions.sync_order import Segments
from solver.regions.traces import Events
from solver.sifting.filters import Gathered, sift
from solver.sifting.granules import find_granules, find_granules_of
from solver.sifting.operations import DONE
from solver.sifting.strata import iter_regions


def whole_rows(rows: Events) -> list[int]:
    """Rows before which a stream may be cut: none inside an indivisible access."""
    return [k for k in range(1, len(rows)) if not rows["flags"][k - 1] & GLUED]


def cut_at_random(streams: list[Events], rng: random.Random) -> Segments:
    """Segments of these streams, by turns."""
    left = []
    for stream, rows in enumerate(streams):
        whole = whole_rows(rows)
        ends = sorted({len(rows), *rng.sample(whole, min(len(whole), rng.randrange(8)))})
        left.append([(stream, end) for end in ends if end])
    found = []
    while any(left):
        found.append(rng.choice([some for some in left if some]).pop(0))
    stream, end = (np.array([one[k] for one in found], np.int64) for k in (0, 1))
    return Segments(stream, end, stream + 10)


def in_arrays(rows: Events, rng: random.Random) -> Iterator[Events]:
    """The rows of a stream in several arrays, each good until the next one is asked for."""
    whole = whole_rows(rows)
    cuts = sorted({0, len(rows), *rng.sample(whole, min(len(whole), rng.randrange(5)))})
    for a, b in pairwise(cuts):
        piece = rows[a:b].copy()
        yield piece
        piece.view(np.uint8)[:] = 0xA5


def naive(cut: Segments, streams: list[Events]) -> list[tuple[int, Events]]:
    """(stream, rows) of each segment."""
    done, found = [0] * len(streams), []
    for stream, end in zip(cut.stream.tolist(), cut.end.tolist(), strict=True):
        found.append((stream, streams[stream][done[stream] : end]))
        done[stream] = end
    return found


def naive_streams(
    cut: Segments, streams: list[Events], granules: list[tuple[int, int]]
) -> list[list[object]]:
    """The operations of each stream, of which none is joined to one in another segment."""
    out: list[list[object]] = [[] for _ in streams]
    before = [0] * len(streams)
    for stream, rows in naive(cut, streams):
        ops, _ = naive_ops(rows, granules)
        out[stream] += [(parts, end + before[stream]) for parts, end in ops]
        before[stream] += len(rows)
    return out


def test_batches_have_the_rows_of_each_segment_in_turn() -> None:
    many = long = 0
    for seed in range(100 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, shape_of(seed, (10, 40, 120))).traces):
            streams = [rows_of(region, stream) for stream in range(len(region.streams))]
            cut, full = cut_at_random(streams, rng), rng.choice((1, 7, 1 << 16))
            found: list[tuple[int, Events]] = []
            for rows, pieces in batches(cut, [in_arrays(rows, rng) for rows in streams], full):
                assert (pieces.owner == pieces.stream + 10).all()
                for begin, end, stream, _, goes_on in zip(*map(np.ndarray.tolist, pieces), strict=True):
                    here = rows[begin:end].copy()
                    if goes_on:
                        here = np.concatenate([found.pop()[1], here])
                    found.append((stream, here))
                assert len(rows) <= full or len(pieces.end) == 1
                many += len(pieces.end) > 2
                long += pieces.goes_on.any()
            for (stream, here), (same, expected) in zip(found, naive(cut, streams), strict=True):
                assert stream == same
                assert np.array_equal(here, expected), f"seed {seed}, region {region.index}"
    assert min(many, long) > 50


def operations(got: Gathered, address: list[int], size: list[int]) -> Iterator[list[object]]:
    """Those of each stream, as `naive_ops` has them."""
    for parts, ops in got.by_stream():
        values = [
            (address[k], size[k], old, new)
            for k, old, new in zip(*(column.tolist() for column in parts), strict=True)
        ]
        bounds = pairwise(ops.part_ptr.tolist())
        yield [(values[a:b], end) for end, (a, b) in zip(ops.end_row.tolist(), bounds, strict=True)]


def test_operations_of_segments_are_those_of_the_naive_twin() -> None:
    for seed in range(60 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, shape_of(seed, (10, 40, 120))).traces):
            streams = [rows_of(region, stream) for stream in range(len(region.streams))]
            cut = cut_at_random(streams, rng)
            expected = naive_streams(cut, streams, naive_granules(region))
            for full in (1, 7, 1 << 16):
                g = find_granules_of(batches(cut, [in_arrays(rows, rng) for rows in streams], full))
                got = Gathered([np.empty(0, np.int64)] * len(streams), room=1)
                for batch in batches(cut, [in_arrays(rows, rng) for rows in streams], full):
                    assert got.sift(batch, g.table)[0] == DONE
                found = list(operations(got, g.address.tolist(), g.size.tolist()))
                assert found == expected, f"seed {seed}, region {region.index}"


def test_a_row_that_does_not_follow_is_named_wherever_it_lies_in_a_batch() -> None:
    """By its stream and its number there."""
    named_in: Counter[int] = Counter()
    for seed in range(40 * SOAK):
        rng = random.Random(seed)
        for region in iter_regions(make(seed, shape_of(seed, (40, 120))).traces):
            stream = rng.randrange(len(region.streams))
            rows = rows_of(region, stream).copy()
            if not len(rows):
                continue
            at = rng.randrange(len(rows))
            rows["old"][at] ^= np.uint64(1)
            changed = [rows if s == stream else rows_of(region, s) for s in range(len(region.streams))]
            said = refusal(replace(region, streams=[_Held(some) for some in changed]))
            if said is not None:
                of, number, address = said
                [bad] = changed[of][changed[of]["seq"] == number]
                for row in (bad, rows[at]):
                    assert row["addr"] <= address < row["addr"] + row["size"], f"seed {seed}"
                named_in[of] += 1
    assert len(named_in) > 2
    assert named_in.total() > 20


def refusal(region: Region) -> tuple[int, int, int] | None:
    """Which row's byte is said not to follow: stream, number of the row in it, address."""
    try:
        sift(region, find_granules(region))
    except OrderError as error:
        named = re.search(r"address (0x\w+), 1 bytes, stream (\d+), event (\d+),", str(error))
        if named is not None:
            return int(named[2]), int(named[3]), int(named[1], 0)
    return None


class _Held:
    """A stream's rows, as a region has them."""

    def __init__(self, rows: Events) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def pieces(self) -> Iterator[Events]:
        yield self._rows


def test_a_long_segment_is_not_copied() -> None:
    rows = np.zeros(20, EVENT)
    cut = Segments(np.zeros(2, np.int64), np.array([3, 20]), np.zeros(2, np.int64))
    for full, shared in ((2, [True, True]), (3, [False, True]), (100, [False])):
        made = list(batches(cut, [iter([rows])], full))
        assert [np.shares_memory(batch.rows, rows) for batch in made] == shared
