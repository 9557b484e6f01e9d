"""A program with line tables, made without a compiler: DWARF 4 sections behind an ELF file that has none."""

from __future__ import annotations

import struct

from bench.hostile.varints import one

_SECTION = struct.Struct("<IIQQQQIIQQ")
_EXTENDED, _SET_ADDRESS, _END_SEQUENCE, _COPY, _ADVANCE_PC, _ADVANCE_LINE = 0, 2, 1, 1, 2, 3
#: Operands of the standard opcodes 1 to 12 (DWARF 4, 6.2.4).
_OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))


def _line_program(begin: int, size: int) -> bytes:
    header = bytes((1, 1, 1, 0xFB, 14, 13)) + _OPERANDS
    header += b"src\0\0" + b"guest.c\0" + bytes((1, 0, 0)) + b"other.h\0" + bytes((0, 0, 0)) + b"\0"
    code = bytes((_EXTENDED, 9, _SET_ADDRESS)) + struct.pack("<Q", begin)
    for _ in range(size // 8):
        code += bytes((_COPY, _ADVANCE_PC, 8, _ADVANCE_LINE, 3))
    code += bytes((_ADVANCE_PC,)) + one(8) + bytes((_EXTENDED, 1, _END_SEQUENCE))
    body = struct.pack("<HI", 4, len(header)) + header + code
    return struct.pack("<I", len(body)) + body


def _info(begin: int, size: int) -> bytes:
    """A unit with low_pc, high_pc and stmt_list, as `_ABBREVIATION` says."""
    body = struct.pack("<HIB", 4, 0, 8) + one(1) + b"guest.c\0" + struct.pack("<QII", begin, size, 0)
    return struct.pack("<I", len(body)) + body


#: Abbreviation 1: a compile unit without children: name (string), low_pc (addr), high_pc (data4), stmt_list.
_ABBREVIATION = bytes((1, 0x11, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x06, 0x10, 0x17, 0, 0, 0))


def _ranges(begin: int, size: int) -> bytes:
    body = struct.pack("<HIBBI", 2, 0, 8, 0, 0) + struct.pack("<QQQQ", begin, size, 0, 0)
    return struct.pack("<I", len(body)) + body


def with_lines(elf: bytes, *, ranges: bool = True) -> bytes:
    """The ELF file with lines for its section `.text`. ranges: also with .debug_aranges."""
    at, n, names_number = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 60)
    headers = [list(_SECTION.unpack_from(elf, at + _SECTION.size * k)) for k in range(n)]
    names_at, names_size = headers[names_number][4:6]
    names = elf[names_at : names_at + names_size]
    text = next(one for one in headers if names[one[0] :].startswith(b".text\0"))
    begin, size = text[3], text[5]
    added = {
        b".debug_line": _line_program(begin, size),
        b".debug_info": _info(begin, size),
        b".debug_abbrev": _ABBREVIATION,
    } | ({b".debug_aranges": _ranges(begin, size)} if ranges else {})
    data = bytearray(elf)
    for name, body in added.items():
        headers.append([len(names), 1, 0, 0, len(data), len(body), 0, 0, 1, 0])
        names += name + b"\0"
        data += body
    headers[names_number][4:6] = len(data), len(names)
    data += names
    struct.pack_into("<Q", data, 40, len(data))
    struct.pack_into("<H", data, 60, len(headers))
    return bytes(data) + b"".join(_SECTION.pack(*one) for one in headers)
