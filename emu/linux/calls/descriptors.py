"""Calls on descriptors. Sources: dup(2), fcntl(2), ioctl(2), flock(2), close_range(2)."""

from __future__ import annotations

import errno
import struct

from emu.linux.calls.arguments import file_of
from emu.linux.files import open_flags as of
from emu.linux.files.file_locks import FileLocks
from emu.linux.files.nodes import Node
from emu.linux.files.open_file import OpenFile
from emu.linux.files.owner import OWNER_PGRP, OWNER_PID
from emu.linux.files.regular import OpenPath, OpenRegular, mapped_key
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int, as_long
from emu.linux.signals.numbers import LAST_SIGNAL
from emu.linux.tasks.owners import living_owner, owner_of, set_async, set_owner
from emu.linux.tasks.task import Task

_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_GETLK, _F_SETLK, _F_SETLKW = range(8)
_F_SETOWN, _F_GETOWN, _F_SETSIG, _F_GETSIG, _F_SETOWN_EX, _F_GETOWN_EX = 8, 9, 10, 11, 15, 16
_F_OFD_GETLK, _F_OFD_SETLK, _F_OFD_SETLKW = 36, 37, 38
_F_SETLEASE, _F_GETLEASE, _F_DUPFD_CLOEXEC = 1024, 1025, 1030
_F_SETPIPE_SZ, _F_GETPIPE_SZ, _F_ADD_SEALS, _F_GET_SEALS = 1031, 1032, 1033, 1034
_F_RDLCK, _F_WRLCK, _F_UNLCK = 0, 1, 2
_FLOCK_BYTES = 32
_SEAL_SEAL, _SEAL_WRITE, _ALL_SEALS = 1, 8, 0x1F
_LOCK_SH, _LOCK_EX, _LOCK_NB, _LOCK_UN = 1, 2, 4, 8
_CLOSE_RANGE_UNSHARE, _CLOSE_RANGE_CLOEXEC = 2, 4

_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _FIOASYNC = 0x541B, 0x5421, 0x5450, 0x5451, 0x5452
_FICLONE, _FICLONERANGE, _FIDEDUPERANGE, _FIGETBSZ = 0x40049409, 0x4020940D, 0xC0189436, 2
_MOST_ARGUMENT = 4096


def sys_dup(task: Task, fd: int) -> int:
    """dup(2)."""
    return task.process.descriptors.add(file_of(task, fd))


def _replace(task: Task, old: int, new: int, cloexec: bool) -> int:
    file = file_of(task, old)
    task.process.descriptors.replace(as_int(new), file, cloexec)
    return as_int(new)


def sys_dup2(task: Task, old: int, new: int) -> int:
    """dup2(2)."""
    if as_int(old) == as_int(new):
        file_of(task, old)
        return as_int(new)
    return _replace(task, old, new, False)


def sys_dup3(task: Task, old: int, new: int, flags: int) -> int:
    """dup3(2)."""
    if as_int(flags) & ~of.O_CLOEXEC or as_int(old) == as_int(new):
        raise Errno(errno.EINVAL)
    return _replace(task, old, new, bool(flags & of.O_CLOEXEC))


def sys_close_range(task: Task, first: int, last: int, flags: int) -> int:
    """close_range(2). The table is shared by all threads: CLOSE_RANGE_UNSHARE is refused with EINVAL."""
    first, last, descriptors = first & 0xFFFFFFFF, last & 0xFFFFFFFF, task.process.descriptors
    if as_int(flags) & ~_CLOSE_RANGE_CLOEXEC or first > last:
        raise Errno(errno.EINVAL)
    for number, _ in descriptors.items():
        if first <= number <= last:
            if flags & _CLOSE_RANGE_CLOEXEC:
                descriptors.set_close_on_exec(number, True)
            else:
                descriptors.close(number)
    return 0


def sys_fcntl(task: Task, fd: int, command: int, argument: int) -> int:
    """fcntl(2)."""
    file, command = file_of(task, fd), as_int(command)
    on_path = (_F_DUPFD, _F_DUPFD_CLOEXEC, _F_GETFD, _F_SETFD, _F_GETFL)
    if isinstance(file, OpenPath) and command not in on_path:
        raise Errno(errno.EBADF)
    if command in (_F_DUPFD, _F_DUPFD_CLOEXEC):
        return _duplicate(task, file, as_int(argument), command == _F_DUPFD_CLOEXEC)
    if command == _F_GETFD:
        return int(task.process.descriptors.closes_on_exec(as_int(fd)))
    if command == _F_SETFD:
        task.process.descriptors.set_close_on_exec(as_int(fd), bool(argument & 1))
        return 0
    if command == _F_GETFL:
        return file.flags
    if command == _F_SETFL:
        file.flags = file.flags & ~of.SETTABLE | argument & of.SETTABLE
        if file.is_async:
            set_async(task.process, file, as_int(fd), bool(argument & of.O_ASYNC))
        return 0
    if command in (_F_GETLK, _F_SETLK, _F_SETLKW, _F_OFD_GETLK, _F_OFD_SETLK, _F_OFD_SETLKW):
        return _record_lock(task, file, command, argument)
    if command in (_F_SETPIPE_SZ, _F_GETPIPE_SZ):
        return _pipe_size(file, command, as_int(argument))
    if command in (_F_ADD_SEALS, _F_GET_SEALS):
        return _seals(task, file, command, argument & 0xFFFFFFFF)
    if command in (_F_GETOWN, _F_SETOWN, _F_GETSIG, _F_SETSIG, _F_GETOWN_EX, _F_SETOWN_EX):
        return _owner(task, file, command, argument)
    if command == _F_GETLEASE:
        return _F_UNLCK
    raise Errno(errno.EINVAL)


def _owner(task: Task, file: OpenFile, command: int, argument: int) -> int:
    """Who is told of the file, and by which signal. Errno: EINVAL, ESRCH."""
    process, memory, owner = task.process, task.process.memory, owner_of(file)
    if command == _F_GETSIG:
        return owner.signal
    if command == _F_SETSIG:
        if not 0 <= argument <= LAST_SIGNAL:
            raise Errno(errno.EINVAL)
        owner.signal = argument
    elif command == _F_SETOWN:
        who = as_int(argument)
        set_owner(process, owner, OWNER_PGRP if who < 0 else OWNER_PID, abs(who))
    elif command == _F_SETOWN_EX:
        kind, who = (as_int(memory.read_number(argument + at, 4)) for at in (0, 4))
        set_owner(process, owner, kind, who)
    elif command == _F_GETOWN:
        who = living_owner(process, owner)
        return -who if owner.kind == OWNER_PGRP else who
    else:
        memory.write(argument, struct.pack("<ii", owner.kind, living_owner(process, owner)))
    return 0


def _duplicate(task: Task, file: OpenFile, least: int, cloexec: bool) -> int:
    descriptors = task.process.descriptors
    if not 0 <= least < descriptors.limit:
        raise Errno(errno.EINVAL)
    return descriptors.add(file, cloexec, least)


def _record_lock(task: Task, file: OpenFile, command: int, address: int) -> int:
    """Locks of ranges belong to the process, and there is one: always granted (fcntl(2), struct flock)."""
    memory = task.process.memory
    raw = memory.read(address, _FLOCK_BYTES)
    kind, whence = int.from_bytes(raw[:2], "little"), int.from_bytes(raw[2:4], "little")
    start, size = (as_long(int.from_bytes(raw[at : at + 8], "little")) for at in (8, 16))
    if kind not in (_F_RDLCK, _F_WRLCK, _F_UNLCK) or whence > 2:
        raise Errno(errno.EINVAL)
    if whence == 0 and (start < 0 or start + min(size, 0) < 0):
        raise Errno(errno.EINVAL)
    if command in (_F_GETLK, _F_OFD_GETLK):
        if kind == _F_UNLCK:
            raise Errno(errno.EINVAL)
        memory.write_number(address, 2, _F_UNLCK)
        return 0
    if (kind == _F_RDLCK and not file.readable) or (kind == _F_WRLCK and not file.writable):
        raise Errno(errno.EBADF)
    return 0


def _pipe_size(file: OpenFile, command: int, size: int) -> int:
    """F_GETPIPE_SZ and F_SETPIPE_SZ. Raises Errno(EBADF): not a pipe."""
    get, change = getattr(file, "pipe_size", None), getattr(file, "set_pipe_size", None)
    if get is None or change is None:
        raise Errno(errno.EBADF)
    return int(get() if command == _F_GETPIPE_SZ else change(size))


def _seals(task: Task, file: OpenFile, command: int, seals: int) -> int:
    """F_GET_SEALS and F_ADD_SEALS, of memory files alone."""
    if not isinstance(file, OpenRegular) or file.node.seals is None:
        raise Errno(errno.EINVAL)
    if command == _F_GET_SEALS:
        return file.node.seals
    if seals & ~_ALL_SEALS:
        raise Errno(errno.EINVAL)
    if file.node.seals & _SEAL_SEAL or not file.writable:
        raise Errno(errno.EPERM)
    if seals & _SEAL_WRITE and task.process.space.may_be_written(mapped_key(file.node)):
        raise Errno(errno.EBUSY)
    file.node.seals |= seals
    return 0


def sys_flock(task: Task, fd: int, operation: int) -> Blocking:
    """flock(2): between descriptions, so that threads can exclude one another."""
    file, operation = file_of(task, fd), as_int(operation)
    kind = operation & ~_LOCK_NB
    if kind not in (_LOCK_SH, _LOCK_EX, _LOCK_UN):
        raise Errno(errno.EINVAL)
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    node = getattr(file, "node", None)
    if not isinstance(node, Node):
        return 0
    if node.locks is None:
        node.locks = FileLocks()
    locks = node.locks
    if kind == _LOCK_UN:
        locks.release(file)
        return 0
    while not locks.acquire(file, kind == _LOCK_EX):
        if operation & _LOCK_NB:
            raise Errno(errno.EWOULDBLOCK)
        reason = yield Wait((locks.changed,), None, f"a lock of {file.name}")
        if reason is Reason.SIGNAL:
            raise Interrupted()
    return 0


def sys_ioctl(task: Task, fd: int, request: int, argument: int) -> int:
    """ioctl(2). What no file knows is ENOTTY: no descriptor is a terminal."""
    file, request, memory = file_of(task, fd), request & 0xFFFFFFFF, task.process.memory
    if isinstance(file, OpenPath):
        raise Errno(errno.EBADF)
    if request in (_FIOCLEX, _FIONCLEX):
        task.process.descriptors.set_close_on_exec(as_int(fd), request == _FIOCLEX)
        return 0
    if request in (_FIONBIO, _FIOASYNC):
        on = bool(memory.read_number(argument, 4))
        if request == _FIONBIO:
            file.flags = file.flags & ~of.O_NONBLOCK | (of.O_NONBLOCK if on else 0)
        elif file.is_async:
            set_async(task.process, file, as_int(fd), on)
        elif on != bool(file.flags & of.O_ASYNC):
            raise Errno(errno.ENOTTY)
        return 0
    if request in (_FICLONE, _FICLONERANGE, _FIDEDUPERANGE):
        raise Errno(errno.EOPNOTSUPP)
    if isinstance(file, OpenRegular) and request in (_FIONREAD, _FIGETBSZ):
        left = as_long(file.node.size() - file.position)
        memory.write_number(argument, 4, 4096 if request == _FIGETBSZ else left)
        return 0
    return _by_file(task, file, request, argument)


def _by_file(task: Task, file: OpenFile, request: int, argument: int) -> int:
    """The file's own. Direction and size of the argument are in the request's upper half (ioctl(2))."""
    direction, size = request >> 30, request >> 16 & 0x3FFF
    given = direction & 1 and 0 < size <= _MOST_ARGUMENT
    answer = file.ioctl(request, task.process.memory.read(argument, size) if given else b"")
    if answer:
        task.process.memory.write(argument, answer)
    return 0


CALLS = table(Subject.FILES, {
    "dup": sys_dup,
    "dup2": sys_dup2,
    "dup3": sys_dup3,
    "close_range": in_part(sys_close_range, "CLOSE_RANGE_UNSHARE fails with EINVAL"),
    "fcntl": in_part(sys_fcntl, "locks of open file descriptions (F_OFD_SETLK) are always granted"),
    "flock": sys_flock,
    "ioctl": in_part(sys_ioctl, "no descriptor is a terminal: ENOTTY"),
})  # fmt: skip
