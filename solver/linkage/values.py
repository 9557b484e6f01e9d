"""The values of Stride's read log against those that a core read in its own replay (ICSE 2012, section V).

The log leaves out what can be known otherwise: a value that the last access to the place predicts, one of an
even version that has not changed since the core last saw it. Which those are follows from the core's own
events and bounds, so that the log can be read beside them; every value in it must be the one that was read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recorder.event import READ, RMW
from recorder.linkage_codec import DOUBLE, PREDICT
from recorder.linkage_kernels import slot
from solver.inner_kernel import inner

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Counts of values: written in the log, predicted, left out by their version.
WRITTEN, PREDICTED, LEFT_OUT = 0, 1, 2


class Values(NamedTuple):
    """The read log's values and the recorder's tables as they follow from the events. compressions, bits: see
    recorder/linkage.py. first: int64 (streams + 1,). value, hits: (rows,), as VALUE rows. at, used: int64
    (streams,), the row that a stream has come to, and how many of its hits are used. last: uint64 (streams,
    2**n). seen: uint64 (streams, 2**m, 2). tally: int64 (3,). variable, logged: (2,), of the event at
    hand."""

    compressions: int
    shadow_bits: int
    seen_bits: int
    first: Ints
    value: Words
    hits: Ints
    at: Ints
    used: Ints
    last: Words
    seen: Words
    tally: Ints
    variable: Words
    logged: NDArray[np.bool_]


@inner
def _same_version(values, stream, variable, version):  # type: ignore[no-untyped-def]
    """As the recorder's table of versions has it; the version is noted."""
    seen = values.seen[stream, slot(variable, values.seen_bits)]
    same = (
        seen[0] == variable + np.uint64(1) and seen[1] == version and version & np.uint64(1) == np.uint64(0)
    )
    seen[0], seen[1] = variable + np.uint64(1), version
    return same


@inner
def _next_value(values, stream, place, value):  # type: ignore[no-untyped-def]
    """Whether the log allows that the stream's next value is this one."""
    at = values.at[stream]
    if at == values.first[stream + 1]:
        # Reads after the last value that was written are all predicted.
        values.tally[PREDICTED] += 1
        return values.last[stream, place] == value
    if values.used[stream] < values.hits[at]:
        values.used[stream] += 1
        values.tally[PREDICTED] += 1
        return values.last[stream, place] == value
    values.at[stream] += 1
    values.used[stream] = 0
    values.last[stream, place] = value
    values.tally[WRITTEN] += 1
    return values.value[at] == value


@inner
def follow_values(values, stream, row, logged, variable, version):  # type: ignore[no-untyped-def]
    """Read the log beside one event. logged: bool (2,), whether each of its variables is recorded. variable:
    uint64 (2,). version: int64 (2,), as the log has it: of a read what was seen, of a write the number of
    writes. False if the log has another value."""
    double = (values.compressions & DOUBLE) != 0
    place = slot(row.addr, values.shadow_bits)
    if row.kind == READ:
        same = double
        for half in range(2):
            if logged[half]:
                same &= _same_version(values, stream, variable[half], np.uint64(version[half]))
        if double and same:
            values.tally[LEFT_OUT] += 1
            return True
        return _next_value(values, stream, place, row.old)
    fits = True
    if row.kind == RMW:
        if double:
            values.tally[LEFT_OUT] += 1
        else:
            fits = _next_value(values, stream, place, row.old)
    for half in range(2):
        if logged[half]:
            _same_version(values, stream, variable[half], np.uint64(version[half] * (2 if double else 1)))
    values.last[stream, place] = row.new
    return fits


def no_values(streams: int) -> Values:
    """Nothing to compare with; only to give a kernel its types."""
    empty = np.empty(0, np.int64)
    return Values(
        PREDICT, 1, 1, empty, np.empty(0, np.uint64), empty, empty, empty,
        np.empty((streams, 0), np.uint64), np.empty((streams, 0, 2), np.uint64), np.zeros(3, np.int64),
        np.zeros(2, np.uint64), np.zeros(2, np.bool_),
    )  # fmt: skip
