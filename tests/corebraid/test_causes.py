"""What tells a run that failed from those that passed, on accesses made up for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hunt_patterns import Story, X, Y

from corebraid.base.rows.event import READ, WRITE
from corebraid.study.causes.encounters import (
    ABA,
    AHEAD,
    CHANGED,
    HALF_WAY,
    LOST_UPDATE,
    OVERWRITTEN,
    SAW,
    TORN,
    find_encounters,
)
from corebraid.study.causes.novelty import GROUND, LIBRARY, OWN, Novel, novelties
from corebraid.study.shared_rows import Access

#: Places: of two threads' code, of a library's and of what begins threads.
R1, W1, R2, W2 = 0x10, 0x20, 0x30, 0x40
LIB, BEGINS = 0x1000, 0x2000


def kind_of(pc: int) -> str:
    return GROUND if pc >= BEGINS else LIBRARY if pc >= LIB else OWN


def story(tell: Callable[[Story], None]) -> Story:
    made = Story()
    tell(made)
    return made


def kinds(tell: Callable[[Story], None]) -> set[str]:
    return {found.kind for found in find_encounters(story(tell).accesses)} - {SAW}


def novel(run: Callable[[Story], None], *passed: Callable[[Story], None]) -> list[Novel]:
    return novelties(story(run).accesses, [story(one).accesses for one in passed], kind_of)


def in_turn(made: Story) -> None:
    """Each thread reads and writes, one after the other."""
    made.read(1, X, R1)
    made.write(1, X, 1, W1)
    made.read(2, X, R2)
    made.write(2, X, 2, W2)


def lost(made: Story) -> None:
    made.read(1, X, R1)
    made.read(2, X, R2)
    made.write(2, X, 1, W2)
    made.write(1, X, 1, W1)


def changed(made: Story) -> None:
    made.read(1, X, R1)
    made.write(2, X, 1, W2)
    made.read(1, X, W1)


def overwritten(made: Story) -> None:
    made.write(1, X, 1, W1)
    made.write(2, X, 2, W2)
    made.read(1, X, R1)


def half_way(made: Story) -> None:
    made.write(1, X, 1, W1)
    made.read(2, X, R2)
    made.write(1, X, 2, W1 + 4)


def came_back(made: Story) -> None:
    made.write(2, X, 5, W2)
    made.read(1, X, R1)
    made.swap(2, X, 6, W2)
    made.swap(2, X, 5, W2)
    made.swap(1, X, 7, W1)


def torn(made: Story) -> None:
    made.read(1, X, R1)
    made.write(2, X, 1, W2)
    made.write(2, Y, 1, W2 + 4)
    made.read(1, Y, R1 + 4)


def ahead(made: Story) -> None:
    made.write(2, X, 1, W2)
    made.read(1, X, R1)
    made.read(1, Y, R1 + 4)
    made.write(2, Y, 1, W2 + 4)


def published(made: Story) -> None:
    made.write(2, Y, 1, W2 + 4)
    made.write(2, X, 1, W2)
    made.read(1, X, R1)
    made.read(1, Y, R1 + 4)


def test_a_buffered_store_stands_behind_what_its_thread_has_read_since() -> None:
    """Of an increment: what its instruction has read, another's write, and its store, which commits later.
    What the thread reads of its own in between was nobody else's."""
    made = [
        Access(0, 1, 1, 154, R1, X, 4, READ, 4, 4),
        Access(1, 2, 2, 90, R2, X, 4, WRITE, 4, 6),
        Access(2, 1, 1, 186, R1, X, 4, READ, 5, 5),
        Access(3, 1, 1, 154, R1, X, 4, WRITE, 6, 5),
    ]
    found = {one.kind: [step.at for step in one.steps] for one in find_encounters(made)}
    assert found[LOST_UPDATE] == [0, 1, 3]
    assert [one.steps for one in find_encounters(made) if one.kind == SAW] == [(made[0],)]
    # In program order the last one before it is what it is held against.
    made[2], made[3] = made[2]._replace(retired=100, old=6, new=6), made[3]._replace(retired=154)
    found = {one.kind: [step.at for step in one.steps] for one in find_encounters(made)}
    assert LOST_UPDATE not in found


@pytest.mark.parametrize(
    ("tell", "expected"),
    [
        (in_turn, set()), (lost, {LOST_UPDATE}), (changed, {CHANGED}), (overwritten, {OVERWRITTEN}),
        (half_way, {HALF_WAY}), (came_back, {ABA, HALF_WAY}), (torn, {TORN}), (ahead, {AHEAD}),
        (published, set()),
    ],
)  # fmt: skip
def test_kinds(tell: Callable[[Story], None], expected: set[str]) -> None:
    assert kinds(tell) == expected


def test_silent_stores_are_none() -> None:
    def silent(made: Story) -> None:
        made.read(1, X, R1)
        made.write(2, X, 0, W2)
        made.write(1, X, 1, W1)

    assert kinds(silent) == set()


def test_what_runs_that_passed_have_is_not_told() -> None:
    (one, *_) = novel(lost, in_turn, in_turn)
    assert (one.encounter.kind, one.passed, one.of) == (LOST_UPDATE, 0, 2)
    assert [step.pc for step in one.steps] == [R1, W2, W1]
    assert novel(lost, lost, lost) == []
    assert novel(in_turn, in_turn) == []


def test_what_some_have_is_told_later() -> None:
    def both(made: Story) -> None:
        lost(made)
        made.read(1, Y, R1 + 8)
        made.write(2, Y, 1, W2 + 8)
        made.write(1, Y, 2, W1 + 8)

    def one_of_them(made: Story) -> None:
        in_turn(made)
        made.read(1, Y, R1 + 8)
        made.write(2, Y, 1, W2 + 8)
        made.write(1, Y, 2, W1 + 8)

    first, second = (one for one in novel(both, one_of_them, in_turn) if one.encounter.kind == LOST_UPDATE)
    assert (first.encounter.steps[-1].word, second.encounter.steps[-1].word) == (X, Y)
    assert (first.passed, second.passed) == (0, 1)
    assert first.score > second.score


def test_a_read_that_nobody_has_written_for() -> None:
    """Where it is written in runs that passed is told; and who wrote too late, if somebody did."""

    def never(made: Story) -> None:
        made.read(1, X, R1)

    def wrote(made: Story) -> None:
        made.write(2, X, 9, W2)
        made.read(1, X, R1)

    (one,) = novel(never, wrote)
    assert one.usual == (W2, 0)
    assert [step.pc for step in one.steps] == [R1]

    def late(made: Story) -> None:
        made.read(1, X, R1)
        made.write(2, X, 9, W2)

    (one,) = novel(late, wrote)
    assert one.usual is None
    assert [step.pc for step in one.steps] == [R1, W2]


def test_places_that_no_run_came_to_that_passed_are_what_became_of_it() -> None:
    def elsewhere(made: Story) -> None:
        in_turn(made)
        made.read(1, X, R1 + 0x100)

    assert novel(elsewhere, in_turn) == []


def test_locks_and_what_threads_are_made_of_are_not_told() -> None:
    def locked(made: Story) -> None:
        in_turn(made)
        made.read(1, Y, LIB, caller=R1)
        made.swap(2, Y, 1, LIB)
        made.write(1, Y, 0, LIB, caller=R1)
        made.write(2, Y + 0x100, 1, BEGINS)
        made.read(1, Y + 0x100, LIB, caller=R1)

    def without(made: Story) -> None:
        in_turn(made)
        for who in (1, 2):
            made.read(who, Y, LIB, caller=R1)
            made.write(who, Y, 0, LIB, caller=R1)
            made.read(who, Y + 0x100, LIB, caller=R1)

    assert novel(locked, without) == []
