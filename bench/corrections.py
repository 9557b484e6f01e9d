"""What it costs to compute what a processor computes: programs full of one instruction each, recorded on the
emulator as it is (revision 0) and as later revisions of the processor have it (docs/processor.md)."""

from __future__ import annotations

import struct
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bench.report import Column, Table, publish
from corebraid.base.memory import ADDRESS_SPACE
from isa.registry import isa_named, linux_abi_of
from isa.table import Isa
from recorder.capture.guest import LinuxOptions, guest_spec
from recorder.capture.linux import record_linux
from recorder.capture.options import RecordOptions

#: What each program repeats; rdi points to 64 bytes, xmm1 and xmm2 hold numbers, st0 and st1 too.
BODIES = {
    "integer (nothing corrected)": "48 01 d8 48 31 c3 48 0f af d8 48 89 47 08 48 03 47 08",
    "addsd, mulsd, divsd": "f2 0f 58 ca f2 0f 59 ca f2 0f 5e ca",
    "addps, mulps": "0f 58 ca 0f 59 ca",
    "minsd, maxsd": "f2 0f 5d ca f2 0f 5f ca",
    "cvtsd2ss, cvttsd2si": "f2 0f 5a da f2 0f 2c c2",
    "movaps, movdqa, paddq of memory": "0f 28 0f 66 0f 6f 57 10 66 0f d4 57 10 0f 29 4f 20",
    "dpps": "66 0f 3a 40 ca ff",
    "haddps": "f2 0f 7c ca",
    "phaddd of itself": "66 0f 38 02 c9",
    "pcmpistri": "66 0f 3a 63 ca 0c",
    "add, bt": "48 01 d8 48 0f a3 d8",
    "lock cmpxchg": "f0 0f b1 1f",
    "lock neg": "f0 f7 1f",
    "x87: fadd, fmul": "d8 c1 d8 c9",
    "x87: fld, fstp of 64 bits": "dd 07 dd 1f",
    "x87: fprem": "d9 f8",
    "x87: fsin": "d9 fe",
    "x87: f2xm1": "d9 f0",
    "MMX: paddd": "0f fe ca",
}
_REPEATED, _TEXT, _DATA = 40, 0x100000, 0x200000
#: Rounds; processor seconds of a run, about; how often a program repeats to find how long it takes.
_ROUNDS, _SECONDS, _TRIED = 5, 0.4, 4_000


def program(path: Path, body: bytes, count: int) -> Path:
    """A static ELF: `count` times `_REPEATED` times the instructions, then exit(0)."""
    numbers = struct.pack("<dddd", 1.25, 0.75, 1.0000001, 0.9999)
    code = bytes.fromhex("bf") + struct.pack("<I", _DATA)
    for k in range(4):
        code += (
            bytes.fromhex("48 b8") + numbers[8 * k : 8 * k + 8] + bytes.fromhex("48 89 47") + bytes([8 * k])
        )
    # movsd xmm1, xmm2; fld; fld; the loop counts in ebp.
    code += bytes.fromhex("f2 0f 10 0f f2 0f 10 57 10 dd 47 10 dd 47 08 bd") + struct.pack("<I", count)
    loop = body * _REPEATED + bytes.fromhex("ff cd")
    code += loop + bytes.fromhex("0f 85") + struct.pack("<i", -len(loop) - 6)
    code += bytes.fromhex("31 ff b8 e7 00 00 00 0f 05")
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, _TEXT, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 4096, _TEXT, _TEXT, len(code), len(code), 4096)
    head += struct.pack("<IIQQQQQQ", 1, 6, 0, _DATA, _DATA, 0, 4096, 4096)
    path.write_bytes(head.ljust(4096, b"\0") + code)
    path.chmod(0o755)
    return path


def seconds(path: Path, isa: Isa) -> float:
    """Processor seconds to record a program on one core."""
    spec = guest_spec(path, "guest", (), 64 << 20, b"", LinuxOptions(system=False))
    options = RecordOptions(cores=1, memory_bytes=ADDRESS_SPACE)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        record_linux(spec, Path(folder) / "rec", isa, linux_abi_of(isa), options, _drop, _drop)
        return time.process_time() - began


def _drop(_: bytes) -> None:
    """What the programs print: nothing."""


def measured(name: str, rounds: int = _ROUNDS, lasting: float = _SECONDS) -> list[float]:
    """Least processor seconds of a program by the processor's revision, 0 first; rounds are interleaved."""
    isa, body = isa_named("x86_64"), bytes.fromhex(BODIES[name])
    isas = [replace(isa, revision=revision) for revision in range(isa.revision + 1)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "guest"
        program(path, body, 1)
        started = min(seconds(path, one) for one in isas for _ in range(2))
        program(path, body, _TRIED)
        each = max(seconds(path, isas[0]) - started, 1e-3) / _TRIED
        program(path, body, max(1, int(lasting / each)))
        runs = [[seconds(path, one) for one in isas] for _ in range(rounds)]
    return [min(of_one) - started for of_one in zip(*runs, strict=True)]


def main(console: Console) -> None:
    """Print the table."""
    last = isa_named("x86_64").revision
    table = Table(
        "corrections",
        "What corrections cost: processor seconds of `record`, a program full of each",
        [
            Column("instructions"),
            *(Column(f"revision {revision}", ".2f") for revision in range(last + 1)),
            Column(f"{last} over 0", ".2f"),
        ],
        notes=[f"Least of {_ROUNDS} interleaved rounds, without the recorder's start, one core."],
    )
    for name in BODIES:
        times = measured(name)
        table.add(name, *times, times[-1] / times[0])
    publish("corrections", [table], console)
