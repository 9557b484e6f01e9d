"""Calls into libraries (System V ABI, x86-64 supplement, section 5.2)."""

from __future__ import annotations

from isa.call_stubs import CallStubs

CALL_STUBS_X86_64 = CallStubs(
    # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT.
    pointers=(6, 7),
    sections=(".plt", ".plt.sec", ".plt.got"),
    # jmp *distance(%rip).
    jump=rb"\xff\x25(....)",
    jump_bytes=6,
    stub_bytes=16,
)
