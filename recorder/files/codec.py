"""Records of a core's log as compact bytes, the payload of its frames (docs/format.md, section 4).

Differences (instruction count, line number, stratum number) restart in each frame, so that frames decode
independently. There is one encoding for a list of records: what decodes, encodes to the same bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.memory import PAGE_BYTES
from corebraid.base.rows.record import (
    CONTEXT,
    CONTEXT_FORGOTTEN,
    DIGEST,
    END,
    END_EXIT,
    INPUT,
    INPUT_CALL,
    MISS,
    MISS_FETCH,
    MISS_LATE,
    MISS_OWNED,
    MISS_WRITE,
    RECEIVED,
    RECORD,
    STORED,
    STRATUM,
)
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from recorder.files.page_miss import BAD_LINES, NO_BYTES, page_miss_size

Rows = npt.NDArray[np.void]
Bytes = npt.NDArray[np.uint8]

#: Most bytes of a record besides its own data: tag, and at most four integers.
RECORD_OVERHEAD = 1 + 4 * MAX_VARINT
#: Fewest bytes of a record: tag and instruction count.
RECORD_LEAST = 2
#: Line addresses lie below this.
ADDRESS_LIMIT = 1 << 48
#: Most bytes of an input read.
INPUT_BYTES = 8

#: Flags in a tag that never reach memory. Of a STRATUM: the number follows (else it is the number after the
#: last one's); what had left the store buffer, and what was in it, follow (else neither has changed, and
#: it was empty). Of a MISS: what had left the store buffer follows (else as in the last record that said
#: so).
_NUMBERED, _BUFFERED, _COMMITTED = 1, 2, 8
#: By kind: least and most flags in memory.
_LEAST_FLAGS = np.array([0, 0, 1, 0, 0, 1, 0, 0], dtype=np.uint8)
_MOST_FLAGS = np.array(
    [0, MISS_WRITE | MISS_FETCH | MISS_LATE | MISS_OWNED, INPUT_CALL, 0, 0, CONTEXT_FORGOTTEN, 0, 0],
    dtype=np.uint8,
)

(
    _BAD_TAG,
    _COUNT_BACK,
    _BAD_LINE,
    _BAD_SIZE,
    _NO_BYTES,
    _TOO_MANY,
    _BAD_NUMBER,
    _BAD_END,
    _UNUSED,
    _COMMITS_BACK,
    _UNCHANGED,
) = range(-13, -2)
_REASONS = {
    CUT_SHORT: "a record is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_TAG: "no such kind of record, or flags that it cannot have",
    _COUNT_BACK: "the instruction count goes back",
    _BAD_LINE: "a line address is not aligned or lies outside the memory",
    _BAD_SIZE: "a record has a size that it cannot have",
    _NO_BYTES: "a record's data runs past the end",
    _TOO_MANY: "there are more records than the frame declares",
    _BAD_NUMBER: "a stratum's number is not in its shortest form",
    _BAD_END: "no such reason for the end of a log",
    _COMMITS_BACK: "the number of committed stores goes back",
    _UNCHANGED: "the state of the store buffer is written though it follows by itself",
    NO_BYTES: "a record's data runs past the end",
    BAD_LINES: "lines of a page are not told in ascending order, or are not in it",
    _UNUSED: "a field that this kind of record does not use is not 0",
}

_U0, _U1 = np.uint64(0), np.uint64(1)
_LAST_END = np.uint64(END_EXIT)
_MOST_SIZE = np.uint64(0xFFFF)
_INPUT_MOST = np.uint64(INPUT_BYTES)
_PAGE = np.uint64(PAGE_BYTES)


@njit(cache=True)
def _carries(kind):  # type: ignore[no-untyped-def]
    """Whether records of this kind have bytes of their own."""
    return kind in (MISS, RECEIVED, DIGEST, CONTEXT)


@njit(cache=True)
def _no_kind(kind, line):  # type: ignore[no-untyped-def]
    """Whether records of this kind cannot be where the bus moves so many bytes at a time."""
    return kind > RECEIVED or (kind == RECEIVED if line == _PAGE else kind == STORED)


@njit(cache=True)
def _row_error(row, blob, line, lines, before, committed):  # type: ignore[no-untyped-def]
    """0 if the format can hold `row`, else why not."""
    kind, size, blob_bytes = row.kind, np.uint64(row.size), np.uint64(blob.shape[0])
    if _no_kind(kind, line) or row.flags < _LEAST_FLAGS[kind] or row.flags > _MOST_FLAGS[kind]:
        return _BAD_TAG
    if kind == MISS and (row.flags & np.uint8(_COMMITTED)) != 0:
        return _BAD_TAG
    if row.count < before:
        return _COUNT_BACK
    if kind in (MISS, RECEIVED):
        if row.addr % line != _U0 or row.addr // line >= lines:
            return _BAD_LINE
        if line == _PAGE:
            found = page_miss_size(blob, np.int64(row.offset))
            if found < 0:
                return found
            if np.uint64(found) != size:
                return _BAD_SIZE
        elif size != line:
            return _BAD_SIZE
    if _carries(kind):
        if np.uint64(row.offset) + size > blob_bytes:
            return _NO_BYTES
    elif kind != STRATUM and size > (_INPUT_MOST if kind in (INPUT, STORED) else _U0):
        return _BAD_SIZE
    if kind == STORED and (size == _U0 or row.addr // line >= lines):
        return _BAD_SIZE if size == _U0 else _BAD_LINE
    if kind == END and row.addr != _U0:
        return _UNUSED
    if kind == RECEIVED and row.value != _U0:
        return _UNUSED
    if (kind == MISS and row.value < committed) or (kind == STRATUM and row.addr < committed):
        return _COMMITS_BACK
    if kind == END and (row.value < _U1 or row.value > _LAST_END):
        return _BAD_END
    return 0


@njit(cache=True)
def encode_records(rows, start, blob, line, lines, out):  # type: ignore[no-untyped-def]
    """Encode rows[start:] into `out` until they end or the next one might not fit.

    rows: RECORD[n]; blob, out: uint8[]; line: bytes (uint64); lines: line numbers lie below this (uint64).
    Returns (first row not encoded, bytes written, 0 or why that row cannot be encoded).
    """
    pos = 0
    before, last_line, next_stratum, committed = _U0, _U0, _U0, _U0
    counting = False
    for i in range(start, rows.shape[0]):
        row = rows[i]
        kind, size = row.kind, np.int64(row.size)
        error = _row_error(row, blob, line, lines, before, committed)
        if error != 0 or pos + RECORD_OVERHEAD + size > out.shape[0]:
            return i, pos, error
        tag_at = pos
        flags = row.flags
        pos = put_varint(out, pos + 1, row.count - before)
        before = row.count
        if kind in (MISS, RECEIVED):
            number = row.addr // line
            pos = put_varint(out, pos, zigzag(number, last_line))
            last_line = number
            if kind == MISS and row.value != committed:
                flags |= np.uint8(_COMMITTED)
                pos = put_varint(out, pos, row.value - committed)
                committed = row.value
        elif kind == STRATUM:
            if not counting or row.value != next_stratum:
                flags = np.uint8(_NUMBERED)
                pos = put_varint(out, pos, row.value)
            counting = True
            next_stratum = row.value + _U1
            if row.addr != committed or size != 0:
                flags |= np.uint8(_BUFFERED)
                pos = put_varint(out, pos, row.addr - committed)
                pos = put_varint(out, pos, np.uint64(size))
                committed = row.addr
        elif kind == END:
            pos = put_varint(out, pos, row.value)
        else:
            pos = put_varint(out, pos, row.addr)
            pos = put_varint(out, pos, row.value)
            pos = put_varint(out, pos, np.uint64(size))
        out[tag_at] = np.uint8(kind | (flags << 3))
        if _carries(kind):
            offset = np.int64(row.offset)
            for k in range(size):
                out[pos + k] = blob[offset + k]
            pos += size
    return rows.shape[0], pos, 0


@njit(cache=True)
def _read_plain(raw, pos, kind):  # type: ignore[no-untyped-def]
    """Fields of an INPUT, STORED, DIGEST or CONTEXT: (addr, value, size, position after or why not)."""
    value, size = _U0, _U0
    addr, pos = get_varint(raw, pos)
    if pos >= 0:
        value, pos = get_varint(raw, pos)
    if pos >= 0:
        size, pos = get_varint(raw, pos)
    if pos >= 0 and size > (_INPUT_MOST if kind in (INPUT, STORED) else _MOST_SIZE):
        pos = np.int64(_BAD_SIZE)
    if pos >= 0 and kind == STORED and size == _U0:
        pos = np.int64(_BAD_SIZE)
    return addr, value, size, pos


@njit(cache=True)
def _read_stratum(raw, pos, numbered, counting, next_stratum):  # type: ignore[no-untyped-def]
    """Number of a STRATUM: (number, position after or why not)."""
    if not numbered:
        return next_stratum, (pos if counting else _BAD_NUMBER)
    value, pos = get_varint(raw, pos)
    if pos >= 0 and counting and value == next_stratum:
        pos = _BAD_NUMBER
    return value, pos


@njit(cache=True)
def _read_buffer(raw, pos, committed, with_size):  # type: ignore[no-untyped-def]
    """The state of the store buffer, unless pos says why not: (stores committed, stores buffered if that
    follows, position after or why not)."""
    if pos < 0:
        return committed, _U0, pos
    delta, pos = get_varint(raw, pos)
    size = _U0
    if pos >= 0 and with_size:
        size, pos = get_varint(raw, pos)
    if pos >= 0:
        if committed + delta < committed:
            pos = np.int64(_COMMITS_BACK)
        elif size > _MOST_SIZE:
            pos = np.int64(_BAD_SIZE)
        elif delta == _U0 and size == _U0:
            pos = np.int64(_UNCHANGED)
    return committed + delta, size, pos


@njit(cache=True)
def _read_line(raw, pos, last_line, lines):  # type: ignore[no-untyped-def]
    """Line number of a MISS or RECEIVED: (number, position after or why not)."""
    folded, pos = get_varint(raw, pos)
    number = unzigzag(folded, last_line)
    if pos >= 0 and number >= lines:
        pos = _BAD_LINE
    return number, pos


@njit(cache=True)
def _tag_error(kind, flags, line):  # type: ignore[no-untyped-def]
    if _no_kind(kind, line):
        return True
    most = _NUMBERED | _BUFFERED if kind == STRATUM else np.int64(_MOST_FLAGS[kind])
    if kind == MISS:
        most |= _COMMITTED
    return flags < np.int64(_LEAST_FLAGS[kind]) or flags > most


@njit(cache=True)
def decode_records(raw, line, lines, rows, blob):  # type: ignore[no-untyped-def]
    """Decode all of `raw` (uint8[]; nothing in it is trusted) into `rows` (RECORD[]) and `blob` (uint8[]).

    line: bytes (uint64); lines: line numbers lie below this (uint64). Returns (rows, blob bytes, 0 or why
    not, position in raw of the record).
    """
    n, used, pos = 0, np.int64(0), np.int64(0)
    before, last_line, next_stratum, committed = _U0, _U0, _U0, _U0
    counting = False
    while pos < raw.shape[0]:
        at = pos
        kind, flags = np.int64(raw[at] & 7), np.int64(raw[at] >> 3)
        if _tag_error(kind, flags, line):
            return n, used, _BAD_TAG, at
        if n == rows.shape[0]:
            return n, used, _TOO_MANY, at
        delta, pos = get_varint(raw, at + 1)
        if pos < 0:
            return n, used, pos, at
        count = before + delta
        if count < before:
            return n, used, _COUNT_BACK, at
        before = count
        addr, value, size = _U0, _U0, _U0
        if kind in (MISS, RECEIVED):
            last_line, pos = _read_line(raw, pos, last_line, lines)
            addr, size = last_line * line, line
            if flags & _COMMITTED:
                committed, _, pos = _read_buffer(raw, pos, committed, False)
                flags &= ~_COMMITTED
            if kind == MISS:
                value = committed
            if line == _PAGE and pos >= 0:
                found = page_miss_size(raw, pos)
                if found < 0:
                    pos = found
                else:
                    size = np.uint64(found)
        elif kind == STRATUM:
            value, pos = _read_stratum(raw, pos, (flags & _NUMBERED) != 0, counting, next_stratum)
            if flags & _BUFFERED:
                committed, size, pos = _read_buffer(raw, pos, committed, True)
            addr = committed
            counting, next_stratum, flags = True, value + _U1, np.int64(0)
        elif kind == END:
            value, pos = get_varint(raw, pos)
            if pos >= 0 and (value < _U1 or value > _LAST_END):
                pos = np.int64(_BAD_END)
        else:
            addr, value, size, pos = _read_plain(raw, pos, kind)
            if kind == STORED and pos >= 0 and addr // line >= lines:
                pos = np.int64(_BAD_LINE)
        if pos < 0:
            return n, used, pos, at
        row = rows[n]
        row.count, row.addr, row.value = count, addr, value
        row.kind, row.flags, row.size, row.offset = kind, flags, size, 0
        n += 1
        if _carries(kind):
            length = np.int64(size)
            if length > raw.shape[0] - pos or length > blob.shape[0] - used:
                return n, used, _NO_BYTES, at
            row.offset = used
            for k in range(length):
                blob[used + k] = raw[pos + k]
            pos, used = pos + length, used + length
    return n, used, 0, pos


def _read_only(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """A read-only contiguous view: one type for the kernels, whoever calls."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class Encoder:
    """Encodes rows into payloads of at most `capacity` bytes, with one buffer for all of them.

    line: bytes in a line. capacity: at least 64 KiB + RECORD_OVERHEAD, so that any record fits. memory:
    bytes of guest memory, inside which lines must lie.
    """

    def __init__(self, line: int, capacity: int, memory: int = ADDRESS_LIMIT) -> None:
        self._line = np.uint64(line)
        self._lines = np.uint64(min(memory, ADDRESS_LIMIT) // line)
        self._out = np.empty(max(capacity, 0xFFFF + RECORD_OVERHEAD), dtype=np.uint8)

    def encode_some(self, rows: Rows, blob: Bytes, start: int) -> tuple[int, memoryview]:
        """Encode rows[start:] until the payload is full: (first row not encoded, payload).

        rows: RECORD[n]; blob: uint8[]. The payload is valid until the next call. Raises FormatError if
        the format cannot hold a row.
        """
        fixed, data = _read_only(rows), _read_only(blob)
        end, used, error = encode_records(fixed, start, data, self._line, self._lines, self._out)
        if error:
            raise FormatError(f"the log cannot hold a record: {_REASONS[error]}", where=f"record {end}")
        return int(end), self._out.data[:used]


def encode(rows: Rows, blob: Bytes, line_size: int) -> bytes:
    """One payload with all of `rows` (RECORD[n]) and their bytes in `blob` (uint8[]); line_size in bytes.

    Raises FormatError if the format cannot hold a row.
    """
    room = len(rows) * RECORD_OVERHEAD + int(rows["size"].sum(dtype=np.int64))
    end, payload = Encoder(line_size, room).encode_some(rows, blob, 0)
    assert end == len(rows)
    return bytes(payload)


def decode(
    raw: bytes, line_size: int, where: str, *, records: int | None = None, memory: int = ADDRESS_LIMIT
) -> tuple[Rows, Bytes]:
    """The rows (RECORD[n]) and blob (uint8[]) of one payload, of which nothing is trusted.

    where: what to call the payload in an error. records: how many there must be, if known. memory: bytes
    of guest memory, inside which lines must lie. Raises FormatError.
    """
    data = np.frombuffer(raw, dtype=np.uint8)
    room = len(raw) // RECORD_LEAST
    if records is not None:
        room = min(room, records)
    rows, blob = np.empty(room, dtype=RECORD), np.empty(len(raw), dtype=np.uint8)
    lines = np.uint64(min(memory, ADDRESS_LIMIT) // line_size)
    n, used, error, at = decode_records(data, np.uint64(line_size), lines, rows, blob)
    if error:
        raise FormatError(f"{_REASONS[error]} (byte {at} of the frame's payload)", where=where)
    if records is not None and n != records:
        raise FormatError("records in the frame", expected=records, found=int(n), where=where)
    return rows[:n], blob[:used]
