"""Granules, filters, net values and runs against naive twins in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
from engine_suite import SOAK, shape_of
from trace_factory import make, problems, rows_of

from corebraid.base.rows.event import GLUED, READ, UNCACHED
from solver.cuts.state import start
from solver.passes.answers import runs_of
from solver.regions.region import Region
from solver.sifting.boundary import net_values
from solver.sifting.filters import Counts, unfiltered
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions

Part = tuple[int, int, int, int]


def regions(n: int) -> list[tuple[int, Region]]:
    return [
        (seed, region)
        for seed in range(n * SOAK)
        for region in iter_regions(make(seed, shape_of(seed, (10, 40, 120))).traces)
    ]


def naive_granules(region: Region) -> list[tuple[int, int]]:
    """(address, size) of the unfiltered granules, by sets over bytes."""
    borders, streams, written = set(), {}, set()
    for s in range(len(region.streams)):
        rows = rows_of(region, s)
        for row in rows:
            if row["flags"] & UNCACHED:
                continue
            first, end = int(row["addr"]), int(row["addr"]) + int(row["size"])
            borders |= {first, end}
            for a in range(first, end):
                streams.setdefault(a, set()).add(s)
                if row["kind"] != READ:
                    written.add(a)
    hot = sorted(a for a in streams if len(streams[a]) > 1 and a in written)
    out: list[list[int]] = []
    for a in hot:
        if out and sum(out[-1]) == a and a not in borders and a % 8:
            out[-1][1] += 1
        else:
            out.append([a, 1])
    return [(a, n) for a, n in out]


def naive_ops(rows: np.ndarray, granules: list[tuple[int, int]]) -> tuple[list[tuple[list[Part], int]], int]:
    """([parts (address, size, old, new), end row] of every unfiltered operation, unfiltered rows)."""
    ops: list[tuple[list[Part], int]] = []
    parts: list[Part] = []
    kept = n_rows = 0
    for i, row in enumerate(rows):
        first, size = int(row["addr"]), int(row["size"])
        mine = []
        for a, n in granules:
            if not row["flags"] & UNCACHED and first <= a and a + n <= first + size:
                mask, shift = (1 << (8 * n)) - 1, 8 * (a - first)
                mine.append((a, n, int(row["old"]) >> shift & mask, int(row["new"]) >> shift & mask))
        parts += mine
        n_rows += bool(mine)
        if row["flags"] & GLUED:
            continue
        if parts and ops and ops[-1][0] == parts and all(old == new for _a, _n, old, new in parts):
            ops[-1] = (parts, i + 1)
        elif parts:
            ops.append((parts, i + 1))
            kept += n_rows
        parts, n_rows = [], 0
    return ops, kept


def naive_counts(region: Region, granules: list[tuple[int, int]], kept: int) -> Counts:
    hot = {a + k for a, n in granules for k in range(n)}
    users: dict[int, set[int]] = {}
    for s in range(len(region.streams)):
        rows = rows_of(region, s)
        for row in rows:
            if not row["flags"] & UNCACHED:
                for a in range(int(row["addr"]), int(row["addr"]) + int(row["size"])):
                    users.setdefault(a, set()).add(s)
    kinds: Counter[str] = Counter()
    for s in range(len(region.streams)):
        rows = rows_of(region, s)
        for row in rows:
            touched = range(int(row["addr"]), int(row["addr"]) + int(row["size"]))
            if row["flags"] & UNCACHED:
                kinds["uncached"] += 1
            elif any(a in hot for a in touched):
                kinds["hot"] += 1
            elif all(len(users[a]) == 1 for a in touched):
                kinds["local"] += 1
            else:
                kinds["read_only"] += 1
    return Counts(
        region.events, kinds["uncached"], kinds["local"], kinds["read_only"], kinds["hot"] - kept, kept
    )


def test_granules_and_operations_are_those_of_the_naive_twin() -> None:
    total = Counts(0, 0, 0, 0, 0, 0)
    for seed, region in regions(150):
        table = find_granules(region)
        problem, counts = unfiltered(region, table)
        found = sorted(zip(problem.address.tolist(), problem.size.tolist(), strict=True))
        expected = naive_granules(region)
        assert found == expected, f"seed {seed}, region {region.index}"
        all_kept = 0
        for s in range(len(region.streams)):
            ops, kept = naive_ops(rows_of(region, s), expected)
            all_kept += kept
            mine = []
            for op in range(problem.stream_ptr[s], problem.stream_ptr[s + 1]):
                here = range(problem.part_ptr[op], problem.part_ptr[op + 1])
                parts = [
                    (
                        int(problem.address[problem.granule[p]]),
                        int(problem.size[problem.granule[p]]),
                        int(problem.old[p]),
                        int(problem.new[p]),
                    )
                    for p in here
                ]
                mine.append((parts, int(problem.end_row[op])))
            assert mine == ops, f"seed {seed}, region {region.index}, stream {s}"
        assert counts == naive_counts(region, expected, all_kept), f"seed {seed}, region {region.index}"
        total = total + counts
    print(f"filters equal the naive twin: {total}")
    assert min(total.uncached, total.local, total.read_only, total.collapsed, total.unfiltered) > 50


def test_net_values_are_the_multiset_difference() -> None:
    for seed in range(100 * SOAK):
        for problem, _counts in problems(make(seed, shape_of(seed, (40,))).traces):
            net = net_values(problem)
            for g in range(len(problem.address)):
                here = problem.granule == g
                olds, news = Counter(problem.old[here].tolist()), Counter(problem.new[here].tolist())
                first, last = list((olds - news).elements()), list((news - olds).elements())
                assert net.changes[g] == bool(first)
                if first:
                    assert ([int(net.initial[g])], [int(net.final[g])]) == (first, last), f"seed {seed}"


def test_runs_place_every_row_once_and_operations_in_order() -> None:
    rng = np.random.default_rng(5)
    for seed in range(100 * SOAK):
        for problem, _counts in problems(make(seed, shape_of(seed, (40,))).traces):
            heads = problem.stream_ptr[:-1].copy()
            order = []
            while len(order) < problem.n_ops:
                s = int(rng.choice(np.flatnonzero(heads < problem.stream_ptr[1:])))
                order.append(int(heads[s]))
                heads[s] += 1
            stream, rows = runs_of(problem, np.array(order, np.int64))
            placed = [0] * problem.n_streams
            expected: list[tuple[int, int]] = []
            steps = [(int(problem.op_stream[op]), int(problem.end_row[op])) for op in order]
            for s, end in steps + list(enumerate(problem.rows.tolist())):
                if end > placed[s]:
                    expected.append((s, end - placed[s]))
                    placed[s] = end
            merged: list[tuple[int, int]] = []
            for s, n in expected:
                if merged and merged[-1][0] == s:
                    merged[-1] = (s, merged[-1][1] + n)
                else:
                    merged.append((s, n))
            assert list(zip(stream.tolist(), rows.tolist(), strict=True)) == merged, f"seed {seed}"


def test_links_and_numbers_are_the_naive_ones() -> None:
    for seed in range(50 * SOAK):
        for problem, _counts in problems(make(seed, shape_of(seed, (40,))).traces):
            ops, walk = start(problem, counted=True)
            stream = [int(ops.op_stream[o]) for o in problem.part_op]
            granule = problem.granule.tolist()
            for p in range(len(granule)):
                later = [
                    q for q in range(p, len(granule)) if (stream[q], granule[q]) == (stream[p], granule[p])
                ]
                assert ops.next_part[p] == (later[1] if len(later) > 1 else -1), f"seed {seed}"
                slot = ops.slot[p]
                assert ops.slot_ptr[granule[p]] <= slot < ops.slot_ptr[granule[p] + 1]
                assert ops.slot_stream[slot] == stream[p]
                assert walk.head[slot] <= p
                if walk.head[slot] == p:
                    assert walk.head_old[slot] == problem.old[p]
            sides = [problem.old.tolist(), problem.new.tolist()]
            pairs = [list(zip(granule, side, strict=True)) for side in sides]
            names = {
                pair: int(n) for k in (0, 1) for pair, n in zip(pairs[k], walk.values[:, k], strict=True)
            }
            assert sorted(names.values()) == list(range(len(names))), f"seed {seed}"
            for pair, n in names.items():
                silent = [p for p in range(len(granule)) if pairs[0][p] == pairs[1][p] == pair]
                makers = [p for p in range(len(granule)) if pairs[0][p] != pairs[1][p] == pair]
                assert (walk.reads[n], walk.makers[n]) == (len(silent), len(makers)), f"seed {seed}"
