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
access took effect, what a store overwrote, and what came before it as tenures and losses prove
(`corebraid.study.export.axe_ties`; docs/axe.md, "Hints").

Where an agent met a core (`emu.bus.sync_points`) a message says so, at an address of its own behind memory: a
store by the one that was there first, a load of it by the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from corebraid.base.rows.event import READ, RMW, UNCACHED, WRITE
from corebraid.names.places import Places, Rows
from corebraid.names.selection import AddressRange
from corebraid.study.export.axe_ties import Ties
from emu.bus.sync_points import ENTER, LEAVE
from solver.regions.region import Region
from solver.regions.region import Rows as StreamRows
from solver.regions.traces import Traces
from solver.sifting.granules import find_granules
from solver.sifting.strata import iter_regions

_FULL = np.uint64((1 << 64) - 1)
_LEGEND = "# a location is the address of a granule; comments: hints (docs/axe.md); count, pc"
_FENCE = "{0}: sync # in {4}{5}"
_TEXTS = {
    READ: "{0}: M[{1}] == {2} # in {4}{5}",
    WRITE: "{0}: M[{1}] := {3} # in {4} was {2}{5}",
    RMW: "{0}: {{ M[{1}] == {2}; M[{1}] := {3} }} # in {4}{5}",
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

    def touching(self, rows: Rows) -> NDArray[np.int64]:
        """Which of the rows (indices, ascending) cover a location."""
        return np.unique(self.parts(rows)[0])

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
    sink.write(f"# {name}\n{_LEGEND}\n".encode())
    written = _initial(traces, sink, locations) + _accesses(traces, sink, places, locations)
    if traces.has_final:
        values = locations.values(traces.final())
        for address, value in zip(locations.address.tolist(), values, strict=True):
            sink.write(f"final M[{address}] == {value}\n".encode())
    sink.write(b"check\n")
    return written


def _accesses(traces: Traces, sink: BinaryIO, places: Places, locations: _Locations) -> int:
    n_threads = traces.n_streams - traces.buffered
    ties = Ties(n_threads)
    threads = [_Thread(traces, stream, sink, places, locations, ties) for stream in range(n_threads)]
    for region in iter_regions(traces) if traces.line_bytes or not traces.buffered else ():
        ties.add(region, locations.touching)
        if not traces.buffered:
            for thread, rows in zip(threads, region.streams, strict=True):
                thread.write(rows.pieces())
            ties.clear()
    if traces.buffered:
        for stream, thread in enumerate(threads):
            thread.write(traces.program_order(stream))
    return sum(thread.end() for thread in threads)


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
                    hints = f"in {points['stratum'][number]}" + (" was 0" if sends else "")
                    text = f"{stream}: M[{at}] {':=' if sends else '=='} 1 # {hints}; sync point {number}\n"
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


class _Thread:
    """Writes the operations of one thread. syncs: also fences and device accesses."""

    def __init__(
        self, traces: Traces, stream: int, sink: BinaryIO, places: Places, locations: _Locations, ties: Ties
    ) -> None:
        self._stream, self._sink, self._places = stream, sink, places
        self._locations, self._ties = locations, ties
        self._messages, self._syncs = _Messages(traces, stream), bool(traces.buffered)
        self._written = 0

    def write(self, pieces: Iterator[Rows]) -> None:
        """Write those of rows, which come next."""
        for rows in pieces:
            self._put(self._lines(rows))

    def end(self) -> int:
        """Write what stands behind all accesses. Returns how many operations there are."""
        self._put(self._messages.rest())
        return self._written

    def _put(self, lines: list[str]) -> None:
        self._sink.write("".join(lines).encode())
        self._written += len(lines)

    def _parts(self, rows: Rows) -> tuple[Rows, _Words, _Words, _Words]:
        """(row, address, old, new) of every operation of the rows."""
        row, address, old, new = self._locations.parts(rows)
        if self._syncs:
            fences = np.flatnonzero(rows["flags"] & np.uint8(UNCACHED))
            row = np.concatenate([row, fences])
            by = np.argsort(row, kind="stable")
            none = np.zeros(len(fences), np.uint64)
            row, address = row[by], np.concatenate([address, none])[by]
            old, new = np.concatenate([old, none])[by], np.concatenate([new, none])[by]
        return rows[row], address, old, new

    def _lines(self, rows: Rows) -> list[str]:
        rows, address, old, new = self._parts(rows)
        if not len(rows):
            return []
        fences = (rows["flags"] & np.uint8(UNCACHED) != 0).tolist()
        hints, place = self._hints(rows["seq"]), self._places.index(rows)
        columns = rows["kind"], address, old, new, rows["stratum"], rows["count"], place
        fields = (column.tolist() for column in columns)
        lines = []
        for fence, hint, (kind, a, before, after, stratum, count, number) in zip(
            fences, hints, zip(*fields, strict=True), strict=True
        ):
            where = self._places.places[number]
            lines += self._messages.before(count)
            said = where.agent or f"{count}, {where.pc:#x} {where.name}".rstrip()
            form = _FENCE if fence else _TEXTS[kind]
            lines.append(f"{form.format(self._stream, a, before, after, stratum, hint)}; {said}\n")
        return lines

    def _hints(self, seq: NDArray[np.uint64]) -> list[str]:
        """What is proved of the order of each operation."""
        hints = [""] * len(seq)
        if self._ties:
            begins = np.flatnonzero(np.concatenate([[True], seq[1:] != seq[:-1]]))
            ends = np.append(begins[1:], len(seq)) - 1
            for first, last, number in zip(begins.tolist(), ends.tolist(), seq[begins].tolist(), strict=True):
                hints[last] = self._ties.name(self._stream, number)
                hints[first] += self._ties.afters(self._stream, number)
        return hints
