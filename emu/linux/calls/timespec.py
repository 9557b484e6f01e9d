"""Times read from guest memory: timespec and timeval of 64-bit ISAs (clock_gettime(2), gettimeofday(2))."""

from __future__ import annotations

import errno

from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_long
from emu.linux.tasks.task import Task

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
