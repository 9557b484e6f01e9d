"""Events in the regions of a recording, and how the two sides of a pair are shown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import UsageError
from corebraid.names.event_names import EVENT_REMEDY, EventName
from corebraid.names.places import KIND_NAMES, Place, Places, Rows, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.study.freedom.numbering import Numbering, numbers_among
from solver.freedom.choose import Choice, op_of_row
from solver.passes.unfiltered import (
    accesses_at,
    is_unfiltered,
    iter_problems,
    number_in_instruction,
    numbered_pieces,
    program_rows,
    rows_of_ops,
)
from solver.regions.problem import Problem
from solver.regions.program_order import core_rows
from solver.regions.region import Region
from solver.regions.traces import Traces


@dataclass(frozen=True)
class Found:
    """Where an event is: its region, its stream, and its row among those of the stream there."""

    region: Region
    problem: Problem
    stream: int
    row: int

    @property
    def op(self) -> int:
        """The operation that it is part of."""
        return op_of_row(self.problem, self.stream, self.row)


class _Access(NamedTuple):
    """One access of an instruction: where it is, its number there, whether it is an unfiltered event."""

    stream: int
    row: int
    number: int
    kept: bool


def _accesses(
    name: EventName, region: Region, problem: Problem, numbering: Numbering | None
) -> list[_Access]:
    """The accesses in a region of the instruction that is named."""
    if numbering is not None and name.stream < problem.n_streams - 1:
        return _accesses_of_some(name, region, problem, numbering)
    if not region.tails or name.stream >= len(region.tails):
        here = []
        for at, piece, nth in numbered_pieces(region.streams[name.stream]):
            same = np.flatnonzero(piece["count"] == np.uint64(name.count))
            here += _listed(name.stream, piece[same], at + same, nth[same], problem)
        return here
    # Under TSO a core's stores are a stream of their own.
    here, every = [], core_rows(region, name.stream).rows
    for stream in (name.stream, problem.n_streams - problem.buffered + name.stream):
        events = program_rows(region, stream)
        same = np.flatnonzero(events["count"] == np.uint64(name.count))
        here += _listed(stream, events[same], same, number_in_instruction(every, events[same]), problem)
    return sorted(here, key=lambda access: access.number)


def _accesses_of_some(
    name: EventName, region: Region, problem: Problem, numbering: Numbering
) -> list[_Access]:
    """The same where not all accesses of the region are rows: the others are no unfiltered events."""
    count = np.array([name.count], np.uint64)
    every = numbering.every(name.stream, region.index, count)
    rows, where = accesses_at(region.streams[name.stream], count)
    numbers = numbers_among(every, rows)
    found = _listed(name.stream, rows, where, numbers, problem)
    others = np.setdiff1d(np.arange(len(every)), numbers).tolist()
    found += [_Access(name.stream, -1, number, False) for number in others]
    return sorted(found, key=lambda access: access.number)


def _listed(
    stream: int, events: Rows, rows: NDArray[np.intp], numbers: NDArray[np.int64], problem: Problem
) -> list[_Access]:
    kept = is_unfiltered(events, problem)
    columns = zip(rows.tolist(), numbers.tolist(), kept.tolist(), strict=True)
    return [_Access(stream, *column) for column in columns]


def find_in(
    name: EventName, region: Region, problem: Problem, numbering: Numbering | None = None
) -> Found | None:
    """The event, if it is of this region. numbering: of traces that have not all accesses. Raises UsageError
    if it needs no ordering, or is ambiguous."""
    here = _accesses(name, region, problem, numbering)
    if not here:
        return None
    wanted = [event for event in here if name.number in (None, event.number)]
    if not wanted:
        raise UsageError(
            "no such access of this instruction",
            expected=f"0 to {max(event.number for event in here)}",
            found=name.text,
            remedy=EVENT_REMEDY,
        )
    free = [event for event in wanted if event.kept]
    if not free:
        raise UsageError(
            "the event was filtered: it is local to one core or only read in its region, so where it stands "
            "tells nothing",
            where=f"event {name.text}, region {region.index}",
            remedy="choose one that 'corebraid pairs' lists",
        )
    if name.number is None and free[0].number == 0:
        # So the first one is named where events are listed.
        free = free[:1]
    if len({op_of_row(problem, event.stream, event.row) for event in free}) > 1:
        names = ", ".join(f"{name.text}.{event.number}" for event in free)
        raise UsageError(
            "an instruction with several accesses", found=name.text, remedy=f"choose one of {names}"
        )
    return Found(region, problem, free[0].stream, free[0].row)


def find_events(traces: Traces, names: list[EventName], numbering: Numbering | None = None) -> list[Found]:
    """The events, all of one region. numbering: of traces that have not all accesses. Raises UsageError if
    there is no such event, they need no ordering, or are of different regions."""
    missing = list(names)
    for region, problem in iter_problems(traces):
        if numbering is not None and not any(_may_be_in(name, region.index, traces) for name in missing):
            continue
        found = {name: find_in(name, region, problem, numbering) for name in missing}
        here = [found.get(name) for name in names]
        if all(here):
            return [event for event in here if event]
        missing = [name for name in missing if not found[name]]
        if not missing:
            break
    if missing:
        text = " and ".join(name.text for name in missing)
        raise UsageError("no such event", found=text, remedy=EVENT_REMEDY)
    raise UsageError(
        "events of different regions: a stratum lies between them, so their order is certain",
        found=" and ".join(name.text for name in names),
        remedy="choose two events of one region",
    )


def _may_be_in(name: EventName, region: int, traces: Traces) -> bool:
    """Whether an event can be of a region, as the counts at the strata around it tell."""
    counts = traces.strata[:, name.stream]
    after = region == 0 or int(counts[region - 1]) <= name.count
    return after and (region >= len(counts) or name.count < int(counts[region]))


def parse_choice(text: str, traces: Traces, n_cores: int) -> Choice:
    """From 'fewest-switches', 'earliest:EVENT', 'latest:EVENT' or 'before:EVENT,EVENT'. Raises UsageError."""
    kind, _, rest = text.partition(":")
    wanted = {"fewest-switches": 0, "earliest": 1, "latest": 1, "before": 2}
    events = rest.split(",") if rest else []
    if wanted.get(kind) != len(events):
        raise UsageError(
            "not a choice of order",
            expected="fewest-switches, earliest:EVENT, latest:EVENT or before:EVENT,EVENT",
            found=repr(text),
            remedy=EVENT_REMEDY,
        )
    if not events:
        return Choice(kind)
    names = [EventName.parse(event, n_cores) for event in events]
    found = find_events(traces, names)
    region = found[0].problem.region
    if kind != "before":
        return Choice(kind, region, found[0].stream, found[0].row)
    return Choice(kind, region, found[0].stream, found[0].row, found[1].stream, found[1].row)


class RegionEvents:
    """The operations of one region as a user knows them. rows: EVENT (n_ops,), the first row of each.
    numbering: of traces that have not all accesses."""

    def __init__(
        self,
        region: Region,
        problem: Problem,
        places: Places,
        n_cores: int,
        numbering: Numbering | None = None,
    ) -> None:
        self.rows, self._numbers = rows_of_ops(region, problem)
        self._region, self._problem, self._numbering = region, problem, numbering
        self._places, self._n_cores = places, n_cores
        self._kinds: NDArray[np.uint8] = kind_codes(self.rows)
        self._where = places.index(self.rows)

    @cached_property
    def _nth(self) -> NDArray[np.int64]:
        """Of each operation, its number among all accesses of its instruction."""
        if self._numbering is None:
            return self._numbers
        return np.concatenate([self._numbers_of(stream) for stream in range(self._problem.n_streams)])

    def _numbers_of(self, stream: int) -> NDArray[np.int64]:
        first, end = (int(self._problem.stream_ptr[k]) for k in (stream, stream + 1))
        rows, ours = self.rows[first:end], self._numbers[first:end]
        if stream == self._n_cores or not len(rows) or self._numbering is None:
            return ours
        counts = np.unique(rows["count"])
        here = accesses_at(self._region.streams[stream], counts)[0]
        numbers = self._numbering.of_rows(stream, self._region.index, here)
        return numbers[np.searchsorted(here["count"], rows["count"]) + ours]

    def name(self, op: int) -> str:
        """CORE:COUNT or CORE:COUNT.N."""
        row = self.rows[op]
        core = self._places.program.agents if row["core"] == self._n_cores else str(row["core"])
        return f"{core}:{row['count']}" + (f".{self._nth[op]}" if self._nth[op] else "")

    def text(self, op: int) -> str:
        """Name, place, kind and values in columns."""
        row, place = self.rows[op], self._place(op)
        where = f"({place.agent})" if place.agent else f"{place.pc:#x} {place.name} {place.line}".rstrip()
        kind = KIND_NAMES[self._kinds[op]]
        values = f"{int(row['old']):#x}" + (f"->{int(row['new']):#x}" if kind not in ("R", "F") else "")
        return f"{self.name(op):<12} {where:<28} {kind:<3} {values:<18}"

    def facts(self, op: int) -> dict[str, object]:
        """As JSON."""
        row, place = self.rows[op], self._place(op)
        return {
            "event": self.name(op),
            "core": int(row["core"]),
            "count": int(row["count"]),
            "agent": place.agent or None,
            "pc": None if place.agent else f"{place.pc:#x}",
            "symbol": place.symbol or None,
            "offset": place.offset,
            "line": place.line or None,
            "addr": f"{int(row['addr']):#x}",
            "size": int(row["size"]),
            "kind": KIND_NAMES[self._kinds[op]],
            "old": f"{int(row['old']):#x}",
            "new": f"{int(row['new']):#x}",
        }

    def _place(self, op: int) -> Place:
        return self._places.places[self._where[op]]


def data_name(program: GuestProgram, address: int) -> str:
    """'symbol[3].field+offset' of data, or '-'."""
    return program.data_names.name(address) or "-"


__all__ = ["EventName", "Found", "RegionEvents", "Rows", "data_name", "find_events", "parse_choice"]
