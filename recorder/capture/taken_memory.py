"""Memory that tasks of a learning run took away, or rights to it, while others used it.

Who uses memory that another task unmaps, protects, or cuts off a mapped file, dies of it or does not, as who
comes first: to what stands there, taking it is what a write is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Times that are looked at, the last ones; and words that are told of each, the first ones.
_MOST_TIMES, _MOST_WORDS = 1_000, 4_096


class Taken(NamedTuple):
    """Words from `first` to (not) `end`, as addresses over 8, taken by a task in a turn."""

    turn: int
    who: int
    first: int
    end: int


def taken_from_others(
    taken: Iterable[Taken], word: NDArray[np.uint64], who: NDArray[np.uint64], turn: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Of each time memory was taken the words that other tasks had used since it was taken before: uint64[n,
    3], the word, who took it, and in which turn. word, who, turn: uint64[m] each, who used what, ascending by
    word; which of a task's handlers is the task itself. taken: in their order."""
    found, before = [np.zeros((0, 3), np.uint64)], list[Taken]()
    for one in list(taken)[-_MOST_TIMES:]:
        begin, end = np.searchsorted(word, np.array([one.first, one.end], np.uint64)).tolist()
        since = max((it.turn for it in before if it.first < one.end and one.first < it.end), default=0)
        here = slice(begin, end)
        others = (who[here] != one.who) & (turn[here] > since) & (turn[here] <= one.turn)
        words = np.unique(word[here][others])[:_MOST_WORDS]
        rows = np.empty((len(words), 3), np.uint64)
        rows[:, 0], rows[:, 1], rows[:, 2] = words, one.who, one.turn
        found.append(rows)
        before.append(one)
    return np.concatenate(found)
