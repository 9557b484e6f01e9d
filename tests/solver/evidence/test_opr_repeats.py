"""A read that is repeated is placed where it was, as far as event orders tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opr_factory import recorded
from trace_factory import Made, Shape, make, problems

from corebraid.base.rows.event import FETCH, GLUED, READ
from corebraid.study.crosschecks import CrossChecked, crosschecked
from recorder.files.reader import Recording
from solver.evidence.opr import engine
from solver.evidence.opr.repeats import cut_repeats, list_cuts
from solver.regions.problem import Problem, Solution, Verdict

SHAPE = Shape(steps=60, hot=16, strata=0.0, spin=0.4, glued=0.1, aligned=True, sizes=(4, 8))


def naive_cuts(rows: np.ndarray, told: np.ndarray, problem: Problem, stream: int) -> list[tuple[int, int]]:
    """Operation and row of each cut, access by access."""
    found, begin = [], 0
    for op in range(problem.stream_ptr[stream], problem.stream_ptr[stream + 1]):
        end = int(problem.end_row[op])
        parts = problem.granule[problem.part_ptr[op] : problem.part_ptr[op + 1]]
        mine = {int(problem.address[g]) + b for g in parts for b in range(int(problem.size[g]))}
        accesses, group = [], []
        for i in range(begin, end):
            group.append(i)
            if not rows["flags"][i] & GLUED or i == end - 1:
                accesses.append(group)
                group = []
        # What was heard of since the last access of it that was no fetch.
        looked, grown = [], False
        for group in accesses:
            grown = grown or any(told[i] for i in group)
            touched = {
                int(rows["addr"][i]) + b for i in group for b in range(int(rows["size"][i]))
            }  # fmt: skip
            if not touched & mine:
                continue
            fetch = bool(rows["flags"][group[-1]] & FETCH)
            if looked and not fetch and (grown or set(looked) == {True}):
                found.append((op, group[0]))
                looked = []
            if not looked or not fetch:
                grown = False
            looked.append(fetch)
        begin = end
    return found


def _made(seed: int) -> tuple[Made, Problem, list[np.ndarray], list[np.ndarray]]:
    """A region, its problem, and for each stream its rows and where its clock has grown."""
    made = make(seed, SHAPE)
    rng = np.random.default_rng(seed)
    ((problem, _),) = list(problems(made.traces))
    rows = [rows.copy() for rows in made.traces.rows]
    for mine in rows:
        fetches = (mine["kind"] == READ) & (mine["flags"] == 0) & (rng.random(len(mine)) < 0.2)
        mine["flags"][fetches] |= FETCH
    return made, problem, rows, [rng.random(len(mine)) < 0.2 for mine in rows]


def _cuts(problem: Problem, rows: list[np.ndarray], told: list[np.ndarray]) -> np.ndarray:
    found = [np.empty((0, 2), np.int64)]
    for stream, (mine, grown) in enumerate(zip(rows, told, strict=True)):
        room = np.empty((len(mine), 2), np.int64)
        first, last = int(problem.stream_ptr[stream]), int(problem.stream_ptr[stream + 1])
        found.append(room[: list_cuts(mine, grown, first, last, problem.view, room)])
    return np.concatenate(found)


def test_cuts_are_where_they_are_by_hand() -> None:
    cut = 0
    for seed in range(150):
        _, problem, rows, told = _made(seed)
        by_hand = [
            one
            for stream, (mine, grown) in enumerate(zip(rows, told, strict=True))
            for one in naive_cuts(mine, grown, problem, stream)
        ]
        assert [tuple(one) for one in _cuts(problem, rows, told).tolist()] == by_hand, seed
        cut += len(by_hand)
    assert cut > 100


def _positions(made: Made) -> list[list[int]]:
    """Where each row of each stream stood in the run."""
    found: list[list[int]] = [[] for _ in made.traces.rows]
    for place, stream in enumerate(made.order):
        found[stream].append(place)
    return found


def _first_row(problem: Problem, op: int, stream: int, rows: np.ndarray) -> int:
    """The first row of an operation that touches its granules."""
    before = int(problem.end_row[op - 1]) if op > problem.stream_ptr[stream] else 0
    parts = problem.granule[problem.part_ptr[op] : problem.part_ptr[op + 1]]
    for i in range(before, int(problem.end_row[op])):
        for g in parts:
            low, high = int(problem.address[g]), int(problem.address[g]) + int(problem.size[g])
            if rows["addr"][i] < high and low < int(rows["addr"][i]) + int(rows["size"][i]):
                return i
    raise AssertionError("an operation without a row")


def test_pieces_where_they_ran_are_a_legal_order() -> None:
    """Whatever is cut. The rows are all placed, and each sees what the one before it left."""
    cut = 0
    for seed in range(60):
        made, problem, _, told = _made(seed)
        rows = made.traces.rows
        pieces = cut_repeats(problem, _cuts(problem, rows, told))
        fine, at = pieces.problem, _positions(made)
        streams = fine.op_stream.tolist()
        ran = [at[s][_first_row(fine, op, s, rows[s])] for op, s in enumerate(streams)]
        order = np.argsort(np.array(ran, np.int64), kind="stable").astype(np.int64)
        solution = pieces.joined(Solution(Verdict.LEGAL, "by hand", 0.0, order))
        assert sorted(solution.order.tolist()) == list(range(problem.n_ops)), seed
        cut += fine.n_ops - problem.n_ops
        if solution.runs is None:
            continue
        memory, done = made.memories[0].copy(), [0] * len(rows)
        for s, n in zip(*(runs.tolist() for runs in solution.runs), strict=True):
            for row in rows[s][done[s] : done[s] + n]:
                a, size = int(row["addr"]), int(row["size"])
                if a >= len(memory):
                    continue
                assert int.from_bytes(memory[a : a + size].tobytes(), "little") == row["old"], seed
                memory[a : a + size] = np.frombuffer(int(row["new"]).to_bytes(8, "little")[:size], np.uint8)
            done[s] += n
        assert done == [len(mine) for mine in rows], seed
    assert cut > 50


def test_edges_hold_of_all_pieces() -> None:
    """What came before an edge did so with its last repeat; what came after, with its first."""
    for seed in range(40):
        _, problem, rows, told = _made(seed)
        cuts = _cuts(problem, rows, told)
        if len(cuts):
            break
    op = int(cuts[0, 0])
    other = 0 if problem.op_stream[op] else problem.n_ops - 1
    problem = Problem(**{**vars(problem), "edges": np.array([[op, other], [other, op]], np.int64)})
    pieces = cut_repeats(problem, cuts)
    first, behind = int(pieces.first[op]), int(pieces.first[op + 1])
    assert behind - first > 1
    assert pieces.problem.edges[0, 0] == behind - 1
    assert pieces.problem.edges[1, 1] == first


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cores wait for a lock, which comes back and goes again between two looks at it."""
    folder = tmp_path_factory.mktemp("repeats")
    return recorded("bug_dcl", folder, 3, "0,1,2", longest_slice=40).path


def _crosschecked(path: Path) -> CrossChecked:
    return crosschecked(Recording.open(path), "opr", 20.0, lambda _: None, truth=True)


def test_a_look_at_a_lock_is_placed_where_it_was(locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _crosschecked(locked)
    assert found.wrong() == []
    assert found.scores["opr"].other == 0
    # Where all looks are one, those behind the first have another holder's lock as their source.
    monkeypatch.setattr(engine, "list_cuts", lambda *_: 0)
    without = _crosschecked(locked)
    assert without.scores["opr"].changed > 50
    assert without.found.disagreements == []
    assert all("engine opr" in line for line in without.wrong())
