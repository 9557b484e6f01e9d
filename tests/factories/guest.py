"""Tiny guests: an assembler for the few instructions that tests need, and an ELF file around the bytes.

    code = Code()
    code.mov("rax", 7)
    code.store(DATA, "rax")
    code.power_off(0)
    program = elf(tmp_path / "guest.elf", code)

Anything the assembler does not know is given as hexadecimal bytes: `code.raw("0f a2")  # cpuid`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emu.bus.cache import CacheGeometry
from isa.x86_64.registers import X86_64
from recorder.capture.firmware import Outcome, RecordOptions, record
from recorder.capture.strata_policy import StrataPolicy
from recorder.files.reader import Recording

TEXT, DATA = 0x100000, 0x200000
DEVICES = 0xF0000000
CONSOLE_TX, CONSOLE_RX, POWER_OFF, CYCLES, RANDOM = 0x00, 0x08, 0x10, 0x28, 0x30
TIMER_PERIOD, INT_HANDLER, INT_CAUSE, IPI_SEND = 0x40, 0x48, 0x50, 0x58
DMA_SRC, DMA_DST, DMA_LEN, DMA_START, DMA_STATUS = 0x80, 0x88, 0x90, 0x98, 0xA0
READ, WRITE, EXECUTE = 4, 2, 1

_REGISTERS = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{n}" for n in range(8, 16)))
_CONDITIONS = {"c": 2, "nc": 3, "z": 4, "nz": 5, "be": 6, "a": 7, "s": 8, "ns": 9, "l": 12, "ge": 13}

#: An absolute address below 2 GiB, or (base register, displacement).
Place = int | tuple[str, int]


class Code:
    """Machine code being assembled at `base`; labels may be used before they are set."""

    def __init__(self, base: int = TEXT) -> None:
        self.base = base
        self._bytes = bytearray()
        self._labels: dict[str, int] = {}
        self._fixes: list[tuple[int, str]] = []

    @property
    def here(self) -> int:
        """Address of the next instruction."""
        return self.base + len(self._bytes)

    def raw(self, text: str) -> Code:
        """Bytes in hexadecimal."""
        self._bytes += bytes.fromhex(text)
        return self

    def label(self, name: str) -> Code:
        """Name this address."""
        self._labels[name] = self.here
        return self

    def address(self, name: str) -> int:
        """Address of a label that is set already."""
        return self._labels[name]

    def align(self, bytes_: int, fill: int = 0x90) -> Code:
        """Fill (with nop) up to a multiple of `bytes_`."""
        while self.here % bytes_:
            self._bytes.append(fill)
        return self

    def at(self, address: int, fill: int = 0x90) -> Code:
        """Fill (with nop) up to `address`."""
        assert address >= self.here, f"{address:#x} is behind {self.here:#x}"
        self._bytes += bytes([fill]) * (address - self.here)
        return self

    def emit(
        self, opcode: str, register: int | str, place: Place | str, *, wide: bool = True, prefix: str = ""
    ) -> Code:
        """`prefix` REX `opcode` ModRM: a register (or the number in its place) and a register or memory."""
        number = _REGISTERS.index(register) if isinstance(register, str) else register
        rex, tail = 0x48 if wide else 0x40, b""
        if isinstance(place, str):
            base = _REGISTERS.index(place)
            modrm = 0xC0 | base & 7
        elif isinstance(place, int):
            base, modrm, tail = 0, 0x04, b"\x25" + struct.pack("<i", place)
        else:
            base = _REGISTERS.index(place[0])
            modrm = 0x80 | base & 7
            tail = (b"\x24" if base & 7 == 4 else b"") + struct.pack("<i", place[1])
        rex |= (number >> 3) << 2 | base >> 3
        self._bytes += bytes.fromhex(prefix) + bytes([rex]) + bytes.fromhex(opcode)
        self._bytes += bytes([modrm | (number & 7) << 3]) + tail
        return self

    def mov(self, register: str, value: int) -> Code:
        """A 64-bit constant into a register."""
        number = _REGISTERS.index(register)
        self._bytes += bytes([0x48 | number >> 3, 0xB8 | number & 7]) + struct.pack(
            "<Q", value & (1 << 64) - 1
        )
        return self

    def load(self, register: str, place: Place, size: int = 8) -> Code:
        """A register from memory, upper bits zero (size 1, 2) or as the processor has it."""
        opcode = {1: "0f b6", 2: "0f b7", 4: "8b", 8: "8b"}[size]
        return self.emit(opcode, register, place, wide=size == 8)

    def store(self, place: Place, register: str, size: int = 8) -> Code:
        """A register into memory."""
        opcode = "88" if size == 1 else "89"
        return self.emit(opcode, register, place, wide=size == 8, prefix="66" if size == 2 else "")

    def add(self, register: str, value: int) -> Code:
        """Add a signed 32-bit constant."""
        self.emit("81", 0, register)
        self._bytes += struct.pack("<i", value)
        return self

    def compare(self, register: str, value: int) -> Code:
        """Compare with a signed 32-bit constant."""
        self.emit("81", 7, register)
        self._bytes += struct.pack("<i", value)
        return self

    def _relative(self, opcode: str, target: str) -> Code:
        self._bytes += bytes.fromhex(opcode)
        self._fixes.append((len(self._bytes), target))
        self._bytes += bytes(4)
        return self

    def jump(self, target: str) -> Code:
        """Jump to a label."""
        return self._relative("e9", target)

    def jump_if(self, condition: str, target: str) -> Code:
        """Jump to a label if a condition (`_CONDITIONS`) holds."""
        return self._relative(f"0f {0x80 | _CONDITIONS[condition]:02x}", target)

    def call(self, target: str) -> Code:
        """Call a label."""
        return self._relative("e8", target)

    def lea(self, register: str, target: str) -> Code:
        """The address of a label into a register."""
        number = _REGISTERS.index(register)
        return self._relative(f"{0x48 | (number >> 3) << 2:02x} 8d {5 | (number & 7) << 3:02x}", target)

    def device(self, register: int, value: int | str) -> Code:
        """Write a device register, from a constant or a register; uses r15 and r14."""
        self.mov("r15", DEVICES)
        if isinstance(value, int):
            self.mov("r14", value)
        return self.store(("r15", register), value if isinstance(value, str) else "r14")

    def ask(self, register: int, target: str, size: int = 8) -> Code:
        """Read a device register into `target`; uses r15."""
        return self.mov("r15", DEVICES).load(target, ("r15", register), size)

    def power_off(self, code: int | str) -> Code:
        """End the run with an exit code."""
        return self.device(POWER_OFF, code).label(f"off{self.here}").jump(f"off{self.here}")

    def halt(self) -> Code:
        """Park for good."""
        return self.raw("fa f4")

    def split(self, *targets: str) -> Code:
        """Core k goes to targets[k], the last one of them when there are fewer."""
        for number, target in enumerate(targets[:-1]):
            self.compare("rdi", number).jump_if("z", target)
        return self.jump(targets[-1])

    def loop(self, register: str, target: str) -> Code:
        """Count `register` down and jump while it is not zero."""
        return self.add(register, -1).jump_if("nz", target)

    def assemble(self) -> bytes:
        """The machine code."""
        code = bytearray(self._bytes)
        for position, name in self._fixes:
            after = self.base + position + 4
            code[position : position + 4] = struct.pack("<i", self._labels[name] - after)
        return bytes(code)


Part = tuple[int, bytes, int, int]


def elf(
    path: Path,
    code: Code | bytes,
    parts: Sequence[Part] = (),
    *,
    rights: int = READ | WRITE | EXECUTE,
    entry: int = 0,
) -> Path:
    """Write a static ELF: `code`, 64 KiB of zeroed data at DATA, and further parts.

    parts: (address, bytes, size in memory, rights). entry: default the start of the code.
    """
    text = code.assemble() if isinstance(code, Code) else code
    base = code.base if isinstance(code, Code) else TEXT
    segments = [(base, text, len(text), rights), (DATA, b"", 0x10000, READ | WRITE), *parts]
    offset = 64 + 56 * len(segments)
    headers, body = b"", b""
    for address, data, size, flags in segments:
        headers += struct.pack(
            "<IIQQQQQQ", 1, flags, offset + len(body), address, address, len(data), size, 1
        )
        body += data
    ident = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head = ident + struct.pack(
        "<HHIQQQIHHHHHH", 2, 62, 1, entry or base, 64, 0, 0, 64, 56, len(segments), 64, 0, 0
    )
    path.write_bytes(head + headers + body)
    return path


# -- recording -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A recording of a guest: what became of it, what it printed, where it is."""

    outcome: Outcome
    printed: bytes
    path: Path

    @property
    def recording(self) -> Recording:
        """The recording, opened."""
        return Recording.open(self.path)


def run_guest(
    program: Path,
    path: Path,
    cores: int = 1,
    *,
    cache: str = "unbounded",
    strata: str = "none",
    memory: int = 4 << 20,
    watchers: tuple[Any, ...] = (),
    **options: Any,
) -> Run:
    """Record `program` into the new directory `path`. watchers: see `Capture`. options: of
    `RecordOptions`."""
    printed = bytearray()
    outcome = record(
        program,
        path,
        X86_64,
        RecordOptions(
            cores=cores,
            cache=CacheGeometry.parse(cache),
            strata=StrataPolicy.parse(strata),
            memory_bytes=memory,
            **options,
        ),
        printed.extend,
        watchers=watchers,
    )
    return Run(outcome, bytes(printed), path)


def write_schedule(path: Path, cores: int, seed: int, longest: int, slices: int = 4000) -> Path:
    """A schedule file of random exact slices of 1 to `longest` instructions."""
    draw = random.Random(f"{cores}/{seed}/{longest}")
    lines = [f"{draw.randrange(cores)} {draw.randint(1, longest)}" for _ in range(slices)]
    path.write_text("\n".join(lines) + "\n")
    return path


#: Ways to record a guest: (longest exact slice, strata, cache).
WAYS = (
    (1, "cycles:400", "unbounded"),
    (2, "downgrades:1", "64:2:32"),
    (5, "cycles:2000", "512:1:16"),
    (13, "downgrades:3", "1k:2:128"),
    (50, "none", "unbounded"),
    (7, "downgrades:1", "unbounded"),
)


def run_many_ways(program: Path, folder: Path, cores: int, seeds: int = 1, **options: Any) -> list[Run]:
    """Record `program` every way of WAYS under exact random schedules."""
    runs = []
    for seed in range(seeds):
        for number, (longest, strata, cache) in enumerate(WAYS):
            schedule = write_schedule(folder / f"schedule-{seed}-{number}", cores, seed, longest)
            path = folder / f"{program.stem}-{seed}-{number}"
            runs.append(
                run_guest(
                    program,
                    path,
                    cores,
                    cache=cache,
                    strata=strata,
                    schedule=str(schedule),
                    seed=seed,
                    **options,
                )
            )
    return runs
