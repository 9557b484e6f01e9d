"""Guests of random bytes that begin with legal instructions, as firmware images and as static Linux
programs."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import capstone

TEXT, DATA, STACK = 0x100000, 0x200000, 0x20F000
_LONGEST = 15
_REGISTERS = 16
_RSP = 4
_PLACES, _64_BITS = (DATA + 0x4000,) * 6, (1 << 64) - 1
#: Bytes with which many instructions begin: without them most random ones are moves and sums.
_BEGINNINGS = (
    b"\x0f",
    b"\x0f",
    b"\x66\x0f",
    b"\xf2\x0f",
    b"\xf3\x0f",
    b"\x0f\x38",
    b"\x66\x0f\x38",
    b"\x0f\x3a",
    b"\x66\x0f\x3a",
    b"\xf0",
    b"\x48",
    b"\x66",
    b"\xf3",
    b"\xd9",
    b"\xdb",
    b"\xdd",
    b"\xdf",
    b"\x0f\xc7",
    b"\x0f\xae",
    b"\x64",
    b"\x67",
    b"",
)


def _registers(draw: random.Random) -> bytes:
    """Every register set: to a place in the data, a small number or any; rsp to the stack."""
    code = b""
    for number in range(_REGISTERS):
        value = draw.choice((*_PLACES, draw.randrange(256), draw.getrandbits(64))) + 8 * draw.randrange(64)
        value = (STACK if number == _RSP else value) & _64_BITS
        code += bytes([0x48 | number >> 3, 0xB8 | number & 7]) + struct.pack("<Q", value)
    return code


#: Far displacements, jumps, returns and what only a kernel may do: nearly all end a guest at once.
_ENDS = re.compile(
    r"0x[0-9a-f]{5,}|^(j|call|ret|hlt|in|out|cli|sti|iret|int|ljmp|lcall|sys|mov [cd]r|[lr]?ds)"
)
_ENDING_SHARE = 0.03


def _legal(draw: random.Random, many: int) -> bytes:
    """Random instructions that can be decoded, few of which end a guest."""
    decoder, code = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64), b""
    while many:
        drawn = draw.choice(_BEGINNINGS) + draw.randbytes(_LONGEST)
        found = next(decoder.disasm_lite(drawn, 0, 1), None)
        if found is None:
            continue
        _, size, mnemonic, operands = found
        if not _ENDS.search(f"{mnemonic} {operands}") or draw.random() < _ENDING_SHARE:
            code, many = code + drawn[:size], many - 1
    return code


def code_of(seed: str) -> bytes:
    """The code of a guest."""
    draw = random.Random(seed)
    code = _registers(draw) + _legal(draw, draw.choice((5, 20, 60)))
    # A loop over the legal part, or on into what is none.
    back = draw.random() < 0.3 and len(code) < 0x1000
    return code + (b"\xe9" + struct.pack("<i", -len(code) + 159) if back else b"") + draw.randbytes(200)


def write_guest(path: Path, code: bytes) -> Path:
    """A static ELF file with `code` at TEXT and 64 KiB of zeros at DATA: an image and a Linux program."""
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head = ident + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, TEXT, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 7, 4096, TEXT, TEXT, len(code), len(code), 4096)
    head += struct.pack("<IIQQQQQQ", 1, 6, 0, DATA, DATA, 0, 0x10000, 4096)
    path.write_bytes(head.ljust(4096, b"\0") + code)
    path.chmod(0o755)
    return path
