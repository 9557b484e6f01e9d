"""Fewer of a list, and smaller numbers, for which something still holds. Knows nothing of schedules.

Source: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input" (IEEE TSE 28(2), 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")

#: Asked whether it holds for one of these lists: the number of the first for which it does, and what of that
#: list is enough (in its order); None: for none of them.
First = Callable[[Sequence[Sequence[T]]], tuple[int, Sequence[T]] | None]


def fewest(items: Sequence[T], first: First[T]) -> list[T]:
    """A part of `items`, in their order, for which it holds, and for none that lacks one item of it: ddmin.
    It is taken to hold for `items`, and it is asked also for none at all."""
    items, grains = list(items), 2
    while items:
        grains = min(grains, len(items))
        parts = [list(part) for part in split(items, grains)]
        others = [[x for j, part in enumerate(parts) if j != k for x in part] for k in range(len(parts))]
        # Of two parts each is what the other leaves.
        tried = others if grains == 1 else parts if grains == 2 else [*parts, *others]
        found = first(tried)
        if found is not None:
            number, enough = found
            items = list(enough)
            grains = 2 if number < len(parts) else max(grains - 1, 2)
        elif grains < len(items):
            grains *= 2
        else:
            return items
    return items


def split(items: Sequence[T], n: int) -> list[Sequence[T]]:
    """n parts of nearly equal length, n at most the number of items."""
    ends = [k * len(items) // n for k in range(n + 1)]
    return [items[begin:end] for begin, end in pairwise(ends)]


def lower(number: int, first: Callable[[Sequence[int]], int | None]) -> int:
    """A number from 1 to `number`, for which it is taken to hold, that is as low as halving finds it: it does
    not hold for the number below, nor for those half, a quarter and so on of the way below. first: the place
    of the first of these for which it holds."""
    while number > 1:
        steps = [number >> k for k in range(number.bit_length())]
        tried = sorted({max(1, number - step) for step in steps})
        found = first(tried)
        if found is None:
            break
        number = tried[found]
    return number
