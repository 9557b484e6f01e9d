"""System calls that make pipes, event counters and timers that are read."""

from __future__ import annotations

import errno
import os

from emu.linux.eventfd import EventFile
from emu.linux.failure import Errno
from emu.linux.open_file import OpenFile
from emu.linux.pipe import open_pipe
from emu.linux.task import Task
from emu.linux.timerfd import TimerFile
from emu.linux.timespec import pack_timespec, read_timespec
from emu.linux.wait import Handler
from emu.linux.words import as_int

_EFD_SEMAPHORE = 1
_REALTIME, _MONOTONIC, _BOOTTIME, _REALTIME_ALARM, _BOOTTIME_ALARM = 0, 1, 7, 8, 9
_TFD_ABSTIME, _TFD_CANCEL_ON_SET = 1, 2


def sys_pipe(task: Task, address: int) -> int:
    """pipe(2)."""
    return sys_pipe2(task, address, 0)


def sys_pipe2(task: Task, address: int, flags: int) -> int:
    """Two descriptors, reader and writer, as two ints."""
    process, flags = task.process, as_int(flags)
    if flags & ~(os.O_CLOEXEC | os.O_NONBLOCK | os.O_DIRECT):
        raise Errno(errno.EINVAL)
    reader, writer = open_pipe(flags & ~os.O_CLOEXEC, process.anonymous_inodes.next())
    add_pair(task, (reader, writer), address, bool(flags & os.O_CLOEXEC))
    return 0


def add_pair(task: Task, files: tuple[OpenFile, OpenFile], address: int, cloexec: bool) -> None:
    """Give two files descriptors and write these as two ints. Errno: EMFILE, EFAULT; then none is left."""
    process = task.process
    first = process.descriptors.add(files[0], cloexec=cloexec)
    try:
        second = process.descriptors.add(files[1], cloexec=cloexec)
        try:
            process.memory.write(address, first.to_bytes(4, "little") + second.to_bytes(4, "little"))
        except Errno:
            process.descriptors.close(second)
            raise
    except Errno:
        process.descriptors.close(first)
        raise


def sys_eventfd(task: Task, count: int) -> int:
    """eventfd(2), the old call."""
    return sys_eventfd2(task, count, 0)


def sys_eventfd2(task: Task, count: int, flags: int) -> int:
    """eventfd(2)."""
    process, flags = task.process, as_int(flags)
    if flags & ~(os.O_CLOEXEC | os.O_NONBLOCK | _EFD_SEMAPHORE):
        raise Errno(errno.EINVAL)
    file = EventFile(
        count & 0xFFFFFFFF,
        bool(flags & _EFD_SEMAPHORE),
        flags & os.O_NONBLOCK,
        process.anonymous_inodes.next(),
    )
    return process.descriptors.add(file, cloexec=bool(flags & os.O_CLOEXEC))


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


CALLS: dict[str, Handler] = {
    "pipe": sys_pipe,
    "pipe2": sys_pipe2,
    "eventfd": sys_eventfd,
    "eventfd2": sys_eventfd2,
    "timerfd_create": sys_timerfd_create,
    "timerfd_settime": sys_timerfd_settime,
    "timerfd_gettime": sys_timerfd_gettime,
}
