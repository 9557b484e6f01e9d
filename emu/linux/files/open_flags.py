"""Flags of open(2) as x86-64 and RISC-V number them (Linux's asm-generic/fcntl.h)."""

from __future__ import annotations

O_ACCMODE, O_RDONLY, O_WRONLY, O_RDWR = 0o3, 0, 1, 2
O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC = 0o100, 0o200, 0o400, 0o1000
O_APPEND, O_NONBLOCK, O_DSYNC, O_ASYNC = 0o2000, 0o4000, 0o10000, 0o20000
O_DIRECT, O_LARGEFILE, O_DIRECTORY, O_NOFOLLOW = 0o40000, 0o100000, 0o200000, 0o400000
O_NOATIME, O_CLOEXEC, O_SYNC, O_PATH = 0o1000000, 0o2000000, 0o4010000, 0o10000000
O_TMPFILE = 0o20200000
_TMPFILE_BIT = 0o20000000
#: What openat2 accepts, and what open silently ignores beyond it (openat2(2)).
ALL = (
    O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK | O_SYNC | O_ASYNC | O_DIRECT
    | O_LARGEFILE | O_DIRECTORY | O_NOFOLLOW | O_NOATIME | O_CLOEXEC | O_PATH | _TMPFILE_BIT
)  # fmt: skip
#: What fcntl(F_SETFL) changes, besides O_ASYNC of files that can tell their owner.
SETTABLE = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME
#: What is forgotten once a file is open.
_TRANSIENT = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC

#: `dirfd` for the current directory, and flags of the *at calls (fcntl.h).
AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000


def is_unnamed(flags: int) -> bool:
    """O_TMPFILE is asked for."""
    return bool(flags & _TMPFILE_BIT)


def status_flags(flags: int) -> int:
    """What F_GETFL tells of a file opened with `flags`: O_LARGEFILE too, as on every 64-bit Linux."""
    if flags & O_PATH:
        return flags & (O_PATH | O_DIRECTORY | O_NOFOLLOW)
    return flags & ALL & ~_TRANSIENT | O_LARGEFILE


def may_write(flags: int) -> bool:
    """The access mode allows writing."""
    return flags & O_ACCMODE in (O_WRONLY, O_RDWR)


def may_read(flags: int) -> bool:
    """The access mode allows reading."""
    return flags & O_ACCMODE in (O_RDONLY, O_RDWR)
