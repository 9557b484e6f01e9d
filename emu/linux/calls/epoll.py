"""System calls of epoll (epoll_create(2), epoll_ctl(2), epoll_wait(2))."""

from __future__ import annotations

import errno
import os

from emu.linux.calls.poll import deadline_of, read_mask, under_mask
from emu.linux.calls.timespec import read_timespec
from emu.linux.ground.call import Subject, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task
from emu.linux.waiting.epoll import Epoll
from emu.linux.waiting.readiness import held, wait_for

_ADD, _DEL, _MOD = 1, 2, 3
#: EP_MAX_EVENTS: no more events fit in an int's worth of bytes.
_MOST_EVENTS = 0x7FFFFFFF // 12
#: Events that one wait reports at most: what is left comes with the next, as with a small maxevents.
_MOST_AT_ONCE = 4096


def sys_epoll_create(task: Task, size: int) -> int:
    """A new instance; the size means nothing but must be positive."""
    if as_int(size) <= 0:
        raise Errno(errno.EINVAL)
    return sys_epoll_create1(task, 0)


def sys_epoll_create1(task: Task, flags: int) -> int:
    """A new instance."""
    if as_int(flags) & ~os.O_CLOEXEC:
        raise Errno(errno.EINVAL)
    process = task.process
    epoll = Epoll(process.anonymous_inodes.next())
    return process.descriptors.add(epoll, cloexec=bool(flags & os.O_CLOEXEC))


def _instance(task: Task, epfd: int) -> Epoll:
    file = task.process.descriptors.get(as_int(epfd))
    if not isinstance(file, Epoll):
        raise Errno(errno.EINVAL)
    return file


def sys_epoll_ctl(task: Task, epfd: int, operation: int, fd: int, event: int) -> int:
    """Watch a file, change what is asked of it, or stop watching."""
    process, operation, fd = task.process, as_int(operation), as_int(fd)
    layout = process.abi.epoll_event
    fields = {"events": 0, "data": 0}
    if operation != _DEL:
        fields = layout.unpack(process.memory.read(event, layout.size))
    process.descriptors.get(as_int(epfd))
    file = process.descriptors.get(fd)
    epoll = _instance(task, epfd)
    if operation == _ADD:
        epoll.add(fd, file, fields["events"], fields["data"])
    elif operation == _MOD:
        epoll.modify(fd, file, fields["events"], fields["data"])
    elif operation == _DEL:
        epoll.remove(fd, file)
    else:
        raise Errno(errno.EINVAL)
    return 0


def _wait(task: Task, epfd: int, address: int, most: int, timeout: int | None) -> Blocking:
    """timeout: in ns; None: for ever."""
    most = as_int(most)
    epoll = _instance(task, epfd)
    if not 0 < most <= _MOST_EVENTS:
        raise Errno(errno.EINVAL)
    deadline = deadline_of(task, timeout)
    with held((epoll,)):
        return (yield from _collect(task, epoll, address, most, deadline))


def _collect(task: Task, epoll: Epoll, address: int, most: int, deadline: int | None) -> Blocking:
    process = task.process
    reason = None
    while True:
        reports = epoll.collect(min(most, _MOST_AT_ONCE))
        if reports:
            layout = process.abi.epoll_event
            raw = b"".join(layout.pack(events=events, data=data) for events, data in reports)
            process.memory.write(address, raw)
            return len(reports)
        if deadline is not None and process.clock.monotonic() >= deadline:
            return 0
        if reason is Reason.SIGNAL:
            raise Interrupted(restart=False)
        reason = yield from wait_for(epoll, deadline, "an epoll_wait")


def _milliseconds(timeout: int) -> int | None:
    return None if as_int(timeout) < 0 else as_int(timeout) * 1_000_000


def sys_epoll_wait(task: Task, epfd: int, events: int, most: int, timeout: int) -> Blocking:
    """Wait for events; timeout in ms."""
    return (yield from _wait(task, epfd, events, most, _milliseconds(timeout)))


def sys_epoll_pwait(
    task: Task, epfd: int, events: int, most: int, timeout: int, mask: int, size: int
) -> Blocking:
    """The same under a signal mask."""
    wanted = read_mask(task, mask, size)
    return (yield from under_mask(task, wanted, _wait(task, epfd, events, most, _milliseconds(timeout))))


def sys_epoll_pwait2(
    task: Task, epfd: int, events: int, most: int, timeout: int, mask: int, size: int
) -> Blocking:
    """The same, with a timespec."""
    longest = read_timespec(task, timeout) if timeout else None
    wanted = read_mask(task, mask, size)
    return (yield from under_mask(task, wanted, _wait(task, epfd, events, most, longest)))


CALLS = table(Subject.WAITING, {
    "epoll_create": sys_epoll_create,
    "epoll_create1": sys_epoll_create1,
    "epoll_ctl": sys_epoll_ctl,
    "epoll_wait": sys_epoll_wait,
    "epoll_pwait": sys_epoll_pwait,
    "epoll_pwait2": sys_epoll_pwait2,
})  # fmt: skip
