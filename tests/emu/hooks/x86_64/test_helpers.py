"""Functions of ours in place of the emulator's: found, called, and only by engines that say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import unicorn
from guest import DATA, Code
from static_guest import call, record_linux_guest, static_program
from unicorn import unicorn_const as uc
from unicorn import x86_const as x86

import corebraid
from corebraid.base.errors import CorebraidError, Divergence
from emu.hooks.x86_64.helpers import table
from emu.hooks.x86_64.helpers.exceptions.x87_computing import COMPUTING
from emu.hooks.x86_64.helpers.exceptions.x87_environment import BEFORE, ENVIRONMENT
from emu.hooks.x86_64.helpers.exceptions.x87_moving import MOVING
from emu.hooks.x86_64.helpers.state import SHARES
from emu.hooks.x86_64.helpers.x87 import X87, X87_IN_MEMORY
from emu.hooks.x86_64.helpers.x87_signatures import X87_SIGNATURES
from emu.hooks.x86_64.helpers.x87_stack import STACK
from emu.hooks.x86_64.native import new_engine
from emu.native.interposition import Interposition
from isa.x86_64.registers import X86_64
from recorder.files.manifest import Manifest
from recorder.files.reader import Recording
from recorder.replay.core import CoreReplay

HADD, CODE = "66 0f 38 02 c0", 0x1000


def test_nobody_writes_over_anothers_share() -> None:
    """Of the bytes of a processor's state that nothing else uses."""
    taken = [byte for first, size in SHARES.values() for byte in range(first, first + size)]
    assert len(taken) == len(set(taken))
    assert max(taken) < 256
    assert all(first % min(size, 8) == 0 for first, size in SHARES.values())


def horizontal(engine: unicorn.Uc) -> int:
    """phaddd xmm0, xmm0 of 1, 2, 3, 4: 3, 7, 3, 7."""
    engine.mem_map(CODE, 0x1000)
    engine.mem_write(CODE, bytes.fromhex(HADD))
    engine.reg_write(x86.UC_X86_REG_XMM0, 1 | 2 << 32 | 3 << 64 | 4 << 96)
    engine.emu_start(CODE, CODE + 5)
    found: int = engine.reg_read(x86.UC_X86_REG_XMM0)
    return found


def plain_engine() -> unicorn.Uc:
    return unicorn.Uc(uc.UC_ARCH_X86, uc.UC_MODE_64)


def test_an_engine_of_ours_is_right_and_one_of_before_is_as_it_was() -> None:
    """Whatever the order in which they are made, and all at once."""
    right, before = 3 | 7 << 32 | 3 << 64 | 7 << 96, 3 | 7 << 32 | 10 << 64 | 14 << 96
    engines = [new_engine(revision) for revision in (0, 1, 0, 1)]
    assert [horizontal(engine) for engine in engines] == [before, right, before, right]


def test_an_engine_that_somebody_else_makes_is_as_it_was() -> None:
    new_engine(1)
    assert horizontal(plain_engine()) == 3 | 7 << 32 | 10 << 64 | 14 << 96


def test_a_function_that_is_not_there_is_told() -> None:
    with pytest.raises(CorebraidError, match="it has no function helper_nothing"):
        Interposition({"helper_nothing_x86_64": 1})


def test_another_emulator_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unicorn, "__version__", "2.2.0")
    with pytest.raises(CorebraidError, match=r"found unicorn 2\.2\.0; install .*unicorn==2\.1\.4"):
        table.corrected.__wrapped__()


def guest() -> Code:
    """Leaves the horizontal sum of 1, 2, 3, 4 as its exit code's third byte."""
    code = Code()
    for k in range(4):
        code.mov("rax", k + 1).store(DATA + 4 * k, "rax", 4)
    code.emit("0f 6f", 0, DATA, wide=False, prefix="66").raw(HADD)
    code.emit("0f 7f", 0, DATA, wide=False, prefix="66").load("rdi", DATA + 8, 4)
    return call(code, 231)


@pytest.mark.parametrize(("revision", "expected"), [(0, 10), (1, 3), (2, 3)])
def test_a_recording_says_which_it_is_of(
    revision: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("static_guest.X86_64", replace(X86_64, revision=revision))
    path = record_linux_guest(guest(), tmp_path, "sc")
    recording = Recording.open(path)
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == expected
    assert recording.manifest.processor is not None
    assert recording.manifest.processor.revision == recording.manifest.instruction_set.revision == revision
    for core in range(2):
        assert all(True for _ in CoreReplay(recording, core).run())


@pytest.mark.parametrize(("revision", "expected"), [(0, 0), (1, 0), (2, 0x20)])
def test_a_recording_of_before_has_no_exceptions(
    revision: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third is inexact; then MXCSR masks nothing, and zero is divided by zero."""
    monkeypatch.setattr("static_guest.X86_64", replace(X86_64, revision=revision))
    code = Code()
    code.mov("rax", 1).mov("rcx", 3).raw("f2 48 0f 2a c0 f2 48 0f 2a c9 f2 0f 5e c1")
    code.emit("0f ae", 3, DATA, wide=False).load("rdi", DATA, 4).raw("83 e7 3f")
    if revision < 2:
        code.mov("rax", 0).store(DATA, "rax").emit("0f ae", 2, DATA, wide=False).raw("0f 57 c0 f2 0f 5e c0")
    recording = Recording.open(record_linux_guest(call(code, 231), tmp_path, "sc"))
    assert recording.manifest.end is not None
    assert recording.manifest.end.exit_code == expected
    for core in range(2):
        assert all(True for _ in CoreReplay(recording, core).run())


def test_a_guest_that_an_exception_kills_replays(tmp_path: Path) -> None:
    """The instruction that failed is not replayed, so nothing of its exception is in the core's registers."""
    code = Code().mov("rax", 0x1D80).store(DATA, "rax").emit("0f ae", 2, DATA, wide=False)
    code.raw("f2 48 0f 2a c0 0f 57 c9 f2 0f 5e c1")
    program = static_program(tmp_path / "guest", code)
    ended = corebraid.record(program, tmp_path / "rec", cores=1, guest="linux").facts()["end"]
    assert isinstance(ended, dict)
    assert ended["exit_code"] == 128 + 8
    replayed = corebraid.replay(tmp_path / "rec", 0).facts()
    assert (replayed["bit_exact"], replayed["error"]) == (True, None)


def test_what_cpuid_answered_is_in_the_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of another day does not make it diverge."""
    code = Code()
    code.mov("rax", 1).mov("rcx", 0).raw("0f a2").store(DATA, "rax")
    path = record_linux_guest(call(code, 231, rdi=0), tmp_path, "sc")
    rows = tuple((leaf, sub, a ^ 0xF0, *rest) for leaf, sub, a, *rest in X86_64.identity)
    monkeypatch.setattr("isa.registry._TABLES", {"x86_64": replace(X86_64, identity=rows)})
    recording = Recording.open(path)
    for core in range(2):
        assert all(True for _ in CoreReplay(recording, core).run())
    monkeypatch.setattr(Manifest, "instruction_set", replace(X86_64, identity=rows))
    with pytest.raises(Divergence):
        _ = [list(CoreReplay(recording, core).run()) for core in range(2)]


def test_lengths_that_no_array_has_do_not_end_the_recorder(tmp_path: Path) -> None:
    code = Code()
    for length in (0x80000000, 0x8000000000000000, 0x7FFFFFFF):
        code.mov("rax", length).mov("rdx", length).raw("66 0f 3a 61 c1 03 66 48 0f 3a 60 c1 0c")
    program = static_program(tmp_path / "guest", call(code, 231, rdi=7))
    ended = corebraid.record(program, tmp_path / "rec", cores=1, guest="linux").facts()["end"]
    assert isinstance(ended, dict)
    assert (ended["reason"], ended["exit_code"]) == ("exit", 7)


def test_the_x87_is_what_was_told() -> None:
    """Engines of revision 1 have fewer of them, under the same names."""
    assert {**MOVING, **COMPUTING, **ENVIRONMENT, **BEFORE}.keys() == X87_SIGNATURES.keys()
    assert {**X87, **X87_IN_MEMORY, **STACK}.keys() < X87_SIGNATURES.keys()


def test_flags_are_exact_where_a_slice_ends_before_an_exchange(tmp_path: Path) -> None:
    """A hook on the instruction would make the emulator forget which operation they come from."""
    code = Code()
    code.mov("rbx", 20000).mov("rsi", DATA).label("again").mov("rax", 0).mov("rdx", 1)
    code.raw("81 3e ff ff 07 00 f0 0f b1 16 c7 06 00 00 00 00").loop("rbx", "again")
    path = static_program(tmp_path / "guest", call(code, 231, rdi=0))
    corebraid.record(path, tmp_path / "rec", cores=1, guest="linux", strata="cycles:997")
    replayed = corebraid.replay(tmp_path / "rec", 0).facts()
    assert (replayed["bit_exact"], replayed["error"]) == (True, None)
