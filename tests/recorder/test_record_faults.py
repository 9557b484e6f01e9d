"""Guests that fail, in every way there is: the recording is complete up to the failing instruction, names
it, and replays and orders like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from guest import DATA, DEVICES, EXECUTE, INT_HANDLER, READ, TEXT, TIMER_PERIOD, Code, elf, run_guest

from bench.soak import examine
from emu.bus.names import MESI, PAGE
from recorder.files.reader import iter_image

READ_ONLY = 0x300000
TOP = (4 << 20) - 0x1000


def _null(code: Code) -> None:
    code.load("rax", ("r8", 0x10))


def _unmapped(code: Code) -> None:
    code.mov("rax", 0x3F00000).store(("rax", 8), "rcx")


def _beyond(code: Code) -> None:
    code.mov("rax", 1 << 40).emit("01", "rcx", ("rax", 0))


def _ud2(code: Code) -> None:
    code.raw("0f 0b")


def _ud2_first_in_its_line(code: Code) -> None:
    code.jump("bad").align(64).label("bad").raw("0f 0b")


def _divide(code: Code) -> None:
    code.raw("31 c9 48 f7 f1")


def _read_only(code: Code) -> None:
    code.emit("ff", 0, READ_ONLY)


def _locked_read_only(code: Code) -> None:
    code.emit("ff", 0, READ_ONLY, prefix="f0")


def _text_of_data(code: Code) -> None:
    code.mov("rax", DATA + 0x100).raw("ff e0")


def _nowhere(code: Code) -> None:
    code.mov("rax", 0x3000000).raw("ff e0")


def _far_nowhere(code: Code) -> None:
    code.mov("rax", 0x7FFF_0000_0000).raw("ff d0")


def _vex_in_the_middle(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("c5 f8 58 c0")  # vaddps xmm0, xmm0, xmm0


def _interrupt(code: Code) -> None:
    code.raw("cd 80")


def _int3(code: Code) -> None:
    code.raw("cc")


def _syscall(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("0f 05")


def _sysenter(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("0f 34")


def _over_the_end_of_memory(code: Code) -> None:
    code.mov("rax", TOP + 0xFFC).store(("rax", 0), "rcx")


def _read_over_the_end_of_memory(code: Code) -> None:
    code.mov("rax", TOP + 0xFFC).load("rcx", ("rax", 0))


def _into_the_next_page(code: Code) -> None:
    code.mov("rax", DATA + 0xFFFD).store(("rax", 0), "rcx")


def _unaligned_device(code: Code) -> None:
    code.mov("rax", DEVICES + 0x34).emit("8b", "rcx", ("rax", 0))


def _unaligned_device_write(code: Code) -> None:
    code.mov("rax", DEVICES + 0x14).store(("rax", 0), "rcx")


def _device_as_code(code: Code) -> None:
    code.mov("rax", DEVICES).raw("ff e0")


def _single_step(code: Code) -> None:
    code.raw("9c 48 81 0c 24 00 01 00 00 9d 90 90")  # pushfq; or qword [rsp], 0x100; popfq; nop; nop


def _interrupt_without_stack(code: Code) -> None:
    code.jump("main").label("handler").raw("f4").label("main").mov("rax", code.address("handler"))
    code.device(INT_HANDLER, "rax").device(TIMER_PERIOD, 20).mov("rsp", 0x333).raw("fb")
    code.label("spin").raw("90 90").jump("spin")


def _interrupted_with_stack_at(code: Code, stack: int) -> None:
    code.jump("main").label("handler").raw("f4").label("main").mov("rax", code.address("handler"))
    code.device(INT_HANDLER, "rax").device(TIMER_PERIOD, 20).mov("rsp", stack).raw("fb")
    code.label("spin").raw("90 90").jump("spin")


def _interrupt_on_read_only_stack(code: Code) -> None:
    _interrupted_with_stack_at(code, READ_ONLY + 0x800)


def _executed_but_not_decoded(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("f2 0f bc c1  90 90")


def _executed_but_not_decoded_at_a_block_end(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("f2 0f bd c1").jump("fault")


def _illegal_and_not_decoded(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("06")


def _divide_doubles(code: Code) -> None:
    code.mov("rcx", 0x1D80).store(DATA + 8, "rcx", 4).emit("0f ae", 2, DATA + 8, wide=False)
    code.raw("f2 48 0f 2a c0 0f 57 c9 f2 0f 5e c1")


def _locked_and_illegal(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("f0 0f b9 c0")


def _narrow_call(code: Code) -> None:
    code.emit("ff", 0, DATA + 8).raw("66 e8 00 00 00 00")


def _narrow_condition(code: Code) -> None:
    code.raw("31 c0  66 0f 84 02 00 00 00")


def _narrow_return(code: Code) -> None:
    code.raw("66 c2 08 00")


def _locked_bit_test_of_registers(code: Code) -> None:
    code.mov("rsi", DATA).raw("48 89 06  f0 0f ab c8")


#: Guest -> part of what the fault says.
FAULTS: dict[Callable[[Code], None], str] = {
    _null: "a read of the page at 0x0, which is not mapped",
    _unmapped: "a write to the page at 0x3f00000, which is not mapped",
    _beyond: "a read of the page at 0x10000000000, which is not mapped",
    _ud2: "an illegal instruction",
    _ud2_first_in_its_line: "an illegal instruction",
    _divide: "a division error",
    _divide_doubles: "an SSE floating-point error",
    _read_only: f"a forbidden write to the page at {READ_ONLY:#x}",
    _locked_read_only: f"a forbidden write to the page at {READ_ONLY:#x}",
    _text_of_data: f"a forbidden instruction fetch from {DATA + 0x100:#x}",
    _nowhere: "instruction fetch from 0x3000000, which is not mapped",
    _far_nowhere: "instruction fetch from 0x7fff00000000, which is not mapped",
    _vex_in_the_middle: "vaddps",
    _interrupt: "software interrupt 0x80",
    _int3: "a breakpoint (int3)",
    _syscall: "syscall",
    _sysenter: "syscall",
    _over_the_end_of_memory: "a write to the page at 0x400000, which is not mapped",
    _read_over_the_end_of_memory: "a read of the page at 0x400000, which is not mapped",
    _into_the_next_page: "a write to the page at 0x210000, which is not mapped",
    _unaligned_device: "an unaligned access",
    _unaligned_device_write: "an unaligned access",
    _device_as_code: "instruction fetch from 0xf0000000",
    _single_step: "a debug exception",
    _interrupt_without_stack: "an interrupt whose frame",
    _interrupt_on_read_only_stack: "is not in aligned, writable memory",
    _executed_but_not_decoded: "the decoder does not know: f2 0f bc c1",
    _executed_but_not_decoded_at_a_block_end: "the decoder does not know: f2 0f bd c1",
    _illegal_and_not_decoded: "an illegal instruction",
    _locked_and_illegal: "an illegal instruction",
    _narrow_call: "computed wrongly: 66 e8 00 00",
    _narrow_condition: "computed wrongly: 66 0f 84",
    _narrow_return: "computed wrongly: 66 c2 08",
    _locked_bit_test_of_registers: "an illegal instruction",
}


def build(path: Path, body: Callable[[Code], None]) -> Path:
    code = Code().mov("rsp", DATA + 0x8000).mov("rax", 7).store(DATA, "rax").label("fault")
    body(code)
    code.power_off(0)
    parts = [(READ_ONLY, b"", 0x1000, READ), (TOP, b"", 0x1000, 6)]
    return elf(path / "guest.elf", code, parts, rights=READ | EXECUTE)


@pytest.mark.sampled(30)
@pytest.mark.parametrize(("cores", "bus"), [(1, MESI), (2, MESI), (2, PAGE)])
@pytest.mark.parametrize("body", FAULTS, ids=lambda body: body.__name__.strip("_"))
def test_fault_ends_the_recording_cleanly(
    body: Callable[[Code], None], cores: int, bus: str, tmp_path: Path
) -> None:
    program = build(tmp_path, body)
    run = run_guest(
        program, tmp_path / "rec", cores, strata="cycles:5", longest_slice=6, limit=100_000, bus=bus
    )
    fault = run.outcome.fault
    assert run.outcome.end.reason == "fault", run.outcome
    assert fault is not None
    assert FAULTS[body] in fault.what
    assert fault.count == run.outcome.manifest.instructions[fault.core]
    examine(run.path)


def test_limit_and_halt_end_a_recording(tmp_path: Path) -> None:
    spin = elf(tmp_path / "spin.elf", Code().label("spin").raw("90").jump("spin"))
    run = run_guest(spin, tmp_path / "limit", 2, limit=5000, longest_slice=50)
    assert run.outcome.end.reason == "limit"
    assert 5000 <= sum(run.outcome.manifest.instructions) < 5100
    examine(run.path)
    park = elf(tmp_path / "park.elf", Code(TEXT).halt())
    run = run_guest(park, tmp_path / "park", 3)
    assert run.outcome.end.reason == "halted"
    assert run.outcome.manifest.instructions == (2, 2, 2)
    examine(run.path)


@pytest.mark.parametrize("period", [1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1])
def test_any_timer_period_is_survived(period: int, tmp_path: Path) -> None:
    code = Code().mov("rsp", DATA + 0x8000).jump("main").label("handler").raw("90").power_off(3)
    code.label("main").mov("rax", code.address("handler")).device(INT_HANDLER, "rax")
    code.device(TIMER_PERIOD, period).raw("fb f4 f4").power_off(4)
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", limit=10_000)
    assert run.outcome.end.exit_code == 3 or run.outcome.end.reason == "halted"
    examine(run.path)


@pytest.mark.parametrize(
    "store",
    ["0f 11 00", "66 0f 7f 00", "db 38", "0f ae 00"],
    ids=["movups", "movdqa", "fstp", "fxsave"],
)
def test_a_store_that_fails_in_its_second_page_leaves_the_first_alone(store: str, tmp_path: Path) -> None:
    end = DATA + 0x10000
    start = {"0f 11 00": end - 8, "66 0f 7f 00": end, "db 38": end - 8, "0f ae 00": end - 256}[store]
    code = Code().raw("d9 eb").mov("rax", start).raw("66 0f 76 c0").raw(store).power_off(0)
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec")
    assert run.outcome.end.reason == "fault"
    examine(run.path)


@pytest.mark.parametrize("reads", [False, True], ids=["page below", "frame pointers"])
def test_a_nested_enter_that_fails_leaves_the_stack_alone(reads: bool, tmp_path: Path) -> None:
    """Its first stores succeed: then the page below cannot be written, or an old frame cannot be read."""
    code = Code().mov("rsp", DATA + (0x800 if reads else 0x10)).mov("rbp", 0x90000 if reads else DATA + 0x900)
    code.mov("rax", 7).store(DATA + 8, "rax").store(DATA + 0x7F8, "rax").raw("c8 10 00 05").power_off(0)
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec", 2)
    assert run.outcome.fault is not None
    page = "a read of the page at 0x8f000" if reads else f"a write to the page at {DATA - 0x1000:#x}"
    assert page in run.outcome.fault.what
    examine(run.path)
    final = dict(iter_image(run.recording, "final"))[DATA]
    assert final[8] == final[0x7F8] == 7
