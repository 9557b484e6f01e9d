"""Moving bytes between files and guest memory, in pieces, waiting where the file makes one wait."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Iterable
from functools import partial

from emu.linux.calls.arguments import MOST_BYTES, PROGRAM_END
from emu.linux.files.open_file import POLLIN, POLLOUT, OpenFile
from emu.linux.files.regular import NodeFile, OpenRegular
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.pseudo.dev import OpenDevice
from emu.linux.sockets.socket import Socket
from emu.linux.tasks.task import Task
from emu.linux.waiting.pipe import PipeReader, PipeWriter
from emu.linux.waiting.readiness import WaitableFile, held, wait_for

#: Never more than this at once, whatever number the guest names.
PIECE = 1 << 20
_SIGPIPE = 13

Waiting = Generator[Wait, Reason, None]
Buffers = list[tuple[int, int]]


def read_into(task: Task, file: OpenFile, buffers: Buffers, offset: int | None = None) -> Blocking:
    """Fill buffers from the position (None) or from `offset`. Returns how many bytes."""
    if not file.readable:
        raise Errno(errno.EBADF)
    buffers = _of_program(buffers)
    if isinstance(file, NodeFile | OpenDevice):
        before_transfer(task, file)
        return _read_whole(task, file, buffers, offset)
    with held((file,)):
        return (yield from _read_stream(task, file, buffers, offset))


def _of_program(buffers: Buffers) -> Buffers:
    """Cut at what one call transfers. Errno(EFAULT): one reaches to where no program has memory."""
    if any(size > PROGRAM_END - address for address, size in buffers):
        raise Errno(errno.EFAULT)
    return [(address, min(size, MOST_BYTES)) for address, size in buffers]


def _read_whole(task: Task, file: OpenFile, buffers: Buffers, offset: int | None) -> int:
    """Of a file that never makes one wait: as much as it has."""
    done = 0
    for address, size in [buffer for buffer in buffers if buffer[1]] or [(0, 0)]:
        for at in range(0, max(size, 1), PIECE):
            n = min(size - at, PIECE)
            try:
                data = file.read(n) if offset is None else file.pread(n, offset + done)
                stored = _store(task, file, address + at, data, offset) if data else 0
            except Errno:
                if done:
                    return done
                raise
            done += stored
            if stored < n:
                return done
    return done


def _store(task: Task, file: OpenFile, address: int, data: bytes, offset: int | None) -> int:
    """Store what was read, as far as memory goes. Returns how many bytes. Raises Errno if it is none."""
    memory, n = task.process.memory, len(data)
    try:
        memory.write(address, data)
    except Errno:
        n = memory.reachable(address, len(data), True)
        # What could not be stored was not read: a file's position stays.
        if offset is None and isinstance(file, OpenRegular):
            file.position -= len(data) - n
        if not n:
            raise
        memory.write(address, data[:n])
    return n


def _read_stream(task: Task, file: OpenFile, buffers: Buffers, offset: int | None) -> Blocking:
    """Of a pipe, a socket or the like: once, what is there, spread over the buffers."""
    wanted = sum(size for _, size in buffers)
    buffers = _reached(task, buffers, True)
    n = min(sum(size for _, size in buffers), PIECE)
    attempt = partial(file.read, n) if offset is None else partial(file.pread, n, offset)
    if isinstance(file, Socket) and offset is None:
        attempt = partial(file.read_into, min(wanted, PIECE), n)
    elif wanted and not n:
        # Nothing is taken that cannot be stored.
        raise Errno(errno.EFAULT)
    data = yield from _take(task, file, attempt, bool(wanted))
    if n < min(wanted, PIECE) and isinstance(file, PipeReader):
        # A page of a pipe is read as far as it is wanted, or not at all.
        given, data = data, file.pipe.whole_pages(data)
        if given and not data:
            raise Errno(errno.EFAULT)
    at = 0
    for address, size in buffers:
        piece = data[at : at + size]
        if piece:
            task.process.memory.write(address, piece)
        at += len(piece)
    return at


def _reached(task: Task, buffers: Buffers, write: bool) -> Buffers:
    """The buffers up to the first byte that the guest may not write, or read."""
    found = []
    for address, size in buffers:
        n = task.process.memory.reachable(address, size, write) if size else 0
        found.append((address, n))
        if n < size:
            break
    return found


def _take(
    task: Task, file: OpenFile, attempt: Callable[[], bytes], wait: bool
) -> Generator[Wait, Reason, bytes]:
    """The next bytes, once there are some. wait: or none."""
    timeout = file.receive_timeout() if isinstance(file, WaitableFile) else None
    deadline = None if timeout is None else task.process.clock.monotonic() + timeout
    while True:
        try:
            return attempt()
        except Errno as failure:
            if failure.number != errno.EAGAIN:
                raise
            if not wait:
                return b""
            if file.nonblocking:
                raise
        yield from _wait(task, file, deadline, f"a read of {file.name}", POLLIN)


def write_from(task: Task, file: OpenFile, buffers: Buffers, offset: int | None = None) -> Blocking:
    """Write buffers at the position (None) or at `offset`. Returns how many bytes."""
    if not file.writable:
        raise Errno(errno.EBADF)
    buffers = _of_program(buffers)
    before_transfer(task, file)
    with held((file,)):
        return (yield from _write(task, file, buffers, offset))


def _write(task: Task, file: OpenFile, buffers: Buffers, offset: int | None) -> Blocking:
    done = 0
    try:
        for data in _pieces(task, file, buffers):
            done += yield from write_all(task, file, data, None if offset is None else offset + done, done)
    except Stopped as stopped:
        return done + stopped.done
    except Errno:
        if not done:
            raise
    finally:
        after_transfer(task, file)
    return done


def _pieces(task: Task, file: OpenFile, buffers: Buffers) -> Generator[bytes, None, None]:
    """What is written at once: small vectors as a whole, as a pipe or a socket expects."""
    total = sum(size for _, size in buffers)
    groups: Iterable[Buffers] = [buffers] if total <= PIECE else _cut(buffers)
    for group in groups:
        try:
            data = _gather(task, group)
        except Errno:
            if isinstance(file, OpenDevice) and file.blind:
                yield bytes(sum(size for _, size in group))
                continue
            data = _readable(task, file, group)
            if data:
                yield data
            raise
        yield data


def _cut(buffers: Buffers) -> Generator[Buffers, None, None]:
    for address, size in buffers:
        for at in range(0, size, PIECE):
            yield [(address + at, min(PIECE, size - at))]


def _gather(task: Task, buffers: Buffers) -> bytes:
    return b"".join(task.process.memory.read(address, size) for address, size in buffers if size)


def _readable(task: Task, file: OpenFile, buffers: Buffers) -> bytes:
    """What Linux writes of buffers that cannot be read to their end: to a file all before, to a pipe whole
    pages. Errno(EAGAIN): a pipe is found full before the buffers are looked at."""
    data = _gather(task, _reached(task, buffers, False))
    if isinstance(file, OpenRegular | OpenDevice):
        return data
    if not isinstance(file, PipeWriter):
        return b""
    n = file.whole(sum(size for _, size in buffers), len(data))
    if not n and not file.pipe.readers:
        # As every write without a reader: the error, and the signal.
        return b"\0"
    if not n and file.pipe.full and file.nonblocking:
        raise Errno(errno.EAGAIN)
    return data[:n]


class Stopped(Exception):
    """A write came to its end early, with `done` bytes of the last piece written."""

    def __init__(self, done: int) -> None:
        super().__init__("stopped")
        self.done = done


def write_all(task: Task, file: OpenFile, data: bytes, offset: int | None, before: int) -> Blocking:
    """Write all of `data`, waiting for room. before: bytes that this call has written already.

    Raises Errno or Interrupted if nothing was written at all, else Stopped.
    """
    timeout = file.send_timeout() if isinstance(file, WaitableFile) else None
    deadline = None if timeout is None else task.process.clock.monotonic() + timeout
    done = 0
    while True:
        try:
            piece = data[done:] if done else data
            n = file.write(piece) if offset is None else file.pwrite(piece, offset + done)
            done += n
            if done >= len(data) or not n:
                return done
            continue
        except Errno as failure:
            if failure.number == errno.EPIPE:
                task.process.signals.post(task, _SIGPIPE)
            if failure.number != errno.EAGAIN or file.nonblocking:
                if before or done:
                    raise Stopped(done) from None
                raise
        try:
            yield from _wait(task, file, deadline, f"a write to {file.name}", POLLOUT)
        except (Errno, Interrupted):
            if before or done:
                raise Stopped(done) from None
            raise


def _wait(task: Task, file: OpenFile, deadline: int | None, what: str, events: int) -> Waiting:
    """Wait until the file may have changed. Raises Interrupted, Errno(EAGAIN) when its time-out is over."""
    reason = yield from wait_for(file, deadline, what, events)
    if reason is Reason.SIGNAL:
        # A socket with a time-out is never restarted (signal(7)).
        raise Interrupted(restart=deadline is None)
    if deadline is not None and task.process.clock.monotonic() >= deadline:
        raise Errno(errno.EAGAIN)


def before_transfer(task: Task, file: OpenFile) -> None:
    """Memory that shares the file's bytes is part of the file."""
    space = task.process.space
    if isinstance(file, OpenRegular) and space.has_shared_files:
        space.write_back()


def after_transfer(task: Task, file: OpenFile) -> None:
    """Memory that shares the file's bytes shows the new ones."""
    space = task.process.space
    if isinstance(file, OpenRegular) and space.has_shared_files:
        space.reload()
