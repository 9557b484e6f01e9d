"""Calls that set a file's times. Sources: utimensat(2), utime(2), futimesat(2)."""

from __future__ import annotations

import errno

from emu.linux.calls.arguments import file_of, node_at, node_of
from emu.linux.files import open_flags as of
from emu.linux.files.regular import OpenPath
from emu.linux.ground.call import Subject, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task

_UTIME_NOW, _UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2
_NS = 1_000_000_000
Times = tuple[int | None, int | None]


def _longs(task: Task, address: int, n: int) -> list[int]:
    raw = task.process.memory.read(address, 8 * n)
    return [as_long(int.from_bytes(raw[i : i + 8], "little")) for i in range(0, 8 * n, 8)]


def _now(task: Task) -> Times:
    now = task.process.clock.realtime()
    return now, now


def _timespecs(task: Task, address: int) -> Times:
    if not address:
        return _now(task)
    words = _longs(task, address, 4)
    times: list[int | None] = []
    for seconds, nanoseconds in (words[:2], words[2:]):
        if nanoseconds == _UTIME_OMIT:
            times.append(None)
        elif nanoseconds == _UTIME_NOW:
            times.append(task.process.clock.realtime())
        elif 0 <= nanoseconds < _NS:
            times.append(_bounded(seconds) * _NS + nanoseconds)
        else:
            raise Errno(errno.EINVAL)
    return times[0], times[1]


def _bounded(seconds: int) -> int:
    """As a file system stores it: what lies outside becomes the nearest."""
    return max(-(1 << 31), min(seconds, (1 << 33) - 1))


def _timevals(task: Task, address: int) -> Times:
    if not address:
        return _now(task)
    words = _longs(task, address, 4)
    if not all(0 <= microseconds < 1_000_000 for microseconds in words[1::2]):
        raise Errno(errno.EINVAL)
    return _bounded(words[0]) * _NS + words[1] * 1000, _bounded(words[2]) * _NS + words[3] * 1000


def sys_utimensat(task: Task, dirfd: int, path: int, times: int, flags: int) -> int:
    """utimensat(2); a null path means the descriptor."""
    flags = as_int(flags)
    accessed, modified = _timespecs(task, times)
    if accessed is None and modified is None:
        # Nobody looks whether the file is there.
        return 0
    if flags & ~(of.AT_SYMLINK_NOFOLLOW | of.AT_EMPTY_PATH):
        raise Errno(errno.EINVAL)
    if path:
        node = node_at(task, dirfd, path, flags)
    else:
        file = file_of(task, dirfd)
        if flags or isinstance(file, OpenPath):
            raise Errno(errno.EINVAL if flags else errno.EBADF)
        node = node_of(file)
    node.set_times(accessed, modified)
    return 0


def sys_futimesat(task: Task, dirfd: int, path: int, times: int) -> int:
    """futimesat(2)."""
    node = node_at(task, dirfd, path, 0) if path else node_of(file_of(task, dirfd))
    node.set_times(*_timevals(task, times))
    return 0


def sys_utimes(task: Task, path: int, times: int) -> int:
    """utimes(2)."""
    node_at(task, of.AT_FDCWD, path, 0).set_times(*_timevals(task, times))
    return 0


def sys_utime(task: Task, path: int, times: int) -> int:
    """utime(2), in seconds."""
    accessed, modified = _now(task)
    if times:
        accessed, modified = (_bounded(second) * _NS for second in _longs(task, times, 2))
    node_at(task, of.AT_FDCWD, path, 0).set_times(accessed, modified)
    return 0


CALLS = table(Subject.FILES, {
    "utimensat": sys_utimensat,
    "futimesat": sys_futimesat,
    "utimes": sys_utimes,
    "utime": sys_utime,
})  # fmt: skip
