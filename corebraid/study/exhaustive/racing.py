"""Words that tasks use without any order between them, and that nobody has watched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.study.exhaustive.trace import Trace

Words = NDArray[np.uint64]


@dataclass
class Touched:
    """Words (addresses divided by 8) that a step used: all of them, ascending; those that it wrote; those
    that it changed atomically."""

    used: Words
    wrote: Words
    atomic: Words


def racing_words(trace: Trace, touched: Sequence[Touched], watched: Words) -> tuple[list[int], list[int]]:
    """The words that two tasks use, one of them to write, with no order between the two; and those of them
    that somebody changes atomically. watched: words that do not count, ascending."""
    rows = _rows(trace, touched, watched)
    found = sorted({word for word, uses in _of_several(rows, trace) if _unordered(uses, trace)})
    found = sorted({*found, *_in_ranges(trace, touched, watched)})
    atomic = set(np.concatenate([one.atomic for one in touched]).tolist()) if touched else set()
    return found, [word for word in found if word in atomic]


def _rows(trace: Trace, touched: Sequence[Touched], watched: Words) -> NDArray[np.uint64]:
    """(word, step, whether it wrote), by word and step."""
    parts = [
        np.stack([one.used, np.full(len(one.used), k, np.uint64), np.isin(one.used, one.wrote)], axis=1)
        for k, one in enumerate(touched)
    ]
    rows = np.concatenate([*parts, np.zeros((0, 3), np.uint64)]).astype(np.uint64)
    rows = rows[~np.isin(rows[:, 0], watched)]
    return rows[np.lexsort((rows[:, 1], rows[:, 0]))]


def _of_several(rows: NDArray[np.uint64], trace: Trace) -> list[tuple[int, list[tuple[int, bool]]]]:
    """The words that several tasks use, and one writes: of each, its (step, whether it wrote)."""
    if not len(rows):
        return []
    tasks = np.array([step.task for step in trace.steps])[rows[:, 1].astype(np.int64)]
    begins = np.flatnonzero(np.concatenate([[True], rows[1:, 0] != rows[:-1, 0]]))
    ends = np.append(begins[1:], len(rows))
    several = np.maximum.reduceat(tasks, begins) != np.minimum.reduceat(tasks, begins)
    written = np.maximum.reduceat(rows[:, 2], begins) > 0
    found = []
    for k in np.flatnonzero(several & written).tolist():
        part = rows[begins[k] : ends[k]]
        found.append((int(part[0, 0]), [(int(step), bool(wrote)) for _, step, wrote in part.tolist()]))
    return found


def _unordered(uses: list[tuple[int, bool]], trace: Trace) -> bool:
    """Whether two of these uses, one of them a write, have no order. Of each task it is enough to know its
    last use, and its last write, before each one."""
    last: dict[int, dict[bool, int]] = {}
    for step, wrote in uses:
        task = trace.steps[step].task
        for other, kinds in last.items():
            if other == task:
                continue
            befores = kinds.values() if wrote else [kinds[True]] if True in kinds else []
            if any(not trace.before(before, step) for before in befores):
                return True
        last.setdefault(task, {})[wrote] = step
    return False


def _in_ranges(trace: Trace, touched: Sequence[Touched], watched: Words) -> set[int]:
    """Words of memory that one task maps, protects or gives back while another uses it."""
    found: set[int] = set()
    for index, step in enumerate(trace.steps):
        for low, high in step.footprint.ranges:
            for other, one in enumerate(touched):
                ordered = trace.before(min(index, other), max(index, other))
                if ordered or trace.steps[other].task == step.task:
                    continue
                first, end = np.searchsorted(one.used, np.array([low >> 3, (high + 7) >> 3], np.uint64))
                words = one.used[first:end]
                found.update(words[~np.isin(words, watched)].tolist())
    return found
