"""What cores lose, worked out naively from the order that really ran: no code of the bus is in it.

The sealed truth says in which order all accesses happened and where each core stood meanwhile; MESI over
lines says who loses what. Caches are unbounded, and there are no store buffers.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from bench.true_order import held_traces
from corebraid.base.rows.event import OWNED, READ, RMW, UNCACHED
from recorder.evidence.losses.log import DOWNGRADED, LOST
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.files.truth import TRUTH

Loss = tuple[int, int, int, int]


@dataclass
class Lines:
    """Who holds what. owners: who may write without asking. stands: the count at which each core stands.
    stratum: strata cut so far. told: of every access of agents whether it says that a core had the line
    alone, and whether one had."""

    cores: int
    stands: list[int] = field(init=False)
    lost: list[list[Loss]] = field(init=False)
    holders: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    owners: dict[int, int] = field(default_factory=dict)
    stratum: int = 0
    told: list[tuple[bool, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stands, self.lost = [0] * self.cores, [[] for _ in range(self.cores)]

    def _loses(self, core: int, line: int, way: int) -> None:
        self.lost[core].append((self.stands[core], line, way, self.stratum))

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


def derived_losses(recording: Recording) -> Lines:
    """What was lost, core by core in order, and what agents found."""
    traces = held_traces(recording)
    cores, size = recording.manifest.n_cores, recording.manifest.line
    truth = np.concatenate([np.zeros(0, TRUTH), *iter_sealed_truth(recording)])
    lines, at = Lines(cores), [0] * traces.n_streams
    for stream, end in truth.tolist():
        rows = traces.rows[stream]
        upto = max(int(np.searchsorted(rows["count"], np.uint64(end), side="left")), at[stream])
        walk(lines, stream, rows[at[stream] : upto], size)
        at[stream] = upto
        if stream < cores:
            lines.stands[stream] = end
    return lines


def walk(lines: Lines, stream: int, rows: np.ndarray, size: int) -> None:
    """One slice's rows (EVENT[n]). size: bytes in a line."""
    kept = rows[(rows["flags"] & UNCACHED) == 0]
    names = "kind", "addr", "size", "stratum", "flags"
    for kind, address, length, stratum, flags in zip(*(kept[name].tolist() for name in names), strict=True):
        lines.stratum = stratum
        touched = range(address // size * size, address + length, size)
        if stream == lines.cores:
            lines.told.append((bool(flags & OWNED), any(line in lines.owners for line in touched)))
        # What an agent replaces it does not fetch first.
        if kind == READ or (kind == RMW and stream < lines.cores):
            for line in touched:
                lines.read(stream, line)
        if kind != READ:
            for line in touched:
                lines.write(stream, line)
