"""siginfo: what a signal's receiver learns of it (sigaction(2), asm-generic/siginfo.h)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from emu.linux.ground.words import as_int, unsigned
from emu.linux.signals.numbers import SI_KERNEL, SI_TIMER, SIGBUS, SIGSEGV

#: Bytes of `siginfo_t`, and where what depends on the signal begins.
INFO_BYTES = 128
_FIELDS = 16


class Source(Protocol):
    """What wants to know when its signal leaves the queue: a timer."""

    def taken(self, info: SigInfo) -> SigInfo:
        """The signal is to be delivered or thrown away; returns what its receiver is told."""


@dataclass(frozen=True)
class Trap:
    """The processor's side of a fault: exception number, error code, address of a bad access; whether the
    instruction is to be tried again. shown: what the frame's fields have otherwise than always."""

    number: int
    error: int = 0
    address: int = 0
    retried: bool = False
    shown: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class SigInfo:
    """A signal with its origin. code: si_code. fields: its bytes from offset 16 on."""

    signal: int
    code: int
    fields: bytes = b""
    error: int = 0
    trap: Trap | None = None
    source: Source | None = None

    @property
    def fault_address(self) -> int | None:
        """Of a bad access of the task's own, which one it was (si_addr of SIGSEGV and SIGBUS); else None."""
        if self.trap is None or self.signal not in (SIGSEGV, SIGBUS) or self.code == SI_KERNEL:
            return None
        return int.from_bytes(self.fields[:8], "little")

    def pack(self) -> bytes:
        """The 128 bytes of `siginfo_t`."""
        head = b"".join(
            unsigned(word, 4).to_bytes(4, "little") for word in (self.signal, self.error, self.code)
        )
        return (head + bytes(4) + self.fields).ljust(INFO_BYTES, b"\0")


def sent(signal: int, code: int, pid: int, uid: int) -> SigInfo:
    """By a process: kill, tgkill."""
    return SigInfo(signal, code, pid.to_bytes(4, "little") + uid.to_bytes(4, "little"))


def from_user(signal: int, raw: bytes) -> SigInfo:
    """As a program made it up (rt_sigqueueinfo(2)); its si_signo does not count."""
    code, error = (as_int(int.from_bytes(raw[start : start + 4], "little")) for start in (8, 4))
    return SigInfo(signal, code, raw[_FIELDS:INFO_BYTES], error)


def fault(signal: int, code: int, address: int, trap: Trap | None = None) -> SigInfo:
    """Caused by the task itself; address: si_addr."""
    return SigInfo(signal, code, address.to_bytes(8, "little"), trap=trap)


def file_ready(signal: int, code: int, band: int, fd: int) -> SigInfo:
    """About a file (F_SETSIG). band: si_band, POLL* bits; fd: si_fd."""
    return SigInfo(signal, code, band.to_bytes(8, "little") + unsigned(fd, 4).to_bytes(4, "little"))


def timer_expired(signal: int, timer: int, value: int, source: Source) -> SigInfo:
    """By a POSIX timer (timer_create(2)); value: sigev_value."""
    head = unsigned(timer, 4).to_bytes(4, "little") + bytes(4)
    return SigInfo(signal, SI_TIMER, head + value.to_bytes(8, "little"), source=source)


def with_overrun(info: SigInfo, overrun: int) -> SigInfo:
    """si_overrun of a timer's signal."""
    return replace(
        info, fields=info.fields[:4] + unsigned(overrun, 4).to_bytes(4, "little") + info.fields[8:]
    )
