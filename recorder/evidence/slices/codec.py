"""The evidence stream `slices` on disk (docs/lightplay.md, "The stream, byte by byte"): reading it.

A payload begins with the strata before its first slice and where every stream stands, so that frames decode
independently. Nothing in a payload is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corebraid.base.compiled import njit
from corebraid.base.errors import ExcessError
from corebraid.base.rows.event import READ, WRITE
from corebraid.base.varint import CUT_SHORT, OVERLONG, get_varint
from recorder.evidence.slices.kernels import ALONE, EARLY, KEEP, STRATUM, STREAM_SHIFT
from recorder.files.evidence_names import SLICES, evidence_log

#: Most shared accesses in a slice that a recording may ask for, and what it has unless asked.
MOST_ACCESSES, DEFAULT_ACCESSES = 256, 16
#: An indivisible access that begins as the last one of a slice makes it longer by this much at most.
MOST_GLUED = 16
_LIMIT = np.uint64(MOST_ACCESSES + MOST_GLUED)
_MOST_RUN = np.uint64(1 << 48)
#: Entries of a region.
_MOST_HELD = 1 << 22

_BAD_FLAGS, _BAD_END, _BAD_TAG, _BAD_VALUE, _BAD_SEQ, _BAD_COUNT, _TOO_MANY, _BAD_UPDATED = range(-10, -2)
REASONS = {
    CUT_SHORT: "a slice is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_FLAGS: "a slice of no known kind",
    _BAD_END: "a slice ends behind the end of all streams",
    _BAD_TAG: "no such kind or size of access",
    _BAD_VALUE: "a value does not fit its size",
    _BAD_SEQ: "an access lies outside its slice",
    _BAD_COUNT: f"more than {MOST_ACCESSES} accesses in a slice",
    _TOO_MANY: "there are more slices than the frame declares",
    _BAD_UPDATED: "more updated locations than writes",
}

#: An access of a slice that was kept. seq: number of the event in its stream. before, after: the checkpoints
#: (before: of READ and RMW; after: of WRITE and RMW; else 0). glued: indivisible with the next one.
CHECKPOINT = np.dtype(
    [
        ("seq", "<u8"), ("before", "<u8"), ("after", "<u8"),
        ("stream", "u1"), ("size", "u1"), ("kind", "u1"), ("glued", "u1"),
    ]
)  # fmt: skip
_LEAST_BYTES = 2


@dataclass(frozen=True)
class SliceTable:
    """Slices in the order in which they ran.

    Successive slices in which one stream alone went on are one entry, and count as one where slices are
    numbered. first: number of the first. flags: uint8 (n,). slices: int64 (n,), how many each entry is. end:
    uint64 (n, streams), events of each stream that lie before the end. access_ptr: int64 (n + 1,), which
    accesses are whose, CHECKPOINT, stream by stream; updated_ptr: int64 (n + 1,), which values at the end
    (updated: uint64), one for each place that was written, in the order of the accesses that write it.
    """

    first: int
    flags: NDArray[np.uint8]
    slices: NDArray[np.int64]
    end: NDArray[np.uint64]
    access_ptr: NDArray[np.int64]
    accesses: NDArray[Any]
    updated_ptr: NDArray[np.int64]
    updated: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """bool (n,), whether a slice was kept whole."""
        return (self.flags & KEEP) != 0

    @property
    def cut_here(self) -> NDArray[np.bool_]:
        """bool (n,), whether a stratum follows a slice."""
        return (self.flags & STRATUM) != 0

    def piece(self, start: int, end: int) -> SliceTable:
        """Slices start to end of these."""
        a, b = int(self.access_ptr[start]), int(self.access_ptr[end])
        u, v = int(self.updated_ptr[start]), int(self.updated_ptr[end])
        return SliceTable(
            self.first + start, self.flags[start:end], self.slices[start:end], self.end[start:end],
            self.access_ptr[start : end + 1] - a, self.accesses[a:b],
            self.updated_ptr[start : end + 1] - u, self.updated[u:v],
        )  # fmt: skip


def join_tables(tables: list[SliceTable]) -> SliceTable:
    """Successive tables, at least one, as one."""
    access = np.concatenate([[0], *(np.diff(t.access_ptr) for t in tables)]).cumsum()
    updated = np.concatenate([[0], *(np.diff(t.updated_ptr) for t in tables)]).cumsum()
    return SliceTable(
        tables[0].first, np.concatenate([t.flags for t in tables]),
        np.concatenate([t.slices for t in tables]), np.concatenate([t.end for t in tables]),
        access.astype(np.int64), np.concatenate([t.accesses for t in tables]),
        updated.astype(np.int64), np.concatenate([t.updated for t in tables]),
    )  # fmt: skip


@njit(cache=True)
def fits(value, size):  # type: ignore[no-untyped-def]
    """Whether a value (uint64) has at most `size` bytes."""
    return size >= 8 or value >> np.uint64(8 * size) == np.uint64(0)


@njit(cache=True)
def decode_accesses(raw, pos, n, end, begin, accesses, at):  # type: ignore[no-untyped-def]
    """Decode the accesses of one slice. begin, end: uint64 (streams,). Returns (position or an error,
    accesses in all, writes)."""
    total, writes, streams = n, 0, end.size
    counts = np.zeros(streams, np.int64)
    for stream in range(streams):
        count, pos = get_varint(raw, pos)
        if pos < 0:
            return pos, n, writes
        if count > _LIMIT or np.uint64(total - n) + count > _LIMIT:
            return _BAD_COUNT, n, writes
        counts[stream] = np.int64(count)
        total += np.int64(count)
    for stream in range(streams):
        seq = begin[stream]
        for k in range(counts[stream]):
            if pos >= raw.shape[0]:
                return CUT_SHORT, n, writes
            tag = raw[pos]
            kind, size, glued = (
                tag & np.uint8(3),
                ((tag >> np.uint8(2)) & np.uint8(7)) + np.uint8(1),
                tag >> np.uint8(5),
            )
            if kind == 0 or glued > 1 or (glued and k == counts[stream] - 1):
                return _BAD_TAG, n, writes
            step, pos = get_varint(raw, pos + 1)
            if pos < 0:
                return pos, n, writes
            if step >= end[stream] - seq:
                return _BAD_SEQ, n, writes
            seq += step
            before = after = np.uint64(0)
            if kind != WRITE:
                before, pos = get_varint(raw, pos)
                if pos < 0:
                    return pos, n, writes
            if kind != READ:
                after, pos = get_varint(raw, pos)
                if pos < 0:
                    return pos, n, writes
                writes += 1
            if not fits(before, size) or not fits(after, size):
                return _BAD_VALUE, n, writes
            if at + n < accesses.size:
                e = accesses[at + n]
                e.seq, e.before, e.after = seq, before, after
                e.stream, e.size, e.kind, e.glued = stream, size, kind, glued
            seq += np.uint64(1)
            n += 1
    return pos, n, writes


class _Room(NamedTuple):
    """Room for the slices of a payload, see `SliceTable`; accesses and updated have a place for each byte of
    it."""

    flags: NDArray[np.uint8]
    slices: NDArray[np.int64]
    end: NDArray[np.uint64]
    access_ptr: NDArray[np.int64]
    accesses: NDArray[Any]
    updated_ptr: NDArray[np.int64]
    updated: NDArray[np.uint64]


@njit(cache=True)
def decode_head(raw, pos, streams, n, out):  # type: ignore[no-untyped-def]
    """Decode what slice n is. Returns (position or an error, the only stream that went on, -1 for all)."""
    out.slices[n] = 1
    head, pos = get_varint(raw, pos)
    if pos < 0:
        return pos, np.int64(-1)
    if not head & np.uint64(ALONE):
        if head > np.uint64(KEEP | STRATUM | EARLY):
            return np.int64(_BAD_FLAGS), np.int64(-1)
        out.flags[n] = np.uint8(head)
        return pos, np.int64(-1)
    only = np.int64(head >> np.uint64(STREAM_SHIFT))
    more, pos = get_varint(raw, pos)
    if pos < 0:
        return pos, only
    if head & np.uint64(ALONE - 1) or only >= streams or more >= _MOST_RUN:
        return np.int64(_BAD_FLAGS), only
    out.slices[n] += np.int64(more)
    out.flags[n] = np.uint8(ALONE)
    return pos, only


@njit(cache=True)
def decode_kept(raw, pos, n, now, out):  # type: ignore[no-untyped-def]
    """Decode what was kept of slice n, which the streams began at `now`. Returns a position, or an error."""
    values, pos = get_varint(raw, pos)
    if pos < 0:
        return pos
    if values > _LIMIT:
        return np.int64(_BAD_UPDATED)
    pos, count, writes = decode_accesses(raw, pos, 0, out.end[n], now, out.accesses, out.access_ptr[n])
    if pos < 0:
        return pos
    if np.int64(values) > writes:
        return np.int64(_BAD_UPDATED)
    out.access_ptr[n + 1] += count
    for k in range(np.int64(values)):
        out.updated[out.updated_ptr[n] + k], pos = get_varint(raw, pos)
        if pos < 0:
            return pos
    out.updated_ptr[n + 1] += np.int64(values)
    return pos


@njit(cache=True)
def decode_slices(raw, streams, ends, out):  # type: ignore[no-untyped-def]
    """Decode a payload into `_Room`. ends: uint64 (streams,), filled with where the streams stand before it.

    Returns (strata before, slices, 0 or why not, position in raw).
    """
    strata, pos = get_varint(raw, np.int64(0))
    if pos < 0:
        return np.uint64(0), 0, pos, 0
    for stream in range(streams):
        ends[stream], pos = get_varint(raw, pos)
        if pos < 0:
            return strata, 0, pos, 0
    now = ends.copy()
    n = 0
    while pos < raw.shape[0]:
        at = pos
        if n == out.flags.size:
            return strata, n, _TOO_MANY, at
        pos, only = decode_head(raw, pos, streams, n, out)
        if pos < 0:
            return strata, n, pos, at
        for stream in range(streams):
            step = np.uint64(0)
            if only < 0 or only == stream:
                step, pos = get_varint(raw, pos)
                if pos < 0:
                    return strata, n, pos, at
            if now[stream] + step < step:
                return strata, n, _BAD_END, at
            out.end[n, stream] = now[stream] + step
        out.access_ptr[n + 1], out.updated_ptr[n + 1] = out.access_ptr[n], out.updated_ptr[n]
        if out.flags[n] & np.uint8(KEEP):
            pos = decode_kept(raw, pos, n, now, out)
            if pos < 0:
                return strata, n, pos, at
        now[:] = out.end[n]
        n += 1
    return strata, n, 0, pos


def decode(raw: bytes, streams: int, records: int) -> tuple[int, NDArray[np.uint64], SliceTable, int, int]:
    """Decode a payload of at most `records` slices: (strata before it, uint64 (streams,) where the streams
    stand before it, the slices, 0 or why not (`REASONS`), position of that)."""
    data = np.frombuffer(raw, np.uint8)
    most = min(records, len(raw) // _LEAST_BYTES + 1)
    ends, end = np.zeros(streams, np.uint64), np.zeros((most, streams), np.uint64)
    flags, slices = np.zeros(most, np.uint8), np.zeros(most, np.int64)
    access_ptr, updated_ptr = np.zeros(most + 1, np.int64), np.zeros(most + 1, np.int64)
    accesses, updated = np.zeros(len(raw), CHECKPOINT), np.zeros(len(raw), np.uint64)
    room = _Room(flags, slices, end, access_ptr, accesses, updated_ptr, updated)
    strata, n, error, at = decode_slices(data, streams, ends, room)
    a, u = access_ptr[n], updated_ptr[n]
    table = SliceTable(
        0, flags[:n], slices[:n], end[:n], access_ptr[: n + 1], accesses[:a].copy(), updated_ptr[: n + 1],
        updated[:u].copy(),
    )  # fmt: skip
    return int(strata), ends, table, int(error), int(at)


class Damage(Exception):
    """A payload that is not what it should be. what: a clause; expected, found: as in FormatError."""

    def __init__(self, what: str, expected: object = None, found: object = None) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(what)


class Sequence:
    """Payloads one after the other: each must go on where the one before it ended."""

    def __init__(self, streams: int) -> None:
        self._ends = np.zeros(streams, np.uint64)
        self._number = self._strata = 0

    def next(self, raw: bytes, records: int, first: int, last: int) -> SliceTable:
        """Decode the next payload; records, first, last: what its frame declares. Raises Damage."""
        strata, ends, table, error, at = decode(raw, len(self._ends), records)
        if error:
            raise Damage(f"{REASONS[error]} (byte {at} of the frame's payload)")
        if len(table) != records or (first, last) != (self._number, self._number + len(table) - 1):
            found = f"{len(table)} from number {first}"
            raise Damage("slices in a frame", f"{records} from number {self._number}", found)
        if strata != self._strata or not np.array_equal(ends, self._ends):
            raise Damage("slices that do not go on where those before them ended")
        table = replace(table, first=self._number)
        self._number += len(table)
        self._strata += int(np.count_nonzero(table.cut_here))
        self._ends = table.end[-1].copy()
        return table


def iter_regions_of(tables: Iterator[SliceTable], where: str = evidence_log(SLICES)) -> Iterator[SliceTable]:
    """The slices of each region, one table a region: slices up to and with one that a stratum follows. What
    follows the last stratum comes last, if anything does. where: the file, for errors. Raises FormatError."""
    held: list[SliceTable] = []
    for table in tables:
        if sum(map(len, held)) + len(table) > _MOST_HELD:
            raise ExcessError(
                "more slices in a region than can be held",
                expected=f"at most {_MOST_HELD:,}",
                where=where,
                remedy="record again, with more strata",
            )
        start = 0
        for cut in np.flatnonzero(table.cut_here).tolist():
            held.append(table.piece(start, cut + 1))
            yield join_tables(held)
            held, start = [], cut + 1
        if start < len(table):
            held.append(table.piece(start, len(table)))
    if held:
        yield join_tables(held)
