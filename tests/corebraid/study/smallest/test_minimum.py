"""Fewer of a list: held against all parts of it, for what holds of more if it holds of less, and what not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from corebraid.study.smallest.minimum import fewest, lower, split

Holds = Callable[[frozenset[int]], bool]


def asked(
    holds: Holds,
) -> tuple[list[int], Callable[[Sequence[Sequence[int]]], tuple[int, list[int]] | None]]:
    """(how often it was asked, the question)."""
    times = [0]

    def first(lists: Sequence[Sequence[int]]) -> tuple[int, list[int]] | None:
        for number, one in enumerate(lists):
            times[0] += 1
            if holds(frozenset(one)):
                return number, list(one)
        return None

    return times, first


def parts(items: Sequence[int]) -> list[frozenset[int]]:
    """All of them, short ones first."""
    return [frozenset(one) for n in range(len(items) + 1) for one in itertools.combinations(items, n)]


@pytest.mark.parametrize("seed", range(40))
def test_of_what_needs_some_items_these_are_left(seed: int) -> None:
    draw = random.Random(seed)
    items = list(range(draw.randint(1, 12)))
    needed = frozenset(draw.sample(items, draw.randint(0, min(3, len(items)))))
    _, first = asked(lambda some: needed <= some)
    assert fewest(items, first) == sorted(needed)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_left_holds_and_lacks_nothing(seed: int) -> None:
    """Any predicate: nothing can be said but that no single item can be left out."""
    draw = random.Random(f"any/{seed}")
    items = list(range(draw.randint(1, 8)))
    table = {part: draw.random() < 0.3 for part in parts(items)} | {frozenset(items): True}
    _, first = asked(lambda some: table[some])
    left = fewest(items, first)
    assert table[frozenset(left)]
    assert not any(table[frozenset(left) - {one}] for one in left)
    # Where it holds of more if it holds of less the least number is among such, if not always found.
    monotone = {part: any(table[less] for less in parts(sorted(part))) for part in table}
    _, first = asked(lambda some: monotone[some])
    left = fewest(items, first)
    assert not any(monotone[less] for less in parts(left)[:-1])


def test_one_of_many_is_found_in_few_questions() -> None:
    times, first = asked(lambda some: 700 in some)
    assert fewest(range(1000), first) == [700]
    assert times[0] < 50


def test_what_is_told_to_be_enough_is_taken() -> None:
    def first(lists: Sequence[Sequence[int]]) -> tuple[int, list[int]] | None:
        for number, one in enumerate(lists):
            if 3 in one:
                return number, [3]
        return None

    assert fewest(range(8), first) == [3]


def test_parts_are_all_there_is() -> None:
    for n in range(1, 10):
        pieces = split(list(range(9)), n)
        assert [x for piece in pieces for x in piece] == list(range(9))
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@pytest.mark.parametrize("least", [1, 2, 7, 63, 64, 100])
def test_numbers_are_made_as_low_as_they_can_be(least: int) -> None:
    def first(places: Sequence[int]) -> int | None:
        return next((k for k, place in enumerate(places) if place >= least), None)

    assert lower(100, first) == least


def test_holes_stop_what_halves() -> None:
    good = {5, 50, 100}
    assert lower(100, lambda places: next((k for k, one in enumerate(places) if one in good), None)) == 50
