"""Words that tasks use without any order between them, and that nobody has watched.

What a task does alone behind its event is ordered before another's event only if the task's next event is: an
order between two events says nothing of what comes behind the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corebraid.study.exhaustive.trace import Clock, Trace

Words = NDArray[np.uint64]
#: A use of a word: the step; 1: behind its event, 0: in it; whether it wrote.
Use = tuple[int, int, bool]


@dataclass
class Touched:
    """Words (addresses divided by 8) that a part of a step used: all of them, ascending; those that it wrote;
    those that it changed atomically."""

    used: Words
    wrote: Words
    atomic: Words


#: What a step used in its event, and behind it.
Parts = tuple[Touched, Touched]
_NONE = Touched(*(np.zeros(0, np.uint64) for _ in range(3)))
#: What a step used that has used nothing.
NOTHING: Parts = (_NONE, _NONE)


class Commits(Protocol):
    """Under TSO, when stores have committed."""

    def before(self, step: int, late: int, clock: Clock) -> bool:
        """Whether those of a step have, behind its event if late, before a step with this clock."""


def racing_words(
    trace: Trace, touched: Sequence[Parts], watched: Words, commits: Commits | None = None
) -> tuple[list[int], list[int]]:
    """The words that two tasks use, one of them to write, with no order between the two; and those of them
    that somebody changes atomically. watched: words that do not count, ascending. commits: None: stores are
    made where they stand."""
    rows = _rows(trace, touched, watched)
    found = sorted({word for word, uses in _of_several(rows, trace) if _unordered(uses, trace, commits)})
    found = sorted({*found, *_in_ranges(trace, touched, watched)})
    atomic = {word for parts in touched for part in parts for word in part.atomic.tolist()}
    return found, [word for word in found if word in atomic]


def _rows(trace: Trace, touched: Sequence[Parts], watched: Words) -> NDArray[np.uint64]:
    """(word, twice the step plus one if behind its event, whether it wrote), by word and step."""
    parts = [
        np.stack([one.used, np.full(len(one.used), 2 * k + late, np.uint64), np.isin(one.used, one.wrote)], 1)
        for k, both in enumerate(touched)
        for late, one in enumerate(both)
    ]
    rows = np.concatenate([*parts, np.zeros((0, 3), np.uint64)]).astype(np.uint64)
    rows = rows[~np.isin(rows[:, 0], watched)]
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _of_several(rows: NDArray[np.uint64], trace: Trace) -> list[tuple[int, list[Use]]]:
    """The words that several tasks use, and one writes: of each, its uses."""
    if not len(rows):
        return []
    tasks = np.array([step.task for step in trace.steps])[rows[:, 1].astype(np.int64) // 2]
    begins = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
    ends = np.append(begins[1:], len(rows))
    several = np.maximum.reduceat(tasks, begins) != np.minimum.reduceat(tasks, begins)
    written = np.maximum.reduceat(rows[:, 2], begins) > 0
    found = []
    for k in np.flatnonzero(several & written).tolist():
        part = rows[begins[k] : ends[k]]
        found.append(
            (int(part[0, 0]), [(int(at) // 2, int(at) % 2, bool(wrote)) for _, at, wrote in part.tolist()])
        )
    return found


def _before(trace: Trace, step: int, late: int, other: int) -> bool:
    """Whether what a step did in its event, or behind it (late: 1), comes before another step."""
    return trace.clocks[other].get(trace.steps[step].task, 0) >= trace.numbers[step] + late


def _unordered(uses: list[Use], trace: Trace, commits: Commits | None) -> bool:
    """Whether two of these uses, one of them a write, have no order. Of each task it is enough to know its
    last use, and its last write, before each one."""
    last: dict[int, dict[bool, tuple[int, int]]] = {}
    for step, late, wrote in uses:
        task = trace.steps[step].task
        for other, kinds in last.items():
            if other == task:
                continue
            for stored, before in kinds.items():
                if stored and commits is not None:
                    if not commits.before(*before, trace.clocks[step]):
                        return True
                elif (stored or wrote) and not _before(trace, *before, step):
                    return True
        last.setdefault(task, {})[wrote] = step, late
    return False


def _in_ranges(trace: Trace, touched: Sequence[Parts], watched: Words) -> set[int]:
    """Words of memory that one task maps, protects or gives back while another uses it."""
    found: set[int] = set()
    for index, step in enumerate(trace.steps):
        for low, high in step.footprint.ranges:
            for other, both in enumerate(touched):
                if trace.steps[other].task == step.task or trace.before(index, other):
                    continue
                for late, one in enumerate(both):
                    if other < index and _before(trace, other, late, index):
                        continue
                    first, end = np.searchsorted(one.used, np.array([low >> 3, (high + 7) >> 3], np.uint64))
                    words = one.used[first:end]
                    found.update(words[~np.isin(words, watched)].tolist())
    return found
