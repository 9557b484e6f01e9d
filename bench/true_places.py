"""Where a certificate places rows, held against what comes before what (`bench.true_threads`)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.true_threads import Piece, Promises, promises
from recorder.files.reader import Recording
from solver.check.certificate import ORDERED, Certificate
from solver.regions.traces import MemoryTraces

_LATE = np.iinfo(np.int64).max


class Placed:
    """Where a certificate places the rows. undecided: regions that it has no order for; their rows have no
    place, and are held to nothing."""

    def __init__(self, traces: MemoryTraces, certificate: Path, recording: bytes) -> None:
        self._traces = traces
        self._cores = traces.n_streams - traces.buffered - 1
        self.places = [np.full(len(rows), -1, np.int64) for rows in traces.rows]
        self.undecided = 0
        at, now = [0] * traces.n_streams, 0
        for block in Certificate(certificate, recording).blocks():
            self.undecided += block.status != ORDERED
            for stream, rows in zip(block.stream.tolist(), block.rows.tolist(), strict=True):
                if block.status == ORDERED:
                    self.places[stream][at[stream] : at[stream] + rows] = np.arange(now, now + rows)
                    now += rows
                at[stream] += rows
        self._highest = [np.maximum.accumulate(np.append(-1, places)) for places in self.places]
        self._lowest = [
            np.minimum.accumulate(np.append(np.where(places < 0, _LATE, places), _LATE)[::-1])[::-1]
            for places in self.places
        ]

    def _streams(self, source: int) -> list[int]:
        both = self._traces.buffered and source < self._cores
        return [source, self._cores + 1 + source] if both else [source]

    def _at(self, stream: int, place: int) -> int:
        return int(np.searchsorted(self._traces.rows[stream]["count"], np.uint64(place)))

    def last_below(self, source: int, below: int) -> int:
        """The last place of the source's rows below `below`."""
        return max(int(self._highest[s][self._at(s, below)]) for s in self._streams(source))

    def first_from(self, source: int, first: int) -> int:
        """The first place of the source's rows from `first` on."""
        return min(int(self._lowest[s][self._at(s, first)]) for s in self._streams(source))

    def of(self, piece: Piece) -> NDArray[np.int64]:
        """The places of a piece's rows, those that have one."""
        found = [
            self.places[s][self._at(s, piece.first) : self._at(s, piece.end)]
            for s in self._streams(piece.source)
        ]
        places = np.concatenate(found)
        return places[places >= 0]


def misplaced(kept: Promises, placed: Placed) -> dict[str, int]:
    """How many steps stand before what must come before them: accesses of a thread, by "thread", and
    edges by their kind."""
    wrong: dict[str, int] = defaultdict(int)
    for pieces in kept.pieces.values():
        latest = -1
        for piece in pieces:
            places = placed.of(piece)
            if len(places):
                wrong["thread"] += int(np.count_nonzero(places < latest))
                latest = max(latest, int(places.max()))
    for edge in kept.edges:
        wrong[edge.kind] += placed.last_below(edge.core, edge.below) > placed.first_from(edge.to, edge.first)
    return {kind: n for kind, n in wrong.items() if n}


def judge(recording: Recording, traces: MemoryTraces, certificate: Path) -> tuple[dict[str, int], Promises]:
    """(`misplaced` of a certificate, what it was held to)."""
    kept = promises(recording, traces)
    return misplaced(kept, Placed(traces, certificate, recording.manifest.id)), kept
