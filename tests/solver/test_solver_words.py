"""The table of words over many regions and pages, and the checker's walk over many words."""

from __future__ import annotations

import numpy as np
import pytest
from engine_suite import shape_of
from test_solver_kernels import naive_granules
from trace_factory import make

from corebraid.base.errors import OrderError
from corebraid.base.rows.event import EVENT, GLUED, READ, WRITE
from solver.check.region_walk import RegionWalker
from solver.passes.stages import sift_region
from solver.regions.region import Region, Rows
from solver.sifting.boundary import byte_mask
from solver.sifting.strata import iter_regions
from solver.sifting.words import WordTable

MEMORY = 1 << 26


def same(one: object, two: object) -> bool:
    names = getattr(one, "_fields", None) or vars(one)
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


def test_a_table_that_served_other_regions_says_the_same() -> None:
    table = WordTable()
    for seed in range(60):
        for region in iter_regions(make(seed, shape_of(seed, (10, 40, 120))).traces):
            fresh, used = sift_region(region), sift_region(region, table)
            assert fresh.counts == used.counts
            for name in ("problem", "chains", "net"):
                assert same(getattr(fresh, name), getattr(used, name)), f"seed {seed}, {name}"


def scattered(seed: int, n: int, streams: int = 2) -> Region:
    """Accesses to words all over memory, some of them of both streams: legal one stream after the other."""
    rng = np.random.default_rng(seed)
    memory: dict[int, int] = {}
    places = rng.integers(0, MEMORY - 8, n // 2)
    sources = []
    for s in range(streams):
        rows = np.zeros(n, EVENT)
        for i in range(n):
            size = int(rng.choice((1, 2, 4, 8)))
            a = int(rng.choice(places))
            old = sum(memory.get(a + k, 0) << (8 * k) for k in range(size))
            write = rng.random() < 0.3
            new = int(rng.integers(0, 1 << (8 * size), dtype=np.uint64, endpoint=False)) if write else old
            for k in range(size):
                memory[a + k] = (new >> (8 * k)) & 0xFF
            rows[i] = (i, i, 0x1000, a, old, new, 0, s, size, WRITE if write else READ, 0)
        source = Rows()
        source.append(rows)
        sources.append(source)
    return Region(0, sources)


def test_granules_all_over_memory_are_those_of_the_naive_twin() -> None:
    table = WordTable()
    for seed, n in enumerate((50, 4000, 300)):
        region = scattered(seed, n)
        problem = sift_region(region, table).problem
        found = sorted(zip(problem.address.tolist(), problem.size.tolist(), strict=True))
        assert found == naive_granules(region), f"seed {seed}"
        assert len(found) > n // 50


def walk(region: Region) -> dict[int, tuple[int, int]]:
    """(first, last) value of every byte that the walk touched."""
    streams = len(region.streams)
    walker = RegionWalker(MEMORY, np.empty((0, streams), np.uint64), streams)
    lengths = np.array([len(rows) for rows in region.streams], np.int64)
    seam = walker.walk(region, np.arange(streams), lengths)
    assert seam.rows == lengths.sum()
    found = {}
    for word, known, first, last in zip(
        *(getattr(seam, name).tolist() for name in ("word", "known", "first", "last")), strict=True
    ):
        for b in range(8):
            if known >> b & 1:
                found[8 * word + b] = ((first >> 8 * b) & 0xFF, (last >> 8 * b) & 0xFF)
    return found


def test_a_walk_over_many_words_finds_their_values_at_both_ends() -> None:
    region = scattered(7, 9000)
    expected: dict[int, tuple[int, int]] = {}
    for source in region.streams:
        for rows in source.pieces():
            for row in rows:
                for k in range(int(row["size"])):
                    a = int(row["addr"]) + k
                    old, new = (int(row[name]) >> 8 * k & 0xFF for name in ("old", "new"))
                    expected[a] = (expected.get(a, (old, 0))[0], new)
    assert walk(region) == expected


@pytest.mark.parametrize("at", [1, 4095, 4096, 8999])
def test_a_wrong_byte_is_found_wherever_it_stands(at: int) -> None:
    region = scattered(8, 9000)
    rows = next(iter(region.streams[1].pieces()))
    before = [int(a) + k for a, n in zip(rows["addr"][:at], rows["size"][:at], strict=True) for k in range(n)]
    rows["addr"][at], rows["size"][at], rows["kind"][at] = before[0], 1, READ
    held = walk_value(region, at, before[0])
    rows["old"][at] = rows["new"][at] = held ^ 1
    with pytest.raises(OrderError) as caught:
        walk(region)
    assert f"memory holds at {before[0]:#x}" in caught.value.line()
    assert f"event {at}" in caught.value.line()


def walk_value(region: Region, at: int, address: int) -> int:
    held = 0
    for s, source in enumerate(region.streams):
        for rows in source.pieces():
            for row in rows[: at if s == 1 else None]:
                if 0 <= address - int(row["addr"]) < int(row["size"]):
                    held = int(row["new"]) >> 8 * (address - int(row["addr"])) & 0xFF
    return held


def test_a_mask_has_a_byte_for_every_bit() -> None:
    for bits in range(256):
        expected = sum(0xFF << 8 * b for b in range(8) if bits >> b & 1)
        assert int(byte_mask(np.uint8(bits))) == expected


@pytest.mark.parametrize("length", [10, 5000])
def test_a_run_that_cuts_an_indivisible_access_is_found(length: int) -> None:
    region = scattered(9, length)
    next(iter(region.streams[0].pieces()))["flags"][length // 2] = GLUED
    walker = RegionWalker(MEMORY, np.empty((0, 2), np.uint64), 2)
    half = length // 2 + 1
    rows = np.array([half, length, length - half])
    with pytest.raises(OrderError) as caught:
        walker.walk(region, np.array([0, 1, 0]), rows)
    assert "inside an indivisible access" in caught.value.line()
    assert "stream 1, event 0" in caught.value.line()


@pytest.mark.parametrize("length", [10, 5000])
def test_a_run_past_the_end_and_rows_left_out_are_found(length: int) -> None:
    walker = RegionWalker(MEMORY, np.empty((0, 2), np.uint64), 2)
    for more, words in ((1, "more events of a stream"), (-1, "leaves out")):
        with pytest.raises(OrderError) as caught:
            walker.walk(scattered(10, length), np.arange(2), np.array([length, length + more]))
        assert words in caught.value.line()
