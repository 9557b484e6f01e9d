"""Runs one x87 instruction on the host's processor for many operands: what kernels are held against."""

import ctypes
import mmap
import platform
from functools import cache
from pathlib import Path

import numpy as np
import pytest

#: A number in memory, 80 bits; the status word is kept in the padding.
NUMBER = np.dtype([("low", "<u8"), ("high", "<u2"), ("status", "<u2"), ("padding", "<u4")])

#: What puts none, the second, or both of two numbers on the stack, so that the second is ST(0).
_LOADS = (b"", b"\xdb\x6f\x10", b"\xdb\x2f\xdb\x6f\x10")  # fld tbyte [rdi]; fld tbyte [rdi + 16]
_STORES = (b"\xdb\x3e", b"\xdb\x3e\xdb\x7e\x10")  # fstp tbyte [rsi]; fstp tbyte [rsi + 16]
_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
#: All exceptions masked, 64 bits: the control word apart from its rounding control.
_CONTROL = 0x37F


def need_x87() -> None:
    """Skips the test where the host has no x87."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("the host's processor has no x87 to hold kernels against")


def need_intel_x87() -> None:
    """Skips the test where the host's processor may round transcendental functions in its own way."""
    need_x87()
    information = Path("/proc/cpuinfo")
    if not information.exists() or "GenuineIntel" not in information.read_text():
        pytest.skip("what the manual leaves open is as Intel's processors do it")


@cache
def _program(instruction: bytes, loaded: int, stored: int) -> tuple[mmap.mmap, object]:
    """rdi: operands, rsi: results, rdx: how many, rcx: where the control word is."""
    body = (
        b"\xdb\xe3\xd9\x29"  # fninit; fldcw [rcx]
        + _LOADS[loaded]
        + instruction
        + b"\xdd\x7e\x0a"  # fnstsw [rsi + 10]
        + _STORES[stored - 1]
        + b"\x48\x83\xc7\x20\x48\x83\xc6\x20\x48\xff\xca"  # add rdi, 32; add rsi, 32; dec rdx
    )
    code = body + b"\x0f\x85" + (-len(body) - 6).to_bytes(4, "little", signed=True) + b"\xdb\xe3\xc3"
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    return page, _RUN(ctypes.addressof(ctypes.c_char.from_buffer(page)))


def on_host(
    instruction: bytes, rounding: int, operands: np.ndarray, loaded: int, stored: int = 1
) -> np.ndarray:
    """NUMBER[n, 2]: what is in ST(0), with the status word, and in ST(1) after the instruction.

    operands: NUMBER[n, 2]. loaded: how many are put on the stack: 1 the second, 2 both, the second last.
    stored: of how many registers results are taken; with one, the instruction itself may store at rsi + 16
    the second result. Its own operands in memory are at rdi and rdi + 16.
    """
    operands = np.ascontiguousarray(operands)
    results = np.zeros((len(operands), 2), NUMBER)
    word = np.array([_CONTROL | rounding << 10], np.uint16)
    _, run = _program(instruction, loaded, stored)
    run(operands.ctypes.data, results.ctypes.data, len(operands), word.ctypes.data)  # type: ignore[operator]
    return results
