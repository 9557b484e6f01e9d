"""Litmus tests with known answers, and what is peculiar to repeated values, buffers, fences and atomics."""

from __future__ import annotations

from pathlib import Path

import pytest

from solver.axe.decide import decide
from solver.axe.explain import explain
from solver.axe.text import read_traces
from solver.regions.problem import Verdict

#: name: (allowed under SC, under TSO, operations separated by '|'); x is M[1], y M[2], z M[3].
LITMUS = {
    "SB": (False, True, "0: x := 1 | 0: y == 0 | 1: y := 1 | 1: x == 0"),
    "SB+fences": (False, False, "0: x := 1 | 0: sync | 0: y == 0 | 1: y := 1 | 1: sync | 1: x == 0"),
    "SB+one fence": (False, True, "0: x := 1 | 0: sync | 0: y == 0 | 1: y := 1 | 1: x == 0"),
    "SB+atomics": (False, False, "0: {x == 0; x := 1} | 0: y == 0 | 1: {y == 0; y := 1} | 1: x == 0"),
    "SB+atomic elsewhere": (
        False,
        False,
        "0: x := 1 | 0: {z == 0; z := 0} | 0: y == 0 | 1: y := 1 | 1: {v4 == 0; v4 := 0} | 1: x == 0",
    ),
    "MP": (False, False, "0: x := 1 | 0: y := 1 | 1: y == 1 | 1: x == 0"),
    "MP allowed": (True, True, "0: x := 1 | 0: y := 1 | 1: y == 1 | 1: x == 1"),
    "LB": (False, False, "0: x == 1 | 0: y := 1 | 1: y == 1 | 1: x := 1"),
    "IRIW": (False, False, "0: x := 1 | 1: y := 1 | 2: x == 1 | 2: y == 0 | 3: y == 1 | 3: x == 0"),
    "2+2W": (False, False, "0: x := 1 | 0: y := 2 | 1: y := 1 | 1: x := 2 | final x == 1 | final y == 1"),
    "CoRR": (False, False, "0: x := 1 | 1: x == 1 | 1: x == 0"),
    "CoRR of two": (False, False, "0: x := 1 | 1: x := 2 | 2: x == 1 | 2: x == 2 | 3: x == 2 | 3: x == 1"),
    "CoWR": (False, False, "0: x := 1 | 0: x == 0"),
    "CoRW": (False, False, "0: x == 1 | 0: x := 1"),
    "R": (False, True, "0: x := 1 | 0: y := 1 | 1: y := 2 | 1: x == 0 | final y == 2"),
    "S": (False, False, "0: x := 2 | 0: y := 1 | 1: y == 1 | 1: x := 1 | final x == 2"),
    "RWC": (False, True, "0: x := 1 | 1: x == 1 | 1: y == 0 | 2: y := 1 | 2: x == 0"),
    "RWC+fence": (False, False, "0: x := 1 | 1: x == 1 | 1: y == 0 | 2: y := 1 | 2: sync | 2: x == 0"),
    "WRC": (False, False, "0: x := 1 | 1: x == 1 | 1: y := 1 | 2: y == 1 | 2: x == 0"),
    "n6": (False, True, "0: x := 1 | 0: x == 1 | 0: y == 0 | 1: y := 2 | 1: x := 2 | final x == 1"),
    "n5": (False, False, "0: x := 1 | 0: x == 2 | 1: x := 2 | 1: x == 1"),
    "n4": (
        False,
        False,
        "0: x == 2 | 0: x := 1 | 0: x == 1 | 1: x == 1 | 1: x := 2 | 1: x == 2",
    ),
    "forwarding": (
        False,
        True,
        "0: x := 1 | 0: x == 1 | 0: y == 0 | 1: y := 1 | 1: y == 1 | 1: x == 0",
    ),
    "3.SB": (False, True, "0: x := 1 | 0: y == 0 | 1: y := 1 | 1: z == 0 | 2: z := 1 | 2: x == 0"),
    # The final store of x must wait in the buffer while the other thread's comes between: running a store
    # of what memory holds already at once, or dropping it, would answer NO.
    "silent store": (True, True, "0: x := 1 | 0: x := 1 | 1: x := 2 | 1: y := 1 | 0: y == 1 | final x == 1"),
    "silent store delayed": (
        False,
        True,
        "0: x := 1 | 0: sync | 0: x := 1 | 0: y == 0 | 1: x := 2 | 1: y := 1 | 1: sync | 1: x == 2 "
        "| final x == 1",
    ),
    "repeated value": (True, True, "0: x := 1 | 1: x := 2 | 2: x == 1 | 2: x == 2 | 2: x == 1 | 0: x := 1"),
    "own future store": (False, False, "0: x == 1 | 0: x := 1 | 1: y := 1"),
    "store of zero": (True, True, "0: x := 1 | 0: x := 0 | 1: x == 1 | 1: x == 0"),
    "two atomics": (False, False, "0: {x == 0; x := 1} | 1: {x == 0; x := 2}"),
    "atomics in turn": (True, True, "0: {x == 0; x := 1} | 1: {x == 1; x := 0} | 0: {x == 0; x := 1}"),
    "atomic and store": (False, False, "0: {x == 0; x := 1} | 1: x := 2 | 2: x == 1 | 2: x == 2 | 2: x == 1"),
    "store between": (
        False,
        False,
        "0: {x == 1; x := 2} | 1: x := 1 | 1: x := 3 | 2: x == 1 | 2: x == 3 | 2: x == 2 | 2: x == 3",
    ),
    "never written": (False, False, "0: x == 7"),
    "final of nothing": (True, True, "0: y := 1 | final x == 0"),
    "final never written": (False, False, "0: y := 1 | final x == 3"),
    "finals contradict": (False, False, "0: x := 1 | 1: x := 2 | final x == 1 | final x == 2"),
    "final given twice": (True, True, "0: x := 1 | 1: x := 2 | final x == 1 | final x == 1"),
    "nothing": (True, True, ""),
    "nothing but a final value": (True, True, "final x == 0"),
    "nothing but another final value": (False, False, "final x == 1"),
    "only fences": (True, True, "0: sync | 1: sync"),
    # Time stamps order nothing under SC and TSO (axe manual, section 2): SB stays allowed under TSO.
    "stamps": (False, True, "0: x := 1 @ 1: | 0: y == 0 @ 9:10 | 1: y := 1 @ 1: | 1: x == 0 @ 9:10"),
    "stamps of other threads": (True, True, "0: x == 1 @ 1:2 | 1: x := 1 @ 5:"),
}  # fmt: skip


def content(lines: str) -> str:
    """The text of a test."""
    for name, location in (("x", "M[1]"), ("y", "M[2]"), ("z", "M[3]")):
        lines = lines.replace(f"{name} ", f"{location} ")
    return lines.replace(" | ", "\n") + "\ncheck\n"


@pytest.mark.parametrize("engine", ["search", "smt"])
@pytest.mark.parametrize("name", list(LITMUS))
def test_litmus(name: str, engine: str, tmp_path: Path) -> None:
    sc, tso, lines = LITMUS[name]
    path = tmp_path / "t"
    path.write_text(content(lines))
    (trace,) = read_traces(path)
    for model, allowed in (("sc", sc), ("tso", tso)):
        answer = decide(trace, model, engine=engine)
        assert answer.verdict is (Verdict.LEGAL if allowed else Verdict.ILLEGAL), model
        assert sorted(answer.order.tolist()) == (list(range(trace.n_ops)) if allowed else [])


@pytest.mark.parametrize("name", [name for name, (sc, _, _) in LITMUS.items() if not sc])
def test_explanations_are_illegal_and_minimal(name: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("9: v77 := 1\n9: v77 == 1\n" + content(LITMUS[name][2]))
    (trace,) = read_traces(path)
    found = explain(trace, "sc", budget_s=60)
    assert found.minimal
    ops, finals = trace.thread < 0, trace.final_lines < 0
    ops[found.ops] = True
    finals[found.finals] = True
    assert decide(trace.part(ops, finals), "sc").verdict is Verdict.ILLEGAL
    assert not any(trace.threads[trace.thread[op]] == 9 for op in found.ops)
    assert len(found.text(trace)) == len(found.ops) + len(found.finals)
    for number in range(len(found.ops)):
        fewer = ops.copy()
        fewer[found.ops[number]] = False
        part = trace.part(fewer, finals)
        read = {
            (int(a), int(v))
            for a, v, k in zip(part.address, part.read, part.kind, strict=True)
            if k in (0, 2)
        }
        written = {
            (int(a), int(v))
            for a, v, k in zip(part.address, part.written, part.kind, strict=True)
            if k in (1, 2)
        }
        read |= {(int(a), int(v)) for a, v in zip(part.final_address, part.final_value, strict=True)}
        if all(v == 0 or (a, v) in written for a, v in read):
            assert decide(part, "sc").verdict is Verdict.LEGAL, trace.op_text(int(found.ops[number]))
