"""Which file the code, or the data, at an address is of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class PlacedPart:
    """Part of a file at the guest addresses [start, end), `bias` above those that the file counts. name: of
    the file. raw: all its bytes. path: of the file in the guest, '' of firmware. prefix: what the names of
    its symbols are shown with: 'libc.so.6!'; '' of the program's own."""

    start: int
    end: int
    bias: int
    name: str
    raw: bytes
    path: str = ""
    prefix: str = ""


class PlacedFiles:
    """All parts of some kind that were mapped, of files that are known."""

    def __init__(self, placed: Iterable[PlacedPart] = ()) -> None:
        self._placed = sorted(placed, key=lambda one: one.start)
        self._starts = [one.start for one in self._placed]

    def at(self, address: int) -> PlacedPart | None:
        """Whose part is at an address; None: no file's."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address >= self._placed[index].end:
            return None
        return self._placed[index]

    def one_of_each(self) -> Iterator[PlacedPart]:
        """A part of each file, of all places where that is mapped."""
        met = set[tuple[int, int]]()
        for one in self._placed:
            if (id(one.raw), one.bias) not in met:
                met.add((id(one.raw), one.bias))
                yield one
