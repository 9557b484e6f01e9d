"""The sealed truth: the interleaving that really ran (docs/format.md, section 8).

Only tests and `corebraid verify` may open it; an engine never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint
from recorder.files.frame import DamageError, FileHeader, iter_frames

Rows = npt.NDArray[np.void]

#: A slice: `stream` ran (a core's number, or the number of cores for the agents) until it had retired
#: `end` instructions (or made `end` accesses, for the agents), counted from the beginning.
TRUTH = np.dtype([("stream", "<u2"), ("end", "<u8")])

_SLICE_LEAST, _SLICE_MOST = 2, 2 * MAX_VARINT
_BAD_STREAM, _END_BACK, _TOO_MANY = -3, -4, -5
_REASONS = {
    CUT_SHORT: "a slice is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_STREAM: "there is no such stream",
    _END_BACK: "a slice ends before it begins",
    _TOO_MANY: "there are more slices than the frame declares",
}


@njit(cache=True)
def encode_slices(rows, start, ends, out):  # type: ignore[no-untyped-def]
    """Encode rows[start:] (TRUTH[n]) into `out` (uint8[]) until the next slice might not fit.

    ends: uint64[streams], all 0. Returns (first slice not encoded, bytes written, 0 or why not).
    """
    pos = 0
    for i in range(start, rows.shape[0]):
        stream, end = np.int64(rows[i].stream), rows[i].end
        if stream >= ends.shape[0]:
            return i, pos, _BAD_STREAM
        if end < ends[stream]:
            return i, pos, _END_BACK
        if pos + _SLICE_MOST > out.shape[0]:
            return i, pos, 0
        pos = put_varint(out, pos, np.uint64(stream))
        pos = put_varint(out, pos, end - ends[stream])
        ends[stream] = end
    return rows.shape[0], pos, 0


@njit(cache=True)
def decode_slices(raw, ends, rows):  # type: ignore[no-untyped-def]
    """Decode `raw` (uint8[]; nothing in it is trusted) into `rows` (TRUTH[]).

    ends: uint64[streams], all 0. Returns (slices, 0 or why not, position in raw).
    """
    n, pos = 0, np.int64(0)
    streams = np.uint64(ends.shape[0])
    while pos < raw.shape[0]:
        at = pos
        if n == rows.shape[0]:
            return n, _TOO_MANY, at
        stream, pos = get_varint(raw, pos)
        if pos < 0:
            return n, pos, at
        if stream >= streams:
            return n, _BAD_STREAM, at
        delta, pos = get_varint(raw, pos)
        if pos < 0:
            return n, pos, at
        end = ends[np.int64(stream)] + delta
        if end < delta:
            return n, _END_BACK, at
        ends[np.int64(stream)] = end
        rows[n].stream, rows[n].end = stream, end
        n += 1
    return n, 0, pos


class Encoder:
    """Encodes slices of `streams` streams into payloads of at most `capacity` bytes."""

    def __init__(self, streams: int, capacity: int) -> None:
        self._streams = streams
        self._out = np.empty(max(capacity, _SLICE_MOST), dtype=np.uint8)

    def encode_some(self, rows: Rows, start: int) -> tuple[int, memoryview]:
        """Encode rows[start:] (TRUTH[n]) until the payload is full: (first slice not encoded, payload).

        The payload is valid until the next call. Raises FormatError if the format cannot hold a slice.
        """
        ends = np.zeros(self._streams, dtype=np.uint64)
        end, used, error = encode_slices(rows, start, ends, self._out)
        if error:
            raise FormatError(f"the truth cannot hold a slice: {_REASONS[error]}", where=f"slice {end}")
        return int(end), self._out.data[:used]


def advance(rows: Rows, reached: npt.NDArray[np.uint64]) -> bool:
    """Move `reached` (uint64[streams], where each stream stands) on over `rows` (TRUTH[n]).

    Returns False if a slice ends before where its stream stands.
    """
    for stream in np.flatnonzero(np.bincount(rows["stream"])):
        ends = rows["end"][rows["stream"] == stream]
        if ends[0] < reached[stream]:
            return False
        reached[stream] = ends[-1]
    return True


def iter_truth(path: Path, header: FileHeader, streams: int, *, partial_tail: bool = False) -> Iterator[Rows]:
    """The slices in the order they ran, frame by frame: TRUTH[n].

    header: what the file header must say. streams: cores + 1. partial_tail: the recorder was killed.
    Raises FormatError.
    """
    reached = np.zeros(streams, dtype=np.uint64)
    number = 0
    for frame, raw in iter_frames(path, header, partial_tail=partial_tail):
        rows = np.empty(min(frame.records, len(raw) // _SLICE_LEAST), dtype=TRUTH)
        data, ends = np.frombuffer(raw, dtype=np.uint8), np.zeros(streams, dtype=np.uint64)
        n, error, at = decode_slices(data, ends, rows)
        if error:
            raise DamageError(path, frame.offset, f"{_REASONS[error]} (byte {at} of the frame's payload)")
        last = number + int(n) - 1
        if n != frame.records or (frame.first, frame.last) != (number, last):
            expected, found = f"{frame.records} from number {frame.first}", f"{n} from number {number}"
            raise DamageError(path, frame.offset, "slices in a frame", expected=expected, found=found)
        if not advance(rows, reached):
            raise DamageError(path, frame.offset, _REASONS[_END_BACK])
        number = last + 1
        yield rows
