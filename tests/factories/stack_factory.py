"""Frame tables, memory and programs for tests of call stacks."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to make guests")


def elf_with(sections: dict[str, tuple[bytes, int]]) -> bytes:
    """An ELF file of sections: of each its bytes and its address."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in sections) + b".shstrtab\0"
    body, headers = b"", bytes(64)
    for name, (data, address) in sections.items():
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack("<IIQQQQIIQQ", at, 1, 2, address, 64 + len(body), len(data), 0, 0, 1, 0)
        body += data
    at = names.index(b"\0.shstrtab\0") + 1
    headers += struct.pack("<IIQQQQIIQQ", at, 3, 0, 0, 64 + len(body), len(names), 0, 0, 1, 0)
    body += names
    count = len(sections) + 2
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, count, count - 1)
    return ident + head + body + headers


def uleb(value: int) -> bytes:
    """An unsigned LEB128 number."""
    found = b""
    while value >= 0x80:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def sleb(value: int) -> bytes:
    """A signed one."""
    found = b""
    while not -0x40 <= value < 0x40:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value & 0x7F])


#: DW_CFA_def_cfa, DW_CFA_undefined, of these registers: rbp, rsp, and the column of the return address.
RBP, RSP, RETURN = 6, 7, 16


def frame(register: int, number: int) -> bytes:
    """The frame ends at a register and a number."""
    return b"\x0c" + uleb(register) + uleb(number)


def kept(register: int, distance: int) -> bytes:
    """A register is stored so far below the frame's end."""
    return bytes([0x80 | register]) + uleb(distance // 8)


class FrameTable:
    """An `.eh_frame` at an address, put together entry by entry; pointers are whole addresses."""

    def __init__(self, address: int = 0x8000) -> None:
        self.address, self.data = address, b""

    def common(self, code: bytes = b"", letters: str = "zR", version: int = 1) -> int:
        """A common part; returns where it is. Its augmentation is the encoding alone."""
        at = len(self.data)
        body = bytes([version]) + letters.encode() + b"\0" + uleb(1) + sleb(-8) + bytes([RETURN])
        self._add(bytes(4) + body + uleb(1) + b"\x00" + code)
        return at

    def code(self, common: int, begin: int, end: int, instructions: bytes = b"") -> FrameTable:
        """An entry of the code [begin, end)."""
        pointer = struct.pack("<I", len(self.data) + 4 - common)
        self._add(pointer + struct.pack("<QQ", begin, end - begin) + uleb(0) + instructions)
        return self

    def _add(self, body: bytes) -> None:
        body += bytes(-(len(body) + 4) % 8)
        self.data += struct.pack("<I", len(body)) + body

    def elf(self) -> bytes:
        """The file that has it."""
        return elf_with({".eh_frame": (self.data + bytes(4), self.address)})


class Words:
    """Memory of words of 8 bytes, by address."""

    def __init__(self, words: dict[int, int]) -> None:
        self.words = words

    def read(self, address: int, size: int) -> bytes | None:
        """Of one word."""
        word = self.words.get(address & ~7)
        if word is None or size > 8 - address % 8:
            return None
        return word.to_bytes(8, "little")[address % 8 :][:size]


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    """A program made of C, or of C++ where its name ends so."""
    path = folder / name
    path.write_text(source)
    compiler = "g++" if name.endswith(".cpp") else "gcc"
    out = path.with_suffix("")
    # By names without folders, as they are told.
    subprocess.run([compiler, "-g", *flags, name, "-o", out.name, "-pthread"], cwd=folder, check=True)
    return out
