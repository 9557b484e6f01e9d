"""What differs by instruction set in Linux's interface to programs. Data only: a frozen `LinuxAbi`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isa.linux_signal import SignalAbi


#: Where programs are looked for.
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Layout:
    """A C structure: its size, and (offset, size in bytes) of every field that is used."""

    size: int
    fields: dict[str, tuple[int, int]]

    def pack(self, **values: int) -> bytes:
        """The structure's bytes; fields that are not named are 0."""
        raw = bytearray(self.size)
        for name, value in values.items():
            offset, size = self.fields[name]
            raw[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        return bytes(raw)

    def unpack(self, raw: bytes) -> dict[str, int]:
        """Every field as an unsigned number."""
        return {
            name: int.from_bytes(raw[offset : offset + size], "little")
            for name, (offset, size) in self.fields.items()
        }


@dataclass(frozen=True)
class LinuxAbi:
    """System calls and structures of one instruction set.

    calls: name by number. number, arguments, result: registers of a system call. instruction_bytes: length of
    the system-call instruction, for its restart. stack_pointer, thread_pointer: registers. clone_arguments:
    order of legacy clone's (flags, stack, parent_tid, child_tid, tls). machine: as uname tells it. platform:
    AT_PLATFORM. hwcap, hwcap2: AT_HWCAP. library_directories: where the dynamic linker looks last. cpu_lines:
    of a processor in /proc/cpuinfo.
    """

    calls: dict[int, str]
    number: str
    arguments: tuple[str, ...]
    result: str
    instruction_bytes: int
    thread_pointer: str
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
