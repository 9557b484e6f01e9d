"""What tenures and losses prove of a recording, held against the order that really ran: an edge that the
sealed truth contradicts is a defect of the rules, or of the truth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.true_order import Broken
from corebraid.base.rows.event import ALONE, EVENT
from recorder.files.constraints import LOSSES
from recorder.files.reader import Recording, iter_sealed_truth
from recorder.replay.traces import RecordingTraces
from solver.sifting.strata import iter_regions
from solver.tenures.edges import row_edges


def ranks_of(recording: Recording, traces: RecordingTraces | None = None) -> list[NDArray[np.int64]]:
    """When each row of each stream of its traces ran, by the sealed truth: int64 (rows,) a stream. Raises
    Broken if rows are left after the last slice."""
    traces = traces or RecordingTraces(recording)
    rows = [np.concatenate([np.zeros(0, EVENT), *chunks]) for chunks in traces.streams()]
    first_store = traces.n_streams - traces.buffered
    ranks, at, number = [np.zeros(len(stream), np.int64) for stream in rows], [0] * len(rows), 0
    for slices in iter_sealed_truth(recording):
        for stream, end in slices.tolist():
            upto = end if stream >= first_store else np.searchsorted(rows[stream]["count"], np.uint64(end))
            upto = max(int(upto), at[stream])
            ranks[stream][at[stream] : upto] = number + np.arange(upto - at[stream])
            number += upto - at[stream]
            at[stream] = upto
    for stream, done in enumerate(at):
        # Where a core met an agent at its end: no access, and no slice has it.
        if (rows[stream]["flags"][done:] & np.uint8(ALONE)).all():
            ranks[stream][done:], at[stream] = number, len(rows[stream])
    if at != list(map(len, rows)):
        raise Broken(f"the sealed truth ends at rows {at} of {list(map(len, rows))}")
    return ranks


def proved_edges(recording: Recording, traces: RecordingTraces | None = None) -> tuple[int, list[str]]:
    """(how many edges between rows are deduced by tenures, and by losses where the recording has them; those
    that did not run so, and regions called contradictory). traces: that obey these, else all accesses."""
    traces = traces or RecordingTraces(recording, constraints=LOSSES)
    ranks, edges, false = ranks_of(recording, traces), 0, []
    base = [0] * len(ranks)
    for region in iter_regions(traces):
        if region.tenures is None:
            continue
        found = region.tenures.deduced(region)
        if found.contradiction:
            false.append(f"region {region.index} is said to contradict itself")
        for first, rows, then, row in row_edges(found.clocks).tolist():
            edges += 1
            if ranks[first][base[first] + rows - 1] >= ranks[then][base[then] + row]:
                false.append(f"region {region.index}: {rows} rows of {first} before row {row} of {then}")
        base = [first + len(rows) for first, rows in zip(base, region.streams, strict=True)]
    return edges, false
