"""Accesses and moments with the names that a program has for them, in words and as facts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corebraid.base.rows.event import FENCE, RMW, WRITE
from corebraid.names.devices import device_symbols
from corebraid.names.event_names import EventName, event_name
from corebraid.names.places import KIND_NAMES, Place, Places, kind_codes
from corebraid.names.program import GuestProgram
from corebraid.names.threads import Threads, thread_name, threads_of
from corebraid.study.writes.rows import Access
from recorder.files.reader import Recording


@dataclass(frozen=True)
class Told:
    """An access. event: what it is called. who: 'thread 1001 (worker)', 'core 2', 'the kernel for thread
    1001', 'dma'. thread: its number, 0 for none. place: where its instruction is. data: the name of what it
    accesses, or ''."""

    row: np.void
    event: str
    who: str
    thread: int
    place: Place
    data: str

    @property
    def where(self) -> str:
        """'function+0x12 (file.c:34)', the bare pc, or '' of an agent."""
        place = self.place
        if place.agent:
            return ""
        name = place.name or f"{place.pc:#x}"
        return f"{name} ({place.line})" if place.line else name

    @property
    def value(self) -> str:
        """What it read, wrote, or changed to what."""
        return changed(self.row)

    def text(self) -> str:
        """In words."""
        kind, old, new = int(self.row["kind"]), number(int(self.row["old"])), number(int(self.row["new"]))
        did = f"wrote {new}" if kind == WRITE else f"read {new}"
        if kind == RMW:
            did = f"atomically read {old}" if old == new else f"atomically changed {old} to {new}"
        if kind == FENCE:
            did = "waited for its stores"
        at = f" at {self.where}" if self.where else ""
        return f"{self.who} {did}{at}  [{self.event}]"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        row, place = self.row, self.place
        return {
            "event": self.event,
            "core": int(row["core"]),
            "thread": self.thread or None,
            "count": int(row["count"]),
            "stratum": int(row["stratum"]),
            "agent": place.agent or None,
            "pc": None if place.agent else f"{place.pc:#x}",
            "symbol": place.symbol or None,
            "offset": place.offset,
            "line": place.line or None,
            "disassembly": place.disassembly or None,
            "addr": f"{int(row['addr']):#x}",
            "data": self.data or None,
            "size": int(row["size"]),
            "kind": KIND_NAMES[int(kind_codes(np.array([row]))[0])],
            "old": f"{int(row['old']):#x}",
            "new": f"{int(row['new']):#x}",
        }


def number(value: int) -> str:
    """A value as people read it."""
    return f"{value:#x}" if value > 0xFFFF else str(value)


def changed(row: np.void) -> str:
    """The value of an access, or both of one that changed it."""
    old, new = number(int(row["old"])), number(int(row["new"]))
    return new if int(row["kind"]) != RMW or old == new else f"{old} -> {new}"


class Teller:
    """Of the recording `recording`."""

    def __init__(self, recording: Recording) -> None:
        manifest = recording.manifest
        self.recording, self._end, self._n_cores = recording, manifest.end, manifest.n_cores
        self.program = GuestProgram.of(recording.path, manifest, device_symbols())
        self._places = Places(self.program, manifest.n_cores)

    @cached_property
    def _threads(self) -> Threads | None:
        return threads_of(self.recording)

    def access(self, access: Access) -> Told:
        """One access."""
        return self.row(access.row, access.number)

    def row(self, row: np.void, named: int) -> Told:
        """One row (EVENT), whose event has this number. Raises FormatError."""
        rows = np.array([row])
        place = self._places.places[int(self._places.index(rows)[0])]
        thread = 0 if self._threads is None else int(self._threads.of(rows)[0])
        core = int(row["core"])
        event = event_name(core, int(row["count"]), named, self.program.agents, self._n_cores)
        data = self.program.data_names.name(int(row["addr"]))
        return Told(row, event, self._who(core, thread, place), thread, place, data)

    def _who(self, core: int, thread: int, place: Place) -> str:
        name = thread_name(self._end, thread) if thread else ""
        if core != self._n_cores:
            return name or f"core {core}"
        if not self.program.linux:
            return place.agent
        return f"the kernel ({place.agent})" + (f" for {name}" if name else "")

    def word(self, low: int, size: int) -> str:
        """'variable[3].member (0x1234, 8 bytes)' or without the name."""
        name = self.program.data_names.name(low)
        where = f"{low:#x}, {size} byte{'s' if size > 1 else ''}"
        return f"{name} ({where})" if name else f"{where}"

    def file_of(self, address: int) -> str:
        """The file that was mapped there, or ''."""
        found = self.program.data.at(address) or self.program.files.at(address)
        return "" if found is None else found.name

    def moment(self, event: EventName | None, access: Access | None) -> str:
        """When that is, in words."""
        if event is None:
            return "at the end of the run"
        if access is None:
            return f"at {event.text}"
        told = self.access(access)
        where = f" at {told.where}" if told.where else ""
        return f"before {told.event}, {told.who}{where}"


def value_of(raw: bytes) -> str:
    """Bytes as a number, or of more than 8 in hexadecimal."""
    return number(int.from_bytes(raw, "little")) if len(raw) <= 8 else raw.hex(" ")
