"""Code that goes on to the end of a page behind which there is none to be executed.

The emulator fetches a block before it runs any of it; a processor runs what it has.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from fault_vectors import ROOM, STACK, FaultVectors
from guest import DATA, TEXT, Code, elf, run_guest
from static_guest import call, static_program
from vectors import NATIVE

import corebraid
from emu.core.core import Core
from recorder.files.reader import Recording
from recorder.replay.core import replay_core

PAGE = 4096
#: What stands there, with what is cut off by the page's end.
ENDS = {
    "plain": "48 ff c0 48 ff c3", "a store": "c7 00 07 00 00 00 ff 00",
    "a fault of its own": "ff c3 31 c9 8b 01 ff c3",
    "a store that fails": "ff c3 31 c9 89 01 ff c3", "illegal": "ff c3 0f 0b ff c3",
    "illegal, last": "ff c3 0f 0b",
    "cut off": "ff c3 c7 00 01 00", "cut off behind a prefix": "ff c3 48", "only what is cut off": "c7 00 01",
    "privileged": "ff c3 fa ff c3", "privileged, last": "ff c3 f4", "a division": "31 c9 ff c3 f7 f1 ff c3",
    "a call": "b8 18 00 00 00 0f 05 31 c0 ff c3", "a call, last": "b8 18 00 00 00 0f 05",
    "a loop": "b9 05 00 00 00 ff c3 ff c9 75 fa 90", "a loop, last": "b9 05 00 00 00 ff c3 ff c9 75 fa",
    "a repetition": "b9 05 00 00 00 f3 aa ff c3", "a repetition, last": "b9 05 00 00 00 f3 aa",
    "x87": "d9 e8 d9 ee de f9 9b ff c3", "a trap": "ff c3 cc", "pairs": "ff c3 48 0f c7 08 ff c3",
    "behind what it branched over": "eb 02 0f 0b ff c3 90",
    "rdrand's like": "ff c3 0f c7 f8 25 00 00 00 00 ff c3",
    "a page's worth": 4090 * "90 " + "48 ff c0",
}  # fmt: skip


def at_page_end(code: str, page: int) -> str:
    """Copy `code` to the end of the data's page `page`, make that page executable and jump there."""
    length, end = len(bytes.fromhex(code)), DATA + (page + 1) * PAGE
    moved = Code().mov("rdi", end - length).mov("rcx", length).raw("f3 a4")
    jump = Code().mov("rdx", end - length).mov("rax", ROOM).mov("rdi", ROOM).raw("ff e2")
    # rsi is relative to what follows the lea.
    skip = 7 + len(moved.assemble()) + len(jump.assemble())
    text = Code().mov("rdi", end - PAGE).mov("rsi", PAGE).mov("rdx", 7).mov("rax", 10).raw("0f 05")
    text.raw("48 8d 35 00 00 00 00").add("rsi", skip)
    return (text.assemble() + moved.assemble() + jump.assemble()).hex() + code


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what one refuses")
def test_it_runs_as_far_as_it_is(tmp_path: Path) -> None:
    vectors = FaultVectors(tmp_path, [at_page_end(code, 9) for code in ENDS.values()])
    told = zip(vectors.run_recorded(tmp_path / "rec"), vectors.run_natively(), strict=True)
    found = dict(zip(ENDS, told, strict=True))
    differences = {name: ours.differences(theirs) for name, (ours, theirs) in found.items()}
    assert not {name: what for name, what in differences.items() if what}
    assert [theirs.signal for _, theirs in found.values()].count(11) > len(ENDS) // 2
    replay_core(Recording.open(tmp_path / "rec"), 0)


def _counting(times: int) -> Code:
    """Two threads run over a page's end `times` times each, counting together there; their handler begins
    anew. The exit code is what they counted."""
    code, count, done, action = Code(), DATA + 0x800, DATA + 0x808, DATA + 0x500
    code.jump("begin").label("handler").raw("48 ff 4a 60")  # dec qword [rdx + 96], r15
    code.load("rax", ("rdx", 88)).lea("rcx", "done").raw("48 0f 44 c1")  # r14, or if none are left: done
    code.store(("rdx", 168), "rax").raw("c3").label("restorer").mov("rax", 15).raw("0f 05")
    code.label("done").raw(f"f0 48 ff 04 25 {done.to_bytes(4, 'little').hex()}").label("wait").raw("f3 90")
    code.load("rax", done).compare("rax", 2).jump_if("nz", "wait")
    code.load("rdi", count).mov("rax", 231).raw("0f 05")
    code.label("begin")
    # lock inc qword [count], and the beginning of another instruction
    counted = f"f0 48 ff 04 25 {count.to_bytes(4, 'little').hex()} ff c3 c7 04"
    end, length = DATA + 10 * PAGE, len(bytes.fromhex(counted))
    call(code, 10, rdi=end - PAGE, rsi=PAGE, rdx=7)
    code.lea("rsi", "counted").mov("rdi", end - length).mov("rcx", length).raw("f3 a4")
    for offset, value in ((0, code.address("handler")), (8, 0x44000000), (16, code.address("restorer"))):
        code.mov("rax", value).store(action + offset, "rax")
    call(code, 13, rdi=11, rsi=action, rdx=0, r10=8)
    code.mov("rsp", STACK)
    call(code, 56, rdi=0x50F00, rsi=DATA + 0xE000, rdx=0, r10=0, r8=0)
    code.mov("r15", times).mov("r14", end - length).raw("41 ff e6")
    return code.label("counted").raw(counted)


@pytest.mark.parametrize("way", ["page", "mesi", "tso", "short slices", "round-robin"])
@pytest.mark.sampled(1)
def test_it_is_counted_and_replayed(way: str, tmp_path: Path) -> None:
    program = static_program(tmp_path / "guest", _counting(30))
    options: dict[str, object] = {
        "page": {}, "mesi": {"bus": "mesi"}, "tso": {"model": "tso"}, "short slices": {"slice": 3},
        "round-robin": {"schedule": "round-robin", "slice": 7},
    }[way]  # fmt: skip
    for seed in range(3):
        path = tmp_path / f"rec{seed}"
        done = corebraid.record(
            program, path, cores=2, guest="linux", system=False, seed=seed, strata="cycles:500", **options
        )
        assert done.end.exit_code == 60
        for core in range(2):
            replay_core(Recording.open(path), core)
        assert corebraid.verify(path).facts()["sound"]
    if NATIVE:
        assert subprocess.run([program], check=False).returncode == 60


def test_without_it_nothing_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Core, "ran_out_of_page", lambda _: False)
    program = static_program(tmp_path / "guest", _counting(30))
    done = corebraid.record(program, tmp_path / "rec", cores=2, guest="linux", system=False)
    assert done.end.exit_code == 0


def test_firmware(tmp_path: Path) -> None:
    """It fails behind what there is, having done that."""
    code = Code().mov("rax", 5).store(DATA, "rax")
    code.at(TEXT + PAGE - 2).raw("ff c0")
    run = run_guest(elf(tmp_path / "guest.elf", code), tmp_path / "rec")
    assert run.outcome.fault is not None
    assert run.outcome.fault.pc == TEXT + PAGE
    assert run.outcome.fault.what == f"an instruction fetch from {TEXT + PAGE:#x}, which is not mapped"
    assert replay_core(run.recording, 0).count == run.outcome.fault.count
