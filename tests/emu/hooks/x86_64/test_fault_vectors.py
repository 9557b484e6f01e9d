"""What a processor refuses, against the processor of this host: signal, code, address, every register."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fault_vectors import FaultVectors, Told
from guest import DATA, TEXT, Code
from static_guest import call, record_linux_guest, static_program
from vectors import NATIVE, host_flags

import corebraid
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay, replay_core

#: By what they are: bytes. Registers but rsp are `ROOM` at their beginning.
SEQUENCES = {
    "ud2": "0f 0b", "hlt": "f4", "cli": "fa", "in": "e4 10", "rdmsr": "0f 32", "sysret": "48 0f 07",
    "sysretl": "0f 07", "sysexit": "0f 35", "int3": "cc", "int 3": "cd 03", "int 4": "cd 04",
    "int 1": "cd 01", "int 0": "cd 00", "int 0d": "cd 0d", "int 0e": "cd 0e", "int 20": "cd 20",
    "int ff": "cd ff", "int 6": "cd 06", "int 8": "cd 08", "int 10": "cd 10", "div": "31 c9 f7 f1",
    "xlat null": "31 db b0 05 d7", "xlat noncanon": "48 bb fe ff ff ff ff 7f 00 00 b0 05 d7",
    "null load": "31 c9 48 8b 01", "null store": "31 c9 48 89 01", "xchg null": "31 c9 48 87 01",
    "xadd null": "31 c9 48 0f c1 01", "cmpxchg null": "31 c9 48 0f b1 01",
    "lock add null": "31 c9 f0 48 01 01", "add null": "31 c9 48 01 01", "inc null": "31 c9 48 ff 01",
    "bts null": "31 c9 48 0f ab 01", "shl null": "31 c9 48 d1 21", "sub read null": "31 c9 48 2b 01",
    "not null": "31 c9 f7 11", "cmpxchg8b null": "31 c9 0f c7 09", "cmpxchg16b null": "31 c9 48 0f c7 09",
    "setz null": "31 c9 0f 94 01", "push null": "31 c9 ff 31", "pop null": "31 c9 8f 01",
    "movs to null": "31 ff a4", "movs from null": "31 f6 a4", "cmps null": "31 f6 a6",
    "movs both null": "31 f6 31 ff 83 c7 63 a4", "rep movs both null": "31 f6 31 ff ff c7 b1 09 f3 48 a5",
    "cmpps null": "31 c9 0f c2 01 06", "cmpordps null": "31 c9 0f c2 01 07",
    "cmpordpd null": "31 c9 66 0f c2 01 07", "cmpordss null": "31 c9 f3 0f c2 01 07",
    "maskmovdqu null": "31 ff 83 c7 64 66 0f 74 c9 66 0f f7 c1",
    "maskmovq null": "31 ff 83 c7 64 0f 74 c9 0f f7 c1",
    **{f"fcmov {modrm} failed": f"db e3 c7 00 7b 03 00 00 d9 28 d9 e8 d9 ee de f1 b8 05 00 00 00 "
       f"83 f8 06 {opcode} {modrm}"
       for opcode, modrm in (("da", "d8"), ("da", "c8"), ("da", "d0"), ("db", "c0"), ("db", "d8"))},
    "xbegin": "c7 f8 00 00 00 00", "xabort": "c6 f8 01", "incsspd": "f3 0f ae e8",
    **{f"{prefix} 0f ae {modrm}": f"{prefix} 0f ae {modrm}" for prefix in ("66", "f3", "f2", "66 48")
       for modrm in ("00", "08", "10", "18", "e8", "f0", "f8")},
    **{f"{prefix} movnti": f"{prefix} 0f c3 08" for prefix in ("66 48", "f3 48", "f2 48", "66", "f3")},
    **{text: text for text in ("66 48 0f 12 c1", "66 48 0f 16 c1", "66 0f 12 c1", "66 0f 13 c1", "0f 17 c1",
                               "f2 0f 16 c1", "f3 0f 78 c1", "0f 79 c1")},
    "rex before 66": "48 66 0f ae 10", "wbnoinvd": "f3 0f 09", "wbnoinvd with REX": "f3 48 0f 09",
    "umonitor": "f3 0f ae f0", "umwait": "f2 0f ae f0", "tpause": "66 0f ae f0",
    "fld of nothing": f"db e3{8 * ' d9 e8'} dd c3 d9 c3 df e0 0f 0b", "stos null": "31 ff aa",
    "rep movs from null": "31 f6 b9 04 00 00 00 f3 a4", "call null": "31 c9 ff d1",
    "jmp null": "31 c9 ff e1", "ret null": "6a 00 c3",
    "noncanon load": "48 b9 00 00 00 00 00 80 00 00 48 8b 01",
    "noncanon store": "48 b9 00 00 00 00 00 80 00 00 48 89 01",
    "noncanon rsp load": "48 bc 00 00 00 00 00 80 00 00 48 8b 04 24",
    "noncanon rbp load": "48 bd 00 00 00 00 00 80 00 00 48 8b 45 00",
    "noncanon r13": "49 bd 00 00 00 00 00 80 00 00 49 8b 45 00",
    "push noncanon": "48 bc 00 00 00 00 00 80 00 80 50", "pop noncanon": "48 bc 00 00 00 00 00 80 00 00 58",
    "call noncanon stack": "48 bc 00 00 00 00 00 80 00 80 e8 00 00 00 00",
    "ret noncanon stack": "48 bc 00 00 00 00 00 80 00 80 c3",
    "rbp ds override": "48 bd 00 00 00 00 00 80 00 00 3e 48 8b 45 00",
    "rsp index base rax": "48 b8 00 00 00 00 00 80 00 00 48 8b 04 20",
    "rax base rbp index": "48 bd 00 00 00 00 00 80 00 00 48 8b 04 28",
    "rbp base": "48 b8 00 00 00 00 00 80 00 00 48 8b 44 05 00",
    "leave noncanon": "48 bd 00 00 00 00 00 80 00 00 c9",
    "enter noncanon": "48 bc 00 00 00 00 00 80 00 80 c8 10 00 00",
    "pushf noncanon": "48 bc 00 00 00 00 00 80 00 80 9c",
    "fs rbp": "48 bd 00 00 00 00 00 80 00 00 64 48 8b 45 00",
    "last page": "48 b9 ff ff ff ff ff 7f 00 00 48 8b 01",
    "last page byte": "48 b9 ff ff ff ff ff 7f 00 00 8a 01",
    "last page stack": "48 bc ff ff ff ff ff 7f 00 00 48 8b 04 24",
    "crossing neg": "48 b9 fc ff ff ff ff ff ff ff 48 8b 01",
    "kernel addr": "48 b9 00 00 00 00 00 80 ff ff 48 8b 01",
    "kernel addr w": "48 b9 00 00 00 00 00 80 ff ff 48 89 01",
    "jmp noncanon": "48 b9 00 00 00 00 00 80 00 00 ff e1",
    "call noncanon": "48 b9 00 00 00 00 00 80 00 00 ff d1",
    "ret noncanon": "48 b9 00 00 00 00 00 80 00 00 51 c3",
    "ret imm noncanon": "48 b9 00 00 00 00 00 80 00 00 51 c2 10 00",
    "jmp mem noncanon": "48 b9 00 00 00 00 00 80 00 00 51 ff 24 24",
    "call mem noncanon": "48 b9 00 00 00 00 00 80 00 00 51 ff 14 24",
    "jmp kernel": "48 b9 00 00 00 00 00 80 ff ff ff e1", "jmp last": "48 b9 00 f0 ff ff ff 7f 00 00 ff e1",
    "movq null": "db e3 d9 e8 d9 e8 31 c9 0f 6f 19", "movq to null": "db e3 d9 e8 31 c9 0f 7f 19",
    "movd null": "db e3 d9 e8 31 c9 0f 6e 19", "paddb null": "db e3 d9 e8 31 c9 0f fc 19",
    "movntq null": "db e3 d9 e8 31 c9 0f e7 19", "pinsrw null": "db e3 d9 e8 31 c9 0f c4 19 01",
    "pshufb null": "db e3 d9 e8 31 c9 0f 38 00 19", "cvtpi2ps null": "db e3 d9 e8 31 c9 0f 2a 19",
    "cvtps2pi null": "db e3 d9 e8 31 c9 0f 2d 19", "cvttpd2pi null": "db e3 d9 e8 31 c9 66 0f 2c 19",
    "movntq of a register": "db e3 d9 e8 0f e7 d9", "pmovmskb of memory": "db e3 d9 e8 0f d7 19",
    "a shift of memory": "db e3 d9 e8 0f 71 11 01", "a shift there is not": "db e3 d9 e8 0f 73 d9 01",
    "movq": "db e3 d9 e8 0f 6f 19 0f 0b", "movq2dq": "db e3 d9 e8 f3 0f d6 c9 0f 0b",
    "pextrw of memory": "db e3 d9 e8 0f c5 19 01", "rcl null": "31 c9 f9 48 d1 11",
    "rcr null": "31 c9 48 ff c9 c1 19 03", "rol null": "31 c9 c1 01 04",
    "rcl of code": "f9 48 d1 15 00 00 00 00", "rcr of code": "b1 03 48 d3 1d 00 00 00 00",
    **{f"{name} to code": f"{text} 05 20 00 00 00" for name, text in (
        ("movups", "0f 11"), ("movupd", "66 0f 11"), ("movntps", "0f 2b"), ("movntdq", "66 0f e7"),
        ("movnti", "48 0f c3"), ("movntq", "0f e7"), ("movlps", "0f 13"), ("movhpd", "66 0f 17"),
        ("movss", "f3 0f 11"), ("movq", "66 0f d6"), ("movd", "66 0f 7e"), ("setc", "0f 92"),
    )}, "stmxcsr to code": "0f ae 1d 20 00 00 00", "fst to code": "d9 15 20 00 00 00",
    "fistp to code": "df 1d 20 00 00 00", "fnstcw to code": "d9 3d 20 00 00 00",
    "pextrq to code": "66 48 0f 3a 16 05 20 00 00 00 01", "frstor null": "31 c9 dd 21",
    "extractps to code": "66 0f 3a 17 05 20 00 00 00 01",
    "no right at all": "48 8d bf 00 10 00 00 c6 07 01 be 00 10 00 00 31 d2 b8 0a 00 00 00 0f 05 8a 07",
    "rcl null by cl": "31 c9 48 ff c1 48 ff c9 d2 11",
    "mov ss 0": "31 c0 8e d0", "mov ss 2b": "b8 2b 00 00 00 8e d0", "mov ss 33": "b8 33 00 00 00 8e d0",
    "mov ss 28": "b8 28 00 00 00 8e d0", "mov ds 0": "31 c0 8e d8", "mov ds 10": "b8 10 00 00 00 8e d8",
    "mov ds 13": "b8 13 00 00 00 8e d8", "mov es ff": "b8 ff 00 00 00 8e c0",
    "mov fs ffff": "b8 ff ff 00 00 8e e0", "mov ds 7": "b8 07 00 00 00 8e d8",
    "mov ds 63": "b8 63 00 00 00 8e d8", "mov ds 53": "b8 53 00 00 00 8e d8", "mov cs": "8e c8",
    "cs": "8c c8", "ss": "8c d0", "ds": "8c d8", "fs": "8c e0", "lss": "0f b2 20",
    "lfs bad": "48 c7 00 ff 00 00 00 c7 40 04 7f 00 00 00 0f b4 08", "pop fs bad": "6a 7f 0f a1",
    "push fs": "0f a0 58", "iretq": "6a 2b 54 9c 6a 33 48 8d 05 03 00 00 00 50 48 cf 8c c8",
    "iretq badcs": "6a 2b 54 9c 6a 10 48 8d 05 03 00 00 00 50 48 cf 8c c8",
    "iretq badss": "6a 33 54 9c 6a 33 48 8d 05 03 00 00 00 50 48 cf 8c c8",
    "iretq noncanon": "6a 2b 54 9c 6a 33 48 b8 00 00 00 00 00 80 00 00 50 48 cf",
    "lretq": "6a 33 48 8d 05 03 00 00 00 50 48 cb 8c c8",
    "lretq imm": "68 44 44 44 44 6a 33 48 8d 05 05 00 00 00 50 48 ca 08 00 8c c8",
    "lretq bad": "6a 0b 48 8d 05 03 00 00 00 50 48 cb 8c c8",
    "lret32": "48 8d 05 11 00 00 00 89 44 24 f8 c7 44 24 fc 33 00 00 00 48 83 ec 08 cb 8c c8",
    "ljmp": "48 8d 05 13 00 00 00 89 44 24 f0 c7 44 24 f4 33 00 00 00 ff 6c 24 f0 cc cc cc 8c c8",
    "ljmp bad": "c7 44 24 f0 00 00 00 00 c7 44 24 f4 0b 00 00 00 ff 6c 24 f0",
    "AC ok": "68 00 00 04 00 9d 8b 4c 24 08 9c 58 6a 00 9d", "TF": "68 00 01 00 00 9d 90 90",
    "TF, ret to no address": "48 b9 00 00 00 00 00 80 00 00 51 68 00 01 00 00 9d c3",
    "TF, a jump to no address": "48 b9 00 00 00 00 00 80 00 00 68 00 01 00 00 9d ff e1",
    "f0 8b": "f0 8b 01", "16 bytes": "66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", "xop": "8f c8",
    "xop2": "8f c8 78 00 00", "8f /1": "8f 48 00", "lock nop": "f0 90", "lock add reg": "f0 01 c8",
    "salc": "d6", "06": "06", "0f 04": "0f 04", "0f ff": "0f ff c0",
    "ldmxcsr": "c7 00 00 00 01 00 0f ae 10", "fxsave unal": "0f ae 41 01",
    "fxrstor reserved": "0f ae 00 c7 40 18 80 1f 01 00 0f ae 08",
    "fxrstor64 reserved": "48 0f ae 00 c7 40 18 00 00 00 80 48 0f ae 08",
    "fxrstor": "0f ae 00 0f ae 08", "fxrstor unal": "0f ae 49 08",
    "int before ldmxcsr": "cd 20", "ldmxcsr after int": "c7 00 00 00 01 00 0f ae 10",
    "cmpxchg16b unal": "48 0f c7 49 01", "clts": "0f 06", "wbinvd": "0f 09", "mov cr0": "0f 20 c0",
    "mov dr": "0f 21 c0", "lmsw": "0f 01 f0", "invlpg": "0f 01 38", "swapgs": "0f 01 f8", "rdpmc": "0f 33",
    "monitor": "0f 01 c8", "rsm": "0f aa", "lgdt": "0f 01 10", "lldt": "0f 00 d0", "ltr": "0f 00 d8",
    "sti": "fb", "insb": "6c", "outsb": "6e", "popf if": "68 02 02 00 00 9d 9c 58",
    "iopl": "68 00 32 00 00 9d 9c 58", "bound": "62 00", "into": "ce", "fwait": "9b",
    "lock cmpxchg8b reg": "f0 0f c7 c9", "cmpxchg8b reg": "0f c7 c9", "lea reg": "8d c0",
    "nx jump": "48 b9 00 10 20 00 00 00 00 00 ff e1", "ro write": "48 b9 00 00 10 00 00 00 00 00 48 89 01",
    "ro rmw": "48 b9 00 00 10 00 00 00 00 00 48 01 01",
    "ro cmpxchg": "48 b9 00 00 10 00 00 00 00 00 48 0f b1 01",
    "lock bts": "f0 0f ab c8", "lock bt behind a store": "48 89 07 f0 48 0f a3 c1",
    "lock btr": "90 f0 0f ba f0 05",
    "rip of 32 bits": "67 01 0d 90 90 90 90",
    "a sum that wraps": "41 bb 00 ff ff ff b9 00 02 ff ff 67 41 01 04 0b",
    "a bit that wraps": "bf 08 00 00 00 b8 00 01 00 80 67 0f ab 07",
    "xlat of 32 bits": "48 bb 10 00 00 00 01 00 00 00 b0 05 67 d7",
    "fs base":
        "bf 02 10 00 00 48 be 00 70 56 34 12 00 00 00 b8 9e 00 00 00 0f 05 64 67 01 0f",
    "fs base, maskmovdqu": "66 0f 74 c9 67 64 66 0f f7 c1",
    "fs base, xlat": "48 bb 10 00 00 00 01 00 00 00 b0 05 67 64 d7",
    "fs base of before": "bf 02 10 00 00 31 f6 b8 9e 00 00 00 0f 05 31 ff 64 67 01 0f",
    "nested enter": "31 ed c8 00 00 03",
    "nested enter, last frame": "8d 6e 10 48 81 ed 00 10 00 00 c8 00 00 1f",
    "nested enter noncanon": "48 bd 00 00 00 00 00 80 00 00 c8 10 00 05",
    "lock btc": "66 f0 0f bb c1", "lock bts of memory": "31 c9 f0 0f ba 29 01",
}  # fmt: skip

#: What ends a recording, by what it says.
REFUSED = {
    "a switch to 32-bit code": ("6a 2b 54 9c 6a 23 6a 00 48 cf", "6a 23 6a 00 48 cb"),
    "a segment register loaded with a selector": (
        "b8 2b 00 00 00 8e d8", "b8 33 00 00 00 8e c0", "b8 7b 00 00 00 8e e0", "b8 03 00 00 00 8e e8",
    ),
    "an instruction that would be computed wrongly": (
        "0f 00 e0", "0f 00 e8", "0f 02 c0", "0f 03 c0", "0f 01 e0", "0f 00 c8", "0f 00 c0", "0f 01 00",
        "0f 01 08", "66 f3 0f 58 c1", "66 f2 0f 10 07", "f3 f2 0f 58 c1", "66 48 f3 0f 6f 07",
        "65 26 48 8b 07", "64 66 2e 8b 07", "66 f2 0f 38 1c c1", "48 9f", "40 9e", "66 4f 9f", "d9 d8",
        "44 0f 38 00 ca",
        "4d 0f 38 1e ca", "44 0f 3a 0f ca 03", "48 0f a4 05 00 00 00 00 04", "0f ac 0d 00 00 00 00 01",
        "c2 10 80", "66 c8 10 00 00",
        "44 c6 c3 80", "44 c7 c0 05 00 00 80", "66 45 c7 c3 10 00", "47 c7 07 05 00 00 80",
        "f2 f3 0f b8 c1", "f3 f2 0f 38 f0 c1", "f3 66 f2 0f 38 f1 c1",
        "d9 df", "f6 c8 01", "f7 0f 01 00 00 00", "48 0f b2 00", "4c 0f b4 00", "66 48 0f b5 00",
        "f3 45 90", "f3 49 90",
    ),
}  # fmt: skip


#: What processors do each in its way (docs/processor.md): which byte of an operand is told; TOP after a store
#: of MMX that failed.
_LEFT_OPEN = {
    "maskmovdqu null": "address", "fs base, maskmovdqu": "address",
    "movq to null": "x87", "movntq null": "x87",
}  # fmt: skip
#: What there is where CPUID offers it.
_WITH_RTM = ("xbegin", "xabort") if "rtm" in host_flags() else ()


def differences(name: str, ours: Told, theirs: Told) -> list[str]:
    """Those that count."""
    left_open = _LEFT_OPEN.get(name, "none")
    return [one for one in ours.differences(theirs) if not one.startswith(f"{left_open}:")]


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one refuses")
def test_signals_are_those_of_the_processor(tmp_path: Path) -> None:
    vectors = FaultVectors(tmp_path, list(SEQUENCES.values()))
    told = zip(vectors.run_recorded(tmp_path / "rec"), vectors.run_natively(), strict=True)
    found = dict(zip(SEQUENCES, told, strict=True))
    different = {name: differences(name, *both) for name, both in found.items() if name not in _WITH_RTM}
    assert not {name: what for name, what in different.items() if what}
    # It compares something: most of them are refused, by four signals.
    signals = [theirs.signal for _, theirs in found.values()]
    assert signals.count(0) < len(signals) // 6
    assert set(signals) >= {0, 4, 5, 7, 8, 11}


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one refuses")
@pytest.mark.parametrize(
    "options",
    [{"bus": "mesi", "slice": 1}, {"bus": "mesi", "slice": 3}, {"model": "tso", "slice": 1}],
    ids=str,
)
def test_where_slices_end_changes_nothing(options: dict[str, object], tmp_path: Path) -> None:
    """A slice may end inside an instruction that is refused then."""
    chosen = [name for name in SEQUENCES if not name.startswith(("16", "TF", *_WITH_RTM))][::3]
    chosen += ["iretq badcs", "iretq badss", "lretq bad", "ljmp bad", "pop fs bad"] * 5
    vectors = FaultVectors(tmp_path, [SEQUENCES[name] for name in chosen])
    told = zip(chosen, vectors.run_recorded(tmp_path / "rec", **options), vectors.run_natively(), strict=True)
    different = {name: differences(name, ours, theirs) for name, ours, theirs in told}
    assert not {name: what for name, what in different.items() if what}
    replay_core(Recording.open(tmp_path / "rec"), 0)


def test_they_are_replayed(tmp_path: Path) -> None:
    vectors = FaultVectors(tmp_path, list(SEQUENCES.values()))
    vectors.run_recorded(tmp_path / "rec")
    assert all(True for _ in CoreReplay(Recording.open(tmp_path / "rec"), 0).run())


def test_where_the_last_x87_instruction_was_survives_a_fault(tmp_path: Path) -> None:
    """`fxsave64` stores it; it is in no context header."""
    FaultVectors(tmp_path, ["dd 00 dd 18", "cd 29", "48 0f ae 00"]).run_recorded(tmp_path / "rec")
    assert all(True for _ in CoreReplay(Recording.open(tmp_path / "rec"), 0).run())


def test_a_difference_is_found() -> None:
    """The comparison sees each field."""
    registers = (("rip", 1), ("error", 4))
    told = Told(11, 1, 0, registers)
    others = (Told(7, 1, 0, registers), Told(11, 2, 0, registers), Told(11, 1, 8, registers),
              Told(11, 1, 0, (("rip", 1), ("error", 6))))  # fmt: skip
    assert [len(told.differences(other)) for other in others] == [1, 1, 1, 1]


def test_a_debugger_that_is_asked_for(tmp_path: Path) -> None:
    """SIGTRAP after `int1` (SDM volume 2, INT1). Virtual machines may tell where it begins."""
    vectors = FaultVectors(tmp_path, ["90 f1 90", "66 f1"])
    plain, prefixed = vectors.run_recorded(tmp_path / "rec")
    for told, length in ((plain, 2), (prefixed, 2)):
        registers = dict(told.registers)
        assert (told.signal, told.code, registers["trap"], registers["error"]) == (5, 1, 1, 0)
        assert told.address == registers["rip"]
        code = vectors.program.read_bytes()[4096:]
        at = registers["rip"] - 0x100000
        assert code[at - length : at].endswith(b"\xf1")


@pytest.mark.parametrize(
    ("what", "text"), [(what, text) for what, texts in REFUSED.items() for text in texts]
)
def test_what_is_refused_is_named(what: str, text: str, tmp_path: Path) -> None:
    path = record_linux_guest(call(Code().raw(text), 231, rdi=0), tmp_path, "sc")
    end = Recording.open(path).manifest.end
    assert end is not None
    assert end.reason == "fault"
    assert what in end.text


@pytest.mark.parametrize(
    "text",
    ["0f 01 d0", "0f ae 20", "48 0f ae 28", "0f ae 30", "0f ae 28", "0f 34", "66 0f 78 c1 08 08",
     "f2 0f 78 c1 08 08", "66 0f 79 c1", "f2 48 0f 79 c1", "f3 0f 2b 00", "f2 0f 2b 00", "66 0f ae 30",
     "66 0f ae 38", "f3 0f ae c0"],
)  # fmt: skip
def test_what_cpuid_does_not_offer_is_illegal(text: str, tmp_path: Path) -> None:
    """xgetbv, xsave, xrstor64, xsaveopt, xrstor, sysenter in 64-bit code; extrq, insertq, movntss, movntsd:
    the emulator has them; clwb, clflushopt, rdfsbase."""
    code = Code().mov("rcx", 0).mov("rax", DATA + 64).raw(text)
    end = Recording.open(record_linux_guest(call(code, 231, rdi=0), tmp_path, "sc")).manifest.end
    assert end is not None
    assert end.exit_code == 128 + 4


@pytest.mark.parametrize(
    ("first", "then", "signal"), [("0f 34", "f4 90", 11), ("f0", "f4", 11), ("f4", "f0", 4), ("fa", "f0", 4)]
)
def test_what_is_refused_later_is_refused_for_its_own_sake(
    first: str, then: str, signal: int, tmp_path: Path
) -> None:
    """A privileged instruction where an illegal one stood, or the other way round."""
    code = Code()
    code.jump("begin").label("handler").lea("rcx", "target")
    for k, byte in enumerate(bytes.fromhex(then)):
        code.raw(f"c6 41 {k:02x} {byte:02x}")  # mov byte [rcx + k], byte
    code.mov("rdx", DATA + 0x80).raw("ff 02 83 3a 02").jump_if("nz", "return").mov("rax", 231).raw("0f 05")
    code.label("return").raw("c3").label("restorer").mov("rax", 15).raw("0f 05").label("begin")
    call(code, 10, rdi=TEXT, rsi=4096, rdx=7)
    for offset, value in ((0, code.address("handler")), (8, 0x44000000), (16, code.address("restorer"))):
        code.mov("rax", value).store(DATA + offset, "rax")
    for number in (4, 11):
        call(code, 13, rdi=number, rsi=DATA, rdx=0, r10=8)
    code.label("target").raw(first).raw("90 90").mov("rax", 231).mov("rdi", 99).raw("0f 05")
    program = static_program(tmp_path / "guest", code)
    done = corebraid.record(program, tmp_path / "rec", cores=1, guest="linux", system=False, limit=200_000)
    assert done.end.exit_code == signal
    replay_core(Recording.open(tmp_path / "rec"), 0)


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize(
    ("first", "signal"), [("f0", 4), ("fa eb", 11), ("0f 01 d0", 4), ("0f 0b", 4)],
    ids=["a prefix", "cli", "xgetbv", "ud2"],
)  # fmt: skip
def test_what_was_refused_is_not_for_ever(first: str, signal: int, model: str, tmp_path: Path) -> None:
    """A handler writes something else there, and the program goes on."""
    code, length = Code(), len(bytes.fromhex(first))
    code.jump("begin").label("handler").lea("rcx", "target")
    for k in range(length):
        code.raw(f"c6 41 {k:02x} 90")  # mov byte [rcx + k], 0x90
    code.raw("c3").label("restorer").mov("rax", 15).raw("0f 05").label("begin")
    call(code, 10, rdi=TEXT, rsi=4096, rdx=7)
    for offset, value in ((0, code.address("handler")), (8, 0x44000000), (16, code.address("restorer"))):
        code.mov("rax", value).store(DATA + offset, "rax")
    call(code, 13, rdi=signal, rsi=DATA, rdx=0, r10=8)
    code.mov("rax", 1).mov("rbx", 3).label("again").call("target").add("rbx", -1).jump_if("nz", "again")
    code.emit("89", "rax", "rdi").mov("rax", 231).raw("0f 05")
    code.label("target").raw(first).raw("01 c0 c3")  # add eax, eax; ret
    program = static_program(tmp_path / "guest", code)
    done = corebraid.record(
        program, tmp_path / "rec", cores=2, model=model, guest="linux", system=False, limit=200_000
    )
    assert done.end.exit_code == 8
    for core in range(2):
        replay_core(Recording.open(tmp_path / "rec"), core)


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize(
    "stepped", ["0f 05", "b9 03 00 00 00 f3 a4", "b9 03 00 00 00 f3 aa f3 a6", "b9 04 00 00 00 e2 fe"],
    ids=["a system call", "rep movs", "rep stos, repe cmps", "loop"],
)  # fmt: skip
def test_single_steps_replay(stepped: str, model: str, tmp_path: Path) -> None:
    """The trap comes behind the instruction that follows a call, as natively; behind each repetition."""
    code = Code().jump("begin").label("handler").emit("ff", 0, DATA + 256).raw("c3")
    code.label("restorer").mov("rax", 15).raw("0f 05").label("begin")
    for offset, value in ((0, code.address("handler")), (8, 0x04000000), (16, code.address("restorer"))):
        code.mov("rax", value).store(DATA + offset, "rax")
    call(code, 13, rdi=5, rsi=DATA, rdx=0, r10=8)
    code.mov("rsp", DATA + 0x8000).mov("rbx", 3).label("again").mov("rax", 39)
    code.mov("rsi", DATA + 0x400).mov("rdi", DATA + 0x600)
    code.raw(f"9c 81 0c 24 00 01 00 00 9d {stepped} 90 90 9c 81 24 24 ff fe ff ff 9d")
    code.loop("rbx", "again").load("rdi", DATA + 256).mov("rax", 231).raw("0f 05")
    program = static_program(tmp_path / "guest", code)
    done = corebraid.record(program, tmp_path / "rec", cores=2, model=model, guest="linux", system=False)
    traps = done.end.exit_code
    assert traps is not None
    assert traps > 9
    if NATIVE:
        assert traps == subprocess.run([program], check=False).returncode
    for core in range(2):
        replay_core(Recording.open(tmp_path / "rec"), core)
    assert corebraid.verify(tmp_path / "rec").facts()["sound"]


def test_alignment_checks_are_told_of(tmp_path: Path) -> None:
    """A program that sets EFLAGS.AC goes on as without; the recording says so."""
    code = Code().raw("68 00 00 04 00 9d").load("rax", DATA + 1)
    path = record_linux_guest(call(code, 231, rdi=0), tmp_path, "sc")
    assert Recording.open(path).manifest.totals["omitted"] == "alignment checks (EFLAGS.AC)"


def test_interrupts_are_on_and_stay_so(tmp_path: Path) -> None:
    """A program sees them enabled, and cannot change that, nor its I/O privilege level."""
    vectors = FaultVectors(tmp_path, ["9c 58", "6a 00 9d 9c 58", "68 00 32 00 00 9d 9c 58"])
    flags = [dict(told.registers)["rax"] for told in vectors.run_recorded(tmp_path / "rec")]
    assert flags == [0x202, 0x202, 0x202]
