"""What cores lose, worked out naively from the order that really ran: no code of the bus is in it.

The sealed truth says in which order all accesses happened and where each core stood meanwhile; MESI over lines
says who loses what. Caches are unbounded. The logs are needed for one thing only: an access that was stopped
has obtained its line, and is no row of a trace.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from bench.true_order import held_traces

from recorder.event import EVENT, READ, RMW, UNCACHED
from recorder.losses import DOWNGRADED, LOST
from recorder.reader import Recording, iter_core_records, iter_sealed_truth
from recorder.record import MISS, MISS_WRITE
from recorder.truth import TRUTH

Loss = tuple[int, int, int]


@dataclass
class Lines:
    """Who holds what. owners: who may write without asking. stands: the count at which each core stands."""

    cores: int
    stands: list[int] = field(init=False)
    lost: list[list[Loss]] = field(init=False)
    holders: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    owners: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.stands, self.lost = [0] * self.cores, [[] for _ in range(self.cores)]

    def _loses(self, core: int, line: int, way: int) -> None:
        self.lost[core].append((self.stands[core], line, way))

    def read(self, stream: int, line: int) -> None:
        """A core, or an agent, wants to read."""
        holders = self.holders[line]
        if stream in holders:
            return
        owner = self.owners.pop(line, None)
        if owner is not None:
            self._loses(owner, line, DOWNGRADED)
        if stream < self.cores:
            if not holders:
                self.owners[line] = stream
            holders.add(stream)

    def write(self, stream: int, line: int) -> None:
        """A core, or an agent, wants to write."""
        if self.owners.get(line) == stream:
            return
        for core in sorted(self.holders[line] - {stream}):
            self._loses(core, line, LOST)
        self.holders[line] = set()
        self.owners.pop(line, None)
        if stream < self.cores:
            self.holders[line], self.owners[line] = {stream}, stream


class Records:
    """The miss records of one core, each taken by the access that it belongs to."""

    def __init__(self, recording: Recording, core: int) -> None:
        self._waiting: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        self._strays: list[tuple[int, int]] = []
        for rows, _ in iter_core_records(recording, core):
            misses = rows[rows["kind"] == MISS]
            for count, line, flags in zip(
                *(misses[name].tolist() for name in ("count", "addr", "flags")), strict=True
            ):
                self._waiting[line].append((count, bool(flags & MISS_WRITE)))

    def due(self, line: int, count: int) -> list[bool]:
        """Of each record of the line up to `count`, whether it was fetched to be written; they go."""
        found, waiting = [], self._waiting[line]
        while waiting and waiting[0][0] <= count:
            found.append(waiting.pop(0)[1])
        return found

    def left(self, count: int) -> list[tuple[int, int, bool]]:
        """Records below `count` that no access has taken: (count, line, to be written)."""
        return sorted((c, line, w) for line, all_ in self._waiting.items() for c, w in all_ if c < count)


def derived_losses(recording: Recording) -> tuple[list[list[Loss]], int]:
    """The losses of each core in their order, and how many accesses obtained a line and were stopped."""
    traces = held_traces(recording)
    cores, size = recording.manifest.n_cores, np.uint64(recording.manifest.line)
    truth = np.concatenate([np.zeros(0, TRUTH), *iter_sealed_truth(recording)])
    lines, strays, at = Lines(cores), 0, [0] * traces.n_streams
    records = [Records(recording, core) for core in range(cores)]
    for stream, end in truth.tolist():
        rows = traces.rows[stream]
        upto = int(np.searchsorted(rows["count"], np.uint64(end), side="left"))
        piece = rows[at[stream] : max(upto, at[stream])]
        at[stream] += len(piece)
        walk(lines, stream, piece, size, records[stream] if stream < cores else None)
        if stream < cores:
            lines.stands[stream] = end
    return lines.lost, strays


def walk(lines: Lines, stream: int, rows: np.ndarray, size: np.uint64, records: Records | None) -> None:
    """One slice's rows (EVENT[n])."""
    kept = rows[(rows["flags"] & UNCACHED) == 0]
    firsts = kept["addr"] // size * size
    lasts = (kept["addr"] + kept["size"] - np.uint64(1)) // size * size
    columns = (kept["count"].tolist(), kept["kind"].tolist(), firsts.tolist(), lasts.tolist())
    for _count, kind, first, last in zip(*columns, strict=True):
        for line in range(first, last + 1, int(size)):
            if kind in (READ, RMW):
                lines.read(stream, line)
        for line in range(first, last + 1, int(size)):
            if kind != READ:
                lines.write(stream, line)
