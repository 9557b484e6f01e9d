"""Hints in comments: read as such, of use where they are right, and never the ground of an answer."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_factory import record, run

from bench.axe_oracle import is_legal
from bench.axe_traces import Op, Shape, corrupted, random_ops, to_trace
from solver.axe.chains import MODELS, make_chains
from solver.axe.decide import decide
from solver.axe.text import read_traces
from solver.axe.trace import RMW, STORE, Trace
from solver.regions.problem import Verdict


def test_hints_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.axe"
    path.write_text(
        "# in 9 was 9\n"
        "0: M[1] := 7 # in 3 was 18446744073709551615; 12, main+0x3\n"
        "0: M[1] := 8 #was 7\n"
        "0: M[1] == 8 # in 4\n"
        "1: sync # in 0; was 4\n"
        "1: M[1] := 9 # was here in 1999\n"
        "1: M[1] := 10 # was 9x\n"
        "1: M[1] == 10 # was 9 in 18446744073709551616\n"
        "1: M[1] := 2 # in 4294967296 was 1\n"
        "final M[1] == 2 # was 1\n"
    )
    (trace,) = read_traces(path)
    assert trace.hinted.tolist() == [True, True, False, False, False, False, False, True]
    assert trace.old[[0, 1, 7]].tolist() == [(1 << 64) - 1, 7, 1]
    assert trace.part_of.tolist() == [3, -1, 4, 0, -1, -1, -1, -1]
    assert trace.has_hints
    part = trace.part(np.arange(8) > 1, np.ones(1, np.bool_))
    assert not part.has_hints


def with_olds(ops: list[Op], trace: Trace, rng: random.Random, wrong: float) -> Trace:
    """The trace of an SC run with what each store overwrote and in which third of the run it was; a share of
    the hints is wrong."""
    memory: dict[int, int] = {}
    old, part_of = [], []
    for i, (_, kind, address, _, written) in enumerate(ops):
        old.append(memory.get(address, 0) if rng.random() >= wrong else rng.randrange(4))
        part_of.append(3 * i // len(ops) if rng.random() >= wrong else rng.randrange(4))
        if kind in (STORE, RMW):
            memory[address] = written
    return replace(
        trace,
        hinted=trace.kind == STORE,
        old=np.array(old, np.uint64),
        part_of=np.array(part_of, np.int32),
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("wrong", [0.0, 0.2, 1.0])
@pytest.mark.soak
def test_hints_never_change_the_answer(model: str, wrong: float) -> None:
    rng, answers = random.Random(3), Counter[tuple[str, str]]()
    for number in range(250):
        shape = Shape(3, 2, rng.randrange(4, 12), values=rng.choice([0, 2, 3]), rmw=0.2, finals=0.5)
        case = random_ops(shape, rng)
        if number % 2:
            case = corrupted(*case, rng)
        trace = with_olds(case[0], to_trace(*case), rng, wrong)
        answer = decide(trace, model, engine="search")
        legal = is_legal(*case, tso=model == "tso")
        assert answer.verdict is (Verdict.LEGAL if legal else Verdict.ILLEGAL), number
        answers[answer.verdict.value, answer.engine] += 1
        if not wrong and not number % 2:
            assert answer.engine == "hints"
    assert answers["legal", "hints"] > 20
    assert answers["legal", "search"] > 5 or not wrong
    assert not answers["illegal", "hints"]


def test_a_hint_alone_makes_no_trace_illegal() -> None:
    trace = to_trace([(0, STORE, 0, 0, 1), (1, STORE, 0, 0, 2)], [])
    lie = replace(trace, hinted=np.ones(2, np.bool_), old=np.array([5, 6], np.uint64))
    answer = decide(lie, "sc")
    assert (answer.verdict, answer.engine) == (Verdict.LEGAL, "search")


def test_parts_order_what_is_said_and_nothing_else() -> None:
    trace = to_trace([(0, STORE, 0, 0, 1), (0, STORE, 1, 0, 1), (1, STORE, 2, 0, 1), (1, STORE, 3, 0, 1)], [])
    said = replace(trace, part_of=np.array([0, -1, -1, 1], np.int32))
    need = make_chains(said, "sc", hints=True).need
    assert need.tolist() == [[0, 0], [1, 0], [0, 0], [1, 1]]
    back = replace(trace, part_of=np.array([1, 0, 0, 1], np.int32))
    assert make_chains(back, "sc", hints=True).need.tolist() == make_chains(trace, "sc").need.tolist()


@pytest.mark.parametrize("options", [[], ["--model", "tso"]])
def test_a_recording_is_decided_by_its_hints(options: list[str], tmp_path: Path) -> None:
    """Values repeat, and without what was overwritten this takes far longer."""
    assert record(tmp_path / "rec", "spin_ticket", "--cores", 3, *options).code == 0
    file = tmp_path / "t.axe"
    assert run("trace", tmp_path / "rec", "--format", "axe", "-o", file).code == 0
    model = options[-1] if options else "sc"
    (facts,) = json.loads(run("check", file, "--model", model, "--json").out)["traces"]
    assert (facts["verdict"], facts["engine"]) == ("OK", "hints")
    text = file.read_text()
    stores = [line for line in text.splitlines() if re.match(r"\d+: M\[\d+\] :=", line)]
    assert stores
    assert all(re.search(r"# in \d+ was \d+( is @\d+)?( after @\d+)*;", line) for line in stores)
    # A read of a value that nobody stores is NO whatever the hints say.
    broken, times = re.subn(r"(\d+: M\[\d+\] ==) \d+", r"\1 987654321", text, count=1)
    assert times == 1
    file.write_text(broken)
    assert run("check", file, "--model", model).out == "NO\n"
