"""What tenures prove: true of every run, and what the same rules give in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from engine_suite import SOAK
from tenure_factory import Naive, Run, naive_tenures, pairs_of

from solver.regions.region import Region
from solver.sifting.strata import iter_regions
from solver.tenures import deduce
from solver.tenures.clocks import learn
from solver.tenures.deduce import Deduced
from solver.tenures.edges import row_edges


def deduced(run: Run, *, losses: bool = False) -> Iterator[tuple[Region, Deduced]]:
    """What is deduced of every region of a run. losses: from those too."""
    for region in iter_regions(run.traces(losses=losses)):
        assert region.tenures is not None
        yield region, region.tenures.deduced(region)


def false_edges(run: Run, *, losses: bool = False) -> tuple[int, list[list[int]], int]:
    """(how many edges, those that do not hold in the run, how many regions contradict themselves)."""
    ranks, base = run.ranks(), [0] * (len(run.cores) + 1)
    n, false, contradictions = 0, [], 0
    for region, found in deduced(run, losses=losses):
        contradictions += found.contradiction
        for edge in row_edges(found.clocks).tolist():
            s, rows, t, row = edge
            n += 1
            if ranks[s][base[s] + rows - 1] > ranks[t][base[t] + row]:
                false.append([region.index, *edge])
        base = [first + len(rows) for first, rows in zip(base, region.streams, strict=True)]
    return n, false, contradictions


def soundness(seeds: range, *, forgetting: bool = False) -> int:
    """Assert that everything deduced of random runs is true; how many edges there were."""
    edges = 0
    for seed in seeds:
        n, false, contradictions = false_edges(Run(seed, forgetting=forgetting))
        assert not contradictions, f"Run({seed})"
        assert not false, f"Run({seed})"
        edges += n
    return edges


@pytest.mark.sampled(1)
@pytest.mark.parametrize("forgetting", [False, True])
def test_what_is_deduced_is_true_of_random_runs(forgetting: bool) -> None:
    edges = soundness(range(400 * SOAK), forgetting=forgetting)
    print(f"{edges} edges")
    assert edges > 3000


def test_the_rules_in_plain_python_find_the_same() -> None:
    seen: Counter[str] = Counter()
    for seed in range(120 * SOAK):
        run = Run(seed)
        n = len(run.cores) + 1
        for (_, found), tenures in zip(deduced(run), naive_tenures(run), strict=True):
            naive = Naive(tenures, n, run.unbounded)
            assert found.contradiction == naive.wrong, f"Run({seed})"
            expected = {(a, b) for a, b in naive.before if a[0] != b[0]}
            assert pairs_of(found.clocks, n) == expected, f"Run({seed})"
            seen["pairs"] += len(expected)
    print(dict(seen))
    assert seen["pairs"] > 5000


def reduced_closure(edges: list[list[int]], found: Deduced, n: int) -> set[Any]:
    """All that row edges and the order of each stream imply, between nodes."""
    clocks = found.clocks
    nodes = [(s, int(r)) for s in range(n) for r in clocks.row[clocks.ptr[s] : clocks.ptr[s + 1]]]
    after = {a: {b for b in nodes if a[0] == b[0] and a[1] < b[1]} for a in nodes}
    for s, rows, t, row in edges:
        after[s, rows - 1].add((t, row))
    closed = set()
    for a in nodes:
        todo, seen = list(after[a]), set()
        while todo:
            b = todo.pop()
            if b not in seen:
                seen.add(b)
                todo += after[b]
        closed |= {(a, b) for b in seen if b[0] != a[0]}
    return closed


def test_row_edges_imply_all_that_is_known_and_none_implies_another() -> None:
    for seed in range(60):
        run = Run(seed)
        n = len(run.cores) + 1
        for _, found in deduced(run):
            edges = row_edges(found.clocks).tolist()
            known = pairs_of(found.clocks, n)
            assert reduced_closure(edges, found, n) == known, f"Run({seed})"
            for k in range(len(edges)):
                fewer = edges[:k] + edges[k + 1 :]
                assert reduced_closure(fewer, found, n) != known, f"Run({seed}), {edges[k]}"


def unsound_foreign(t: Any, p: Any, c: Any) -> None:
    """Takes the first foreign write to a line for one that comes after every tenure."""
    n = c.clock.shape[1]
    for k in range(len(t.line)):
        for u in range(n):
            begin, end = p.ptr[t.line[k] * n + u], p.ptr[t.line[k] * n + u + 1]
            if u != t.stream[k] and begin < end:
                learn(c, np.int64(t.stream[k]), p.last[k], np.int64(u), p.node[end - 1])


def unsound_misses(t: Any, p: Any, c: Any, earlier: Any) -> int:
    """Takes the first foreign write to a line for the one that every miss on it proves."""
    n = c.clock.shape[1]
    for k in np.flatnonzero(earlier[:, 0] >= 0):
        for u in range(n):
            begin, end = p.ptr[t.line[k] * n + u], p.ptr[t.line[k] * n + u + 1]
            if u != t.stream[k] and begin < end:
                learn(c, np.int64(t.stream[k]), p.last[earlier[k, 0]], np.int64(u), p.node[begin])
    return -1


def unsound_contents(t: Any, p: Any, c: Any, w: Any, a: Any) -> int:
    """Takes the first write that leaves what a tenure found for the one that it saw."""
    for k in range(len(t.line)):
        fits = [x for x in range(len(p.node)) if p.after[x] == t.before[k] and p.tenure[x] != k]
        if fits and t.known[k] and t.stream[p.tenure[fits[0]]] != t.stream[k]:
            learn(
                c, np.int64(t.stream[p.tenure[fits[0]]]), p.node[fits[0]], np.int64(t.stream[k]), p.first[k]
            )
    return -1


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("apply_foreign", unsound_foreign),
        ("apply_contents", unsound_contents),
        ("apply_misses", unsound_misses),
    ],
)
def test_an_unsound_rule_is_caught(
    name: str, rule: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduce, name, rule)
    with pytest.raises(AssertionError):
        soundness(range(40))


def test_a_miss_is_no_proof_where_lines_are_evicted() -> None:
    """The rule of misses on runs with evictions: what it finds is not all true."""
    noticed = 0
    for seed in range(200):
        run = Run(seed)
        if not run.unbounded:
            run.unbounded = True
            _, false, contradictions = false_edges(run)
            noticed += bool(false or contradictions)
    assert noticed > 5


def test_a_machine_that_does_not_log_its_misses_is_noticed() -> None:
    """Runs in which a lost line is used on: not everything that is deduced of them is true."""
    noticed = 0
    for seed in range(60):
        try:
            _, false, contradictions = false_edges(Run(seed, careless=True))
        except KeyError:
            continue
        noticed += bool(false or contradictions)
    assert noticed > 20
