"""Owners of files, and the signals that they get. Source: fcntl(2), send_sigio in fs/fcntl.c."""

from __future__ import annotations

import errno
from functools import partial
from typing import TYPE_CHECKING

from emu.linux.files.open_file import OpenFile
from emu.linux.files.open_flags import O_ASYNC
from emu.linux.files.owner import BANDS, OWNER_PGRP, OWNER_PID, OWNER_TID, Owner
from emu.linux.ground.failure import Errno
from emu.linux.signals.info import SigInfo, file_ready
from emu.linux.signals.numbers import (
    SI_KERNEL,
    SI_SIGIO,
    SIGBUS,
    SIGCHLD,
    SIGFPE,
    SIGILL,
    SIGIO,
    SIGSEGV,
    SIGSYS,
    SIGTRAP,
)  # fmt: skip

if TYPE_CHECKING:
    from emu.linux.tasks.process import Process

#: Whose si_code means something else (SIG_SPECIFIC_SICODES_MASK).
_WITH_CODES = {SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGTRAP, SIGCHLD, SIGSYS}


def owner_of(file: OpenFile) -> Owner:
    """The file's, nobody at first."""
    if file.owner is None:
        file.owner = Owner()
    return file.owner


def set_async(process: Process, file: OpenFile, fd: int, on: bool) -> None:
    """Set or clear O_ASYNC, by this descriptor."""
    if on == bool(file.flags & O_ASYNC):
        return
    file.flags ^= O_ASYNC
    owner = owner_of(file)
    owner.fd, owner.post = fd, partial(_tell, process)


def set_owner(process: Process, owner: Owner, kind: int, number: int) -> None:
    """Raises Errno: EINVAL for a kind that there is not, ESRCH for who is nobody."""
    if kind not in (OWNER_TID, OWNER_PID, OWNER_PGRP) or number >= 1 << 31:
        raise Errno(errno.EINVAL)
    if number and number != process.pid and number not in process.tasks:
        raise Errno(errno.ESRCH)
    owner.kind, owner.number = kind, number


def living_owner(process: Process, owner: Owner) -> int:
    """The owner's number; 0: nobody, or nothing of its kind has it."""
    known = owner.number == process.pid or (owner.kind == OWNER_TID and owner.number in process.tasks)
    return owner.number if known else 0


def _tell(process: Process, owner: Owner, happened: int) -> None:
    """Send the signal. Where no more fit into the queue it is SIGIO, about nothing."""
    if not owner.number:
        return
    target = process.tasks.get(owner.number) if owner.kind == OWNER_TID else None
    if target is None and not living_owner(process, owner):
        return
    if owner.signal:
        code = SI_SIGIO if owner.signal in _WITH_CODES else happened
        try:
            process.signals.post(
                target, owner.signal, file_ready(owner.signal, code, BANDS[happened], owner.fd)
            )
        except Errno:
            pass
        else:
            return
    process.signals.post(target, SIGIO, SigInfo(SIGIO, SI_KERNEL))
