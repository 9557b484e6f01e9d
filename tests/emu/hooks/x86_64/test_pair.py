"""Which instructions begin a block of their own, with their flags settled."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from guest import DATA, TEXT, Code
from static_guest import call, static_program
from vectors import NATIVE

import corebraid
from emu.hooks.x86_64.fence import is_fence
from emu.hooks.x86_64.pair import is_pair
from emu.native.state import address_of
from isa.x86_64.decode import decode_block
from recorder.files.reader import Recording
from recorder.replay.core import replay_core


def test_they_are_those_that_the_decoder_finds() -> None:
    """Among random bytes that begin like them, behind prefixes."""
    draw, found = random.Random(1), 0
    opcodes = (b"\xe0", b"\xe1", b"\x0f\xc7", b"\xe2", b"\x0f\xb1", b"\x90")
    for _ in range(4000):
        prefixes = bytes(draw.choices(b"\x66\xf2\xf3\x2e\x64\x48\x41\x4f\x67", k=draw.randint(0, 3)))
        code = prefixes + draw.choice(opcodes) + draw.randbytes(8)
        room = np.frombuffer(code, np.uint8)
        block = decode_block(code, 0x1000)
        expected = 0 in block.pairs
        # Of those that are no pairs for another reason (of registers, refused) it may think what it will.
        if expected:
            assert is_pair(np.uint64(address_of(room)), len(code)), code.hex(" ")
            found += 1
    assert found > 300
    for text in ("90 0f c7 0e", "0f c7 36", "e2 00", "0f b1 0e"):
        room = np.frombuffer(bytes.fromhex(text) + bytes(8), np.uint8)
        assert not is_pair(np.uint64(address_of(room)), len(room)), text
    room = np.frombuffer(bytes.fromhex("48 e1 48 0f c7 48"), np.uint8)
    ends = [(0, 1), (0, 2), (2, 1), (2, 3), (5, 1)]
    assert [bool(is_pair(np.uint64(address_of(room) + at), n)) for at, n in ends] == [
        False, True, False, False, False
    ]  # fmt: skip


def test_fences_are_those_that_the_decoder_finds() -> None:
    """And system calls, before which a program's store buffer is emptied, too."""
    draw, found, calls = random.Random(1), 0, 0
    opcodes = (
        b"\x0f\xa2", b"\xcf", b"\x0f\xae", b"\x0f\x01", b"\x0f\x00", b"\x0f\x30", b"\x0f\x08", b"\x0f\x05",
        b"\x90",
    )  # fmt: skip
    for _ in range(4000):
        prefixes = bytes(draw.choices(b"\x66\xf2\xf3\x2e\x64\x48\x41\x4f\x67", k=draw.randint(0, 3)))
        code = (
            prefixes
            + draw.choice(opcodes)
            + bytes([draw.choice((0xF0, 0x10, draw.randrange(256)))])
            + bytes(8)
        )
        room = np.frombuffer(code, np.uint8)
        block = decode_block(code, 0x1000)
        assert not set(block.fences) & set(block.calls)
        if 0 in (*block.fences, *block.calls):
            assert is_fence(np.uint64(address_of(room)), len(code)), code.hex(" ")
            found += 0 in block.fences
            calls += 0 in block.calls
    assert found > 300
    assert calls > 300
    for text in ("90 0f a2", "0f ae e8", "0f ae f8", "0f 06", "0f 34", "90 0f 05", "48 8b 12"):
        room = np.frombuffer(bytes.fromhex(text) + bytes(8), np.uint8)
        assert not is_fence(np.uint64(address_of(room)), len(room)), text
    room = np.frombuffer(bytes.fromhex("48 cf 0f ae f0"), np.uint8)
    ends = [(0, 1), (0, 2), (2, 1), (2, 2), (2, 3)]
    assert [bool(is_fence(np.uint64(address_of(room) + at), n)) for at, n in ends] == [
        False, True, False, False, True
    ]  # fmt: skip


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what it computes")
@pytest.mark.parametrize("slice_", [None, 3])
def test_what_is_written_there_later_has_its_own_flags(slice_: int | None, tmp_path: Path) -> None:
    """`rcl` of memory where `cmpxchg8b` stood, and again: its carry is that of the instruction before."""
    code, place = Code(), DATA + 0x100
    call(code, 10, rdi=TEXT, rsi=4096, rdx=7)
    code.mov("rsi", place).mov("rbx", 0).mov("rbp", 4).jump("again")
    code.label("target").raw(13 * "90 ").label("again")
    for text in ("d3 e0 90 66 0f 1f 44 00 00 0f c7 0e c3", "f2 af 90 66 0f 1f 44 00 00 48 d1 16 c3"):
        code.lea("rdi", "target")
        for k, byte in enumerate(bytes.fromhex(text)):
            code.raw(f"c6 47 {k:02x} {byte:02x}")  # mov byte [rdi + k], byte
        code.mov("rax", 0x8000000000000001).store(("rsi", 0), "rax")
        for k in range(3):
            code.mov("rdi", place).mov("rdx", 0).mov("rax", k).mov("rcx", 2).raw("39 c9").call("target")
            # pushfq; pop rax; and eax, ~AF; add rbx, rax; add rbx, [rsi]; rol rbx, 1
            code.raw("9c 58 25 ef 0f 00 00 48 01 c3 48 03 1e 48 d1 c3")
    code.raw("48 ff cd").jump_if("nz", "again")
    code.raw("48 89 df").mov("rax", 231).raw("0f 05")
    program = static_program(tmp_path / "guest", code)
    options = {} if slice_ is None else {"slice": slice_}
    done = corebraid.record(program, tmp_path / "rec", cores=1, guest="linux", system=False, **options)
    assert done.end.exit_code == subprocess.run([program]).returncode
    replay_core(Recording.open(tmp_path / "rec"), 0)


@pytest.mark.skipif(not NATIVE, reason="only an x86-64 processor can say what it computes")
@pytest.mark.parametrize(
    "first",
    [
        "90 90 e1 00 c3",
        "90 90 e0 00 c3",
        "90 90 0f c7 0a c3",
        "90 90 48 0f c7 0a c3",
        "90 90 0f ae f0 c3",
        "53 90 0f a2 5b 31 c0 c3",
    ],
)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bus": "mesi", "slice": 1},
        {"bus": "mesi", "slice": 7},
        {"model": "tso", "slice": 3},
        {"model": "tso"},
    ],
    ids=str,
)
def test_where_one_stood_a_load_of_a_new_page_leaves_flags(
    options: dict[str, object], first: str, tmp_path: Path
) -> None:
    """`neg eax; mov rdx, [rdx]` of a page that is brought there: the flags are those of `neg`."""
    code = Code()
    call(code, 10, rdi=TEXT, rsi=4096, rdx=7)
    call(code, 9, rdi=0, rsi=64 * 4096, rdx=3, r10=0x22, r8=-1 & 0xFFFFFFFF, r9=0)
    code.raw("48 89 c6").mov("rbx", 0).mov("rbp", 0).jump("again")  # mov rsi, rax
    code.label("target").raw(13 * "90 ").label("again")
    for times, text in ((1, first), (60, "f7 d8 48 8b 12 9c 58 c3")):
        code.lea("rdi", "target")
        for k, byte in enumerate(bytes.fromhex(text)):
            code.raw(f"c6 47 {k:02x} {byte:02x}")  # mov byte [rdi + k], byte
        code.mov("r12", times).label(f"times {times}")
        # mov rdx, rsi; add rsi, 4096; mov eax, ebp; add ebp, 0x11; test ecx, ecx
        code.raw("48 89 f2 48 81 c6 00 10 00 00 89 e8 83 c5 11 85 c9").mov("rcx", 2).call("target")
        # and eax, 0xfff; add rbx, rax; rol rbx, 3
        code.raw("25 ff 0f 00 00 48 01 c3 48 c1 c3 03").loop("r12", f"times {times}")
    code.raw("48 89 d8 48 c1 e8 20 01 d8 89 c7 c1 ef 10 01 c7").mov("rax", 231).raw("0f 05")
    program = static_program(tmp_path / "guest", code)
    done = corebraid.record(program, tmp_path / "rec", cores=1, guest="linux", system=False, **options)
    assert done.end.exit_code == subprocess.run([program]).returncode
    replay_core(Recording.open(tmp_path / "rec"), 0)
