"""Traces that say the same as one before them are decided once, and told where they stand."""

from __future__ import annotations

import io
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import corebraid
from solver.axe import answers, text
from solver.axe.decide import Answer, decide
from solver.axe.same import Memory
from solver.axe.trace import Trace
from solver.regions.problem import Verdict, no_order

ILLEGAL = "0:M[1]:=1\n0:M[2]==0\n1:M[2]:=1\n1:M[1]==0\n"
LEGAL = "0:M[1]:=1\n1:M[1]==1\nfinal M[1]==1\n"


def _checked(said: str, **asked: Any) -> list[answers.Checked]:
    return list(corebraid.check(io.BytesIO(said.encode()), model="sc", **asked))


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """Traces that were decided, as they are."""
    seen = list[Trace]()

    def counted(trace: Trace, *given: Any, **named: Any) -> Answer:
        seen.append(trace)
        return decide(trace, *given, **named)

    monkeypatch.setattr(answers, "decide", counted)
    return seen


def test_the_same_is_decided_once_and_told_of_other_lines(decided: list[Trace]) -> None:
    said = f"{ILLEGAL}check\n# second\n\n{ILLEGAL}check\n{LEGAL}check\n{LEGAL}check\ncheck\ncheck\n"
    found = _checked(said, explain=True)
    assert [one.word for one in found] == ["NO", "NO", "OK", "OK", "OK", "OK"]
    assert len(decided) == 3
    assert [one.trace.line for one in found] == [1, 8, 13, 17, 21, 22]
    assert [one.trace.name for one in found] == ["", "second", "", "", "", ""]
    told = [one.reason.text(one.trace) for one in found if one.reason]
    assert [line.partition(":")[0] for line in told[0]] == [f"line {n}" for n in range(1, 5)]
    assert [line.partition(":")[0] for line in told[1]] == [f"line {n}" for n in range(8, 12)]
    assert [line.partition(": ")[2] for line in told[0]] == [line.partition(": ")[2] for line in told[1]]
    orders = [one.facts(witness=True)["order"] for one in found[2:4]]
    assert orders == [[13, 14], [17, 18]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0:M[1]==0", "0:M[1]==1"),
        ("0:M[1]==0", "0:M[2]==0"),
        ("0:M[1]:=1\n0:M[1]==1", "0:M[1]:=1\n1:M[1]==1"),
        ("0:M[1]:=1\nfinal M[1]==1", "0:M[1]:=1\nfinal M[1]==0"),
        ("0:M[1]:=1 # was 0", "0:M[1]:=1 # was 1"),
        ("0:M[1]:=1\n0:M[1]:=2", "0:M[1]:=1\n\n0:M[1]:=2"),
    ],
)
def test_what_differs_is_decided_by_itself(one: str, other: str, decided: list[Trace]) -> None:
    _checked(f"{one}\ncheck\n{other}\ncheck\n{one}\ncheck\n")
    assert len(decided) == 2


def test_a_trace_that_was_seen_before_is_made_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"0:M[4]:=7 # was 3\n{LEGAL}2:sync\n"
    said = f"{body}check\n# a name\n{body}check\n".encode()
    remembered = list(text.read_traces(io.BytesIO(said)))
    monkeypatch.setattr("solver.axe.same._MOST_ROWS", 0)
    made = list(text.read_traces(io.BytesIO(said)))
    assert remembered[0].said == remembered[1].said != made[0].said == b""
    for one, other in zip(remembered, made, strict=True):
        for field in fields(Trace):
            if field.name != "said":
                np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_what_was_not_decided_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def never(trace: Trace, *_: Any, **__: Any) -> Answer:
        tried.append(trace)
        return Answer(Verdict.UNDECIDED, no_order(), "", 1.0, "timeout")

    monkeypatch.setattr(answers, "decide", never)
    _checked(f"{LEGAL}check\n" * 3)
    assert len(tried) == 3


def test_not_more_is_remembered_than_that() -> None:
    memory = Memory[int](2)
    for number in range(3):
        memory.keep(bytes([number]), number)
    memory.keep(b"", 9)
    assert [memory.get(bytes([number])) for number in range(3)] == [None, 1, 2]
    assert memory.get(b"") is None
