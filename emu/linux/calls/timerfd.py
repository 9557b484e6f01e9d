"""System calls of timers that are read (timerfd_create(2))."""

from __future__ import annotations

import errno
import os

from emu.linux.calls.timespec import read_timespec
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.timespec import pack_timespec
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task
from emu.linux.waiting.timerfd import TimerFile

_REALTIME, _MONOTONIC, _BOOTTIME, _REALTIME_ALARM, _BOOTTIME_ALARM = 0, 1, 7, 8, 9
_TFD_ABSTIME, _TFD_CANCEL_ON_SET = 1, 2


def sys_timerfd_create(task: Task, clock: int, flags: int) -> int:
    """timerfd_create(2). Clocks that wake a sleeping machine need a privilege: EPERM."""
    process, clock, flags = task.process, as_int(clock), as_int(flags)
    known = (_REALTIME, _MONOTONIC, _BOOTTIME, _REALTIME_ALARM, _BOOTTIME_ALARM)
    if flags & ~(os.O_CLOEXEC | os.O_NONBLOCK) or clock not in known:
        raise Errno(errno.EINVAL)
    if clock in (_REALTIME_ALARM, _BOOTTIME_ALARM):
        raise Errno(errno.EPERM)
    file = TimerFile(
        process.clock, clock == _REALTIME, flags & os.O_NONBLOCK, process.anonymous_inodes.next()
    )
    return process.descriptors.add(file, cloexec=bool(flags & os.O_CLOEXEC))


def _timer(task: Task, fd: int) -> TimerFile:
    file = task.process.descriptors.get(as_int(fd))
    if not isinstance(file, TimerFile):
        raise Errno(errno.EINVAL)
    return file


def sys_timerfd_settime(task: Task, fd: int, flags: int, value: int, old: int) -> int:
    """timerfd_settime(2). The clock is never set, so TFD_TIMER_CANCEL_ON_SET changes nothing."""
    memory, flags = task.process.memory, as_int(flags)
    if flags & ~(_TFD_ABSTIME | _TFD_CANCEL_ON_SET):
        raise Errno(errno.EINVAL)
    interval, first = read_timespec(task, value), read_timespec(task, value + 16)
    timer = _timer(task, fd)
    before = _itimerspec(timer)
    timer.set(first, interval, bool(flags & _TFD_ABSTIME))
    if old:
        memory.write(old, before)
    return 0


def sys_timerfd_gettime(task: Task, fd: int, address: int) -> int:
    """timerfd_gettime(2)."""
    task.process.memory.write(address, _itimerspec(_timer(task, fd)))
    return 0


def _itimerspec(timer: TimerFile) -> bytes:
    left, interval = timer.remaining()
    return pack_timespec(interval) + pack_timespec(left)


CALLS = table(Subject.WAITING, {
    "timerfd_create": in_part(sys_timerfd_create, "clocks that wake a sleeping machine fail with EPERM"),
    "timerfd_settime": sys_timerfd_settime,
    "timerfd_gettime": sys_timerfd_gettime,
})  # fmt: skip
