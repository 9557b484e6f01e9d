"""The flags behind cmpxchg8b and cmpxchg16b: ZF is theirs, all others are as they were (SDM volume 2)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from guest import DATA, Code, elf, run_guest, run_many_ways
from static_guest import call, static_program

import corebraid
from bench.soak import examine
from recorder.files.reader import iter_image

CARRY, ZERO_FLAG = 1, 0x40
#: Ways to set flags, each from rcx = 2, r9 = 9, rdx = 5.
WAYS = (
    "48 83 c1 01", "48 83 e9 03", "48 83 c1 ff", "48 83 c8 ff", "48 39 c1", "0f a3 c1", "48 ff c1",
    "48 f7 d9", "4d 0f af c9", "f9", "f8", "4c 11 c9", "0f 2e c0", "d3 e1", "48 d3 f9", "31 c9", "48 d1 e9",
)  # fmt: skip


def write(path: Path, exchange: str) -> Path:
    """Every way twice from the same registers: alone, then with `exchange` behind it; flags go to DATA."""
    code = Code().mov("rsp", DATA + 0x8000).mov("rsi", DATA + 0x400)
    for number, way in enumerate(WAYS):
        for half, then in enumerate(("", exchange)):
            for register, value in (("rcx", 2), ("r9", 9), ("rdx", 5), ("rax", 0)):
                code.mov(register, value)
            code.raw("48 39 f6").raw(way).raw(then).raw("9c").emit("8f", 0, DATA + 16 * number + 8 * half)
    return elf(path / "flags.elf", code.power_off(0))


@pytest.mark.parametrize("exchange", ["f0 48 0f c7 0e", "48 0f c7 0e", "f0 0f c7 0e", "0f c7 0e"])
@pytest.mark.sampled(1)
def test_flags_but_zf_are_left_alone(exchange: str, tmp_path: Path) -> None:
    for run in run_many_ways(write(tmp_path, exchange), tmp_path, 1):
        assert run.outcome.end.reason == "power-off"
        examine(run.path, order=False)
        words = struct.unpack("<512Q", dict(iter_image(run.recording, "final"))[DATA])
        for number, way in enumerate(WAYS):
            alone, behind = words[2 * number : 2 * number + 2]
            # rdx is 5 and memory 0: not equal the first time; then rdx holds what was found.
            assert behind == alone & ~ZERO_FLAG, f"{way}: {alone:#x}, then {behind:#x}"


def test_flags_are_right_by_whatever_way_the_core_comes(tmp_path: Path) -> None:
    """The exchange lies inside a block the first time; then a jump leads to it, then it is run into again."""
    code = Code().mov("rsp", DATA + 0x8000).mov("rsi", DATA + 0x400).mov("rdx", 5).mov("r12", 6)
    code.mov("r13", DATA).label("again").mov("rcx", 2).raw("48 39 f6  49 f7 c4 01 00 00 00")  # test r12, 1
    code.jump_if("nz", "far").raw("48 83 c1 01").label("exchange").raw("f0 48 0f c7 0e  9c")
    code.emit("8f", 0, ("r13", 0)).add("r13", 8).loop("r12", "again").power_off(0)
    code.label("far").raw("48 83 c1 01").jump("exchange")
    for run in run_many_ways(elf(tmp_path / "guest.elf", code), tmp_path, 1):
        examine(run.path, order=False)
        words = struct.unpack("<512Q", dict(iter_image(run.recording, "final"))[DATA])
        # 2 + 1 = 3 has even parity. rdx is 5, then what was found, 0; memory is then 3, as is rdx at last.
        assert [word & 0x8D5 for word in words[:6]] == [0x04, 0x44, 0x04, 0x44, 0x44, 0x44]


#: `setcc` to memory, all conditions, a few operands; rotations through the carry flag.
BROKEN_OFF = (
    *(f"0f {opcode:02x} 06" for opcode in range(0x90, 0xA0)), "0f 9c 46 40", "41 0f 97 06",
    "48 d1 16", "48 d3 1e", "c0 16 03", "48 c1 1e 05",
)  # fmt: skip


@pytest.mark.parametrize("instruction", BROKEN_OFF)
@pytest.mark.sampled(2)
def test_flags_survive_a_slice_that_ends_at_the_store(instruction: str, tmp_path: Path) -> None:
    """What works flags out, or changes them, before it stores, is taken back and run again, or is not."""
    ends = set()
    for run in run_many_ways(write(tmp_path, instruction), tmp_path, 1):
        examine(run.path, order=False)
        ends.add(dict(iter_image(run.recording, "final"))[DATA])
    assert len(ends) == 1


def undefined(path: Path, test: str) -> Path:
    """Ways to set all flags, a bit test behind each, the flags to DATA."""
    code = Code().mov("rsp", DATA + 0x8000).mov("rdi", DATA + 0x400)
    for number, (value, way) in enumerate(OVERFLOWING):
        code.mov("rcx", value).mov("rdx", 5).raw(way).raw(test).raw("9c").emit("8f", 0, DATA + 8 * number)
    return elf(path / "undefined.elf", code.power_off(0))


#: With and without overflow and auxiliary carry: rcx before, an instruction.
_MOST = (1 << 63) - 1
OVERFLOWING = (
    (_MOST, "48 83 c1 01"), (_MOST + 1, "48 83 e9 01"), (8, "48 83 c1 08"), (_MOST, "48 ff c1"),
    (_MOST + 1, "48 f7 d9"), (_MOST, "48 d1 e1"), (_MOST + 1, "48 d1 f9"), (3, "48 0f af c9"),
    (_MOST, "f9 48 83 d1 00"), (0, "f9 48 83 d9 00"), (7, "48 85 c9"), (7, "31 c9"),
    (_MOST, "f3 48 0f b8 c9"),
)  # fmt: skip


@pytest.mark.parametrize("test", ["0f a3 d1", "48 0f ab d1", "0f b3 17", "0f ba e9 05", "f0 0f ba 37 05"])
def test_a_bit_test_leaves_undefined_flags_wherever_a_slice_begins(test: str, tmp_path: Path) -> None:
    """As processors do."""
    ends = set()
    for run in run_many_ways(undefined(tmp_path, test), tmp_path, 1):
        examine(run.path, order=False)
        ends.add(dict(iter_image(run.recording, "final"))[DATA][: 8 * len(OVERFLOWING)])
    assert len(ends) == 1
    undisturbed = run_guest(undefined(tmp_path, "0f 1f 00"), tmp_path / "without", 1)
    without = dict(iter_image(undisturbed.recording, "final"))[DATA]
    words = (struct.unpack_from(f"<{len(OVERFLOWING)}Q", data) for data in (ends.pop(), without))
    for way, found, before in zip(OVERFLOWING, *words, strict=True):
        assert found & ~CARRY == before & ~CARRY, way


#: Between what sets flags and what asks for them: nothing, or a branch to what follows, so that this begins
#: a block and its flags are not worked out. `lahf` behind it leaves the block to the decoder.
APART = ("", "eb 00", "7f 00", "7c 00", "77 00")


def by_way(condition: int, apart: str) -> Code:
    """Each way of setting flags, the flags; the same, then `setcc` to a page that nobody has touched, then
    the flags."""
    code = Code().mov("r15", DATA).mov("rsp", DATA + 0x8000)
    for number, way in enumerate(WAYS):
        call(code, 9, rdi=0, rsi=4096, rdx=3, r10=0x22, r8=(1 << 64) - 1, r9=0)
        code.raw("49 89 c6")
        for half, store in enumerate(("", f"{apart} 41 0f {0x90 | condition:02x} 06 9f")):
            for register, value in (("rcx", 2), ("r9", 9), ("rdx", 5), ("rax", 0)):
                code.mov(register, value)
            code.raw("48 39 f6").raw(way).raw(store).raw("9c 58").store(
                ("r15", 24 * number + 8 * half), "rax"
            )
        code.load("rax", ("r14", 0)).store(("r15", 24 * number + 16), "rax")
    call(code, 1, rdi=1, rsi=DATA, rdx=24 * len(WAYS))
    return call(code, 231, rdi=0)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("apart", APART)
@pytest.mark.parametrize("condition", [0, 2, 4, 6, 8, 10, 12, 15])
def test_the_first_store_to_a_page_has_the_flags_before_it(
    condition: int, apart: str, tmp_path: Path
) -> None:
    """The page is brought, and the instruction runs again."""
    program = static_program(tmp_path / "guest", by_way(condition, apart))
    said = bytearray()
    corebraid.record(program, tmp_path / "rec", cores=1, guest="linux", output=said.extend)
    words = struct.unpack(f"<{3 * len(WAYS)}Q", bytes(said))
    for way, before, flags, stored in zip(WAYS, words[::3], words[1::3], words[2::3], strict=True):
        assert flags == before, f"{way}: {flags:#x}"
        assert stored == holds(condition, flags), f"{way}: {flags:#x}"


def holds(condition: int, flags: int) -> bool:
    """Whether a condition does (SDM volume 1, appendix B), from flags after it."""
    carry, parity, zero, sign, overflow = (bool(flags >> bit & 1) for bit in (0, 2, 6, 7, 11))
    pairs = (overflow, carry, zero, carry or zero, sign, parity, sign != overflow, zero or sign != overflow)
    return pairs[condition >> 1] != bool(condition & 1)
