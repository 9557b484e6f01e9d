"""Linux on x86-64, as data. Sources: System V AMD64 ABI, appendix A.2; stat(2)."""

from __future__ import annotations

import errno

from isa.abi import LinuxAbi
from isa.layout import Layout
from isa.x86_64.calls import CALLS_X86_64
from isa.x86_64.cpuid import CPU_LINES
from isa.x86_64.signals import SIGNALS_X86_64

_STAT = Layout(
    144,
    {
        "device": (0, 8), "inode": (8, 8), "links": (16, 8), "mode": (24, 4), "uid": (28, 4), "gid": (32, 4),
        "special_device": (40, 8), "size": (48, 8), "block_size": (56, 8), "blocks": (64, 8),
        "accessed": (72, 8), "accessed_ns": (80, 8), "modified": (88, 8), "modified_ns": (96, 8),
        "changed": (104, 8), "changed_ns": (112, 8),
    },
)  # fmt: skip
#: Packed on this instruction set only.
_EPOLL_EVENT = Layout(12, {"events": (0, 4), "data": (4, 8)})

LINUX_X86_64 = LinuxAbi(
    calls=CALLS_X86_64,
    number="rax",
    arguments=("rdi", "rsi", "rdx", "r10", "r8", "r9"),
    result="rax",
    instruction_bytes=2,
    thread_pointer="fs_base",
    bases=((0x1002, 0x1003, "fs_base"), (0x1001, 0x1004, "gs_base")),
    # ARCH_GET_CPUID; ARCH_SET_CPUID, of a processor that cannot keep CPUID from a program.
    answers={0x1011: 1, 0x1012: -errno.ENODEV},
    clone_arguments=("flags", "stack", "parent_tid", "child_tid", "tls"),
    machine="x86_64",
    platform="x86_64",
    # CPUID leaf 1, edx, as `isa.x86_64.cpuid` has it.
    hwcap=0x078BFBFD,
    hwcap2=0,
    library_directories=(
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/lib",
        "/usr/lib",
    ),
    stat=_STAT,
    epoll_event=_EPOLL_EVENT,
    signals=SIGNALS_X86_64,
    cpu_lines=CPU_LINES,
)
