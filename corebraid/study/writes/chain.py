"""Back from a write through what its value was computed from: loads, who wrote what they read, and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from corebraid.names.event_names import EventName
from corebraid.names.selection import AddressRange
from corebraid.study.writes.flow import Load, origins
from corebraid.study.writes.in_order import Piece, Query, standings
from corebraid.study.writes.rows import Access
from corebraid.study.writes.told import Teller, Told, number
from recorder.files.reader import Recording

#: Writes that are followed back, in all.
_MOST_FOLLOWED = 64


@dataclass(frozen=True)
class Step:
    """A write, and what its value was computed from. depth: steps back. read: the load of the step before
    that saw it, None of the first. loads, others: see `Origins`. initial: nobody wrote what `read` read; the
    write is None then. followed: whether its value was followed back."""

    depth: int
    read: Told | None
    write: Told | None
    loads: tuple[Told, ...] = ()
    others: tuple[str, ...] = ()
    followed: bool = True

    def lines(self) -> list[str]:
        """For people."""
        found = [] if self.read is None else [self._read_text()]
        wrote = "nobody: as memory was when the recording began" if self.write is None else self.write.text()
        found.append(f"{'' if self.read is None else '  which '}{wrote}")
        found += [f"  from {one}" for one in self.others]
        return found

    def _read_text(self) -> str:
        """What was loaded, without what the same instruction may have made of it."""
        read = self.read
        assert read is not None
        data = read.data or f"{int(read.row['addr']):#x}"
        at = f" at {read.where}" if read.where else ""
        return f"{read.who} read {number(int(read.row['old']))} of {data}{at}  [{read.event}]"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "depth": self.depth,
            "read": None if self.read is None else self.read.facts(),
            "write": None if self.write is None else self.write.facts(),
            "loads": [one.event for one in self.loads],
            "others": list(self.others),
            "followed": self.followed,
        }


@dataclass
class _Node:
    """A step in the making. below: what comes of its loads."""

    depth: int
    read: Load | None
    write: Access | None
    loads: tuple[Load, ...] = ()
    others: tuple[str, ...] = ()
    followed: bool = False
    below: list[_Node] | None = None


def steps_back(
    recording: Recording,
    teller: Teller,
    pieces: Callable[[], Iterator[Piece]],
    writes: list[Access],
    most: int,
    buffered: int,
) -> list[Step]:
    """From some writes `most` steps back, each write behind the one that it went into. pieces, buffered: see
    `standings`, which passes over the order once for each step. Raises FormatError, OrderError,
    Divergence."""
    first = [_Node(0, None, one) for one in writes]
    level, n_cores, seen = first, recording.manifest.n_cores, set[tuple[int, int, int, int]]()
    for depth in range(1, most + 1):
        for node in level:
            write = node.write
            if write is None or write.key in seen or len(seen) >= _MOST_FOLLOWED:
                continue
            seen.add(write.key)
            node.followed = True
            if int(write.row["core"]) < n_cores:
                found = origins(recording, write.row)
                node.loads, node.others = found.loads, found.others
        level = _below(level, pieces, depth, buffered)
        if not level:
            break
    return [step for node in first for step in _told(node, teller)]


def _below(
    level: list[_Node], pieces: Callable[[], Iterator[Piece]], depth: int, buffered: int
) -> list[_Node]:
    """Who wrote what the loads of some steps read."""
    asked = [(node, load) for node in level for load in node.loads]
    if not asked:
        return []
    found = standings(pieces, [_query(load) for _, load in asked], buffered)
    below: list[_Node] = []
    for (node, load), standing in zip(asked, found, strict=True):
        node.below = node.below or []
        last = {None if one is None else one.key: one for one in standing.last}
        node.below += [_Node(depth, load, one) for one in last.values()]
    for node, _ in asked:
        below += [one for one in node.below or [] if one not in below]
    return below


def _query(load: Load) -> Query:
    row = load.row
    low, core, count = int(row["addr"]), int(row["core"]), int(row["count"])
    text = f"{core}:{count}" + (f".{load.number}" if load.number else "")
    return Query(AddressRange(low, low + int(row["size"])), EventName(core, count, load.number or None, text))


def _told(node: _Node, teller: Teller) -> Iterator[Step]:
    read = None if node.read is None else teller.row(node.read.row, node.read.number)
    write = None if node.write is None else teller.access(node.write)
    loads = tuple(teller.row(one.row, one.number) for one in node.loads)
    yield Step(node.depth, read, write, loads, node.others, node.followed)
    for one in node.below or []:
        yield from _told(one, teller)
