"""Naive twins of the codecs, written from docs/format.md in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from corebraid.base.rows.record import CONTEXT, DIGEST, END, INPUT, MISS, RECEIVED, RECORD, STORED, STRATUM


class Refused(Exception):
    """The twin does not accept the bytes."""


def varint(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int) -> int:
    """Sign in bit 0."""
    return value * 2 if value >= 0 else -value * 2 - 1


def encode_records(rows: Iterable[Any], blob: bytes, line: int) -> bytes:
    """Records of a core's log (section 4)."""
    out, count, number, stratum, committed = bytearray(), 0, 0, None, 0
    for row in rows:
        kind, flags, at, size = int(row["kind"]), int(row["flags"]), int(row["offset"]), int(row["size"])
        addr, value = int(row["addr"]), int(row["value"])
        body = b""
        if kind in (MISS, RECEIVED):
            body = varint(zigzag(addr // line - number))
            number = addr // line
            if kind == MISS and value != committed:
                flags |= 8
                body += varint(value - committed)
                committed = value
            body += blob[at : at + size]
        elif kind == STRATUM:
            flags = int(value != stratum)
            body = varint(value) if flags else b""
            stratum = (value + 1) % 2**64
            if addr != committed or size:
                flags |= 2
                body += varint(addr - committed) + varint(size)
                committed = addr
        elif kind == END:
            body = varint(value)
        else:
            body = varint(addr) + varint(value) + varint(size)
            body += blob[at : at + size] if kind not in (INPUT, STORED) else b""
        out += bytes([kind | flags << 3]) + varint(int(row["count"]) - count) + body
        count = int(row["count"])
    return bytes(out)


class _Bytes:
    def __init__(self, raw: bytes) -> None:
        self.raw, self.pos = raw, 0

    def take(self, count: int) -> bytes:
        if self.pos + count > len(self.raw):
            raise Refused("cut short")
        self.pos += count
        return self.raw[self.pos - count : self.pos]

    def varint(self) -> int:
        value = 0
        for k in range(10):
            byte = self.take(1)[0]
            value |= (byte & 127) << (7 * k)
            if byte < 128:
                if (k and byte == 0) or value >= 2**64:
                    raise Refused("not the shortest form")
                return value
        raise Refused("too long")


#: Bytes in a line where the bus moves pages.
PAGE = 4096

_FLAGS = {
    STORED: range(1),
    MISS: range(16),
    INPUT: range(1, 5),
    STRATUM: range(4),
    RECEIVED: range(1),
    DIGEST: range(1),
    CONTEXT: range(1, 3),
    END: range(1),
}


def decode_records(raw: bytes, line: int, memory: int) -> tuple[Any, bytes]:
    """Records of a core's log (section 4): (RECORD[n], blob). Raises Refused."""
    data, rows, blob = _Bytes(raw), [], bytearray()
    count, number, stratum, committed = 0, 0, None, 0
    while data.pos < len(raw):
        tag = data.take(1)[0]
        kind, flags = tag & 7, tag >> 3
        if flags not in _FLAGS.get(kind, ()) or kind == (RECEIVED if line == PAGE else STORED):
            raise Refused("tag")
        count += data.varint()
        addr = value = size = offset = 0
        if kind in (MISS, RECEIVED):
            folded = data.varint()
            number += folded // 2 if folded % 2 == 0 else -(folded + 1) // 2
            number %= 2**64
            addr, size = number * line, line
            if flags & 8:
                more = data.varint()
                if not more:
                    raise Refused("nothing new")
                committed += more
                flags &= 7
            value = committed if kind == MISS else 0
        elif kind == STRATUM:
            numbered = flags & 1
            if numbered:
                value = data.varint()
            if (not numbered and stratum is None) or (numbered and value == stratum):
                raise Refused("stratum")
            value = value if numbered else stratum
            stratum = (value + 1) % 2**64
            if flags & 2:
                more, size = data.varint(), data.varint()
                if not more and not size:
                    raise Refused("nothing new")
                committed += more
            addr, flags = committed, 0
        elif kind == END:
            value = data.varint()
        else:
            addr, value, size = data.varint(), data.varint(), data.varint()
        if committed >= 2**64:
            raise Refused("range")
        if count >= 2**64 or size > (8 if kind in (INPUT, STORED) else 65535):
            raise Refused("range")
        if kind == STORED and (size == 0 or addr >= memory):
            raise Refused("range")
        if (kind in (MISS, RECEIVED) and addr + line > memory) or (kind == END and not 1 <= value <= 5):
            raise Refused("range")
        if kind in (MISS, RECEIVED, DIGEST, CONTEXT):
            offset = len(blob)
            if kind == MISS and line == PAGE:
                n = data.take(1)[0]
                numbers = data.take(n)
                if n > 64 or list(numbers) != sorted(set(numbers)) or any(k > 63 for k in numbers):
                    raise Refused("lines of a page")
                blob += bytes([n]) + numbers
                size, rest = 1 + 65 * n, 64 * n
            else:
                rest = size
            blob += data.take(rest)
        rows.append((count, addr, value, offset, size, kind, flags))
    return np.array(rows, dtype=RECORD), bytes(blob)


def encode_ops(rows: Iterable[Any]) -> bytes:
    """Rows of the agent log (section 5)."""
    out, nxt, same = bytearray(), 0, (0, 0)
    met, last = {}, None
    for index, row in enumerate(rows):
        number, addr, old, new, stratum, size, kind, cause, flags = (int(item) for item in row.tolist())
        if index == 0:
            out += varint(number) + varint(stratum)
        if kind == 0:
            out.append(0)
            continue
        if kind == 5:
            before = met.get(cause, (0, 0))
            out.append(flags << 2 | (16 if cause == last else 0) | (32 if old == before[1] else 0))
            out += bytes([] if cause == last else [cause]) + varint(addr - before[0])
            out += b"" if old == before[1] else varint(old)
            met[cause], last = (addr, old), cause
            continue
        taken, flags = flags & 8, flags & ~8
        tag = kind | size - 1 << 2 | (32 if addr == nxt else 0) | (64 if (cause, flags) == same else 0)
        tag |= 128 if taken else 0
        out.append(tag)
        if addr != nxt:
            out += varint(zigzag((addr - nxt + 2**63) % 2**64 - 2**63))
        if (cause, flags) != same:
            out += bytes([cause, flags])
        out += old.to_bytes(size, "little") + (new.to_bytes(size, "little") if kind != 1 else b"")
        nxt, same = addr + size, (cause, flags)
    return bytes(out)


def encode_slices(rows: Iterable[Any]) -> bytes:
    """Slices of the sealed truth (section 8)."""
    out, ends = bytearray(), {}
    for stream, end in (row.tolist() for row in rows):
        out += varint(stream) + varint(end - ends.get(stream, 0))
        ends[stream] = end
    return bytes(out)
