"""System calls that send and receive through sockets (send(2), recv(2), sendmmsg(2), recvmmsg(2))."""

from __future__ import annotations

import errno
from collections.abc import Generator, Iterator
from functools import partial

from emu.linux.calls.arguments import MOST_BYTES
from emu.linux.calls.message_headers import (
    MSG_TRUNC,
    MSGHDR,
    Header,
    files_sent,
    gather,
    read_header,
    scatter,
    storable,
    write_control,
    write_source,
)
from emu.linux.calls.poll import deadline_of
from emu.linux.calls.sockets import patiently, read_address, socket_of
from emu.linux.calls.timespec import read_timespec
from emu.linux.files.open_file import POLLOUT, OpenFile
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.timespec import pack_timespec
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.sockets.addresses import AF_UNIX, Address
from emu.linux.sockets.inbox import Received
from emu.linux.sockets.socket import SOCK_STREAM, Socket
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import release

_OOB, _PEEK, _DONTWAIT, _WAITALL = 1, 2, 0x40, 0x100
_ERRQUEUE, _NOSIGNAL, _WAITFORONE = 0x2000, 0x4000, 0x10000
_SIGPIPE = 13
#: Bytes of a stream that are read from guest memory at once.
_PIECE = 1 << 18
#: Messages of one sendmmsg or recvmmsg (UIO_MAXIOV); struct mmsghdr.
_MOST_MESSAGES, _MMSGHDR = 1024, 64

Buffers = list[tuple[int, int]]


def _pieces(task: Task, vector: Buffers) -> Iterator[bytes]:
    """The bytes to send, a piece over all buffers at a time; at least one piece, maybe an empty one."""
    parts: list[bytes] = []
    room, first = _PIECE, True
    for address, n in vector:
        at = 0
        while at < n:
            parts.append(task.process.memory.read(address + at, min(room, n - at)))
            at += len(parts[-1])
            room -= len(parts[-1])
            if not room:
                yield b"".join(parts)
                parts, room, first = [], _PIECE, False
    if parts or first:
        yield b"".join(parts)


def _send(
    task: Task, socket: Socket, vector: Buffers, flags: int, to: Address | None, files: tuple[OpenFile, ...]
) -> Blocking:
    """Send all of it; returns how much was sent if something came in between."""
    if flags & _OOB:
        raise Errno(errno.EOPNOTSUPP)
    most = socket.most_message()
    if most is not None and sum(n for _, n in vector) > most:
        raise Errno(errno.EMSGSIZE)
    wait = not (socket.nonblocking or flags & _DONTWAIT)
    deadline = deadline_of(task, socket.options.send_timeout)
    done = 0
    try:
        for data in _pieces(task, vector) if socket.is_stream else (gather(task, vector),):
            at = 0
            while True:
                rest, with_files = data[at:], () if done else files
                attempt = partial(socket.send, rest, to, with_files)
                what = f"a send on {socket.name}"
                n = yield from patiently(task, socket, attempt, deadline, wait, what, POLLOUT)
                at, done = at + n, done + n
                if at >= len(data):
                    break
    except Errno as failure:
        if done:
            return done
        if failure.number == errno.EPIPE and socket.kind == SOCK_STREAM and not flags & _NOSIGNAL:
            task.process.signals.post(task, _SIGPIPE)
        raise
    except Interrupted:
        if done:
            return done
        raise
    return done


def sys_sendto(
    task: Task, fd: int, buffer: int, count: int, flags: int, address: int, length: int
) -> Blocking:
    """Send one buffer."""
    socket = socket_of(task, fd)
    to = read_address(task, socket, address, length) if address else None
    return (yield from _send(task, socket, [(buffer, min(count, MOST_BYTES))], flags, to, ()))


def _send_message(task: Task, socket: Socket, address: int, flags: int) -> Blocking:
    header = read_header(task, address)
    to = None
    if header.name and header.name_length:
        to = read_address(task, socket, header.name, header.name_length)
    files = files_sent(task, socket, header)
    return (yield from _send(task, socket, header.vector, flags, to, files))


def sys_sendmsg(task: Task, fd: int, address: int, flags: int) -> Blocking:
    """Send a message with buffers, an address and control data."""
    return (yield from _send_message(task, socket_of(task, fd), address, flags))


def sys_sendmmsg(task: Task, fd: int, vector: int, n: int, flags: int) -> Blocking:
    """Send several; returns how many."""
    socket, done = socket_of(task, fd), 0
    try:
        for i in range(min(n & 0xFFFFFFFF, _MOST_MESSAGES)):
            at = vector + _MMSGHDR * i
            sent = yield from _send_message(task, socket, at, flags)
            task.process.memory.write_number(at + MSGHDR.size, 4, sent)
            done += 1
    except (Errno, Interrupted):
        if not done:
            raise
    return done


def _receive(task: Task, socket: Socket, vector: Buffers, flags: int) -> Generator[Wait, Reason, Received]:
    """What is there, or the next that comes; with MSG_WAITALL all that the buffers have room for.

    Errno(EFAULT): the buffers have it, but not the memory."""
    if flags & _OOB:
        raise Errno(errno.EOPNOTSUPP if socket.family == AF_UNIX else errno.EINVAL)
    if flags & _ERRQUEUE:
        raise Errno(errno.EAGAIN)
    n, room = sum(size for _, size in vector), storable(task, vector)
    peek = bool(flags & _PEEK)
    wait = not (socket.nonblocking or flags & _DONTWAIT)
    deadline = deadline_of(task, socket.options.receive_timeout)
    what = f"a receive on {socket.name}"
    first = partial(socket.receive_into, n, peek, room)
    got = yield from patiently(task, socket, first, deadline, wait, what)
    if not (flags & _WAITALL and socket.is_stream) or peek:
        return got
    pieces, left = [got.data], n - len(got.data)
    while left and pieces[-1] and not got.files:
        try:
            attempt = partial(socket.receive_into, left, False, room - (n - left))
            more = yield from patiently(task, socket, attempt, deadline, wait, what)
        except (Errno, Interrupted):
            break
        pieces.append(more.data)
        left -= len(more.data)
        got = Received(b"", 0, got.source, more.files, got.credentials)
    data = b"".join(pieces)
    return Received(data, len(data), got.source, got.files, got.credentials)


def _result(socket: Socket, received: Received, flags: int) -> int:
    whole = flags & MSG_TRUNC and not socket.is_stream
    return received.length if whole else len(received.data)


def sys_recvfrom(
    task: Task, fd: int, buffer: int, count: int, flags: int, address: int, length_at: int
) -> Blocking:
    """Receive into one buffer; files that came are lost."""
    socket = socket_of(task, fd)
    received = yield from _receive(task, socket, [(buffer, min(count, MOST_BYTES))], flags)
    release(received.files)
    scatter(task, [(buffer, count)], received.data)
    if address:
        room = task.process.memory.read_number(length_at, 4)
        write_source(task, received.source, address, room, length_at)
    return _result(socket, received, flags)


def _receive_message(task: Task, socket: Socket, address: int, flags: int) -> Blocking:
    header: Header = read_header(task, address)
    received = yield from _receive(task, socket, header.vector, flags)
    length_at = header.address + MSGHDR.fields["name_length"][0]
    try:
        scatter(task, header.vector, received.data)
        write_source(task, received.source, header.name, header.name_length, length_at)
    except Errno:
        release(received.files)
        raise
    write_control(task, socket, header, received, flags)
    return _result(socket, received, flags)


def sys_recvmsg(task: Task, fd: int, address: int, flags: int) -> Blocking:
    """Receive a message with buffers, its sender's address and control data."""
    return (yield from _receive_message(task, socket_of(task, fd), address, flags))


def sys_recvmmsg(task: Task, fd: int, vector: int, n: int, flags: int, timeout: int) -> Blocking:
    """Receive several; returns how many. The timeout is looked at after each message, as in Linux."""
    socket, done, clock = socket_of(task, fd), 0, task.process.clock
    deadline = deadline_of(task, read_timespec(task, timeout) if timeout else None)
    try:
        for i in range(min(n & 0xFFFFFFFF, _MOST_MESSAGES)):
            at = vector + _MMSGHDR * i
            length = yield from _receive_message(task, socket, at, flags & ~_WAITFORONE)
            task.process.memory.write_number(at + MSGHDR.size, 4, length)
            done += 1
            if flags & _WAITFORONE:
                flags |= _DONTWAIT
            if deadline is not None and clock.monotonic() >= deadline:
                break
    except (Errno, Interrupted):
        if not done:
            raise
    if deadline is not None:
        task.process.memory.write(timeout, pack_timespec(max(0, deadline - clock.monotonic())))
    return done


CALLS = table(Subject.SOCKETS, {
    "sendto": in_part(sys_sendto, "MSG_OOB is not there"),
    "sendmsg": in_part(sys_sendmsg, "MSG_OOB is not there"),
    "sendmmsg": in_part(sys_sendmmsg, "MSG_OOB is not there"),
    "recvfrom": in_part(sys_recvfrom, "MSG_OOB is not there"),
    "recvmsg": in_part(sys_recvmsg, "MSG_OOB is not there"),
    "recvmmsg": in_part(sys_recvmmsg, "MSG_OOB is not there"),
})  # fmt: skip
