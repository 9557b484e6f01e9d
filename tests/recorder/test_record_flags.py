"""The flags behind cmpxchg8b and cmpxchg16b: ZF is theirs, all others are as they were (SDM volume 2)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from guest import DATA, Code, elf, run_many_ways

from bench.soak import examine
from recorder.files.reader import iter_image

ZERO_FLAG = 0x40
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
