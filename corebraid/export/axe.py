"""A recording's shared accesses as one trace of the axe format, for `corebraid check`.

A location is a granule, named by the address of its first byte: accesses of different sizes are split where
another one begins or ends. What only one core touches, or nobody writes, is left out; so are device
registers. A read-modify-write is an atomic. In the format memory is 0 at first: where it is not, a thread of
its own stores the initial values and then raises a flag, at the address after memory, which every other
thread reads before all else; so those stores come first under SC and under TSO. Operations are written
region by region, so that the file follows time as far as the strata tell; of a recording under TSO core by
core, since a store may belong to a later region than the loads behind it. Fences and device accesses, which
wait for the store buffer there, are `sync`.

Comments say what makes an order easy to find and what other readers of the format skip: in which stratum an
access took effect and what a store overwrote (docs/axe.md, "Hints").

Where an agent met a core (`emu.sync_points`) a message says so, at an address of its own behind memory: a
store by the one that was there first, a load of it by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.export.columns import Places, Rows
from corebraid.selection import AddressRange
from emu.sync_points import ENTER, LEAVE
from recorder.event import READ, RMW, UNCACHED, WRITE
from solver.granules import find_granules
from solver.regions import Region, iter_regions
from solver.regions import Rows as StreamRows
from solver.traces import Traces

_FULL = np.uint64((1 << 64) - 1)
_LEGEND = "# a location is the address of a granule; comments: stratum, what was overwritten; count, pc"
_TEXTS = {
    READ: "{0}: M[{1}] == {2} # in {4}",
    WRITE: "{0}: M[{1}] := {3} # in {4} was {2}",
    RMW: "{0}: {{ M[{1}] == {2}; M[{1}] := {3} }} # in {4}",
}

_Words = NDArray[np.uint64]


class _Replayed(StreamRows):
    """One stream's rows of the whole recording, replayed when they are asked for, never held."""

    def __init__(self, traces: Traces, stream: int, show: Callable[[int], None]) -> None:
        super().__init__()
        self._traces, self._stream, self._show = traces, stream, show

    def pieces(self) -> Iterator[Rows]:
        """The rows from the first to the last."""
        for rows in self._traces.program_order(self._stream):
            self._show(len(rows))
            yield np.asarray(rows)


class _Locations:
    """The shared granules, ascending. address: uint64 (n,). size: bytes."""

    def __init__(self, streams: list[StreamRows], wanted: AddressRange | None) -> None:
        granules = find_granules(Region(0, streams))
        order = np.argsort(granules.address)
        self.address, self.size = granules.address[order], granules.size[order]
        if wanted is not None:
            ends = self.address + self.size
            inside = (self.address < np.uint64(wanted.high)) & (ends > np.uint64(wanted.low))
            self.address, self.size = self.address[inside], self.size[inside]

    def parts(self, rows: Rows) -> tuple[NDArray[np.int64], _Words, _Words, _Words]:
        """(row, address, old, new) of every part of `rows` that covers a location."""
        rows_in = np.flatnonzero((rows["flags"] & np.uint8(UNCACHED)) == 0)
        first = np.searchsorted(self.address, rows["addr"][rows_in])
        last = np.searchsorted(self.address, rows["addr"][rows_in] + rows["size"][rows_in])
        count = last - first
        row = np.repeat(rows_in, count)
        location = (
            np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)
        )
        address = self.address[location]
        shift = np.uint64(8) * (address - rows["addr"][row])
        mask = _FULL >> (np.uint64(64) - np.uint64(8) * self.size[location].astype(np.uint64))
        return row, address, (rows["old"][row] >> shift) & mask, (rows["new"][row] >> shift) & mask

    def values(self, memory: NDArray[np.uint8]) -> list[int]:
        """What memory holds at each location."""
        places = zip(self.address.tolist(), self.size.tolist(), strict=True)
        return [int.from_bytes(memory[a : a + n].tobytes(), "little") for a, n in places]


def export_axe(
    traces: Traces,
    sink: BinaryIO,
    places: Places,
    name: str,
    wanted: AddressRange | None = None,
    show: Callable[[int], None] = lambda _: None,
) -> int:
    """Write the trace; returns its number of operations. name: its first comment. wanted: only locations
    that it touches. show: called with the rows replayed so far, of
    the first of two times."""
    replayed = 0

    def count(rows: int) -> None:
        nonlocal replayed
        replayed += rows
        show(replayed)

    n_threads = traces.n_streams - traces.buffered
    streams: list[StreamRows] = [_Replayed(traces, stream, count) for stream in range(n_threads)]
    locations = _Locations(streams, wanted)
    if not len(locations.address):
        sink.write(f"# {name}\ncheck\n".encode())
        return 0
    messages = [_Messages(traces, stream) for stream in range(n_threads)]
    sink.write(f"# {name}\n{_LEGEND}\n".encode())
    written = _initial(traces, sink, locations)
    if traces.buffered:
        for stream in range(traces.n_streams - traces.buffered):
            for rows in traces.program_order(stream):
                written += _write(rows, stream, sink, places, locations, messages[stream], syncs=True)
    else:
        for region in iter_regions(traces):
            for stream, stream_rows in enumerate(region.streams):
                for rows in stream_rows.pieces():
                    written += _write(rows, stream, sink, places, locations, messages[stream])
    for message in messages:
        lines = message.rest()
        sink.write("".join(lines).encode())
        written += len(lines)
    if traces.has_final:
        values = locations.values(traces.final())
        for address, value in zip(locations.address.tolist(), values, strict=True):
            sink.write(f"final M[{address}] == {value}\n".encode())
    sink.write(b"check\n")
    return written


def _initial(traces: Traces, sink: BinaryIO, locations: _Locations) -> int:
    values = locations.values(traces.initial())
    stores = [(a, v) for a, v in zip(locations.address.tolist(), values, strict=True) if v]
    if not stores:
        return 0
    thread, flag = traces.n_streams, traces.memory_bytes
    lines = [f"{thread}: M[{a}] := {v} # in 0 was 0; initial value" for a, v in stores]
    lines.append(f"{thread}: M[{flag}] := 1 # in 0 was 0; all initial values are there")
    lines += [f"{t}: M[{flag}] == 1 # in 0" for t in range(traces.n_streams - traces.buffered)]
    sink.write(("\n".join(lines) + "\n").encode())
    return len(lines)


class _Messages:
    """What one stream sends and receives at sync points: lines, each before the stream's first access at or
    behind a place, an instruction count or an agents' access number."""

    def __init__(self, traces: Traces, stream: int) -> None:
        points, agents = traces.syncs, traces.n_streams - traces.buffered - 1
        mine = np.arange(len(points)) if stream == agents else np.flatnonzero(points["core"] == stream)
        place = points["number" if stream == agents else "count"]
        self._said: list[tuple[int, str]] = []
        for number in mine.tolist():
            for way in (ENTER, LEAVE):
                if points["way"][number] & way:
                    sends = (way == LEAVE) == (stream == agents)
                    at = traces.memory_bytes + 1 + 2 * number + (way == LEAVE)
                    text = f"{stream}: M[{at}] {':=' if sends else '=='} 1 # sync point {number}\n"
                    self._said.append((int(place[number]), text))
        self._next = 0

    def before(self, place: int) -> list[str]:
        """Those that come before an access at this place."""
        first = self._next
        while self._next < len(self._said) and self._said[self._next][0] <= place:
            self._next += 1
        return [text for _, text in self._said[first : self._next]]

    def rest(self) -> list[str]:
        """Those behind all accesses."""
        first, self._next = self._next, len(self._said)
        return [text for _, text in self._said[first:]]


def _write(
    rows: Rows,
    stream: int,
    sink: BinaryIO,
    places: Places,
    locations: _Locations,
    messages: _Messages,
    *,
    syncs: bool = False,
) -> int:
    row, address, old, new = locations.parts(rows)
    if syncs:
        fences = np.flatnonzero(rows["flags"] & np.uint8(UNCACHED))
        row = np.concatenate([row, fences])
        by = np.argsort(row, kind="stable")
        none = np.zeros(len(fences), np.uint64)
        row, address = row[by], np.concatenate([address, none])[by]
        old, new = np.concatenate([old, none])[by], np.concatenate([new, none])[by]
    if not len(row):
        return 0
    rows = rows[row]
    is_fence = (rows["flags"] & np.uint8(UNCACHED) != 0).tolist()
    place = places.index(rows)
    columns = (a.tolist() for a in (rows["kind"], address, old, new, rows["stratum"], rows["count"], place))
    lines = []
    for fence, (kind, a, before, after, stratum, count, number) in zip(
        is_fence, zip(*columns, strict=True), strict=True
    ):
        where = places.places[number]
        lines += messages.before(count)
        said = where.agent or f"{count}, {where.pc:#x} {where.name}".rstrip()
        form = "{0}: sync # in {4}" if fence else _TEXTS[kind]
        lines.append(f"{form.format(stream, a, before, after, stratum)}; {said}\n")
    sink.write("".join(lines).encode())
    return len(lines)
