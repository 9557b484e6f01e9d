"""Calls that move bytes through pipes without a buffer of the program's (splice(2), tee(2), vmsplice(2))."""

from __future__ import annotations

import errno
from collections.abc import Generator

from corebraid.base.memory import PAGE_BYTES
from emu.linux.calls.arguments import buffers, file_of
from emu.linux.calls.moving import (
    PIECE,
    Stopped,
    after_transfer,
    before_transfer,
    read_into,
    write_all,
    write_from,
)
from emu.linux.files import open_flags as of
from emu.linux.files.open_file import OpenFile
from emu.linux.files.regular import OpenPath, OpenRegular
from emu.linux.ground.call import Call, FileBytes, Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int, as_long
from emu.linux.pseudo.dev import OpenDevice
from emu.linux.tasks.task import Task
from emu.linux.waiting.pipe import PipeReader, PipeWriter
from emu.linux.waiting.readiness import held, wait_for

_NONBLOCK, _ALL_FLAGS = 2, 0xF

_Waiting = Generator[Wait, Reason, bool]


def _offset(task: Task, address: int, file: OpenFile) -> int | None:
    """The position that a call names, None: the file's own. Errno: ESPIPE of a pipe, EINVAL."""
    if not address:
        return None
    if isinstance(file, PipeReader | PipeWriter):
        raise Errno(errno.ESPIPE)
    offset = as_long(task.process.memory.read_number(address, 8))
    if offset < 0 or not isinstance(file, OpenRegular | OpenDevice):
        raise Errno(errno.EINVAL)
    return offset


def _wait_for_data(end: PipeReader, flags: int) -> _Waiting:
    """Wait until there is something to read. False: nobody can write any more. Errno(EAGAIN)."""
    while not end.pipe.slots:
        if not end.pipe.writers:
            return False
        yield from _wait(end, flags, f"a splice from {end.name}")
    return True


def _wait_for_room(task: Task, end: PipeWriter, flags: int) -> _Waiting:
    """Wait until a page is free. Errno: EAGAIN, and EPIPE without a reader."""
    while True:
        if not end.pipe.readers:
            # As a write does: the error, and the signal.
            yield from write_all(task, end, b"\0", None, 0)
        if not end.pipe.full:
            return True
        yield from _wait(end, flags, f"a splice to {end.name}")


def _wait(end: PipeReader | PipeWriter, flags: int, what: str) -> Generator[Wait, Reason, None]:
    if flags & _NONBLOCK:
        raise Errno(errno.EAGAIN)
    if (yield from wait_for(end, None, what)) is Reason.SIGNAL:
        raise Interrupted


def _nonblocking(source: OpenFile, out: OpenFile) -> int:
    """The flag that pipes with O_NONBLOCK stand for."""
    ends = [end for end in (source, out) if isinstance(end, PipeReader | PipeWriter)]
    return _NONBLOCK if any(end.nonblocking for end in ends) else 0


def _room(end: PipeWriter) -> int:
    return (end.pipe.n_slots - len(end.pipe.slots)) * PAGE_BYTES


def sys_splice(
    task: Task, in_fd: int, in_offset: int, out_fd: int, out_offset: int, count: int, flags: int
) -> Blocking:
    """splice(2)."""
    if not count:
        return 0
    flags = as_int(flags)
    if flags & ~_ALL_FLAGS:
        raise Errno(errno.EINVAL)
    source, out = file_of(task, in_fd), file_of(task, out_fd)
    if not source.readable or not out.writable or isinstance(source, OpenPath) or isinstance(out, OpenPath):
        raise Errno(errno.EBADF)
    at, to = _offset(task, in_offset, source), _offset(task, out_offset, out)
    count = min(count, PIECE)
    flags |= _nonblocking(source, out)
    with held((source, out)):
        if isinstance(source, PipeReader):
            done = yield from _from_pipe(task, source, out, to, count, flags)
        elif isinstance(out, PipeWriter):
            done = yield from _to_pipe(task, source, at, out, count, flags)
        else:
            raise Errno(errno.EINVAL)
    for address, before in ((in_offset, at), (out_offset, to)):
        if before is not None:
            task.process.memory.write_number(address, 8, before + done)
    return done


def _from_pipe(
    task: Task, source: PipeReader, out: OpenFile, to: int | None, count: int, flags: int
) -> Blocking:
    if isinstance(out, PipeWriter) and out.pipe is source.pipe:
        raise Errno(errno.EINVAL)
    if out.flags & of.O_APPEND:
        raise Errno(errno.EINVAL)
    if not (yield from _wait_for_data(source, flags)):
        return 0
    if isinstance(out, PipeWriter):
        yield from _wait_for_room(task, out, flags)
        count = min(count, _room(out))
    before_transfer(task, out)
    data = source.read(count)
    try:
        done = yield from write_all(task, out, data, to, 0)
    except Stopped as stopped:
        done = stopped.done
    except (Errno, Interrupted):
        source.pipe.put_back(data)
        raise
    finally:
        after_transfer(task, out)
    source.pipe.put_back(data[done:])
    return done


def _to_pipe(
    task: Task, source: OpenFile, at: int | None, out: PipeWriter, count: int, flags: int
) -> Blocking:
    yield from _wait_for_room(task, out, flags)
    before_transfer(task, source)
    while True:
        try:
            n = min(count, _room(out))
            data = source.read(n) if at is None else source.pread(n, at)
            break
        except Errno as failure:
            if failure.number != errno.EAGAIN or source.nonblocking:
                raise
        if (yield from wait_for(source, None, f"a splice from {source.name}")) is Reason.SIGNAL:
            raise Interrupted
    # Others may have filled the pipe meanwhile.
    return (yield from write_all(task, out, data, None, 0)) if data else 0


def sys_tee(task: Task, in_fd: int, out_fd: int, count: int, flags: int) -> Blocking:
    """tee(2): the same bytes in both pipes."""
    if not count:
        return 0
    flags = as_int(flags)
    if flags & ~_ALL_FLAGS:
        raise Errno(errno.EINVAL)
    source, out = file_of(task, in_fd), file_of(task, out_fd)
    if not source.readable or not out.writable:
        raise Errno(errno.EBADF)
    if not isinstance(source, PipeReader) or not isinstance(out, PipeWriter) or source.pipe is out.pipe:
        raise Errno(errno.EINVAL)
    flags |= _nonblocking(source, out)
    with held((source, out)):
        while True:
            if not (yield from _wait_for_data(source, flags)):
                return 0
            yield from _wait_for_room(task, out, flags)
            if source.pipe.slots:
                break
        data = source.pipe.look(min(count, _room(out)))
        return (yield from write_all(task, out, data, None, 0))


def sys_vmsplice(task: Task, fd: int, vector: int, count: int, flags: int) -> Blocking:
    """vmsplice(2): what there is room for, copied, as SPLICE_F_GIFT allows. O_NONBLOCK does not count."""
    flags, file = as_int(flags), file_of(task, fd)
    if flags & ~_ALL_FLAGS:
        raise Errno(errno.EINVAL)
    if not isinstance(file, PipeReader | PipeWriter):
        raise Errno(errno.EBADF)
    pieces = buffers(task, vector, count)
    if not sum(size for _, size in pieces):
        return 0
    with held((file,)):
        if isinstance(file, PipeReader):
            if not (yield from _wait_for_data(file, flags)):
                return 0
            return (yield from read_into(task, file, pieces))
        yield from _wait_for_room(task, file, flags)
        return (yield from write_from(task, file, _first(pieces, _room(file))))


def _first(pieces: list[tuple[int, int]], n: int) -> list[tuple[int, int]]:
    """The first n bytes of the buffers."""
    kept = []
    for address, size in pieces:
        kept.append((address, min(size, n)))
        n -= kept[-1][1]
    return kept


CALLS = table(Subject.WAITING, {
    "splice": Call(sys_splice, files=FileBytes.CHANGED),
    "tee": sys_tee,
    "vmsplice": in_part(sys_vmsplice, "what there is room for, copied"),
})  # fmt: skip
