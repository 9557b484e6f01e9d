"""Times in guest memory: timespec and timeval of 64-bit ISAs (clock_gettime(2), gettimeofday(2))."""

from __future__ import annotations

import errno

from emu.linux.failure import Errno
from emu.linux.task import Task
from emu.linux.words import as_long

_SECOND = 1_000_000_000
#: The longest time that Linux tells apart (KTIME_MAX), ns.
_LONGEST = (1 << 63) - 1


def read_timespec(task: Task, address: int) -> int:
    """Nanoseconds of the timespec at `address`. Raises Errno(EINVAL), Errno(EFAULT)."""
    seconds = as_long(task.process.memory.read_number(address, 8))
    nanoseconds = as_long(task.process.memory.read_number(address + 8, 8))
    if seconds < 0 or not 0 <= nanoseconds < _SECOND:
        raise Errno(errno.EINVAL)
    return min(seconds * _SECOND + nanoseconds, _LONGEST)


def read_timeval(task: Task, address: int) -> int:
    """Nanoseconds of the timeval at `address`, as select(2) takes it. Raises Errno(EINVAL), Errno(EFAULT)."""
    seconds = as_long(task.process.memory.read_number(address, 8))
    microseconds = as_long(task.process.memory.read_number(address + 8, 8))
    if seconds < 0 or microseconds < 0:
        raise Errno(errno.EINVAL)
    return min(seconds * _SECOND + microseconds * 1000, _LONGEST)


def pack_timespec(nanoseconds: int) -> bytes:
    """A timespec."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds.to_bytes(8, "little", signed=True) + rest.to_bytes(8, "little")


def pack_timeval(nanoseconds: int) -> bytes:
    """A timeval."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    return seconds.to_bytes(8, "little", signed=True) + (rest // 1000).to_bytes(8, "little")
