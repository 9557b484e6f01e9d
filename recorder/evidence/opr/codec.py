"""Rows of the OPR stream as compact bytes, the payload of its frames (docs/opr.md).

Differences restart in each frame, so that frames decode independently. There is one encoding for a list of
rows: what decodes, encodes to the same bytes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from corebraid.base.compiled import njit
from corebraid.base.errors import FormatError
from corebraid.base.varint import CUT_SHORT, MAX_VARINT, OVERLONG, get_varint, put_varint, unzigzag, zigzag
from recorder.evidence.opr.rows import CHECK, CODE, EXACT, OPR_ROW, RELAXED, VALUE, Rows

#: Most bytes of a row: tag, member, three integers.
ROW_MOST = 2 + 3 * MAX_VARINT
#: Fewest: tag, SN, and a byte.
_ROW_LEAST = 3

#: Tag: kind in bits 0 to 2; bit 3: another member than before; bits 4 to 6: by kind.
_MEMBER, _LATE, _NEXT = 8, 16, 32

_BAD_TAG, _BAD_MEMBER, _BAD_VALUE, _BAD_PLACE, _BACK, _NOT_SHORTEST, _TOO_MANY = range(-9, -2)
_REASONS = {
    CUT_SHORT: "a row is cut short",
    OVERLONG: "an integer is not in its shortest form",
    _BAD_TAG: "no such kind of row, or size",
    _BAD_MEMBER: "a row of no member of the replay set, or an order of a member with itself",
    _BAD_VALUE: "a value does not fit its size",
    _BAD_PLACE: "code that is not aligned or lies outside the memory",
    _BACK: "a number goes back, or over",
    _NOT_SHORTEST: "a row is not in its shortest form",
    _TOO_MANY: "there are more rows than the frame declares",
}

_U0, _U1, _U8 = np.uint64(0), np.uint64(1), np.uint64(8)
_BYTE = np.uint64(0xFF)


@njit(cache=True)
def _put_bytes(out, pos, value, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        out[pos + k] = np.uint8((value >> (_U8 * np.uint64(k))) & _BYTE)
    return pos + size


@njit(cache=True)
def _get_bytes(raw, pos, size):  # type: ignore[no-untyped-def]
    value = _U0
    if pos + size > raw.shape[0]:
        return value, np.int64(CUT_SHORT)
    for k in range(size):
        value |= np.uint64(raw[pos + k]) << (_U8 * np.uint64(k))
    return value, pos + size


@njit(cache=True)
def _row_error(row, members, limit, before):  # type: ignore[no-untyped-def]
    """0 if the format can hold `row`, else why not. before: the last SN of its member and kind."""
    kind, size = row.kind, np.int64(row.size)
    if kind < VALUE or kind > CHECK:
        return _BAD_TAG
    if row.member >= members:
        return _BAD_MEMBER
    if row.sn < before:
        return _BACK
    if kind == VALUE:
        if size < 1 or size > 8:
            return _BAD_TAG
        if size < 8 and (row.value >> (_U8 * np.uint64(size))) != _U0:
            return _BAD_VALUE
    elif kind == CODE:
        if size > 1:
            return _BAD_TAG
        if row.place & np.uint64(7) != _U0 or row.place >= limit:
            return _BAD_PLACE
    elif kind in (EXACT, RELAXED) and (row.peer >= members or row.peer == row.member):
        return _BAD_MEMBER
    return 0


@njit(cache=True)
def encode_rows(rows, start, members, limit, out):  # type: ignore[no-untyped-def]
    """Encode rows[start:] (OPR_ROW[n]) into `out` (uint8[]) until the next might not fit.

    members: of the replay set. limit: code lies below this address (uint64). Returns (first row not encoded,
    bytes written, 0 or why that row cannot be encoded).
    """
    sns = np.zeros((members, 6), np.uint64)
    peers = np.zeros((2, members, members), np.uint64)
    member, expected, pos = np.int64(0), _U0, 0
    for i in range(start, rows.shape[0]):
        row = rows[i]
        kind = np.int64(row.kind)
        before = sns[row.member, kind] if row.member < members and kind <= CHECK else _U0
        error = _row_error(row, members, limit, before)
        if error != 0 or pos + ROW_MOST > out.shape[0]:
            return i, pos, error
        tag_at, tag = pos, kind
        pos += 1
        if row.member != member:
            member = np.int64(row.member)
            tag |= _MEMBER
            out[pos] = member
            pos += 1
        pos = put_varint(out, pos, row.sn - before)
        sns[member, kind] = row.sn
        if kind == VALUE:
            tag |= (np.int64(row.size) - 1) << 4
            pos = _put_bytes(out, pos, row.value, np.int64(row.size))
        elif kind == CODE:
            tag |= _LATE * np.int64(row.size)
            if row.place == expected:
                tag |= _NEXT
            else:
                pos = put_varint(out, pos, zigzag(row.place // _U8, expected // _U8))
            expected = row.place + _U8
            pos = _put_bytes(out, pos, row.value, 8)
        elif kind == CHECK:
            pos = _put_bytes(out, pos, row.value, 8)
        else:
            peer = np.int64(row.peer)
            out[pos] = peer
            pos = put_varint(out, pos + 1, zigzag(row.place, peers[kind - EXACT, member, peer]))
            peers[kind - EXACT, member, peer] = row.place
        out[tag_at] = tag
    return rows.shape[0], pos, 0


@njit(cache=True)
def _get_code(raw, pos, tag, expected, limit, row):  # type: ignore[no-untyped-def]
    """Place and bytes of a CODE row: the position after, or why not."""
    place = expected
    if not tag & _NEXT:
        folded, pos = get_varint(raw, pos)
        number = unzigzag(folded, expected // _U8)
        if pos >= 0 and (number >= limit // _U8 or number * _U8 == expected):
            pos = np.int64(_NOT_SHORTEST if number * _U8 == expected else _BAD_PLACE)
        place = number * _U8
    if pos >= 0 and place >= limit:
        pos = np.int64(_BAD_PLACE)
    if pos >= 0:
        value, pos = _get_bytes(raw, pos, 8)
        row.place, row.value, row.size = place, value, (tag // _LATE) & 1
    return pos


@njit(cache=True)
def _get_order(raw, pos, member, peers, row):  # type: ignore[no-untyped-def]
    """Peer and its SN: the position after, or why not. peers: uint64[members, members]."""
    if pos >= raw.shape[0]:
        return np.int64(CUT_SHORT)
    peer = np.int64(raw[pos])
    if peer >= peers.shape[0] or peer == member:
        return np.int64(_BAD_MEMBER)
    folded, pos = get_varint(raw, pos + 1)
    if pos >= 0:
        peers[member, peer] = unzigzag(folded, peers[member, peer])
        row.peer, row.place = peer, peers[member, peer]
    return pos


@njit(cache=True)
def _tag_error(tag, kind):  # type: ignore[no-untyped-def]
    """0, or why not: bits that this kind does not use are 0."""
    unused = 128
    if kind == CODE:
        unused |= 64
    elif kind != VALUE:
        unused |= 64 | _LATE | _NEXT
    return _BAD_TAG if kind < VALUE or kind > CHECK or tag & unused else 0


@njit(cache=True)
def decode_rows(raw, members, limit, rows):  # type: ignore[no-untyped-def]
    """Decode `raw` (uint8[]; nothing in it is trusted) into `rows` (OPR_ROW[], zero before).

    Returns (rows, 0 or why not, position in raw).
    """
    sns = np.zeros((members, 6), np.uint64)
    peers = np.zeros((2, members, members), np.uint64)
    n, member, expected, pos = 0, np.int64(0), _U0, np.int64(0)
    while pos < raw.shape[0]:
        at = pos
        if n == rows.shape[0]:
            return n, _TOO_MANY, at
        row, tag = rows[n], np.int64(raw[pos])
        kind = tag & 7
        error = _tag_error(tag, kind)
        if error != 0:
            return n, error, at
        pos += 1
        if tag & _MEMBER:
            if pos >= raw.shape[0]:
                return n, CUT_SHORT, at
            if raw[pos] == member or raw[pos] >= members:
                return n, _NOT_SHORTEST if raw[pos] == member else _BAD_MEMBER, at
            member = np.int64(raw[pos])
            pos += 1
        delta, pos = get_varint(raw, pos)
        if pos < 0:
            return n, pos, at
        sn = sns[member, kind] + delta
        if sn < delta:
            return n, _BACK, at
        sns[member, kind] = sn
        row.member, row.kind, row.sn = member, kind, sn
        if kind == VALUE:
            row.size = (tag >> 4) + 1
            row.value, pos = _get_bytes(raw, pos, (tag >> 4) + 1)
        elif kind == CODE:
            pos = _get_code(raw, pos, tag, expected, limit, row)
            expected = row.place + _U8
        elif kind == CHECK:
            row.value, pos = _get_bytes(raw, pos, 8)
        else:
            pos = _get_order(raw, pos, member, peers[kind - EXACT], row)
        if pos < 0:
            return n, pos, at
        n += 1
    return n, 0, pos


class Encoder:
    """Encodes rows of the OPR stream into payloads of at most `capacity` bytes. members: of the replay set.
    memory: bytes of guest memory, inside which code lies."""

    def __init__(self, members: int, capacity: int, memory: int) -> None:
        self._members, self._limit = members, np.uint64(memory)
        self._out = np.empty(max(capacity, ROW_MOST), np.uint8)

    def encode_some(self, rows: Rows, start: int) -> tuple[int, memoryview]:
        """Encode rows[start:] (OPR_ROW[n]) until the payload is full: (first row not encoded, payload).

        The payload is valid until the next call. Raises FormatError if the format cannot hold a row.
        """
        end, used, error = encode_rows(rows, start, self._members, self._limit, self._out)
        if error:
            raise FormatError(f"the OPR stream cannot hold a row: {_REASONS[error]}", where=f"row {end}")
        return int(end), self._out.data[:used]


def decode(raw: bytes, members: int, memory: int, records: int, where: str) -> npt.NDArray[np.void]:
    """The rows of one payload, of which nothing is trusted: OPR_ROW[records]. Raises FormatError."""
    rows = np.zeros(min(records, len(raw) // _ROW_LEAST), OPR_ROW)
    data = np.frombuffer(raw, np.uint8)
    n, error, at = decode_rows(data, members, np.uint64(memory), rows)
    if error:
        raise FormatError(f"{_REASONS[error]} (byte {at} of the frame's payload)", where=where)
    if n != records:
        raise FormatError("rows in the frame", expected=records, found=int(n), where=where)
    return rows
