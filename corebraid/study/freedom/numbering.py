"""Which accesses are rows of a region, and how each is numbered among all of its instruction.

Pairs and numbers of orders are those of accesses to contested pages alone (`recorder.replay.contested`): the
others are local to one core or only read in their region. But an event is named by its number among all
accesses of its instruction, as `trace` shows them. So where a name is asked for, the region is replayed once
more with all accesses as rows, from the checkpoint before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corebraid.base.errors import FormatError
from corebraid.base.rows.event import EVENT
from recorder.files.reader import Recording
from recorder.replay.contested import ALL, CONTESTED, tells_contested
from recorder.replay.seek import accesses
from recorder.replay.traces import RecordingTraces
from solver.regions.traces import Events

_NONE = np.zeros(0, EVENT)


@dataclass(frozen=True)
class Numbering:
    """Numbers of accesses in a recording of whose cores only some are rows."""

    recording: Recording

    def every(self, core: int, region: int, counts: NDArray[np.uint64]) -> Events:
        """All accesses of a core in a region by instructions of these counts, EVENT[n]. Raises FormatError,
        Divergence."""
        found = [_NONE]
        for rows in accesses(self.recording, core, region=region):
            here = rows[rows["stratum"] == region]
            found.append(here[np.isin(here["count"], counts)])
            if len(rows) and rows["stratum"][-1] > region:
                break
        return np.concatenate(found)

    def of_rows(self, core: int, region: int, rows: Events) -> NDArray[np.int64]:
        """The numbers of accesses of a core in a region, int64[n]. rows: EVENT[n], all that there are of
        their instructions, in their order. Raises FormatError, Divergence."""
        if not len(rows):
            return np.zeros(0, np.int64)
        return numbers_among(self.every(core, region, np.unique(rows["count"])), rows)


def few_traces(
    recording: Recording, constraints: str, *, every: bool = False
) -> tuple[RecordingTraces, Numbering | None]:
    """What pairs and numbers of orders are asked of, and what numbers its events, None where all accesses are
    rows: asked for (`every`), or not told apart. constraints: see `RecordingTraces`."""
    if not every and tells_contested(recording):
        traces = RecordingTraces(recording, constraints=constraints, rows=CONTESTED, meetings=True)
        try:
            _ = traces.pages
            return traces, Numbering(recording)
        except FormatError:
            # What it says of losses does not fit; then it does not say what is contested.
            pass
    return RecordingTraces(recording, constraints=constraints, rows=ALL, meetings=True), None


def numbers_among(every: Events, rows: Events) -> NDArray[np.int64]:
    """How many rows of the same instruction precede each of `rows` (EVENT[n]) in `every` (EVENT[m]), of which
    they are some, or parts of some: int64[n]. Raises FormatError where they are not."""
    numbers = np.zeros(len(rows), np.int64)
    first = np.searchsorted(every["count"], rows["count"])
    columns = [every[name].tolist() for name in ("count", "kind", "addr", "size")]
    at = 0
    for i, row in enumerate(rows):
        wanted = int(row["kind"]), int(row["addr"]), int(row["addr"]) + int(row["size"])
        at = max(at, int(first[i]))
        while at < len(every) and columns[0][at] == row["count"]:
            kind, low = columns[1][at], columns[2][at]
            at += 1
            if kind == wanted[0] and low <= wanted[1] and wanted[2] <= low + columns[3][at - 1]:
                numbers[i] = at - 1 - int(first[i])
                break
        else:
            raise _unlike(row)
    return numbers


def _unlike(row: np.void) -> FormatError:
    return FormatError(
        "a replay makes other accesses than the one before it",
        expected=f"one at address {int(row['addr']):#x}, {row['size']} bytes",
        where=f"core {row['core']}, instruction count {row['count']}",
        remedy="run 'corebraid verify' to see whether the recording is damaged",
    )
