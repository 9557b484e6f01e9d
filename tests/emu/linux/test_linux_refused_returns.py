"""rt_sigreturn with floating-point registers or selectors that cannot be loaded, against this host."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from guest import DATA, Code
from static_guest import call, static_program
from vectors import NATIVE

import corebraid
from recorder.files.reader import Recording

#: What the handler of SIGILL does to its frame: rdx is its context, in which `fpstate` is at 224.
CHANGES = {
    "nothing": "90",
    "a reserved bit of MXCSR": "48 8b 82 e0 00 00 00 81 48 18 00 00 01 00",
    "eight bytes further": "48 83 82 e0 00 00 00 08",
    "sixteen bytes further": "48 83 82 e0 00 00 00 10",
    "no image": "31 c0 48 89 82 e0 00 00 00",
    "no page": "48 c7 82 e0 00 00 00 40 00 00 00",
    "no address": "48 b8 00 00 00 00 00 80 00 00 48 89 82 e0 00 00 00",
    "no page, SIGSEGV blocked": "48 c7 82 e0 00 00 00 40 00 00 00 48 81 8a 28 01 00 00 00 04 00 00",
}  # fmt: skip
REFUSED = tuple(CHANGES)[1:3] + tuple(CHANGES)[5:7]
#: CS is at 184 of the context, SS at 190, uc_flags at 0.
_CODE, _STACK, _NOT_STRICT = "66 c7 82 b8 00 00 00", "66 c7 82 be 00 00 00", "83 22 fb"
SELECTORS = {
    "own code": f"{_CODE} 30 00",
    "no code": f"{_CODE} 00 00",
    "the kernel's code": f"{_CODE} 10 00",
    "data as code": f"{_CODE} 2b 00",
    "local code": f"{_CODE} 37 00",
    "no code, not strict": f"{_CODE} 34 12 {_NOT_STRICT}",
    "no code, no stack": f"{_CODE} 38 00 {_STACK} 18 00",
    "no code, a reserved bit of MXCSR": f"{_CODE} 00 00 {CHANGES['a reserved bit of MXCSR']}",
    "no code, no image": f"{_CODE} 00 00 31 c0 48 89 82 e0 00 00 00",
    "no code after a flag": f"{_CODE} 43 00 48 81 a2 b0 00 00 00 ff ff fe ff",
    "own stack": f"{_STACK} 28 00",
    "no stack": f"{_STACK} 00 00",
    "the kernel's stack": f"{_STACK} 18 00",
    "code as stack": f"{_STACK} 33 00",
    "a number as stack": f"{_STACK} 7b 00",
    "local stack": f"{_STACK} 2f 00",
    "far stack": f"{_STACK} 38 12",
    "no stack, not strict": f"{_STACK} 00 00 {_NOT_STRICT}",
    "no code, SIGSEGV blocked": f"{_CODE} 00 00 48 81 8a 28 01 00 00 00 04 00 00",
}
#: Blocks SIGUSR1 until the return, and sends it: kill(getpid(), 10).
_USR1 = "b8 27 00 00 00 0f 05 89 c7 be 0a 00 00 00 b8 3e 00 00 00 0f 05"
PENDING = {
    "nothing, SIGUSR1 pending": _USR1,
    "no code, SIGUSR1 pending": f"{_CODE} 00 00 {_USR1}",
    "no stack, SIGUSR1 pending": f"{_STACK} 18 00 {_USR1}",
    "no code, SIGSEGV blocked, SIGUSR1 pending": f"{_CODE} 00 00 48 81 8a 28 01 00 00 00 04 00 00 {_USR1}",
    "no page, SIGUSR1 pending": f"{CHANGES['no page']} {_USR1}",
}
_ALL = {**CHANGES, **SELECTORS, **PENDING}
_TAKEN = ("nothing, SIGUSR1 pending", "own code", "own stack", "no stack, not strict")
_ACTION, _HANDLERS, _FLAGS = DATA + 0x800, ((4, "ill"), (11, "segv"), (10, "usr1")), 40 + 8 * 17
#: Of the context: the general registers, selectors, error and exception, the mask; flags, which have RF only
#: natively if floating-point registers are what is refused. Of the image: control and status words, the first
#: registers of both kinds; MXCSR alone.
_TOLD = [*range(40, _FLAGS, 8), *range(_FLAGS + 8, 40 + 8 * 22, 8), 40 + 8 * 22, 296]
_FLOATS, _SIZE = (0, 32, 160, 176), 0x200
#: What the handler of SIGUSR1 tells of its context: instruction, flags, selectors, fault; uc_flags.
_SEEN, _SEEN_AT = (*range(_FLAGS - 8, 40 + 8 * 21, 8), 0), DATA + _SIZE - 0x58


def program(change: str) -> Code:
    """Writes what SIGSEGV's handler is told, or nothing."""
    code = Code()
    code.jump("main").label("ill").raw("48 83 82 a8 00 00 00 02").raw(change).raw("c3")
    code.label("usr1")
    for k, offset in enumerate(_SEEN):
        code.load("rax", ("rdx", offset)).raw("" if offset else "83 e0 fe").store(_SEEN_AT + 8 * k, "rax")
    code.raw("c3").label("segv")
    for k in range(3):
        code.load("rax", ("rsi", 8 * k)).store(DATA + 8 * k, "rax")
    for k, offset in enumerate(_TOLD, 3):
        code.load("rax", ("rdx", offset)).store(DATA + 8 * k, "rax")
    code.load("rax", ("rdx", 224))
    for k, offset in enumerate(_FLOATS, 3 + len(_TOLD)):
        code.load("rcx", ("rax", offset)).store(DATA + 8 * k, "rcx")
    code.load("rcx", ("rax", 24), 4).store(DATA + _SIZE - 8, "rcx")
    # But for UC_FP_XSTATE, which a kernel without XSAVE has not.
    code.load("rax", ("rdx", 0)).raw("83 e0 fe").store(DATA + _SIZE - 16, "rax")
    kept = -1 if change in SELECTORS.values() else ~0x10000
    code.load("rax", ("rdx", _FLAGS)).raw("48 25").raw(struct.pack("<i", kept).hex())
    code.store(DATA + _SIZE - 24, "rax")
    call(code, 1, rdi=1, rsi=DATA, rdx=_SIZE)
    call(code, 231, rdi=1).label("restorer").mov("rax", 15).raw("0f 05").label("main")
    for signal, handler in _HANDLERS:
        for k, word in enumerate((code.address(handler), 0x44000004, code.address("restorer"), 1 << 9)):
            code.mov("rax", word).store(_ACTION + 8 * k, "rax")
        call(code, 13, rdi=signal, rsi=_ACTION, rdx=0, r10=8)
    code.mov("rsp", DATA + 0x8000)
    for k, register in enumerate(
        ("rbx", "rbp", *(f"r{n}" for n in range(8, 16)), "rdi", "rdx", "rcx", "rax")
    ):
        code.mov(register, 0x1000 + k)
    code.raw("d9 eb 66 0f 76 c0 0f 0b")
    return call(code, 231, rdi=2)


def recorded(path: Path, folder: Path) -> tuple[int, bytes]:
    said = bytearray()
    ended = corebraid.record(path, folder, cores=1, guest="linux", output=said.extend).facts()["end"]
    assert isinstance(ended, dict)
    assert corebraid.replay(folder, 0).facts()["bit_exact"] is True
    return int(ended["exit_code"]), bytes(said)


def natively(path: Path) -> tuple[int, bytes]:
    ran = subprocess.run([path], capture_output=True, check=False, timeout=60)
    return ran.returncode if ran.returncode >= 0 else 128 - ran.returncode, ran.stdout


@pytest.mark.skipif(not NATIVE, reason="only Linux on x86-64 can say what it does")
@pytest.mark.parametrize("change", _ALL)
def test_they_are_refused_as_here(change: str, tmp_path: Path) -> None:
    path = static_program(tmp_path / "guest", program(_ALL[change]))
    code, said = natively(path)
    assert recorded(path, tmp_path / "rec") == (code, said)
    refused = change in REFUSED or (change in {**SELECTORS, **PENDING} and change not in _TAKEN)
    expected = (139, 0) if "blocked" in change else ((1, _SIZE) if refused else (2, 0))
    assert (code, len(said)) == expected


def test_a_return_to_32_bit_code_is_refused_by_name(tmp_path: Path) -> None:
    path = static_program(tmp_path / "guest", program(f"{_CODE} 20 00"))
    ran = corebraid.record(path, tmp_path / "rec", cores=1, guest="linux")
    assert "a switch to 32-bit code" in str(ran.facts()["end"])
    assert corebraid.replay(tmp_path / "rec", 0).facts()["bit_exact"] is True


def test_alignment_checks_that_a_return_turns_on_are_told_of(tmp_path: Path) -> None:
    """The handler sets EFLAGS.AC in its frame."""
    path = static_program(tmp_path / "guest", program("48 81 8a b0 00 00 00 00 00 04 00"))
    assert recorded(path, tmp_path / "rec") == (2, b"")
    totals = Recording.open(tmp_path / "rec").manifest.totals
    assert totals["omitted"] == "alignment checks (EFLAGS.AC)"
