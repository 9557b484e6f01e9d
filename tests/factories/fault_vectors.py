"""Instructions that a processor refuses, each in a program whose handler writes what the signal said.

Run by the host's processor and under the recorder, as `vectors` are.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guest import DATA, Code
from static_guest import call, static_program

import corebraid

#: In the data: what the handler writes, where to go on, the stack, the handler's stack, an action.
_RECORD, _NEXT, STACK, _OTHER_STACK, _ACTION = DATA, DATA + 0x400, DATA + 0x6000, DATA + 0x8000, DATA + 0x500
_SIZE = 0x100
_SIGNALS = (4, 5, 7, 8, 11)
#: SA_SIGINFO, SA_ONSTACK, SA_NODEFER, SA_RESTORER.
_FLAGS = 0x4 | 0x08000000 | 0x40000000 | 0x04000000
_NAMES = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx",
    "rsp", "rip", "flags", "selectors", "error", "trap", "mask", "address", "x87", "xmm0",
)  # fmt: skip
#: In a signal's frame: the integers, the address of the x87's state. Of that: control and status word, and
#: which registers are valid; where the lower half of xmm0 is.
_INTEGERS, _X87, _WORDS, _XMM0 = len(_NAMES) - 2, 224, (1 << 40) - 1, 160
#: Where the program's data may be used by an instruction.
ROOM = DATA + 0x1000


@dataclass(frozen=True)
class Told:
    """What a signal's handler was told; signal 0: there was none, and `registers` are those at the end."""

    signal: int
    code: int
    address: int
    registers: tuple[tuple[str, int], ...]

    @classmethod
    def unpack(cls, raw: bytes) -> Told:
        """From the program's output."""
        signal, _, code, _, address = struct.unpack_from("<iiiiQ", raw)
        values = struct.unpack_from(f"<{len(_NAMES)}Q", raw, 32)
        return cls(signal, code, address, tuple(zip(_NAMES, values, strict=True)))

    def differences(self, other: Told) -> list[str]:
        """Where they are not the same."""
        pairs = [("signal", self.signal, other.signal), ("code", self.code, other.code)]
        pairs.append(("address", self.address, other.address))
        for (name, ours), (_, theirs) in zip(self.registers, other.registers, strict=True):
            pairs.append((name, ours, theirs))
        return [
            f"{name}: {ours:#x}, the processor {theirs:#x}" for name, ours, theirs in pairs if ours != theirs
        ]


class FaultVectors:
    """The program for some instruction sequences, in a folder. One that faults ends there; rsp is `STACK`,
    all flags are clear and the x87 is as new at its beginning, SSE registers hold what they held."""

    def __init__(self, folder: Path, sequences: Sequence[str]) -> None:
        self.sequences, code = list(sequences), Code()
        code.jump("begin")
        code.label("handler")
        for k in range(3):
            code.load("rax", ("rsi", 8 * k)).store(_RECORD + 8 * k, "rax")
        for k in range(_INTEGERS):
            code.load("rax", ("rdx", 40 + 8 * k)).store(_RECORD + 32 + 8 * k, "rax")
        code.load("rax", ("rdx", _X87)).load("rax", ("rax", 0)).mov("rcx", _WORDS).raw("48 21 c8")
        code.store(_RECORD + 32 + 8 * _INTEGERS, "rax")
        code.load("rax", ("rdx", _X87)).load("rax", ("rax", _XMM0))
        code.store(_RECORD + 32 + 8 * (_INTEGERS + 1), "rax")
        code.load("rax", _NEXT).store(("rdx", 40 + 8 * _NAMES.index("rip")), "rax")
        code.mov("rax", 0x202).store(("rdx", 40 + 8 * _NAMES.index("flags")), "rax")
        code.raw("c3").label("restorer").mov("rax", 15).raw("0f 05")
        code.label("told")
        call(code, 1, rdi=1, rsi=_RECORD, rdx=_SIZE)
        for k in range(_SIZE // 8):
            code.mov("rax", 0).store(_RECORD + 8 * k, "rax")
        code.raw("c3").label("begin")
        self._install(code)
        for number, sequence in enumerate(sequences):
            self._sequence(code, number, sequence)
        call(code, 231, rdi=0)
        self.program = static_program(folder / "faults", code)

    @staticmethod
    def _install(code: Code) -> None:
        for offset, value in ((0, _OTHER_STACK), (8, 0), (16, 0x4000)):
            code.mov("rax", value).store(_ACTION + offset, "rax")
        call(code, 131, rdi=_ACTION, rsi=0)
        values = ((0, code.address("handler")), (8, _FLAGS), (16, code.address("restorer")), (24, 0))
        for offset, value in values:
            code.mov("rax", value).store(_ACTION + offset, "rax")
        for signal in _SIGNALS:
            call(code, 13, rdi=signal, rsi=_ACTION, rdx=0, r10=8)

    @staticmethod
    def _sequence(code: Code, number: int, sequence: str) -> None:
        after = f"after {number}"
        code.lea("rax", after)
        code.store(_NEXT, "rax").mov("rsp", STACK).raw("6a 00 9d db e3")
        for register in ("rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16))):
            code.mov(register, ROOM)
        code.raw(sequence)
        code.store(_RECORD + 32 + 8 * _NAMES.index("rax"), "rax")
        code.store(_RECORD + 32 + 8 * _NAMES.index("rsp"), "rsp")
        code.label(after).mov("rsp", STACK).call("told")

    def run_natively(self) -> list[Told]:
        """What the host's processor and kernel make of them."""
        out = subprocess.run([self.program], capture_output=True, check=True).stdout
        return self._told(out)

    def run_recorded(self, folder: Path, **options: Any) -> list[Told]:
        """What a guest is told while it is recorded in `folder`. options: of `corebraid.record`."""
        said = bytearray()
        ran = corebraid.record(self.program, folder, cores=1, guest="linux", output=said.extend, **options)
        end = ran.facts()["end"]
        assert isinstance(end, dict), end
        assert end["exit_code"] == 0, end
        return self._told(bytes(said))

    def _told(self, out: bytes) -> list[Told]:
        assert len(out) == _SIZE * len(self.sequences)
        return [Told.unpack(out[k : k + _SIZE]) for k in range(0, len(out), _SIZE)]
