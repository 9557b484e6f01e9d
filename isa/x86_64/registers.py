"""x86-64, as data. Sources: Intel SDM volume 1 (registers, x87, SSE), System V AMD64 ABI (red zone)."""

from __future__ import annotations

from isa.table import Isa, Register, Vectors
from isa.x86_64.cpuid import CPUID

_GENERAL = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)))

_ALIGNMENT_CHECKS = "alignment checks (EFLAGS.AC)"
_OWN_CODE = (
    "old bytes of a repeated string instruction that stores over itself",
    "two stores of a block to the bytes before it where the second runs into the block",
)

X86_64 = Isa(
    name="x86_64",
    elf_machine="EM_X86_64",
    elf_machine_number=62,
    registers=(
        *(Register(name, 8) for name in _GENERAL),
        Register("rip", 8),
        Register("rflags", 8),
        Register("fs_base", 8),
        Register("gs_base", 8),
        Register("mxcsr", 4),
        # The status word holds the top of the x87 stack, so it precedes the registers named from it.
        Register("fpcw", 2),
        Register("fpsw", 2),
        Register("fptag", 2),
        *(Register(f"st{n}", 10) for n in range(8)),
        *(Register(f"xmm{n}", 16) for n in range(16)),
    ),
    program_counter="rip",
    stack_pointer="rsp",
    flags_register="rflags",
    interrupt_enable=1 << 9,
    red_zone=128,
    arguments=("rdi", "rsi"),
    # What a C runtime expects, not Unicorn's reset state (SDM volume 1, 8.1.5 and 10.2.3).
    reset=(("mxcsr", 0x1F80), ("fpcw", 0x37F), ("fptag", 0xFFFF), ("rflags", 0x2)),
    entry_fetch=0xF4,
    # SDM volume 3, table 6-1.
    vectors=Vectors(
        single_step=1,
        invalid_opcode=6,
        double_fault=8,
        general_protection=13,
        alignment=17,
        faults=32,
        traps=frozenset((1, 3, 4)),
    ),
    exceptions=(
        (0, "a division error"),
        (1, "a debug exception"),
        (3, "a breakpoint (int3)"),
        (4, "an overflow trap"),
        (5, "a bound-range exception"),
        (6, "an illegal instruction"),
        (8, "a double fault"),
        (10, "an invalid task segment"),
        (11, "a missing segment"),
        (12, "a stack-segment fault"),
        (13, "a general-protection fault"),
        (14, "a page fault"),
        (16, "an x87 error"),
        (17, "an unaligned access"),
        (19, "an SSE floating-point error"),
    ),
    system_call="syscall",
    identity=CPUID,
    approximations=("f2xm1 fyl2x fyl2xp1 fpatan fsin fcos fsincos fptan", "rcpps rcpss rsqrtps rsqrtss"),
    omissions=(_ALIGNMENT_CHECKS, *_OWN_CODE),
    omission_flags=((1 << 18, _ALIGNMENT_CHECKS),),
    own_code=_OWN_CODE,
    refusals=(
        (0x100, "a switch to 32-bit code"),
        (0x101, "a segment register loaded with a selector"),
    ),
)
