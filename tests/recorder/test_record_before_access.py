"""What the emulator does before an access, or before an instruction fails, is undone or comes later: MMX
instructions with an operand in memory, old x87 exceptions, `ins`."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import DATA, Code, elf, run_many_ways

from bench.soak import examine
from corebraid.base.rows.event import WRITE
from emu.hooks.x86_64.helpers.translation.entering_mmx import is_there
from recorder.files.reader import iter_image
from recorder.replay.traces import RecordingTraces

#: Loads and stores of all sizes, arithmetic, conversions (which are not all MMX instructions), a store that
#: is a call in the generated code, SSSE3.
FORMS = (
    "0f 6f 1e", "0f 7f 1e", "0f e7 1e", "0f 6e 1e", "48 0f 6e 1e", "0f 7e 1e", "48 0f 7e 1e", "0f fc 1e",
    "0f 60 1e", "0f 70 1e 1b", "0f c4 1e 02", "0f d1 1e", "0f 2a 1e", "66 0f 2a 1e", "0f 2c 1e", "0f 2d 1e",
    "66 0f 2c 1e", "66 0f 2d 1e", "0f f7 d9", "0f 38 00 1e", "0f 3a 0f 1e 03",
)  # fmt: skip


def write(path: Path, instruction: str) -> Path:
    """Twice in one block: two numbers on the stack, the instruction, everything stored."""
    code = Code().mov("rsi", DATA + 0x2000).mov("rdi", DATA + 0x2100)
    for place in (DATA, DATA + 0x200):
        code.raw("db e3 d9 e8 d9 e8").raw(instruction).emit("0f ae", 0, place)
    return elf(path / "guest.elf", code.power_off(0))


@pytest.mark.parametrize("instruction", FORMS)
@pytest.mark.sampled(3)
def test_the_stack_is_the_same_wherever_a_slice_ends(instruction: str, tmp_path: Path) -> None:
    ends = set()
    for run in run_many_ways(write(tmp_path, instruction), tmp_path, 1):
        assert run.outcome.end.reason == "power-off"
        examine(run.path, order=False)
        ends.add(dict(iter_image(run.recording, "final"))[DATA])
    assert len(ends) == 1
    (memory,) = ends
    converts_from_memory = instruction.removeprefix("66 ") == "0f 2a 1e"
    for saved in (memory[:0x200], memory[0x200:0x400]):
        top, valid = saved[3] >> 3 & 7, saved[4]
        assert (top, valid) == ((6, 0xC0) if converts_from_memory else (0, 0xFF))


@pytest.mark.parametrize(
    ("opcode", "modrm", "there"),
    [(0x71, 0xD0, True), (0x71, 0xD8, False), (0x73, 0xD0, True), (0x73, 0xE0, False), (0x72, 0x10, False),
     (0xE7, 0x10, True), (0xE7, 0xC0, False), (0xD7, 0x00, False), (0xD7, 0xC0, True), (0x0F, 0xC0, False),
     (0x6F, 0x00, True), (0x6F, 0xC0, True)],
)  # fmt: skip
def test_which_opcodes_there_are(opcode: int, modrm: int, there: bool) -> None:
    assert is_there.py_func(opcode, modrm, modrm >> 6 != 3) == there


#: What is loaded into the control word has reserved bits clear, and unmasks an exception that has been.
LOADS = ("d9 26", "dd 26", "0f ae 0e")


@pytest.mark.parametrize("load", LOADS)
def test_words_are_the_same_where_an_instruction_fails_with_an_old_exception(
    load: str, tmp_path: Path
) -> None:
    """`fldenv`, `frstor`, `fxrstor`; a jump to an instruction that waits, which a replay does not reach."""
    code = Code().mov("rsi", DATA + 0x400)
    code.raw("db e3 0f ae 06 66 c7 06 00 00 66 c7 46 04 04 00")
    if load == "0f ae 0e":
        code.raw("66 c7 46 02 04 00 c7 46 18 80 1f 00 00")
    code.raw(load).jump("next").label("next").raw("9b")
    for run in run_many_ways(elf(tmp_path / "guest.elf", code.power_off(0)), tmp_path, 1):
        assert run.outcome.end.reason == "fault"
        assert "x87 error" in run.outcome.end.text
        examine(run.path, order=False)


@pytest.mark.parametrize("model", ["sc", "tso"])
@pytest.mark.parametrize("instruction", ["6c", "66 6d", "6d", "f3 6c"])
@pytest.mark.sampled(3)
def test_what_is_read_from_a_port_is_stored_once(instruction: str, model: str, tmp_path: Path) -> None:
    """The emulator's translator tries the store before."""
    code = Code().mov("rdi", DATA + 0x400).mov("rcx", 5).mov("rdx", 0x60).raw(instruction)
    options = {"model": "tso", "store_buffer": 8} if model == "tso" else {}
    for run in run_many_ways(elf(tmp_path / "guest.elf", code.power_off(0)), tmp_path, 1, **options):
        assert run.outcome.end.reason == "power-off"
        examine(run.path)
        stores = [
            event
            for stream in RecordingTraces(run.recording).streams()
            for rows in stream
            for event in rows
            if int(event["addr"]) >> 12 == DATA >> 12 and event["kind"] == WRITE
        ]
        assert len(stores) == (5 if instruction == "f3 6c" else 1)
