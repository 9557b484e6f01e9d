"""Hints that name operations: `is @A`, and `after @A` elsewhere (docs/axe.md, "Hints")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from corebraid.base.wording import Option, Phrase
from solver.axe import scan
from solver.axe.trace import SYNC

_Rows = NDArray[np.uint64]
_REMEDY = Phrase(
    "correct the comment, or give ", Option("hints", False), ", which takes all comments for comments"
)


def _collected(parts: list[_Rows], kind: int) -> tuple[_Rows, NDArray[np.int64], _Rows]:
    """(number, operation that has the hint, line) of all hints of a kind."""
    numbers, ops, lines = [np.empty(0, np.uint64)], [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    done = 0
    for part in parts:
        kinds = part[:, scan.KIND]
        here = np.flatnonzero(kinds == kind)
        is_op = kinds <= SYNC
        if len(here):
            numbers.append(part[here, scan.READ])
            ops.append(done + np.cumsum(is_op)[here] - 1)
            lines.append(part[here, scan.LINE])
        done += int(np.count_nonzero(is_op))
    return np.concatenate(numbers), np.concatenate(ops), np.concatenate(lines)


def edges_of(parts: list[_Rows], where: str) -> NDArray[np.int64]:
    """int64 (m, 2): operations of which the first is said to come before the second. parts: rows as `scan`
    makes them. Raises FormatError if two operations have one name, or a name is nobody's."""
    names, named, named_lines = _collected(parts, scan.IS)
    by = np.argsort(names, kind="stable")
    names, named, named_lines = names[by], named[by], named_lines[by]
    again = np.flatnonzero(names[1:] == names[:-1])
    if len(again):
        second = int(again[np.argmin(named_lines[again + 1])]) + 1
        raise FormatError(
            "a hint gives an operation the name of another one",
            found=f"'is @{names[second]}', as in line {named_lines[second - 1]}",
            where=f"{where}:{named_lines[second]}",
            remedy=_REMEDY,
        )
    wanted, waiting, lines = _collected(parts, scan.AFTER)
    at = np.searchsorted(names, wanted)
    known = np.zeros(len(wanted), np.bool_)
    inside = at < len(names)
    known[inside] = names[at[inside]] == wanted[inside]
    if not known.all():
        first = int(np.flatnonzero(~known)[0])
        raise FormatError(
            "a hint names an operation that is not in the trace",
            expected=f"an operation with 'is @{wanted[first]}'",
            found=f"'after @{wanted[first]}'",
            where=f"{where}:{lines[first]}",
            remedy=_REMEDY,
        )
    return np.stack([named[at], waiting], axis=1) if len(waiting) else np.empty((0, 2), np.int64)
