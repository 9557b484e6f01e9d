"""Hints that name operations: read, demanded as far as they go, never the ground of an answer; and those of
an export are true of what ran and leave nothing out."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from axe_twin import naive_check
from cli_factory import FIRMWARE, run

from bench.axe_oracle import is_legal
from bench.axe_traces import Shape, corrupted, random_ops, to_trace
from bench.true_tenures import ranks_of
from corebraid.base.rows.event import EVENT, UNCACHED
from corebraid.study.export import axe_ties
from corebraid.study.export.axe_ties import region_edges
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces
from solver.axe import hinted
from solver.axe.chains import MODELS
from solver.axe.decide import CONTRADICTED, GIVEN_UP, MET, decide
from solver.axe.text import read_traces
from solver.axe.trace import RMW, STORE, Trace
from solver.regions.problem import Problem, Solution, Verdict
from solver.sifting.strata import iter_regions
from solver.tenures.buffered_edges import not_told
from solver.tenures.edges import row_edges

#: Legal, but not if thread 1 was first.
FINE = "0: M[1] := 1 # was 0 is @7 after @9\n1: M[1] == 1 # is @9\n"


def test_names_and_what_waits_for_them_are_read(tmp_path: Path) -> None:
    file = tmp_path / "t.axe"
    file.write_text(
        "0: M[1] := 1 # in 2 was 0 is @18446744073709551615 after @3; after @99\n"
        "1: M[1] == 1 # after @18446744073709551615 after @3 nothing after @98\n"
        "check # after @97\n"
        "1: M[1] == 0 # is @ 4\n2: sync # is @3x\n# after @3\n2: M[1] == 0 # is @5 is @6\n"
        "3: M[1] == 0 # after @6 after @5 after @5\ncheck\n"
        "2: M[1] := 1 # is @3\n3: M[1] == 1 # after @3\n"
    )
    file.write_text(file.read_text().replace("check # after", "2: sync # is @3\ncheck # after", 1))
    first, second, third = read_traces(file)
    assert first.edges.tolist() == [[2, 0], [0, 1], [2, 1]]
    assert second.edges.tolist() == [[2, 3]] * 3
    assert third.edges.tolist() == [[0, 1]]
    assert not any(len(trace.edges) or trace.has_hints for trace in read_traces(file, hints=False))
    assert not len(first.part(np.ones(3, np.bool_), np.zeros(0, np.bool_)).edges)


def test_as_many_hints_as_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solver.axe.text._ROWS", 2)
    lines = [f"0: M[1] == 0 # is @{i}" for i in range(300)]
    lines += ["1: M[1] == 0 # " + " ".join(f"after @{i}" for i in range(300))] * 3
    file = tmp_path / "t.axe"
    file.write_text("\n".join(lines))
    (trace,) = read_traces(file)
    assert np.unique(trace.edges[:, 1], return_counts=True)[1].tolist() == [256] * 3


@pytest.mark.parametrize(
    ("content", "line", "parts"),
    [
        ("0: sync\n1: sync # after @4\n", 2, ["expected an operation with 'is @4'", "found 'after @4'"]),
        ("0: sync # is @4\ncheck\n1: sync # after @4\n", 3, ["is not in the trace"]),
        ("0: sync # is @4\n1: sync # is @5\n2: sync # is @4\n", 3, ["the name of another", "in line 1"]),
    ],
)
def test_a_name_that_is_nobodys_or_of_two_is_bad_input(
    content: str, line: int, parts: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "t.axe"
    file.write_text(content)
    ran = run("check", file, "--model", "sc")
    assert ran.code == 2
    assert ran.lines[-1].startswith(f"corebraid: {file}:{line}: ")
    assert all(part in ran.lines[-1] for part in [*parts, "--no-hints"])
    assert run("check", file, "--model", "sc", "--no-hints").code == 0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("all_said", [False, True])
def test_wrong_hints_are_called_so_and_change_no_answer(model: str, all_said: bool, tmp_path: Path) -> None:
    file = tmp_path / "t.axe"
    fine = FINE if all_said else FINE.replace("was 0 ", "")
    file.write_text(fine)
    ran = run("check", file, "--model", model)
    assert (ran.code, ran.out) == (0, "OK\n")
    assert "contradict the trace" in ran.lines[-1]
    (facts,) = json.loads(run("check", file, "--model", model, "--json").out)["traces"]
    assert (facts["verdict"], facts["hints"], facts["engine"]) == ("OK", CONTRADICTED, "search")
    ran = run("check", file, "--model", model, "--no-hints")
    assert (ran.code, ran.out, ran.err) == (0, "OK\n", "")
    file.write_text(fine.replace("1: M[1] == 1", "1: M[1] == 2"))
    ran = run("check", file, "--model", model)
    assert (ran.code, ran.out, ran.err) == (1, "NO\n", "")
    file.write_text(fine.replace("0: M[1] := 1", "0: M[1] == 1").replace("1: M[1] == 1", "1: M[1] := 1"))
    (facts,) = json.loads(run("check", file, "--model", model, "--json").out)["traces"]
    assert (facts["verdict"], facts["hints"], facts["engine"]) == ("OK", MET, "hints")


def hinted_by(
    trace: Trace,
    order: list[int],
    rng: random.Random,
    *,
    parts: int = 3,
    edges: int = 4,
    all_said: bool = True,
) -> Trace:
    """The trace with what is true of an order of it."""
    memory: dict[int, int] = {}
    old, part_of = np.zeros(trace.n_ops, np.uint64), np.zeros(trace.n_ops, np.int32)
    for i, op in enumerate(order):
        if trace.kind[op] in (STORE, RMW):
            old[op] = memory.get(int(trace.address[op]), 0)
            memory[int(trace.address[op])] = int(trace.written[op])
        part_of[op] = parts * i // len(order)
    pairs = [sorted(rng.sample(range(len(order)), 2)) for _ in range(edges if len(order) > 1 else 0)]
    hints = trace.kind == STORE
    if not all_said and hints.any():
        hints = hints & (np.arange(trace.n_ops) != int(np.flatnonzero(hints)[-1]))
    told = np.array([[order[i], order[k]] for i, k in pairs], np.int64).reshape(-1, 2)
    return replace(trace, hinted=hints, old=old, part_of=part_of, edges=told)


def meets(trace: Trace, order: list[int], model: str) -> bool:
    """Whether an order, legal or not, is as the hints say."""
    at = {op: i for i, op in enumerate(order)}
    if any(at[first] >= at[then] for first, then in trace.edges.tolist()):
        return False
    memory: dict[int, int] = {}
    for op in order:
        address = int(trace.address[op])
        if trace.hinted[op] and memory.get(address, 0) != int(trace.old[op]):
            return False
        if trace.kind[op] in (STORE, RMW):
            memory[address] = int(trace.written[op])
    chain = trace.thread * 2 + ((trace.kind == STORE) & (model == "tso"))
    goes_on = all((np.diff(trace.part_of[chain == k]) >= 0).all() for k in np.unique(chain))
    return not goes_on or bool((np.diff(trace.part_of[order]) >= 0).all())


def a_trace(rng: random.Random, model: str, most: int) -> tuple[Trace, list[int]]:
    """A legal trace, and a legal order of it."""
    shape = Shape(
        3, rng.choice([2, 3]), rng.randrange(2, most), values=rng.choice([0, 2, 3]), rmw=0.2, finals=0.5,
        tso=model == "tso", drain=0.2,
    )  # fmt: skip
    trace = to_trace(*random_ops(shape, rng))
    return trace, decide(trace, model, engine="search").order.tolist()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("all_said", [False, True])
def test_the_order_found_meets_every_hint(model: str, all_said: bool) -> None:
    rng = random.Random(31)
    for number in range(300):
        plain, order = a_trace(rng, model, 40)
        trace = hinted_by(plain, order, rng, parts=rng.choice([1, 3]), edges=12, all_said=all_said)
        answer = decide(trace, model, engine="search")
        assert (answer.verdict, answer.hints, answer.engine) == (Verdict.LEGAL, MET, "hints"), number
        assert meets(trace, answer.order.tolist(), model), number


@pytest.mark.parametrize("model", MODELS)
def test_an_edge_left_out_is_noticed(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the engines are not told the last edge of each trace."""
    right = hinted.make_chains
    monkeypatch.setattr(
        hinted, "make_chains", lambda trace, *a, **k: right(replace(trace, edges=trace.edges[:-1]), *a, **k)
    )
    rng, missed = random.Random(31), 0
    for _ in range(300):
        plain, order = a_trace(rng, model, 40)
        trace = hinted_by(plain, order, rng, parts=1, edges=12)
        missed += not meets(trace, decide(trace, model, engine="search").order.tolist(), model)
    assert missed


@pytest.mark.parametrize("model", MODELS)
def test_hints_are_met_or_contradicted_as_all_orders_say(model: str) -> None:
    """Against every permutation of tiny traces; hints are right, partly or all wrong."""
    rng, told = random.Random(8), Counter[str]()
    for number in range(250):
        plain, order = a_trace(rng, model, 7)
        trace = hinted_by(plain, order, rng, parts=rng.choice([1, 2]), edges=rng.randrange(3))
        if number % 3:
            wrong = rng.random() < 0.5
            swapped = trace.edges[:, ::-1].copy() if wrong else trace.edges
            old = trace.old.copy()
            if not wrong:
                old[rng.randrange(trace.n_ops)] = rng.randrange(3)
            part_of = (
                np.array([rng.randrange(2) for _ in order], np.int32) if number % 6 == 1 else trace.part_of
            )
            trace = replace(trace, edges=swapped, old=old, part_of=part_of)
        if not trace.has_hints:
            continue
        some = any(
            naive_check(trace, list(found), model) and meets(trace, list(found), model)
            for found in itertools.permutations(range(trace.n_ops))
        )
        answer = decide(trace, model, engine="search")
        assert answer.verdict is Verdict.LEGAL
        assert answer.hints == (MET if some else CONTRADICTED), number
        told[answer.hints] += 1
    assert min(told[MET], told[CONTRADICTED]) > 30, told
    assert not told[GIVEN_UP]


@pytest.mark.parametrize("model", MODELS)
def test_no_hint_changes_an_answer(model: str) -> None:
    rng, told = random.Random(12), Counter[tuple[str, str]]()
    for number in range(300):
        shape = Shape(3, 2, rng.randrange(4, 12), values=rng.choice([0, 2, 3]), rmw=0.2, finals=0.5)
        case = corrupted(*random_ops(shape, rng), rng)
        plain = to_trace(*case)
        order = rng.sample(range(plain.n_ops), plain.n_ops)
        trace = hinted_by(plain, order, rng, parts=rng.choice([1, 2]), edges=rng.randrange(3))
        answer = decide(trace, model, engine="search")
        legal = is_legal(*case, tso=model == "tso")
        assert answer.verdict is (Verdict.LEGAL if legal else Verdict.ILLEGAL), number
        told[answer.verdict.value, answer.hints] += 1
    assert told["legal", CONTRADICTED] > 20, told
    assert not told["illegal", MET], told


RECORDINGS = [
    ("uts", ["--cores", 4, "--strata", "none"]),
    ("bug_aba", ["--cores", 8, "--strata", "cycles:5000", "--slice", 100]),
    ("dma_race", ["--cores", 4, "--strata", "cycles:20000"]),
    ("uts", ["--model", "tso", "--cores", 4, "--strata", "none"]),
    ("spin_mcs", ["--model", "tso", "--cores", 8, "--strata", "cycles:5000", "--slice", 60]),
]


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda value: "".join(map(str, [value[0], *value[1]])))
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording, rec, and its trace, t.axe."""
    name, options = request.param
    path = tmp_path_factory.mktemp("ties")
    ran = run("record", "-o", path / "rec", *options, FIRMWARE / f"{name}.elf")
    assert ran.code == 0, ran.err
    assert run("trace", path / "rec", "--format", "axe", "-o", path / "t.axe").code == 0
    return path


def edges_in(path: Path) -> tuple[Recording, list[tuple[int, int, int, int]]]:
    """All that `region_edges` says, where every row but a device's is exported."""
    recording = Recording.open(path)
    traces = RecordingTraces(recording, constraints=LOSSES)
    return recording, [e for region in iter_regions(traces) for e in region_edges(region, memory_rows)]


def memory_rows(rows: np.ndarray) -> np.ndarray:
    """Rows that touch memory."""
    return np.flatnonzero(rows["flags"] & np.uint8(UNCACHED) == 0)


def test_what_an_export_says_is_true_of_what_ran(exported: Path) -> None:
    recording, edges = edges_in(exported / "rec")
    assert edges
    rows = [np.concatenate([np.zeros(0, EVENT), *s]) for s in RecordingTraces(recording).streams()]
    ranks = ranks_of(recording)
    when = [
        dict(zip(stream["seq"].tolist(), rank.tolist(), strict=True))
        for stream, rank in zip(rows, ranks, strict=True)
    ]
    for first, before, then, seq in edges:
        assert when[first][before] < when[then][seq]


def test_what_tenures_prove_is_said(exported: Path) -> None:
    """Each edge between rows, naively: some exported edge of the two streams begins no earlier and ends no
    later."""
    recording, _ = edges_in(exported / "rec")
    for region in iter_regions(RecordingTraces(recording, constraints=LOSSES)):
        kept = [
            np.concatenate([np.zeros(0, EVENT), *rows.pieces()])["seq"].astype(np.int64)
            for rows in region.streams
        ]
        said = list(region_edges(region, lambda rows: np.arange(len(rows))))
        assert region.tenures is not None
        found = region.tenures.deduced(region)
        for s, rows, t, row in not_told(row_edges(found.clocks), found.ties).tolist():
            before, seq = kept[s][rows - 1], kept[t][row]
            assert any((s, t) == (e[0], e[2]) and e[1] >= before and e[3] <= seq for e in said)


def test_names_stand_where_the_edges_say(exported: Path) -> None:
    """In the file: by thread and instruction count of both ends."""
    recording = Recording.open(exported / "rec")
    traces = RecordingTraces(recording, constraints=LOSSES)
    rows = [np.concatenate([np.zeros(0, EVENT), *s]) for s in traces.streams()]
    counts = [dict(zip(r["seq"].tolist(), r["count"].tolist(), strict=True)) for r in rows]
    n_threads = traces.n_streams - traces.buffered
    (trace,) = read_traces(exported / "t.axe")
    lines = (exported / "t.axe").read_text().splitlines()
    touched = np.array([a for a in trace.addresses.tolist() if a < traces.memory_bytes], np.uint64)

    def touching(piece: np.ndarray) -> np.ndarray:
        first = np.searchsorted(touched, piece["addr"])
        last = np.searchsorted(touched, piece["addr"] + piece["size"])
        return np.flatnonzero((last > first) & (piece["flags"] & np.uint8(UNCACHED) == 0))

    def ran(stream: int, seq: int) -> tuple[int, int]:
        # Lines of agents do not say a count.
        return stream % n_threads, -1 if stream == n_threads - 1 else counts[stream][seq]

    def stands(op: int) -> tuple[int, int]:
        line = lines[int(trace.lines[op]) - 1]
        said = re.search(r"; (\d+), 0x", line)
        return int(line.partition(":")[0]), int(said[1]) if said else -1

    told = Counter(
        (ran(first, before), ran(then, seq))
        for region in iter_regions(traces)
        for first, before, then, seq in region_edges(region, touching)
    )
    assert Counter((stands(first), stands(then)) for first, then in trace.edges.tolist()) == told


def test_an_export_is_decided_by_its_hints(exported: Path) -> None:
    model = "tso" if RecordingTraces(Recording.open(exported / "rec")).buffered else "sc"
    (facts,) = json.loads(run("check", exported / "t.axe", "--model", model, "--json").out)["traces"]
    assert (facts["verdict"], facts["engine"], facts["hints"]) == ("OK", "hints", MET)


def test_planted_edges_the_wrong_way_round_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: an export whose edges are turned. The trace is as legal as before, and its hints are not
    believed."""
    right = axe_ties.region_edges

    def turned(*arguments: object) -> object:
        for first, before, then, seq in right(*arguments):  # type: ignore[arg-type]
            yield then, seq, first, before

    monkeypatch.setattr(axe_ties, "region_edges", turned)
    ran = run("record", "-o", tmp_path / "rec", "--cores", 2, "--strata", "none", FIRMWARE / "fig1.elf")
    assert ran.code == 0, ran.err
    file = tmp_path / "t.axe"
    assert run("trace", tmp_path / "rec", "--format", "axe", "-o", file).code == 0
    (trace,) = read_traces(file)
    assert len(trace.edges)
    answer = decide(trace, "sc", timeout_s=20)
    assert answer.hints == CONTRADICTED
    assert answer.verdict is not Verdict.ILLEGAL


def test_a_wrong_order_that_hints_gave_is_never_called_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: engines that put the operations in any order."""
    rng, wrong = random.Random(2), 0
    right = hinted.solve_auto

    def shuffled(problem: Problem, **options: object) -> Solution:
        solution = right(problem, **options)  # type: ignore[arg-type]
        return replace(
            solution, order=np.array(rng.sample(solution.order.tolist(), len(solution.order)), np.int64)
        )

    monkeypatch.setattr(hinted, "solve_auto", shuffled)
    for _ in range(40):
        plain, order = a_trace(rng, "sc", 20)
        answer = decide(hinted_by(plain, order, rng), "sc", engine="search")
        assert answer.verdict is Verdict.LEGAL
        assert naive_check(plain, answer.order.tolist(), "sc")
        wrong += answer.hints == CONTRADICTED
    assert wrong
