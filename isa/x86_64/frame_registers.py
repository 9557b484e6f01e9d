"""DWARF's numbers of registers (System V ABI, x86-64 supplement, figure 3.36) and which a function keeps
(figure 3.4)."""

from __future__ import annotations

from isa.frame_registers import FrameRegisters
from isa.x86_64.signals import SIGNALS_X86_64

_NAMES = (
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)), "rip",
    *(f"xmm{n}" for n in range(16)), *(f"st{n}" for n in range(8)),
)  # fmt: skip
_KEPT = ("rbx", "rbp", "rsp", "r12", "r13", "r14", "r15")

FRAME_REGISTERS_X86_64 = FrameRegisters(
    names=_NAMES,
    stack_pointer=_NAMES.index("rsp"),
    return_address=_NAMES.index("rip"),
    kept=frozenset(map(_NAMES.index, _KEPT)),
    # call rel32; call through a register or memory, with and without prefix, SIB and displacement.
    call_bytes=(5, 2, 3, 6, 7, 4, 8),
    table_type="SHT_X86_64_UNWIND",
    # mov $15, %rax; syscall (rt_sigreturn).
    signal_return=bytes.fromhex("48c7c00f0000000f05"),
    saved={
        _NAMES.index(name): place - SIGNALS_X86_64.frame.returned
        for name, place in SIGNALS_X86_64.frame.registers.items()
        if name in _NAMES
    },
)
