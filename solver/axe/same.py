"""Small traces that say what one before them said, which files of many tests have: made and decided once.

Two say the same if they differ in their names and in where they stand alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from solver.axe import scan
from solver.axe.trace import Trace

#: Rows of a trace that is worth remembering, and traces that are remembered.
_MOST_ROWS, _MOST = 64, 4096

Kept = TypeVar("Kept")


class Memory(Generic[Kept]):
    """What was found for the last traces of their kind. most: how many."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: dict[bytes, Kept] = {}

    def get(self, said: bytes) -> Kept | None:
        """What was kept for a trace that says this."""
        return self._kept.get(said)

    def keep(self, said: bytes, what: Kept) -> None:
        """Keep it, unless it is for none: b''."""
        if said:
            if len(self._kept) >= self._most:
                del self._kept[next(iter(self._kept))]
            self._kept[said] = what


class Maker:
    """Makes traces of rows. make: does so with those that were not seen before (`text.make_trace`)."""

    def __init__(self, make: Callable[[list[NDArray[np.uint64]], str, str], Trace]) -> None:
        self._make, self._made = make, Memory[Trace]()

    def __call__(self, parts: list[NDArray[np.uint64]], name: str, where: str) -> Trace:
        """See `text.make_trace`."""
        if len(parts) != 1 or len(parts[0]) > _MOST_ROWS:
            return self._make(parts, name, where)
        rows = parts[0][parts[0][:, scan.KIND] != scan.NAME]
        first = rows[0, scan.LINE]
        rows[:, scan.LINE] -= first
        said = rows.tobytes()
        before = self._made.get(said)
        if before is None:
            made = replace(self._make(parts, name, where), said=said)
            self._made.keep(said, made)
            return made
        further = int(first) - before.line
        return replace(
            before,
            name=name,
            line=int(first),
            lines=before.lines + further,
            final_lines=before.final_lines + further,
        )
