"""Objects that are put back, held against deep copies."""

from __future__ import annotations

import collections
import copy
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from emu.snapshot.failure import UnsavableError
from emu.snapshot.objects import SavedObjects


class Plain:
    def __init__(self) -> None:
        self.a: Any = 1


class Slotted:
    __slots__ = ("__hidden", "b")

    def hide(self, value: Any) -> None:
        self.__hidden = value

    def hidden(self) -> Any:
        return self.__hidden


@dataclass(frozen=True)
class Frozen:
    inside: list[Any] = field(default_factory=list)


def build(draw: random.Random, depth: int) -> Any:
    """Random nested containers."""
    if depth == 0:
        return draw.randrange(10)
    parts = [build(draw, depth - 1) for _ in range(draw.randint(0, 4))]
    plain = Plain()
    plain.a = parts
    return draw.choice((
        parts, tuple(parts), dict(enumerate(parts)), collections.OrderedDict(enumerate(parts)),
        collections.deque(parts), plain, Frozen(parts), {draw.randrange(9)}, bytearray(b"ab"),
        np.arange(4), collections.Counter("abc"),
    ))  # fmt: skip


def disturb(draw: random.Random, one: Any) -> None:
    """Change some of it, in place."""
    if isinstance(one, list | collections.deque):
        for part in list(one):
            disturb(draw, part)
        draw.choice((lambda: one.append(77), one.reverse, one.clear))()
    elif isinstance(one, dict):
        for part in list(one.values()):
            disturb(draw, part)
        draw.choice((lambda: one.update({5: 6}), one.clear, lambda: one.pop(0, None)))()
    elif isinstance(one, set):
        one.add(100)
    elif isinstance(one, bytearray | np.ndarray):
        one[0] = 9
    elif isinstance(one, tuple):
        for part in one:
            disturb(draw, part)
    elif isinstance(one, Plain):
        disturb(draw, one.a)
        one.__dict__["more"] = 1
        one.a = None
    elif isinstance(one, Frozen):
        disturb(draw, one.inside)


def seen(one: Any) -> Any:
    """A plain value that two alike have alike."""
    if isinstance(one, Plain):
        return "plain", {name: seen(value) for name, value in vars(one).items()}
    if isinstance(one, Frozen):
        return "frozen", seen(one.inside)
    if isinstance(one, dict):
        return type(one).__name__, [(key, seen(value)) for key, value in one.items()]
    if isinstance(one, list | tuple | collections.deque):
        return type(one).__name__, [seen(part) for part in one]
    return one.tolist() if isinstance(one, np.ndarray) else copy.deepcopy(one)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_done_to_objects_they_are_as_they_were(seed: int) -> None:
    draw = random.Random(seed)
    whole = [build(draw, draw.randint(1, 4)) for _ in range(5)]
    saved, then = SavedObjects([whole], ()), seen(whole)
    for _ in range(3):
        disturb(draw, whole)
        assert seen(whole) != then
        saved.restore()
        assert seen(whole) == then


def counting() -> tuple[Callable[[], int], list[int]]:
    n, found = 0, list[int]()

    def count() -> int:
        nonlocal n
        n += 1
        found.append(n)
        return n

    return count, found


def test_closures_slots_random_numbers_and_what_methods_belong_to() -> None:
    count, found = counting()
    slotted, draw, plain = Slotted(), random.Random(3), Plain()
    slotted.hide([1])
    cycle: list[Any] = [slotted]
    cycle.append(cycle)
    roots = [partial(count), slotted.hide, draw, memoryview(np.zeros(3, np.uint8)), cycle, plain]
    saved = SavedObjects(roots, ())
    for _ in range(2):
        assert (count(), count(), found) == (1, 2, [1, 2])
        assert draw.random() == random.Random(3).random()
        slotted.hidden().append(5)
        slotted.hide(7)
        slotted.b = 3
        del plain.a
        saved.restore()
        assert (found, slotted.hidden(), plain.a, cycle[0]) == ([], [1], 1, slotted)
        assert not hasattr(slotted, "b")


@pytest.mark.parametrize(
    "one",
    [itertools.count(), (n for n in "ab"), np.array([[1], None], object), np.zeros(3 << 20)],
    ids=["iterator", "generator", "objects", "large"],
)
def test_what_is_not_known_is_refused(one: object) -> None:
    with pytest.raises(UnsavableError, match=r"itertools|generator|array"):
        SavedObjects([{"x": one}], ())


def test_what_is_kept_apart_is_not_looked_into() -> None:
    plain = Plain()
    saved = SavedObjects([[plain]], (Plain,))
    plain.a = 2
    saved.restore()
    assert plain.a == 2
