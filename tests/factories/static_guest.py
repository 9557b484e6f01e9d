"""Static Linux programs made of code, and their recordings."""

from __future__ import annotations

import struct
from pathlib import Path

from guest import DATA, TEXT, Code

from corebraid.base.memory import ADDRESS_SPACE
from isa.x86_64.linux import LINUX_X86_64
from isa.x86_64.registers import X86_64
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions


def call(code: Code, number: int, **registers: int) -> Code:
    for name, value in registers.items():
        code.mov(name, value)
    return code.mov("rax", number).raw("0f 05")


def static_program(path: Path, code: Code, data: int = 0x10000, stack: int | None = None) -> Path:
    """A static ELF whose segments lie at whole pages of the file: code at TEXT, so many zeros at DATA. stack:
    the flags of its PT_GNU_STACK; None: it has none."""
    text = code.assemble()
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, TEXT, 64, 0, 0, 64, 56, 2 + (stack is not None), 64, 0, 0
    )
    head += struct.pack("<IIQQQQQQ", 1, 5, 4096, TEXT, TEXT, len(text), len(text), 4096)
    head += struct.pack("<IIQQQQQQ", 1, 6, 0, DATA, DATA, 0, data, 4096)
    if stack is not None:
        head += struct.pack("<IIQQQQQQ", 0x6474E551, stack, 0, 0, 0, 0, 0, 16)
    path.write_bytes(head.ljust(4096, b"\0") + text)
    path.chmod(0o755)
    return path


def record_linux_guest(code: Code, folder: Path, model: str) -> Path:
    program = static_program(folder / "guest", code)
    spec = guest_spec(program, "guest", (), 64 << 20, b"", LinuxOptions(system=False))
    options = RecordOptions(cores=2, seed=1, memory_bytes=ADDRESS_SPACE, model=model)
    said = bytearray()
    record_linux(spec, folder / "rec", X86_64, LINUX_X86_64, options, said.extend, said.extend)
    return folder / "rec"
