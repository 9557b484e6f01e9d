"""The kernels that number nodes, sort writes and close clocks, held against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from engine_suite import SOAK

from solver.tenures.clocks import CYCLE, Clocks, close, learn
from solver.tenures.contents import sort_each
from solver.tenures.holds import sort_by_line
from solver.tenures.nodes import own_order, sort_writes
from solver.tenures.numbers import count_nodes, list_nodes, mark_nodes, no_nodes, number_nodes


def make_clocks(sizes: list[int]) -> Clocks:
    """Clocks of streams of so many nodes, which know their own order only."""
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    clock = np.zeros((ptr[-1], len(sizes)), np.int32)
    own_order(ptr, clock)
    return Clocks(
        ptr, np.arange(ptr[-1], dtype=np.int64), clock, np.zeros(2, np.int64), np.array(sizes, np.int64)
    )


def known(clocks: Clocks) -> set[tuple[int, int, int, int]]:
    """Every (stream, node, other stream, its node) of which the clocks say that the one comes first."""
    found = set()
    for t in range(len(clocks.ptr) - 1):
        for j in range(int(clocks.ptr[t + 1] - clocks.ptr[t])):
            for u, n in enumerate(clocks.clock[clocks.ptr[t] + j].tolist()):
                found |= {(u, i, t, j) for i in range(n)}
    return found


def closure(sizes: list[int], edges: list[tuple[int, int, int, int]]) -> set[tuple[int, int, int, int]]:
    """All that follows from edges and the order of each stream, node by node."""
    nodes = [(s, i) for s, size in enumerate(sizes) for i in range(size)]
    after: dict[Any, set[Any]] = {(s, i): {(s, i + 1)} & set(nodes) for s, i in nodes}
    for u, i, t, j in edges:
        after[u, i].add((t, j))
    found = set()
    for node in nodes:
        todo, seen = list(after[node]), set(after[node])
        while todo:
            more = after[todo.pop()] - seen
            seen |= more
            todo += more
        found |= {(*node, *other) for other in seen}
    return found


def test_close_finds_what_follows_whenever_it_is_asked() -> None:
    cycles = closed = 0
    for seed in range(300 * SOAK):
        rng = random.Random(seed)
        sizes = [rng.randint(0, 9) for _ in range(rng.randint(2, 5))]
        clocks, edges = make_clocks(sizes), []
        rank = {(s, i): i / (sizes[s] + 1) for s in range(len(sizes)) for i in range(sizes[s])}
        forwards = rng.random() < 0.8
        for _ in range(rng.randint(1, 6)):
            for _ in range(rng.randint(0, 3)):
                if sum(size > 0 for size in sizes) < 2:
                    break
                (u, i), (t, j) = rng.sample(sorted(rank), 2)
                if u == t or (forwards and rank[u, i] >= rank[t, j]):
                    continue
                edges.append((u, i, t, j))
                learn(clocks, u, i, t, j)
            close(clocks)
            expected = closure(sizes, edges)
            cyclic = any((u, i) == (t, j) for u, i, t, j in expected)
            assert bool(clocks.state[CYCLE]) == cyclic, f"seed {seed}"
            if cyclic:
                cycles += 1
                break
            assert known(clocks) == expected, f"seed {seed}"
            closed += len(edges) > 0
    assert cycles > 10
    assert closed > 300


def test_rows_are_numbered_as_a_set_is_sorted() -> None:
    for seed in range(50 * SOAK):
        rng = np.random.default_rng(seed)
        n_rows = rng.choice([0, 1, 63, 64, 65, 300], 3).tolist()
        numbers, sets = no_nodes(n_rows), [set[int]() for _ in n_rows]
        for _ in range(3):
            stream = rng.integers(0, 3, rng.integers(0, 40)).astype(np.int32)
            row = rng.integers(-1, 1 + np.array(n_rows)[stream])
            mark_nodes(numbers, stream, row)
            for s, r in zip(stream.tolist(), row.tolist(), strict=True):
                sets[s] |= {r} if 0 <= r < n_rows[s] else set()
        expected = [sorted(some) for some in sets]
        ptr = np.full(4, -1, np.int64)
        count_nodes(numbers, ptr)
        assert np.diff(ptr).tolist() == [len(some) for some in expected], f"seed {seed}"
        rows = np.full(ptr[-1], -1, np.int64)
        list_nodes(numbers, rows)
        assert rows.tolist() == [row for some in expected for row in some], f"seed {seed}"
        for s, some in enumerate(expected):
            asked = np.arange(n_rows[s] + 1)
            found = np.empty(len(asked), np.int64)
            number_nodes(numbers, np.full(len(asked), s, np.int32), asked, found)
            assert found.tolist() == [sum(row < r for row in some) for r in asked.tolist()], f"seed {seed}"


def test_lines_are_sorted_as_python_sorts_them() -> None:
    for seed in range(50 * SOAK):
        line = np.random.default_rng(seed).integers(0, 5, seed).astype(np.int32)
        by = np.full(seed, -1, np.int64)
        sort_by_line(line, 5, by)
        assert by.tolist() == sorted(range(seed), key=lambda i: int(line[i]))


def test_writes_are_sorted_as_python_sorts_them() -> None:
    for seed in range(50 * SOAK):
        rng = np.random.default_rng(seed)
        n_streams, n_lines, n_tenures = 3, 4, 9
        stream = np.sort(rng.integers(0, n_streams, n_tenures)).astype(np.int32)
        line = rng.integers(0, n_lines, n_tenures).astype(np.int32)
        tenure = np.sort(rng.integers(0, n_tenures, rng.integers(0, 25))).astype(np.int32)
        ptr, by = np.zeros(n_lines * n_streams + 1, np.int64), np.empty(len(tenure), np.int64)
        final = np.empty(len(tenure), np.bool_)
        sort_writes(line, stream, tenure, n_streams, ptr, by, final)
        key = [(int(line[k]), int(stream[k])) for k in tenure]
        expected = sorted(range(len(tenure)), key=lambda w: key[w])
        assert by.tolist() == expected
        for place in range(n_lines * n_streams):
            here = [w for w in expected if key[w] == divmod(place, n_streams)]
            assert by[ptr[place] : ptr[place + 1]].tolist() == here
        sorted_tenures = tenure[by].tolist()
        assert final.tolist() == [
            sorted_tenures[at : at + 2].count(k) == 1 for at, k in enumerate(sorted_tenures)
        ]


def test_what_writes_leave_is_sorted_line_by_line() -> None:
    for seed in range(50 * SOAK):
        rng = np.random.default_rng(seed)
        ptr = np.concatenate([[0], np.cumsum(rng.integers(0, 50, 5))])
        after = rng.integers(0, 4, ptr[-1]).astype(np.uint64) << np.uint64(62)
        by = np.empty(len(after), np.int64)
        sort_each(after, ptr, by)
        expected = [
            k
            for first, end in zip(ptr[:-1].tolist(), ptr[1:].tolist(), strict=True)
            for k in sorted(range(first, end), key=lambda k: int(after[k]))
        ]
        assert by.tolist() == expected
