"""The guest's program: ELF headers, symbols, DWARF; objects of a Linux guest."""

from __future__ import annotations

import hashlib
import struct
import zlib

from bench.hostile.drawing import Draw, Mutation, Unsuited, edge, edit_bytes
from bench.hostile.sample import PROGRAM, Sample

_SECTION = "<IIQQQQIIQQ"
_NAMES, _FIELDS = 40, 10
_COMPRESSED = 0x800


def _sections(data: bytes | bytearray) -> tuple[int, list[list[int]]]:
    """(where the table begins, the headers)."""
    if len(data) < 64:
        raise Unsuited
    at, each, n = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    if each != 64 or at + n * each > len(data) or not n:
        raise Unsuited
    return at, [list(struct.unpack_from(_SECTION, data, at + k * each)) for k in range(n)]


def _program(sample: Sample) -> bytes:
    if not sample.others.get(PROGRAM):
        raise Unsuited
    return sample.others[PROGRAM]


def section_header(sample: Sample, draw: Draw) -> str:
    """A field of a section's header."""
    data = bytearray(_program(sample))
    at, headers = _sections(data)
    number, field = draw.randrange(len(headers)), draw.randrange(_FIELDS)
    headers[number][field] = edge(draw, headers[number][field])
    if field in (0, 1, 6, 7):
        headers[number][field] &= 0xFFFFFFFF
    struct.pack_into(_SECTION, data, at + 64 * number, *headers[number])
    sample.others[PROGRAM] = bytes(data)
    return f"section {number}, field {field} = {headers[number][field]:#x}"


def file_header(sample: Sample, draw: Draw) -> str:
    """The file's or a segment's header."""
    data = bytearray(_program(sample))
    at = draw.randrange(min(64 + 56 * 4, len(data) - 8))
    size = draw.choice((1, 2, 4, 8))
    value = edge(draw, int.from_bytes(data[at : at + size], "little")) & ((1 << 8 * size) - 1)
    data[at : at + size] = value.to_bytes(size, "little")
    sample.others[PROGRAM] = bytes(data)
    return f"program: byte {at} = {value:#x}"


def section_bytes(sample: Sample, draw: Draw) -> str:
    """Other bytes of a section that no machine loads: symbols, their names, lines, notes."""
    data = _program(sample)
    _, headers = _sections(data)
    kept = [
        one
        for one in headers
        if one[1] not in (0, 8) and one[5] and one[4] + one[5] <= len(data) and not one[3]
    ]
    if not kept:
        raise Unsuited
    one = draw.choice(kept)
    begin, size = one[4], one[5]
    new = edit_bytes(data[begin : begin + size], draw)[:size].ljust(size, b"\0")
    sample.others[PROGRAM] = data[:begin] + new + data[begin + size :]
    return f"program: bytes of the section at {begin:#x}"


def section_compressed(sample: Sample, draw: Draw) -> str:
    """A section of lines that is compressed, and becomes much."""
    data = bytearray(_program(sample))
    at, headers = _sections(data)
    number = draw.randrange(len(headers))
    size = draw.choice((0, 100, 1 << 16, 1 << 24))
    said = draw.choice((size, size, edge(draw, size)))
    packed = struct.pack("<IIQQ", draw.choice((1, 1, 1, 2, 77)), 0, said, 1) + zlib.compress(bytes(size), 9)
    header = headers[number]
    header[2], header[4], header[5] = _COMPRESSED, len(data), len(packed)
    struct.pack_into(_SECTION, data, at + 64 * number, *header)
    sample.others[PROGRAM] = bytes(data) + packed
    return f"program: section {number} compressed, {size} bytes"


def whole(sample: Sample, draw: Draw) -> str:
    """A program that is none, is short, is gone, or is not the one that the manifest names."""
    data = _program(sample)
    way = draw.choice(("gone", "short", "bytes", "random", "other"))
    if way == "gone":
        del sample.others[PROGRAM]
    elif way == "short":
        sample.others[PROGRAM] = data[: draw.randrange(len(data))]
    elif way == "bytes":
        sample.others[PROGRAM] = edit_bytes(data, draw)
    elif way == "random":
        sample.others[PROGRAM] = b"\x7fELF\x02\x01\x01" + draw.randbytes(200)
    else:
        sample.others[PROGRAM] = edit_bytes(data, draw)
        sample.wrong_program = True
    return f"program: {way}"


def other_object(sample: Sample, draw: Draw) -> str:
    """Another file at a mapping of a Linux guest: the program with other headers."""
    mappings = sample.index.get("mappings") if sample.index else None
    if not isinstance(mappings, list) or not mappings or not isinstance(mappings[0], dict):
        raise Unsuited
    data = _program(sample)
    other = Sample(sample.manifest, {}, {PROGRAM: data})
    said = draw.choice((section_header, file_header, section_bytes, section_compressed))(other, draw)
    changed = other.others[PROGRAM]
    name = hashlib.sha256(changed).hexdigest()
    sample.others[f"objects/{name}"] = changed
    mapping = dict(draw.choice(mappings), sha256=name, path="/lib/other.so")
    for key in ("start", "end", "offset"):
        if draw.random() < 0.3:
            mapping[key] = edge(draw, 4096 * draw.randrange(64)) & ~4095
    mappings.append(mapping)
    return f"an object: {said}"


MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (4, section_header),
    (3, file_header),
    (4, section_bytes),
    (1, section_compressed),
    (1, whole),
    (1, other_object),
)
