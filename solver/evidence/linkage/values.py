"""The values of Stride's read log against those that a core read in its own replay (ICSE 2012, section V).

The log leaves out what can be known otherwise: a value that the last access to the place predicts, one of an
even version that has not changed since the core last saw it. Which those are follows from the core's own
events and bounds, so that the log can be read beside them; every value in it must be the one that was read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.kernels import inner
from corebraid.base.rows.event import READ, RMW
from recorder.evidence.linkage.codec import DOUBLE, PREDICT
from recorder.evidence.linkage.kernels import slot

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

#: Counts of values: written in the log, predicted, left out by their version.
WRITTEN, PREDICTED, LEFT_OUT = 0, 1, 2


class Values(NamedTuple):
    """The read log's values and the recorder's table of last values as it follows from the events.
    compressions, shadow_bits: see recorder/evidence/linkage/collector.py. first: int64 (streams + 1,). value,
    hits: (rows,), as VALUE rows. at, used: int64 (streams,), the row that a stream has come to, and how many
    of its hits are used. last: uint64 (streams, 2**n). tally: int64 (3,)."""

    compressions: int
    shadow_bits: int
    first: Ints
    value: Words
    hits: Ints
    at: Ints
    used: Ints
    last: Words
    tally: Ints


@inner
def next_value(values, stream, place):  # type: ignore[no-untyped-def]
    """The stream's next value, of an access to `place` (`slot` of its address)."""
    at = values.at[stream]
    if at == values.first[stream + 1]:
        # Reads after the last value that was written are all predicted.
        values.tally[PREDICTED] += 1
        return values.last[stream, place]
    if values.used[stream] < values.hits[at]:
        values.used[stream] += 1
        values.tally[PREDICTED] += 1
        return values.last[stream, place]
    values.at[stream] += 1
    values.used[stream] = 0
    values.last[stream, place] = values.value[at]
    values.tally[WRITTEN] += 1
    return values.value[at]


@inner
def follow_values(values, stream, row, known):  # type: ignore[no-untyped-def]
    """Read the log beside one event, which touches a variable that is recorded. known: whether its value need
    not be in the log, since no version has changed. False if the log has another value."""
    place = slot(row.addr, values.shadow_bits)
    if row.kind == READ:
        if known:
            values.tally[LEFT_OUT] += 1
            return True
        return next_value(values, stream, place) == row.old
    fits = True
    if row.kind == RMW:
        if (values.compressions & DOUBLE) != 0:
            values.tally[LEFT_OUT] += 1
        else:
            fits = next_value(values, stream, place) == row.old
    values.last[stream, place] = row.new
    return fits


def no_values(streams: int) -> Values:
    """Nothing to compare with; only to give a kernel its types."""
    empty = np.empty(0, np.int64)
    words = np.empty((streams, 0), np.uint64)
    return Values(
        PREDICT, 1, empty, np.empty(0, np.uint64), empty, empty, empty, words, np.zeros(3, np.int64)
    )
