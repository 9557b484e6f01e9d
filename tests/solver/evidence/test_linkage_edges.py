"""Edges of fork and join in Stride's inference (definition 4.1, e and f): bounds lowered as a naive twin does
it, and regions decided that were not without."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from cli_factory import ROOT
from problem_factory import Operation, breaks, build

import corebraid
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.engines.reorder import keep_edges
from solver.evidence.linkage.edges import tighten
from solver.evidence.linkage.engine import LinkageEngine
from solver.evidence.linkage.log import read_linkage
from solver.evidence.linkage.match import MATCHED, link
from solver.evidence.linkage.place import READS, WRITES, Placed
from solver.evidence.linkage.searched import edges_of_bounds, search_within_bounds
from solver.passes.unfiltered import iter_problems
from solver.regions.problem import Problem, Verdict

LINUX = ROOT / "firmware" / "linux" / "x86_64"


@dataclass(frozen=True)
class Run:
    """A region whose order is known. truth: the version that each operation met or made. order: operations
    as they ran."""

    problem: Problem
    placed: Placed
    truth: list[int]
    order: list[int]


def random_run(seed: int, n_streams: int = 4, n_granules: int = 3, n_ops: int = 40) -> Run:
    """Streams over few words and values, looks as late as the stream's next operation, and edges from the
    order that ran."""
    draw = random.Random(seed)
    memory, made = [0] * n_granules, [0] * n_granules
    streams: list[list[Operation]] = [[] for _ in range(n_streams)]
    ran: list[tuple[int, int, int, bool, int]] = []
    after = []
    for _ in range(n_ops):
        s, g, writes = draw.randrange(n_streams), draw.randrange(n_granules), draw.random() < 0.5
        new = draw.randrange(2) if writes else memory[g]
        streams[s].append([(g, memory[g], new)])
        memory[g], made[g] = new, made[g] + writes
        ran.append((s, len(streams[s]) - 1, g, writes, made[g]))
        after.append(list(made))
    problem = build(streams, [0] * n_granules, memory)
    number = [int(problem.stream_ptr[s]) + k for s, k, _, _, _ in ran]
    kind, version, truth = np.zeros(n_ops, np.uint8), np.zeros(n_ops, np.int64), [0] * n_ops
    pairs: list[list[int]] = []
    for i, (s, _, g, writes, at) in enumerate(ran):
        last = next((j for j in range(i + 1, n_ops) if ran[j][0] == s), n_ops)
        look = i if draw.random() < 0.3 else draw.randrange(i, last)
        kind[number[i]] = WRITES if writes else READS
        version[number[i]] = at if writes else after[look][g]
        truth[number[i]] = at
        if not writes and look > i and draw.random() < 0.7:
            # The read's stream meets another one before it looks: a call that wakes somebody, say.
            pairs.append([i, draw.randrange(i + 1, look + 1)])
    pairs += [sorted(draw.sample(range(n_ops), 2)) for _ in range(draw.randint(0, 8))]
    edges = [(number[i], number[j]) for i, j in pairs if ran[i][0] != ran[j][0]]
    problem = replace(problem, edges=np.array(edges, np.int64).reshape(-1, 2))
    nothing = np.zeros(n_ops, np.uint8)
    slot = problem.granule.astype(np.int64)
    return Run(problem, Placed(kind, version, slot, nothing, np.empty(0, np.int64), 0), truth, number)


def lowered_by_hand(run: Run) -> list[int]:
    """The versions after each read's bound is before all writes that come after it."""
    problem, n = run.problem, run.problem.n_ops
    stream, kind, version = problem.op_stream, run.placed.kind, run.placed.version
    behind = [[op + 1] if op + 1 < n and stream[op] == stream[op + 1] else [] for op in range(n)]
    for a, b in problem.edges.tolist():
        behind[a].append(b)
    found = []
    for op in range(n):
        seen, todo = {op}, [op]
        while todo:
            for other in behind[todo.pop()]:
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        mine = problem.granule[op]
        others = [
            int(version[w]) - 1
            for w in seen
            if kind[w] == WRITES and problem.granule[w] == mine and stream[w] != stream[op]
        ]
        found.append(min([int(version[op]), *others]) if kind[op] == READS else int(version[op]))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_bounds_are_lowered_as_by_hand_and_never_below_what_was_read(seed: int) -> None:
    run = random_run(seed)
    expected, before = lowered_by_hand(run), run.placed.version.copy()
    lowered = tighten(run.problem, run.placed)
    assert run.placed.version.tolist() == expected
    assert lowered == int((before != run.placed.version).sum())
    assert (run.placed.version >= np.array(run.truth)).all()


def test_regions_are_decided_that_were_not() -> None:
    """Of runs whose values repeat: those whose linkages go against the edges, without them and with."""
    undecided = [0, 0]
    for seed in range(200):
        for way in range(2):
            run = random_run(seed)
            if way:
                tighten(run.problem, run.placed)
            linked = link(run.problem, run.placed)
            assert linked.status == MATCHED
            order = keep_edges(run.problem, linked.order)
            undecided[way] += order is None
            assert order is None or breaks(run.problem, order.tolist()) == ""
    assert undecided[0] > 10, undecided
    assert undecided[1] < undecided[0] / 4, undecided


def edges_by_hand(run: Run, placed: Placed) -> set[tuple[int, int]]:
    """Of all pairs of operations (of one part each) those of which the bounds say that one comes first."""
    problem, n = run.problem, run.problem.n_ops
    stream, granule, version = problem.op_stream, problem.granule, placed.version
    writes = [op for op in range(n) if placed.kind[op] == WRITES]
    found = set()
    for a in range(n):
        others = [w for w in writes if granule[w] == granule[a] and w != a]
        later = [w for w in others if version[w] > version[a]]
        if later:
            found.add((a, min(later, key=lambda w: int(version[w]))))
        before = [w for w in others if version[w] <= version[a]]
        if placed.kind[a] == READS and placed.exact[a] and before:
            found.add((max(before, key=lambda w: int(version[w])), a))
    return {(a, b) for a, b in found if stream[a] != stream[b]}


@pytest.mark.parametrize("seed", range(60))
def test_what_bounds_say_of_orders_is_as_by_hand_and_true_of_the_run(seed: int) -> None:
    run = random_run(seed)
    known = (run.placed.kind == READS) & (run.placed.version == np.array(run.truth))
    placed = run.placed._replace(exact=known.astype(np.uint8))
    edges = edges_of_bounds(run.problem, placed)
    assert {(a, b) for a, b in edges.tolist()} == edges_by_hand(run, placed)
    rank = np.argsort(run.order)
    assert (rank[edges[:, 0]] < rank[edges[:, 1]]).all()


def test_where_linkages_go_against_edges_others_are_found() -> None:
    searched = [0, 0]
    for seed in range(1000):
        run, way = random_run(seed), int(seed >= 200)
        if way:
            tighten(run.problem, run.placed)
        linked = link(run.problem, run.placed)
        if keep_edges(run.problem, linked.order) is not None:
            continue
        searched[way] += 1
        found = search_within_bounds(run.problem, run.placed)
        assert found.verdict is Verdict.LEGAL
        assert breaks(run.problem, found.order.tolist()) == ""
        rank = np.argsort(found.order)
        for edges in (run.problem.edges, edges_of_bounds(run.problem, run.placed)):
            assert (rank[edges[:, 0]] < rank[edges[:, 1]]).all()
    assert searched[0] > 10, searched
    assert searched[1] > 3, searched


def test_bounds_that_nothing_keeps_have_no_order() -> None:
    """A write's version is said to be that of a later one."""
    for seed in range(30):
        run = random_run(seed)
        writes = np.flatnonzero(run.placed.kind == WRITES)
        writes = writes[run.problem.granule[writes] == 0]
        version = run.placed.version.copy()
        version[writes] = version[writes].max() + 1 - version[writes]
        found = search_within_bounds(run.problem, run.placed._replace(version=version))
        if found.verdict is Verdict.ILLEGAL:
            return
    pytest.fail("every run has an order with its writes turned round")


def test_regions_of_a_linux_program_are_decided_that_were_not(tmp_path: Path) -> None:
    """Its last read before a call that wakes somebody is looked at when that one has run."""
    path = tmp_path / "rec"
    corebraid.record(
        LINUX / "condvars", path, cores=4, seed=1, evidence="linkage", strata="cycles:20000", slice=300
    )
    recording, undecided, lowered = Recording.open(path), [0, 0], [0, 0]
    for way in range(2):
        engine = LinkageEngine(read_linkage(recording), with_edges=bool(way))
        for region, problem in iter_problems(RecordingTraces(recording)):
            undecided[way] += engine.solve(region, problem).verdict is Verdict.UNDECIDED
        lowered[way] = engine.lowered
    assert undecided[0] > 2
    assert undecided[1] == 0
    assert lowered[0] == 0 < lowered[1]


def test_edges_that_go_in_a_circle_lower_nothing() -> None:
    run = random_run(1)
    first, last = int(run.problem.stream_ptr[0]), int(run.problem.stream_ptr[1])
    circle = np.array([[first + 1, last], [last + 1, first]], np.int64)
    problem = replace(run.problem, edges=circle)
    before = run.placed.version.copy()
    assert tighten(problem, run.placed) == 0
    assert (run.placed.version == before).all()
