"""Hints that tell of a preemption that decides come first, and where there is none it is told itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from corebraid.base.rows.event import READ, WRITE
from corebraid.study.causes import suspects
from corebraid.study.causes.decisive import Decisive, around_first
from corebraid.study.findings import Finding, Hunted
from corebraid.study.shared_rows import Access


@dataclass(frozen=True)
class Hint:
    name: str
    pcs: tuple[int, ...]
    passed: tuple[int, int] | None = (0, 16)


def access(pc: int, kind: int = READ) -> Access:
    return Access(0, 1, 0, 0, pc, 0x1000, 8, kind, 0, 1)


def at(*pcs: int) -> Decisive:
    made = tuple(access(pc, WRITE) for pc in pcs)
    return Decisive(made, made[1], tuple(map(str, pcs)))


HINTS = [Hint("one", (1, 9)), Hint("none", (7, 8)), Hint("two", (2, 3, 7)), Hint("three", (1, 2, 3))]


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ([], ["one", "none", "two", "three"]),
        ([(1, 2, 3)], ["two", "three", "one", "none"]),
        # Two accesses of one preemption, not one each of two.
        ([(1, 5, 6), (9, 5, 6)], ["one", "none", "two", "three"]),
        ([(7, 8)], ["none", "one", "two", "three"]),
    ],
)
def test_order(around: list[tuple[int, ...]], expected: list[str]) -> None:
    found = around_first(HINTS, [at(*pcs) for pcs in around])
    assert [hint.name for hint in found] == expected


def test_what_runs_have_that_pass_is_not_preferred() -> None:
    hints = [Hint("other", (7, 8)), Hint("passed", (1, 2), (3, 16)), Hint("alone", (2, 3), None)]
    found = around_first(hints, [at(1, 2, 3)])
    assert [hint.name for hint in found] == ["alone", "other", "passed"]


def finding(hunted: Hunted) -> Finding:
    assert hunted.finding is not None
    return hunted.finding


def test_the_first_hint_is_of_the_preemption(small: Hunted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where others score more."""
    (one, *_) = finding(small).reduction.decisive  # type: ignore[union-attr]
    around = {access.pc for access in one.accesses}
    told = suspects.novelties

    def misled(*asked: Any) -> Any:
        found = told(*asked)
        other = replace(found[0], encounter=found[0].encounter._replace(steps=(access(1), access(2))))
        return [replace(other, steps=(access(1), access(2))), *found]

    monkeypatch.setattr(suspects, "novelties", misled)
    found = finding(small.explained()).suspicions
    assert found
    assert len(around & set(found[0].pcs)) >= 2
    assert found[1].pcs == (1, 2)
    monkeypatch.setattr(suspects, "around_first", lambda hints, _: hints)
    found = finding(small.explained()).suspicions
    assert found
    assert found[0].pcs == (1, 2)


def test_where_nothing_is_suspicious_the_preemption_is_told(
    small: Hunted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "novelties", lambda *_: [])
    monkeypatch.setattr(suspects, "last_moments", lambda *_: [])
    found = finding(small.explained())
    assert found.suspicions is not None
    (only,) = found.suspicions
    assert "what came between two accesses of a thread decides" in only.title
    assert "counter" in only.title
    assert len(only.steps) == 3
    assert any(only.title in line for line in found.lines())
    assert found.facts()["suspicions"] == [only.facts()]


def test_without_a_reduction_there_is_nothing_to_prefer(
    small: Hunted, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def noted(hints: list[Any], found: list[Decisive]) -> list[Any]:
        asked.append(len(found))
        return hints

    monkeypatch.setattr(suspects, "around_first", noted)
    assert finding(small.explained()).suspicions
    plain = replace(small, finding=replace(finding(small), reduction=None))
    assert finding(plain.explained()).suspicions
    assert asked[0] > 0
    assert asked[1] == 0
