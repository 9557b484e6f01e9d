"""Signals of Linux on x86-64, as data.

Sources: Linux's asm/sigcontext.h, asm/ucontext.h, asm/sigframe.h, arch/x86/kernel/signal_64.c and traps.c;
Intel SDM volume 1, 10.5.1 (FXSAVE) and volume 3, table 6-1 (exceptions).
"""

from __future__ import annotations

from isa.abi_signals import FaultSignal, FloatImage, FloatStatus, Selector, SignalAbi, SignalFrame
from isa.layout import Layout

_ACTION = Layout(32, {"handler": (0, 8), "flags": (8, 8), "restorer": (16, 8), "mask": (24, 8)})

# struct rt_sigframe: the return address, struct ucontext at 8, in it struct sigcontext at 40, siginfo at 312.
_CONTEXT, _SAVED, _INFO = 8, 48, 312
#: UC_STRICT_RESTORE_SS.
_STRICT = 4
_GENERAL = (
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx",
    "rsp", "rip", "rflags",
)  # fmt: skip

_FIELDS = {
    "return_address": (0, 8),
    "uc_flags": (_CONTEXT, 8),
    "uc_link": (_CONTEXT + 8, 8),
    "ss_sp": (_CONTEXT + 16, 8),
    "ss_flags": (_CONTEXT + 24, 4),
    "ss_size": (_CONTEXT + 32, 8),
    "cs": (_SAVED + 144, 2),
    "gs": (_SAVED + 146, 2),
    "fs": (_SAVED + 148, 2),
    "ss": (_SAVED + 150, 2),
    "fault_code": (_SAVED + 152, 8),
    "fault_trap": (_SAVED + 160, 8),
    "old_mask": (_SAVED + 168, 8),
    "fault_address": (_SAVED + 176, 8),
    "fpstate": (_SAVED + 184, 8),
    "mask": (_SAVED + 256, 8),
}

_FXSAVE = FloatImage(
    size=512,
    alignment=64,
    boundary=16,
    registers={
        "fpcw": 0,
        "fpsw": 2,
        "mxcsr": 24,
        **{f"st{n}": 32 + 16 * n for n in range(8)},
        **{f"xmm{n}": 160 + 16 * n for n in range(16)},
    },
    tags=("fptag", 4),
    status="fpsw",
    stack=tuple(f"st{n}" for n in range(8)),
    control=("mxcsr", 0xFFFF),
    # MXCSR_MASK.
    constants=((28, 4, 0xFFFF),),
    initial={"mxcsr": 0x1F80, "fpcw": 0x37F, "fptag": 0xFFFF},
)

_FRAME = SignalFrame(
    layout=Layout(440, _FIELDS),
    registers={name: _SAVED + 8 * n for n, name in enumerate(_GENERAL)},
    info=_INFO,
    context=_CONTEXT,
    alignment=(16, 8),
    # UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS (no UC_FP_XSTATE without XSAVE); user code and data segments.
    constants={"uc_flags": 2 | _STRICT, "cs": 0x33, "ss": 0x2B},
    arguments=("rdi", "rsi", "rdx"),
    result="rax",
    # FIX_EFLAGS: AC, OF, DF, TF, SF, ZF, AF, PF, CF; RF ends with the next instruction.
    restored_flags=0x40DD5,
    # DF, TF, RF.
    cleared_flags=0x10500,
    returned=8,
    floats=_FXSAVE,
    # A stack segment of a local table is left by espfix64, whose fault tells no selector.
    selectors=(
        Selector("cs", 0x33, unsupported=((0x23, "a switch to 32-bit code"),)),
        Selector("ss", 0x2B, strict=_STRICT, untold=4),
    ),
    privilege=3,
)

_SIGILL, _SIGTRAP, _SIGBUS, _SIGFPE, _SIGSEGV = 4, 5, 7, 8, 11
_SI_KERNEL = 0x80

SIGNALS_X86_64 = SignalAbi(
    action=_ACTION,
    frame=_FRAME,
    exceptions={
        0: FaultSignal(_SIGFPE, 1, True),
        1: FaultSignal(_SIGTRAP, 2, True),
        3: FaultSignal(_SIGTRAP, _SI_KERNEL, False),
        4: FaultSignal(_SIGSEGV, _SI_KERNEL, False),
        5: FaultSignal(_SIGSEGV, _SI_KERNEL, False),
        6: FaultSignal(_SIGILL, 2, True),
        10: FaultSignal(_SIGSEGV, _SI_KERNEL, False),
        11: FaultSignal(_SIGBUS, _SI_KERNEL, False),
        12: FaultSignal(_SIGBUS, _SI_KERNEL, False),
        13: FaultSignal(_SIGSEGV, _SI_KERNEL, False),
        16: FaultSignal(_SIGFPE, 0, True),
        17: FaultSignal(_SIGBUS, 1, True),
        19: FaultSignal(_SIGFPE, 0, True),
    },
    page_fault=14,
    address_bits=48,
    no_address=13,
    no_stack=12,
    # RF (SDM volume 3, 17.3.1.1).
    fault_flag=0x10000,
    debug=1,
    asked_debug=FaultSignal(_SIGTRAP, 1, True),
    traps=(1, 3, 4),
    # TASK_SIZE_MAX (set_signal_archinfo in fault.c).
    program_end=0x7FFFFFFFF000,
    float_status={16: FloatStatus("fpsw", "fpcw", 0), 19: FloatStatus("mxcsr", "mxcsr", 7)},
    # FPE_FLTINV, FPE_FLTDIV, FPE_FLTOVF, FPE_FLTUND, FPE_FLTRES (math_error in traps.c).
    float_codes=((1, 7), (4, 3), (8, 4), (0x12, 5), (0x20, 6)),
)
