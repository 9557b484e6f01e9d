"""System calls that make pipes and event counters."""

from __future__ import annotations

import errno
import os

from emu.linux.files.open_file import OpenFile
from emu.linux.ground.call import Subject, table
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int
from emu.linux.tasks.task import Task
from emu.linux.waiting.eventfd import EventFile
from emu.linux.waiting.pipe import open_pipe

_EFD_SEMAPHORE = 1


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


CALLS = table(Subject.WAITING, {
    "pipe": sys_pipe,
    "pipe2": sys_pipe2,
    "eventfd": sys_eventfd,
    "eventfd2": sys_eventfd2,
})  # fmt: skip
