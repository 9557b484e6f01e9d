"""`corebraid history`: what became of some bytes, in the recording's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from corebraid.names.event_names import EventNumbers
from corebraid.names.selection import AddressRange
from corebraid.names.threads import threads_of
from corebraid.study.writes.in_order import order_of
from corebraid.study.writes.rows import Access, Rows, are_writes, of_memory
from corebraid.study.writes.told import Teller, Told, value_of
from recorder.files.reader import Recording
from recorder.replay.traces import RecordingTraces


@dataclass(frozen=True)
class Begin:
    """The bytes when the recording began. mapped: the file that is there, or ''."""

    name: str
    low: int
    value: bytes
    mapped: str

    def line(self) -> str:
        """For people."""
        mapped = f" (of {self.mapped})" if self.mapped else ""
        return f"{self.name} holds {value_of(self.value)} when the recording begins{mapped}"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        return {
            "type": "begin",
            "name": self.name,
            "addr": f"{self.low:#x}",
            "size": len(self.value),
            "value": self.value.hex(),
            "mapped": self.mapped or None,
        }


@dataclass(frozen=True)
class Happened:
    """An access to the bytes. writes: whether it is a write. has_order: whether its region has an order."""

    told: Told
    writes: bool
    has_order: bool

    def line(self) -> str:
        """For people."""
        told = self.told
        where = told.data or f"{int(told.row['addr']):#x}"
        return f"{' ' if self.has_order else '?'} {told.text()}  {where}, {int(told.row['size'])} bytes"

    def facts(self) -> dict[str, object]:
        """As JSON."""
        kind = "write" if self.writes else "read"
        return {"type": kind, **self.told.facts(), "ordered": self.has_order}


def history(
    recording: Recording,
    span: AddressRange,
    *,
    writes: bool,
    limit: int | None,
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Begin | Happened]:
    """What there was when the recording began, every write to the bytes, and every read by a thread, or core,
    that found there another value than it had last found or left. writes: no reads. limit: at most so many
    accesses. progress: called with the rows looked at. Raises FormatError, OrderError, Divergence."""
    teller, numbers = Teller(recording), EventNumbers(bool(recording.manifest.store_buffer))
    memory = RecordingTraces(recording).initial()[span.low : span.high].tobytes()
    yield Begin(teller.word(span.low, len(memory)), span.low, memory, teller.file_of(span.low))
    known, passed, left = _Known(recording, span), 0, limit
    for rows, has_order in order_of(recording)():
        named = numbers.of(rows)
        wanted = np.flatnonzero(of_memory(rows, span))
        told, stored = known.news(rows[wanted]), are_writes(rows[wanted])
        for k, at in enumerate(wanted.tolist()):
            if not stored[k] and (writes or not told[k]):
                continue
            if left == 0:
                return
            left = None if left is None else left - 1
            one = teller.access(Access(rows[at].copy(), int(named[at]), passed + at, has_order))
            yield Happened(one, bool(stored[k]), has_order)
        passed += len(rows)
        progress(passed)


class _Known:
    """What each thread, or core, knows of the bytes."""

    def __init__(self, recording: Recording, span: AddressRange) -> None:
        self._threads, self._n_cores = threads_of(recording), recording.manifest.n_cores
        self._span = span
        self._of: dict[tuple[bool, int], dict[int, int]] = {}

    def news(self, rows: Rows) -> list[bool]:
        """Of each of rows (EVENT[n]) whether who made it found something there that it did not know."""
        if not len(rows):
            return []
        who = rows["core"].astype(np.int64) if self._threads is None else self._threads.of(rows)
        agents = (rows["core"] == self._n_cores).tolist()
        return [
            self._is_news((agent, number), row)
            for agent, number, row in zip(agents, who.tolist(), rows, strict=True)
        ]

    def _is_news(self, who: tuple[bool, int], row: np.void) -> bool:
        known, first, size = self._of.setdefault(who, {}), int(row["addr"]), int(row["size"])
        old, new = (int(row[name]).to_bytes(8, "little") for name in ("old", "new"))
        low, high = max(first, self._span.low), min(first + size, self._span.high)
        news = any(known.get(byte) != old[byte - first] for byte in range(low, high))
        known.update({byte: new[byte - first] for byte in range(low, high)})
        return news
