"""Signals that are read (signalfd(2)): those pending for the task that reads, whoever made the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from emu.linux.files.open_file import POLLIN
from emu.linux.ground.failure import Errno
from emu.linux.signals.info import SigInfo
from emu.linux.signals.numbers import SI_TIMER, SIGBUS, SIGCHLD, SIGFPE, SIGILL, SIGSEGV, SIGTRAP
from emu.linux.signals.receiver import Receiver
from emu.linux.waiting.readiness import PlacelessFile
from isa.layout import Layout

if TYPE_CHECKING:
    from emu.linux.signals.of_process import ProcessSignals

#: struct signalfd_siginfo.
RECORD = Layout(
    128,
    {
        "signal": (0, 4), "error": (4, 4), "code": (8, 4), "pid": (12, 4), "uid": (16, 4), "fd": (20, 4),
        "timer": (24, 4), "band": (28, 4), "overrun": (32, 4), "trap": (36, 4), "status": (40, 4),
        "int": (44, 4), "pointer": (48, 8), "user_time": (56, 8), "system_time": (64, 8), "address": (72, 8),
    },
)  # fmt: skip
#: si_code: SI_KERNEL, and SI_SIGIO.
_SI_KERNEL, _SI_SIGIO = 0x80, -5
_FAULTS = (SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV)
#: Where the fields of each kind lie in `SigInfo.fields` (asm-generic/siginfo.h).
_SENT = {"pid": (0, 4), "uid": (4, 4)}
_QUEUED = {**_SENT, "int": (8, 4), "pointer": (8, 8)}
_TIMER = {"timer": (0, 4), "overrun": (4, 4), "int": (8, 4), "pointer": (8, 8)}
_FAULT = {"address": (0, 8)}
_CHILD = {**_SENT, "status": (8, 4), "user_time": (16, 8), "system_time": (24, 8)}
_POLL = {"band": (0, 4), "fd": (8, 4)}


def _fields(info: SigInfo) -> dict[str, tuple[int, int]]:
    """Which fields the signal has, as the kernel's siginfo_layout() decides."""
    if 0 < info.code < _SI_KERNEL:
        return _FAULT if info.signal in _FAULTS else _CHILD if info.signal == SIGCHLD else _POLL
    if info.code == SI_TIMER:
        return _TIMER
    if info.code == _SI_SIGIO:
        return _POLL
    return _QUEUED if info.code < 0 else _SENT


def record_of(info: SigInfo) -> bytes:
    """The 128 bytes that a read gives for a signal."""
    raw = info.fields.ljust(32, b"\0")
    values = {name: int.from_bytes(raw[at : at + n], "little") for name, (at, n) in _fields(info).items()}
    mask = 0xFFFFFFFF
    return RECORD.pack(signal=info.signal, error=info.error & mask, code=info.code & mask, **values)


class SignalFile(PlacelessFile):
    """Pending signals of a set. caller: tells the task that reads or polls."""

    name = "anon_inode:[signalfd]"
    normal_data = False

    def __init__(
        self, mask: int, flags: int, inode: int, signals: ProcessSignals, caller: Callable[[], Receiver]
    ) -> None:
        super().__init__(os.O_RDWR | flags, inode)
        self._mask = mask
        self._signals, self._caller = signals, caller
        signals.arrivals.append(self._arrived)

    def _arrived(self) -> None:
        self.announce(POLLIN)

    def set_mask(self, mask: int) -> None:
        """Read other signals from now on."""
        self._mask = mask
        self.announce(POLLIN)

    def read(self, n: int) -> bytes:
        """Whole records of 128 bytes. Errno: EINVAL where not one has room, EAGAIN: none is pending."""
        if n < RECORD.size:
            raise Errno(errno.EINVAL)
        records: list[bytes] = []
        while len(records) < n // RECORD.size:
            info = self._signals.take_from(self._caller(), self._mask)
            if info is None:
                break
            records.append(record_of(info))
        if not records:
            raise Errno(errno.EAGAIN)
        return b"".join(records)

    def poll(self) -> int:
        """POLLIN while a signal of the set is pending."""
        pending = self._caller().signals.pending.mask | self._signals.shared.mask
        return POLLIN if pending & self._mask else 0

    def close(self) -> None:
        """No longer told of signals."""
        self._signals.arrivals.remove(self._arrived)
        self.changed.wake()
