"""The list of mappings of an address space: who lies where, without any memory behind it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import MappedFile
from emu.linux.ground.limits import RESOURCES, RLIMIT_STACK
from emu.native.state import RIGHT_EXECUTE, RIGHT_READ, RIGHT_WRITE

#: Anonymous mappings of this size on get room behind them to grow in place (mremap of a big malloc).
_GROWS_FROM = 1 << 20
#: What grows downwards keeps away from what lies below (stack_guard_gap).
GUARD_BYTES = 256 * PAGE_BYTES


@dataclass(frozen=True)
class Mapping:
    """Pages [start, end) with the same rights (RIGHT_*) and backing. offset: of `start` in the file.

    may_write: the right to write may be given later; not where a file opened for reading is mapped shared.
    grows: downwards, where the page below is used (MAP_GROWSDOWN).
    """

    start: int
    end: int
    rights: int
    shared: bool = False
    file: MappedFile | None = None
    offset: int = 0
    name: str = ""
    may_write: bool = True
    grows: bool = False

    def part(self, start: int, end: int) -> Mapping:
        """The same for some of its pages."""
        return replace(self, start=start, end=end, offset=self.offset + start - self.start)

    def describe(self) -> str:
        """Its line of /proc/self/maps (proc(5))."""
        rights = "".join(
            letter if self.rights & right else "-"
            for letter, right in (("r", RIGHT_READ), ("w", RIGHT_WRITE), ("x", RIGHT_EXECUTE))
        )
        path = self.file.path if self.file else self.name
        inode = self.file.inode if self.file else 0
        line = (
            f"{self.start:08x}-{self.end:08x} {rights}{'s' if self.shared else 'p'} "
            f"{self.offset if self.file else 0:08x} {'08:01' if self.file else '00:00'} {inode} "
        )
        return f"{line.ljust(73)}{path}".rstrip() + "\n"


class Mappings:
    """Mappings in [low, high), ascending, none over another. most_grown: bytes that one which grows downwards
    may have, as RLIMIT_STACK is now."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self._starts: list[int] = []
        self._all: list[Mapping] = []
        self._below = high
        self._n_shared_files = 0
        self.most_grown = RESOURCES[RLIMIT_STACK].soft
        #: By end and size: where to begin to look for room downwards, since there is none above.
        self._full: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Mapping]:
        return iter(self._all)

    def at(self, address: int) -> Mapping | None:
        """The mapping that holds `address`."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._all[index].end:
            return self._all[index]
        return None

    def grow(self, start: int) -> bool:
        """The mapping above a page that is not mapped grows down to it. False: it does not."""
        index = bisect_right(self._starts, start)
        above = self._all[index] if index < len(self._all) else None
        if above is None or not above.grows or start < self._low or above.end - start > self.most_grown:
            return False
        below = self._all[index - 1] if index else None
        if below is not None and below.rights and not below.grows and start - below.end < GUARD_BYTES:
            return False
        self.insert(replace(above, start=start, end=above.start))
        return True

    def overlapping(self, start: int, end: int) -> list[Mapping]:
        """The mappings that share a page with [start, end)."""
        first = bisect_right(self._starts, start) - 1
        if first < 0 or self._all[first].end <= start:
            first += 1
        return self._all[first : bisect_left(self._starts, end)]

    def covered(self, start: int, end: int) -> bool:
        """Whether every page of [start, end) is mapped."""
        at = start
        for mapping in self.overlapping(start, end):
            if mapping.start > at:
                return False
            at = mapping.end
        return at >= end

    @property
    def shared_files(self) -> bool:
        """Whether a file is mapped shared."""
        return self._n_shared_files > 0

    def insert(self, mapping: Mapping) -> None:
        """Add a mapping to free pages; joined with its neighbours where they are alike."""
        index = bisect_left(self._starts, mapping.start)
        if index < len(self._all) and _joins(mapping, self._all[index]):
            mapping = replace(mapping, end=self._take(index).end)
        if index and _joins(self._all[index - 1], mapping):
            index -= 1
            mapping = replace(self._take(index), end=mapping.end)
        self._put(index, mapping)

    def _put(self, index: int, mapping: Mapping) -> None:
        self._all.insert(index, mapping)
        self._starts.insert(index, mapping.start)
        self._n_shared_files += mapping.shared and mapping.file is not None

    def _take(self, index: int) -> Mapping:
        del self._starts[index]
        mapping = self._all.pop(index)
        self._n_shared_files -= mapping.shared and mapping.file is not None
        return mapping

    def remove(self, start: int, end: int) -> list[Mapping]:
        """Cut [start, end) out. Returns what was there."""
        gone = []
        for mapping in self.overlapping(start, end):
            index = bisect_left(self._starts, mapping.start)
            self._take(index)
            gone.append(mapping.part(max(start, mapping.start), min(end, mapping.end)))
            if mapping.end > end:
                self._put(index, mapping.part(end, mapping.end))
            if mapping.start < start:
                self._put(index, mapping.part(mapping.start, start))
        if gone:
            self._full.clear()
        return gone

    def cut_by(self, start: int, end: int) -> int:
        """How many mappings have pages both inside and outside of [start, end), one with some on both sides
        twice."""
        inner = (self.at(start), start), (self.at(end), end)
        return sum(mapping is not None and mapping.start < place for mapping, place in inner)

    def free(self, start: int, end: int) -> bool:
        """Whether [start, end) lies inside and nothing is mapped there."""
        return self._low <= start and end <= self._high and not self.overlapping(start, end)

    def find_room(self, size: int, anonymous: bool) -> int | None:
        """Where `size` bytes fit: downwards from the last place found, then anywhere."""
        gap = size if anonymous and size >= _GROWS_FROM else 0
        for wanted in {size + gap: 0, size: 0}:
            start = self._above(self._end_of_room(wanted, self._below) - wanted)
            start = self.room_below(wanted, self._high) if start is None else start
            if start is not None:
                self._below = start
                return start
        return None

    def room_below(self, size: int, top: int) -> int | None:
        """Where `size` bytes fit below `top`."""
        end = self._full[top, size] = self._end_of_room(size, self._full.get((top, size), top))
        return self._above(end - size)

    def begin_below(self, top: int) -> None:
        """Look for room below `top` from now on."""
        self._below = self._high = top

    def _end_of_room(self, size: int, end: int) -> int:
        """The highest end of `size` free bytes, at most `end`; there may be none of these below `low`."""
        first = bisect_left(self._starts, end)
        if first < len(self._all) and self._all[first].grows:
            end = min(end, self._all[first].start - GUARD_BYTES)
        for index in range(first - 1, -1, -1):
            mapping = self._all[index]
            if mapping.end <= end - size:
                break
            end = min(end, mapping.start - (GUARD_BYTES if mapping.grows else 0))
        return end

    def _above(self, start: int) -> int | None:
        """The place, unless it is too low: a page apart, so that running over an end is noticed."""
        return start if start >= self._low + PAGE_BYTES else None


def _joins(first: Mapping, second: Mapping) -> bool:
    if first.end != second.start or first.rights != second.rights or first.shared != second.shared:
        return False
    if first.name != second.name or first.file is not second.file or first.may_write != second.may_write:
        return False
    if first.grows != second.grows:
        return False
    return first.file is None or first.offset + first.end - first.start == second.offset


def total_size(mappings: Iterable[Mapping]) -> int:
    """Bytes that are mapped."""
    return sum(mapping.end - mapping.start for mapping in mappings)
