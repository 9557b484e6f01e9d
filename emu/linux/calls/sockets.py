"""System calls that make, name and connect sockets (socket(2), connect(2), accept(2))."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Generator
from typing import TypeVar

from emu.linux.calls.pipes import add_pair
from emu.linux.calls.poll import deadline_of
from emu.linux.files.open_file import POLLIN, POLLOUT
from emu.linux.ground.call import Subject, in_part, table
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.wait import Blocking, Reason, Wait
from emu.linux.ground.words import as_int
from emu.linux.sockets.addresses import (
    AF_INET,
    AF_INET6,
    AF_UNIX,
    AF_UNSPEC,
    Address,
    family_of,
    parse_inet,
    parse_unix,
)
from emu.linux.sockets.names import UnixNames
from emu.linux.sockets.options import get_option, set_option
from emu.linux.sockets.socket import SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM, Socket
from emu.linux.sockets.tcp import TcpSocket
from emu.linux.sockets.udp import UdpSocket
from emu.linux.sockets.unix import UnixDatagram, UnixStream
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import held, wait_for

_SOCK_NONBLOCK, _SOCK_CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_KIND = 0xF
_SOCK_RAW = 3
#: sizeof(struct sockaddr_storage), and the longest option that is read.
_MOST_ADDRESS, _MOST_OPTION = 128, 4096
T = TypeVar("T")


def socket_of(task: Task, fd: int) -> Socket:
    """The socket behind a descriptor. Errno: EBADF, ENOTSOCK."""
    file = task.process.descriptors.get(as_int(fd))
    if not isinstance(file, Socket):
        raise Errno(errno.ENOTSOCK)
    return file


def patiently(
    task: Task,
    socket: Socket,
    attempt: Callable[[], T],
    deadline: int | None,
    wait: bool,
    what: str,
    events: int = POLLIN,
) -> Generator[Wait, Reason, T]:
    """Repeat `attempt` until it fails otherwise than with EAGAIN, or the time is over: then with EAGAIN.

    deadline: None: never; a call with one is not begun anew after a signal. wait: or fail at once. events:
    POLL* bits that it is for.
    """
    clock = task.process.clock
    reason = None
    with held((socket,)):
        while True:
            try:
                return attempt()
            except Errno as failure:
                if failure.number != errno.EAGAIN or not wait:
                    raise
                if deadline is not None and clock.monotonic() >= deadline:
                    raise
            if reason is Reason.SIGNAL:
                raise Interrupted(restart=deadline is None)
            reason = yield from wait_for(socket, deadline, what, events)


def read_address(task: Task, socket: Socket, address: int, length: int) -> Address:
    """A socket address in guest memory. Errno: EINVAL, EFAULT, EAFNOSUPPORT."""
    raw = _read_raw(task, address, length)
    return parse_unix(raw) if socket.family == AF_UNIX else parse_inet(raw, socket.family)


def _read_raw(task: Task, address: int, length: int) -> bytes:
    if not 0 <= as_int(length) <= _MOST_ADDRESS:
        raise Errno(errno.EINVAL)
    return task.process.memory.read(address, as_int(length)) if as_int(length) else b""


def write_value(task: Task, raw: bytes, address: int, length_at: int) -> None:
    """Give the guest as much as it has room for, and the whole length. Errno(EINVAL): no length."""
    memory = task.process.memory
    room = as_int(memory.read_number(length_at, 4))
    if room < 0:
        raise Errno(errno.EINVAL)
    if raw[:room]:
        memory.write(address, raw[:room])
    memory.write_number(length_at, 4, len(raw))


def _new(task: Task, family: int, kind: int, protocol: int) -> Socket:
    """A socket. Errno: EAFNOSUPPORT, EINVAL, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EPERM."""
    process, flags = task.process, kind & _SOCK_NONBLOCK
    if kind & ~(_KIND | _SOCK_NONBLOCK | _SOCK_CLOEXEC):
        raise Errno(errno.EINVAL)
    kind &= _KIND
    if family not in (AF_UNIX, AF_INET, AF_INET6):
        raise Errno(errno.EAFNOSUPPORT)
    make = _unix if family == AF_UNIX else _inet
    made = make(task, family, kind, protocol, flags)
    made.credentials = (process.pid, *process.ids)
    return made


def _inet(task: Task, family: int, kind: int, protocol: int, flags: int) -> Socket:
    network, inodes = task.process.network, task.process.anonymous_inodes
    if kind not in (SOCK_STREAM, SOCK_DGRAM):
        raise Errno(errno.EPERM if kind == _SOCK_RAW and protocol else errno.ESOCKTNOSUPPORT)
    if protocol not in (0, 6 if kind == SOCK_STREAM else 17):
        raise Errno(errno.EPROTONOSUPPORT)
    if kind == SOCK_STREAM:
        return TcpSocket(network, family, flags, inodes.next())
    return UdpSocket(network, family, flags, inodes.next())


def _unix(task: Task, family: int, kind: int, protocol: int, flags: int) -> Socket:
    process = task.process
    if protocol not in (0, AF_UNIX):
        raise Errno(errno.EPROTONOSUPPORT)
    names = UnixNames(process)
    if kind in (SOCK_DGRAM, _SOCK_RAW):
        return UnixDatagram(process.network, names, flags, process.anonymous_inodes.next())
    if kind not in (SOCK_STREAM, SOCK_SEQPACKET):
        raise Errno(errno.ESOCKTNOSUPPORT)
    return UnixStream(process.network, names, kind, flags, process.anonymous_inodes.next())


def sys_socket(task: Task, family: int, kind: int, protocol: int) -> int:
    """A new socket."""
    made = _new(task, as_int(family), as_int(kind), as_int(protocol))
    return task.process.descriptors.add(made, cloexec=bool(kind & _SOCK_CLOEXEC))


def sys_socketpair(task: Task, family: int, kind: int, protocol: int, address: int) -> int:
    """Two AF_UNIX sockets that are connected. Errno(EOPNOTSUPP): another family."""
    one, other = (_new(task, as_int(family), as_int(kind), as_int(protocol)) for _ in range(2))
    one.pair(other)
    add_pair(task, (one, other), address, bool(kind & _SOCK_CLOEXEC))
    return 0


def sys_bind(task: Task, fd: int, address: int, length: int) -> int:
    """Give a socket an address."""
    socket = socket_of(task, fd)
    socket.bind(read_address(task, socket, address, length))
    return 0


def sys_listen(task: Task, fd: int, backlog: int) -> int:
    """Begin to accept connections."""
    socket_of(task, fd).listen(as_int(backlog))
    return 0


def sys_connect(task: Task, fd: int, address: int, length: int) -> Blocking:
    """Connect. SO_SNDTIMEO limits the wait."""
    socket = socket_of(task, fd)
    raw = _read_raw(task, address, length)
    if family_of(raw) == AF_UNSPEC:
        socket.disconnect()
        return 0
    to = read_address(task, socket, address, length)
    begun = False

    def attempt() -> int:
        nonlocal begun
        try:
            socket.connect(to)
        except Errno as failure:
            # A connection that has begun and is not there yet: wait for it.
            waiting = failure.number in (errno.EINPROGRESS, errno.EALREADY)
            if socket.nonblocking or not waiting:
                raise
            begun = True
            raise Errno(errno.EAGAIN) from None
        return 0

    deadline = deadline_of(task, socket.options.send_timeout)
    try:
        wait = not socket.nonblocking
        return (yield from patiently(task, socket, attempt, deadline, wait, "a connect", POLLOUT))
    except Errno as failure:
        if begun and failure.number == errno.EAGAIN:
            raise Errno(errno.EINPROGRESS) from None
        raise


def sys_accept4(task: Task, fd: int, address: int, length_at: int, flags: int) -> Blocking:
    """Accept a connection; flags: SOCK_CLOEXEC, SOCK_NONBLOCK."""
    process, socket = task.process, socket_of(task, fd)
    if as_int(flags) & ~(_SOCK_NONBLOCK | _SOCK_CLOEXEC):
        raise Errno(errno.EINVAL)

    def attempt() -> Socket:
        return socket.accept(flags & _SOCK_NONBLOCK)

    deadline, wait = deadline_of(task, socket.options.receive_timeout), not socket.nonblocking
    accepted = yield from patiently(task, socket, attempt, deadline, wait, "a connection to accept")
    accepted.identify(process.anonymous_inodes.next())
    try:
        new = process.descriptors.add(accepted, cloexec=bool(flags & _SOCK_CLOEXEC))
    except Errno:
        accepted.close()
        raise
    if address:
        try:
            write_value(task, accepted.peer_address().pack(), address, length_at)
        except Errno:
            process.descriptors.close(new)
            raise
    return new


def sys_accept(task: Task, fd: int, address: int, length_at: int) -> Blocking:
    """Accept a connection."""
    return (yield from sys_accept4(task, fd, address, length_at, 0))


def sys_shutdown(task: Task, fd: int, how: int) -> int:
    """Stop receiving (0), sending (1) or both (2)."""
    socket = socket_of(task, fd)
    if not 0 <= as_int(how) <= 2:
        raise Errno(errno.EINVAL)
    socket.shutdown(as_int(how) + 1)
    return 0


def sys_getsockname(task: Task, fd: int, address: int, length_at: int) -> int:
    """The socket's own address."""
    write_value(task, socket_of(task, fd).local_address().pack(), address, length_at)
    return 0


def sys_getpeername(task: Task, fd: int, address: int, length_at: int) -> int:
    """The other end's address."""
    write_value(task, socket_of(task, fd).peer_address().pack(), address, length_at)
    return 0


def sys_setsockopt(task: Task, fd: int, level: int, option: int, address: int, length: int) -> int:
    """Set an option."""
    socket, length = socket_of(task, fd), as_int(length)
    if length < 0:
        raise Errno(errno.EINVAL)
    raw = task.process.memory.read(address, min(length, _MOST_OPTION)) if length else b""
    set_option(socket, as_int(level), as_int(option), raw)
    return 0


def sys_getsockopt(task: Task, fd: int, level: int, option: int, address: int, length_at: int) -> int:
    """Tell an option: as much as there is room for, and how much that is."""
    memory, socket = task.process.memory, socket_of(task, fd)
    room = as_int(memory.read_number(length_at, 4))
    if room < 0:
        raise Errno(errno.EINVAL)
    raw = get_option(socket, as_int(level), as_int(option))[:room]
    if raw:
        memory.write(address, raw)
    memory.write_number(length_at, 4, len(raw))
    return 0


CALLS = table(Subject.SOCKETS, {
    "socket": in_part(sys_socket, "AF_UNIX; TCP and UDP on loopback; no raw or netlink sockets"),
    "socketpair": sys_socketpair,
    "bind": sys_bind,
    "listen": sys_listen,
    "connect": sys_connect,
    "accept": sys_accept,
    "accept4": sys_accept4,
    "shutdown": sys_shutdown,
    "getsockname": sys_getsockname,
    "getpeername": sys_getpeername,
    "setsockopt": sys_setsockopt,
    "getsockopt": sys_getsockopt,
})  # fmt: skip
