"""What decides comes first, then hints of a preemption that does; with neither it is told itself."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.causes import encounters, suspects
from corebraid.study.causes.decisive import Decisive, around_first, conflict, kind_of
from corebraid.study.causes.last_moments import Moment, Says
from corebraid.study.findings import Finding, Hunted
from corebraid.study.shared_rows import Access
from corebraid.study.smallest import deciding, kept


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


def test_what_a_program_asks_a_library_is_its_own() -> None:
    made = tuple(replace_caller(access(pc, WRITE)) for pc in (1, 2))
    locks = Decisive(made, made[1], ("", ""))
    assert locks.of_libraries
    assert not replace(locks, looked=True).of_libraries
    assert not replace(locks, steps=("", "", "")).of_libraries
    calls = Decisive((), None, ("", ""), pcs=(1, 2))
    assert not calls.of_libraries
    assert calls.address is None
    assert calls.facts()["address"] is None


def replace_caller(one: Access) -> Access:
    return one._replace(caller=0x77)


def test_a_mutex_that_is_kept_comes_behind_what_decides_about_the_wait() -> None:
    def about(address: int | None) -> suspects.Suspicion:
        return suspects.Suspicion(address, "", ())

    moment = Moment(0x10, "", (), says=Says.MOST, waited=frozenset({0x2000, 0x2008}))
    kept = about(0x10)
    for address, first in ((0x2008, False), (0x2010, True), (None, True)):
        decides = about(address)
        told, _ = suspects.in_order([(moment, kept)], [(False, decides)], [], None)
        assert (told[0] is kept) is first
        assert decides in told


def hint(title: str) -> suspects.Suspicion:
    """Of a read, if it has the name of an event."""
    core, colon, count = title.partition(":")
    read = Access(0, 0, int(core), int(count), 0, 0x10, 8, READ, 0, 0) if colon else None
    return suspects.Suspicion(0x10, title, (), read=read)


def first_of(*asked: Any) -> list[str]:
    """The titles of what is told first."""
    return [one.title for one in suspects.in_order(*asked)[0]]


def test_who_wrote_the_pointer_comes_before_the_order_of_a_lock_alone() -> None:
    """Of a bad access. One that is about data comes first."""
    pointer, other, lock, data = hint("0:7"), hint("1:9"), (True, hint("lock")), (False, hint("data"))
    assert first_of([], [lock], [pointer, other], "0:7") == ["0:7", "lock"]
    assert first_of([], [lock, data], [pointer, other], "0:7") == ["lock", "data"]
    assert first_of([], [lock], [other, pointer], "0:7") == ["lock"]
    assert first_of([], [lock], [pointer, other], None) == ["lock"]
    assert first_of([], [], [pointer], "0:7") == ["0:7"]


def test_what_threads_did_last_before_they_waited() -> None:
    """Of a deadlock: a circle is certain, one of looks says more than what decides, a look right before the
    wait says more than the order of a lock, one long before it less."""
    says = [("circle", Says.LITTLE, True), ("looks", Says.MOST, False), ("look", Says.MORE, False),
            ("before", Says.LITTLE, False)]  # fmt: skip
    moments = [(Moment(0, "", (), certain=certain, says=how), hint(name)) for name, how, certain in says]
    lock, data = (True, hint("lock")), (False, hint("data"))
    assert first_of(moments, [lock], [], None) == ["circle", "looks", "look", "lock"]
    assert first_of(moments, [data, lock], [], None) == ["circle", "looks", "data", "lock"]
    _, then = suspects.in_order(moments, [data], [hint("unusual")], None)
    assert [one.title for one in then] == ["look", "before", "unusual"]


def finding(hunted: Hunted) -> Finding:
    assert hunted.finding is not None
    return hunted.finding


@pytest.fixture
def untried(small: Hunted) -> Hunted:
    """The same where nothing was narrowed."""
    reduction = finding(small).reduction
    assert reduction is not None
    return replace(small, finding=replace(finding(small), reduction=replace(reduction, decided=())))


def test_what_decides_was_tried_and_comes_first(small: Hunted) -> None:
    found = finding(small.explained())
    assert found.suspicions is not None
    first, *others = found.suspicions
    assert (first.tried, first.passed) == (True, None)
    assert "counter" in first.title
    assert "a lost update" in first.title
    read, wrote, overwrote = first.steps
    assert "read" in read
    assert "bug_lost_update.c:16" in read
    assert all("wrote" in step and "bug_lost_update.c:17" in step for step in (wrote, overwrote))
    assert read.split()[1] == overwrote.split()[1] != wrote.split()[1]
    assert not any(one.tried for one in others)
    lines = found.lines()
    assert lines[lines.index(f"  1. {first.title}") - 1].startswith("what decides (tried")
    assert found.facts()["suspicions"][0]["tried"]  # type: ignore[index]
    # What to ask next is asked of the recording that was found.
    assert first.event is not None
    assert re.fullmatch(r"[0-3]:\d+", first.event)
    assert any("who" in line and first.event in line for line in lines[lines.index("next:") :])


def test_borders_without_accesses_that_cannot_be_swapped_are_not_told(
    small: Hunted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were tried, but say nothing."""
    monkeypatch.setattr(deciding, "conflict", lambda one, other: False)
    again = replace(small, finding=replace(finding(small), recording=tmp_path / "rec", reduction=None))
    reduction = finding(again.reduced(60.0)).reduction
    assert reduction is not None
    assert reduction.decided == ()
    assert reduction.facts()["decides"] == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["rec.reduced"]


def test_who_has_had_enough_keeps_the_reduction(
    small: Hunted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kept, "decisive_of", broken_off)
    again = replace(small, finding=replace(finding(small), recording=tmp_path / "rec", reduction=None))
    reduction = finding(again.reduced(60.0)).reduction
    assert reduction is not None
    assert reduction.interrupted
    assert reduction.recording == tmp_path / "rec.reduced"
    assert [entry.name for entry in tmp_path.iterdir()] == ["rec.reduced"]


def test_hints_at_the_same_places_are_told_once(small: Hunted, monkeypatch: pytest.MonkeyPatch) -> None:
    reduction = finding(small).reduction
    assert reduction is not None
    (decided,) = reduction.decided
    told = suspects.novelties

    def again(*asked: Any) -> Any:
        found = told(*asked)
        return [replace(found[0], steps=decided.accesses), *found]

    monkeypatch.setattr(suspects, "novelties", again)
    found = finding(small.explained()).suspicions
    assert found
    places = [frozenset(one.pcs) for one in found]
    assert places.count(frozenset(access.pc for access in decided.accesses)) == 1


MADE = {"R": READ, "W": WRITE, "A": RMW}


def step(text: str) -> Access:
    """As 'R3': it read 3; 'W1-3': it wrote 3 over 1; 'A1-3': the same, atomically."""
    old, _, new = text[1:].partition("-")
    return Access(0, 1, 0, 0, 0, 0x1000, 8, MADE[text[0]], int(old), int(new or old))


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ("R1 W1-2 W2-1", encounters.LOST_UPDATE),
        ("R1 A1-2 A2-3", encounters.LOST_UPDATE),
        ("R1 A2-1 A1-3", encounters.ABA),
        ("R1 W1-2 R2", encounters.CHANGED),
        ("W0-1 W1-2 R2", encounters.OVERWRITTEN),
        ("W0-1 R1 W1-2", encounters.HALF_WAY),
        ("A1-2 W2-3 W3-2", encounters.LOST_UPDATE),
        ("A2-1 A1-0 A0-1", None),
        ("R1 A1-2 A2-2", None),
        ("R1 R1 W1-2", None),
        ("R1 W1-1 W1-2", None),
        ("R1 W1-2", None),
    ],
)
def test_kinds(steps: str, kind: str | None) -> None:
    assert kind_of([step(text) for text in steps.split()]) == kind


def test_accesses_to_other_bytes_are_no_encounter() -> None:
    one, other, third = (step(text) for text in ("R1", "W1-2", "W2-1"))
    assert kind_of([one._replace(address=0x2000), other, third]) is None
    assert conflict(one, other._replace(who=2))
    assert not conflict(one, other)
    assert not conflict(one, one._replace(who=2))
    assert not conflict(one, other._replace(who=2, address=0x1008))


def test_the_first_hint_is_of_the_preemption(untried: Hunted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where others score more."""
    (one, *_) = finding(untried).reduction.decisive  # type: ignore[union-attr]
    around = {access.pc for access in one.accesses}
    told = suspects.novelties

    def misled(*asked: Any) -> Any:
        found = told(*asked)
        other = replace(found[0], encounter=found[0].encounter._replace(steps=(access(1), access(2))))
        return [replace(other, steps=(access(1), access(2))), *found]

    monkeypatch.setattr(suspects, "novelties", misled)
    found = finding(untried.explained()).suspicions
    assert found
    assert len(around & set(found[0].pcs)) >= 2
    assert found[1].pcs == (1, 2)
    monkeypatch.setattr(suspects, "around_first", lambda hints, _: hints)
    found = finding(untried.explained()).suspicions
    assert found
    assert found[0].pcs == (1, 2)


def test_where_nothing_is_suspicious_the_preemption_is_told(
    untried: Hunted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "novelties", lambda *_: [])
    monkeypatch.setattr(suspects, "last_moments", lambda *_: [])
    found = finding(untried.explained())
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
