"""Orders of accesses that look suspicious, on accesses made up for it."""

from __future__ import annotations

import itertools

import pytest

from corebraid.base.rows.event import READ, RMW, WRITE
from corebraid.study.causes.patterns import ABA, CHANGED, LOST_UPDATE, TOO_EARLY, find_patterns, rank
from corebraid.study.shared_rows import Access

X, Y = 0x1000, 0x2000


class Story:
    """Accesses, one after the other; values of 8-byte words."""

    def __init__(self) -> None:
        self.accesses: list[Access] = []
        self._memory: dict[int, int] = {}
        self._retired: dict[int, itertools.count[int]] = {}

    def _add(self, who: int, address: int, kind: int, new: int | None, pc: int, caller: int = 0) -> None:
        old = self._memory.get(address, 0)
        now = old if new is None else new
        self._memory[address] = now
        retired = next(self._retired.setdefault(who, itertools.count()))
        at = len(self.accesses)
        self.accesses.append(Access(at, who, who, retired, pc, address, 8, kind, old, now, caller))

    def read(self, who: int, address: int, pc: int = 0x10, caller: int = 0) -> None:
        self._add(who, address, READ, None, pc, caller)

    def write(self, who: int, address: int, new: int, pc: int = 0x20, caller: int = 0) -> None:
        self._add(who, address, WRITE, new, pc, caller)

    def swap(self, who: int, address: int, new: int, pc: int = 0x30) -> None:
        self._add(who, address, RMW, new, pc)

    def kinds(self) -> list[str]:
        return [pattern.kind for pattern in find_patterns(self.accesses)]


def test_lost_update() -> None:
    story = Story()
    story.read(1, X)
    story.read(2, X)
    story.write(2, X, 1)
    story.write(1, X, 1)
    assert story.kinds() == [LOST_UPDATE]
    (one,) = find_patterns(story.accesses)
    assert [(step.who, step.kind) for step in one.steps] == [(1, READ), (2, WRITE), (1, WRITE)]


def test_updates_one_after_the_other_are_none() -> None:
    story = Story()
    for who in (1, 2, 1, 2):
        story.read(who, X)
        story.write(who, X, who + len(story.accesses))
    assert story.kinds() == []


def test_atomic_updates_are_none() -> None:
    story = Story()
    for k, who in enumerate((1, 2, 1, 2, 2, 1)):
        story.swap(who, X, k + 1)
    assert story.kinds() == []


def test_aba() -> None:
    story = Story()
    story.write(2, X, 5)
    story.read(1, X)
    story.swap(2, X, 6)
    story.swap(2, X, 5)
    story.swap(1, X, 7)
    assert story.kinds() == [ABA]


def test_a_swap_that_fails_or_sees_a_new_value_is_no_aba() -> None:
    story = Story()
    story.write(2, X, 5)
    story.read(1, X)
    story.swap(2, X, 6)
    story.swap(2, X, 8)
    story.swap(1, X, 7)
    story.read(1, X)
    story.swap(2, X, 9)
    story.swap(2, X, 7)
    story.swap(1, X, 7)
    assert story.kinds() == []


def test_changed_between_two_uses() -> None:
    story = Story()
    story.write(2, X, 100)
    story.read(1, X, pc=0x10)
    story.write(2, X, 40)
    story.read(1, X, pc=0x14)
    assert story.kinds() == [CHANGED]


def test_waiting_is_no_change() -> None:
    story = Story()
    story.read(1, X, pc=0x10)
    story.read(1, X, pc=0x10)
    story.write(2, X, 1)
    story.read(1, X, pc=0x10)
    assert story.kinds() == []


def test_used_before_it_was_filled_in() -> None:
    story = Story()
    story.write(1, Y, X)
    story.read(2, Y)
    story.read(2, X)
    story.write(1, X, 640)
    assert story.kinds() == [TOO_EARLY]


def test_filled_in_first_is_right() -> None:
    story = Story()
    story.write(1, X, 640)
    story.write(1, Y, X)
    story.read(2, Y)
    story.read(2, X)
    assert story.kinds() == []


def test_the_likeliest_comes_first_and_is_counted() -> None:
    story = Story()
    for _ in range(3):
        story.read(1, X, pc=0x50, caller=0x1)
        story.write(2, X, len(story.accesses) + 1)
        story.write(1, X, len(story.accesses) + 1, pc=0x54, caller=0x1)
    story.read(1, Y)
    story.write(2, Y, 7)
    story.write(1, Y, 8)
    ranked = rank(find_patterns(story.accesses), story.accesses)
    assert [(one.pattern.address, one.times) for one in ranked] == [(Y, 1), (X, 3)]
    assert ranked[0].score > ranked[1].score


@pytest.mark.parametrize("size", [4])
def test_neighbours_in_a_word_are_not_the_same(size: int) -> None:
    rows = [
        Access(0, 1, 1, 0, 0x10, X, size, READ, 0, 0),
        Access(1, 2, 2, 0, 0x20, X + size, size, WRITE, 0, 1),
        Access(2, 1, 1, 1, 0x14, X, size, WRITE, 0, 1),
    ]
    assert find_patterns(rows) == []
