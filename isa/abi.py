"""What differs by instruction set in Linux's interface to programs. Data only: a frozen `LinuxAbi`."""

from __future__ import annotations

from dataclasses import dataclass

from isa.abi_signals import SignalAbi
from isa.layout import Layout

#: Where programs are looked for.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class LinuxAbi:
    """System calls and structures of one instruction set.

    calls: name by number. number, arguments, result: registers of a system call. instruction_bytes: length of
    the system-call instruction, for its restart. stack_pointer, thread_pointer: registers. bases: rows of
    (code of arch_prctl(2) that sets, that gets, register). answers: what its other codes return, by code.
    clone_arguments: order of legacy clone's (flags,
    stack, parent_tid, child_tid, tls). machine: as uname tells it. platform:
    AT_PLATFORM. hwcap, hwcap2: AT_HWCAP. library_directories: where the dynamic linker looks last. cpu_lines:
    of a processor in /proc/cpuinfo.
    """

    calls: dict[int, str]
    number: str
    arguments: tuple[str, ...]
    result: str
    instruction_bytes: int
    thread_pointer: str
    bases: tuple[tuple[int, int, str], ...]
    answers: dict[int, int]
    clone_arguments: tuple[str, ...]
    machine: str
    platform: str
    hwcap: int
    hwcap2: int
    library_directories: tuple[str, ...]
    stat: Layout
    epoll_event: Layout
    signals: SignalAbi
    cpu_lines: str
