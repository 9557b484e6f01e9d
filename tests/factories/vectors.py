"""Instruction vectors: an instruction, a whole state of the processor before it, and the one behind it.

One static program reads states, sets each, runs the instruction and writes what came of it. It is run by the
host's processor, where that is an x86-64 one, and under the recorder.
"""

from __future__ import annotations

import platform
import struct
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from guest import DATA, Code
from static_guest import call, static_program

import corebraid

#: Registers in a state, in its order; rsp is the program's.
NAMES = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", *(f"r{n}" for n in range(8, 16)))
_FLAGS, _MEMORY, _FXSAVE, SIZE = 8 + 8 * len(NAMES), 192, 256, 768
#: What SIGFPE said, 0 if there was none: si_code, and how far from the instruction's beginning the program
#: counter and si_addr were.
_SIGNAL = _FLAGS + 8
#: Where the first state lies; how many are read at once; words of the program's own.
_BLOCKS, _BATCH = DATA, 64
_CURRENT, _LEFT, _SAVED, _ACTION = DATA + 0xF000, DATA + 0xF008, DATA + 0xF010, DATA + 0xF020
#: Of a siginfo and of a ucontext; SA_SIGINFO | SA_RESTORER.
_CODE, _ADDRESS, _RIP, _FLAGS_OF_ACTION = 8, 16, 168, 0x04000004
ARITHMETIC = 0x8D5

#: Whether this host can say what the processor does.
NATIVE = platform.machine() == "x86_64"


def host_flags() -> set[str]:
    """What this host's processor has, in Linux's words."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if NATIVE else []
    return set(next((line for line in lines if line.startswith("flags")), "").split())


#: Whether it is one of the vendor's that the guest is told (`isa.x86_64.cpuid`).
INTEL = NATIVE and "GenuineIntel" in Path("/proc/cpuinfo").read_text()


@dataclass
class State:
    """Registers by name, flags, 64 bytes of memory at rdi, the x87 and SSE state as `fxsave` has it."""

    registers: dict[str, int] = field(default_factory=dict)
    flags: int = 0x202
    memory: bytes = bytes(64)
    fcw: int = 0x37F
    fsw: int = 0
    #: Of the x87 registers by their number in the instruction: (significand, sign and exponent); None: empty.
    st: list[tuple[int, int] | None] = field(default_factory=lambda: [None] * 8)
    mxcsr: int = 0x1F80
    xmm: list[int] = field(default_factory=lambda: [0] * 16)

    def pack(self, form: int, place: int) -> bytes:
        """For the instruction at address `form`, in the block at address `place`."""
        values = {name: self.registers.get(name, 0) for name in NAMES} | {"rdi": place + _MEMORY}
        head = struct.pack(f"<{2 + len(NAMES)}Q", form, *values.values(), self.flags)
        top = self.fsw >> 11 & 7
        tags = sum(1 << ((top + k) & 7) for k in range(8) if self.st[k] is not None)
        fx = struct.pack("<HHBBHQQII", self.fcw, self.fsw, tags, 0, 0, 0, 0, self.mxcsr, 0xFFFF)
        fx += b"".join(struct.pack("<QH6x", *(one or (0, 0))) for one in self.st)
        fx += b"".join(value.to_bytes(16, "little") for value in self.xmm)
        return (head.ljust(_MEMORY, b"\0") + self.memory + fx).ljust(SIZE, b"\0")


def _shown(value: int | bytes) -> str:
    return hex(value) if isinstance(value, int) else value[::-1].hex()


@dataclass(frozen=True)
class Form:
    """An instruction, in hexadecimal; memory operands at rdi. flags, status: masks of what it defines.
    ignored: (first, end) of bytes of memory that another processor may leave otherwise. element: bytes of the
    numbers in XMM registers, where this processor may choose another of several NaNs than Intel's do; 0: it
    may not."""

    text: str
    flags: int = ARITHMETIC
    status: int = 0xFFFF
    name: str = ""
    ignored: tuple[int, int] = (0, 0)
    element: int = 0


def _one_nan(value: int, element: int) -> int:
    """16 bytes of numbers, in which all NaNs are the same."""
    if not element:
        return value
    bits, mantissa = (32, 23) if element == 4 else (64, 52)
    infinity, magnitude = (1 << bits - 1) - (1 << mantissa), (1 << bits - 1) - 1
    numbers = [value >> at & (1 << bits) - 1 for at in range(0, 128, bits)]
    kept = [infinity + 1 if number & magnitude > infinity else number for number in numbers]
    return sum(number << at for number, at in zip(kept, range(0, 128, bits), strict=True))


def _without(memory: bytes, first: int, end: int) -> bytes:
    return memory[:first] + bytes(end - first) + memory[end:]


@dataclass(frozen=True)
class Result:
    """What an instruction left. Left out: bits of `flags` and of x87's status that it leaves undefined, and
    where the last x87 instruction was."""

    registers: tuple[int, ...]
    flags: int
    signal: tuple[int, ...]
    memory: bytes
    x87: tuple[int, int, int]
    st: tuple[bytes, ...]
    mxcsr: int
    xmm: tuple[int, ...]

    @classmethod
    def unpack(cls, raw: bytes, form: Form) -> Result:
        """What counts of what `form` left."""
        fx = raw[_FXSAVE:]
        fcw, fsw, tags = struct.unpack_from("<HHB", fx)
        return cls(
            struct.unpack_from(f"<{len(NAMES)}Q", raw, 8),
            struct.unpack_from("<Q", raw, _FLAGS)[0] & form.flags,
            struct.unpack_from("<QQQ", raw, _SIGNAL),
            _without(raw[_MEMORY:_FXSAVE], *form.ignored),
            (fcw, fsw & form.status, tags),
            tuple(fx[32 + 16 * k :][:16] for k in range(8)),
            struct.unpack_from("<I", fx, 24)[0],
            tuple(
                _one_nan(int.from_bytes(fx[160 + 16 * k :][:16], "little"), form.element) for k in range(16)
            ),
        )

    def differences(self, other: Result) -> list[str]:
        """Where they are not the same."""
        found = []
        for name in self.__dataclass_fields__:
            ours, theirs = getattr(self, name), getattr(other, name)
            if isinstance(ours, tuple):
                pairs = enumerate(zip(ours, theirs, strict=True))
                found += [
                    f"{name}[{k}]: {_shown(a)}, the processor {_shown(b)}" for k, (a, b) in pairs if a != b
                ]
            elif ours != theirs:
                found.append(f"{name}: {_shown(ours)}, the processor {_shown(theirs)}")
        return found


def in_batches(code: Code, batch: int, vector: Callable[[Code], None]) -> None:
    """Read so many states, run the code of a vector on each, write what came of it, until there are none."""
    code.label("batch").mov("rdx", batch * SIZE).mov("rsi", _BLOCKS).label("more")
    call(code, 0, rdi=0).compare("rax", 0).jump_if("z", "over")
    code.raw("48 01 c6 48 29 c2").jump_if("nz", "more")
    code.mov("rax", _BLOCKS).store(_CURRENT, "rax").mov("rax", batch).store(_LEFT, "rax").label("vector")
    vector(code)
    code.load("rcx", _LEFT).add("rcx", -1).store(_LEFT, "rcx").jump_if("nz", "vector")
    call(code, 1, rdi=1, rsi=_BLOCKS, rdx=batch * SIZE).jump("batch")
    call(code.label("over"), 231, rdi=0)


class Vectors:
    """The program for some forms, in a folder."""

    def __init__(self, folder: Path, forms: Sequence[Form]) -> None:
        code, self.forms = Code(), list(forms)
        self._signals(code)
        in_batches(code, _BATCH, self._vector)
        self._stubs = []
        for form in forms:
            self._stubs.append(code.here)
            code.raw(form.text).raw("c3")
        self.program = static_program(folder / "vectors", code)

    @staticmethod
    def _signals(code: Code) -> None:
        """SIGFPE is told in the vector's block, and the instruction is left out."""
        code.jump("begin").label("handler").load("rcx", _CURRENT)
        code.load("rax", ("rsi", _CODE), 4).store(("rcx", _SIGNAL), "rax")
        for number, (place, offset) in enumerate((("rdx", _RIP), ("rsi", _ADDRESS)), 1):
            code.load("rax", (place, offset)).emit("2b", "rax", ("rcx", 0))
            code.store(("rcx", _SIGNAL + 8 * number), "rax")
        code.label("nothing").mov("rax", code.here + 10 + 7).store(("rdx", _RIP), "rax").raw("c3")
        call(code.label("restorer"), 15)
        code.label("begin")
        handler, restorer = code.address("handler"), code.address("restorer")
        for number, word in enumerate((handler, _FLAGS_OF_ACTION, restorer, 0)):
            code.mov("rax", word).store(_ACTION + 8 * number, "rax")
        call(code, 13, rdi=8, rsi=_ACTION, rdx=0, r10=8)

    @staticmethod
    def _vector(code: Code) -> None:
        code.load("rax", _CURRENT).emit("0f ae", 1, ("rax", _FXSAVE))
        code.load("rcx", ("rax", 0)).store(_SAVED + 8, "rcx")
        code.emit("ff", 6, ("rax", _FLAGS), wide=False)
        for k, name in reversed(list(enumerate(NAMES))):
            code.load(name, ("rax", 8 + 8 * k))
        code.raw("9d").emit("ff", 2, _SAVED + 8, wide=False)
        code.store(_SAVED, "rax").raw("9c").emit("8f", 0, _SAVED + 8, wide=False)
        code.load("rax", _CURRENT)
        for k, name in enumerate(NAMES[1:], 1):
            code.store(("rax", 8 + 8 * k), name)
        code.load("rcx", _SAVED).store(("rax", 8), "rcx")
        code.load("rcx", _SAVED + 8).store(("rax", _FLAGS), "rcx")
        code.emit("0f ae", 0, ("rax", _FXSAVE))
        code.add("rax", SIZE).store(_CURRENT, "rax")

    def pack(self, vectors: Iterable[tuple[int, State]]) -> bytes:
        """Of (number of the form, state) pairs, as the program reads them, in whole batches."""
        blocks = []
        for number, (form, state) in enumerate(vectors):
            blocks.append(state.pack(self._stubs[form], _BLOCKS + number % _BATCH * SIZE))
        while len(blocks) % _BATCH:
            blocks.append(State().pack(self._nothing, _BLOCKS + len(blocks) % _BATCH * SIZE))
        return b"".join(blocks)

    @property
    def _nothing(self) -> int:
        """The address of a return."""
        return self._stubs[0] + len(bytes.fromhex(self.forms[0].text))

    def run_natively(self, states: bytes) -> bytes:
        """What the host's processor makes of them."""
        return subprocess.run([self.program], input=states, capture_output=True, check=True).stdout

    def run_recorded(self, states: bytes, folder: Path) -> bytes:
        """What a guest makes of them while it is recorded in `folder`."""
        said = bytearray()
        ran = corebraid.record(self.program, folder, cores=1, guest="linux", input=states, output=said.extend)
        end = ran.facts()["end"]
        assert isinstance(end, dict), end
        assert end["exit_code"] == 0, end
        return bytes(said)

    def compare(
        self, vectors: Sequence[tuple[int, State]], folder: Path
    ) -> list[tuple[Form, State, list[str]]]:
        """Vectors that come out otherwise than natively."""
        states = self.pack(vectors)
        natively, recorded = self.run_natively(states), self.run_recorded(states, folder)
        assert len(natively) == len(recorded) == len(states)
        found = []
        for number, (which, state) in enumerate(vectors):
            form, at = self.forms[which], number * SIZE
            ours, theirs = (Result.unpack(raw[at : at + SIZE], form) for raw in (recorded, natively))
            if differences := ours.differences(theirs):
                found.append((form, state, differences))
        return found
