"""The operations of `linux_io_factory.Guest` on the host's kernel."""

from __future__ import annotations

import os
import select
import socket
from typing import Any

from linux_io_factory import inet, port_of, unix


def _failure(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except OSError as failure:
        return -(failure.errno or 0)


class Host:
    """The same operations on the host's kernel. Everything is non-blocking."""

    def __init__(self) -> None:
        self._open: dict[int, Any] = {}

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *exception: object) -> None:
        for fd in list(self._open):
            self.close(fd)

    def _keep(self, *fds: int) -> None:
        for fd in fds:
            self._open[fd] = fd

    def pipe(self, flags: int = os.O_NONBLOCK) -> tuple[int, int]:
        pair = os.pipe2(flags)
        self._keep(*pair)
        return pair

    def eventfd(self, count: int, flags: int) -> int:
        fd = os.eventfd(count, flags | os.O_NONBLOCK)
        self._keep(fd)
        return fd

    def read(self, fd: int, n: int) -> bytes | int:
        return _failure(os.read, fd, n)

    def write(self, fd: int, data: bytes) -> int:
        return _failure(os.write, fd, data)

    def close(self, fd: int) -> int:
        kept = self._open.pop(fd, fd)
        return _failure(os.close, fd) or 0 if isinstance(kept, int) else (kept.close() or 0)

    def dup(self, fd: int) -> int:
        new = os.dup(fd)
        self._keep(new)
        return new

    def poll(self, fd: int) -> int:
        poll = select.poll()
        poll.register(fd, 0x23DF)
        found = poll.poll(0)
        return found[0][1] if found else 0

    def epoll(self) -> int:
        epoll = select.epoll()
        self._open[epoll.fileno()] = epoll
        return epoll.fileno()

    def ctl(self, epfd: int, operation: int, fd: int, events: int = 0, data: int = 0) -> int:
        # Python's epoll has the descriptor as data: scripts use that too.
        epoll = self._open[epfd]
        if operation == 2:
            return _failure(epoll.unregister, fd) or 0
        return _failure(epoll.register if operation == 1 else epoll.modify, fd, events) or 0

    def events(self, epfd: int, most: int = 10) -> list[tuple[int, int]]:
        return self._open[epfd].poll(0, most)

    def _socket(self, made: socket.socket) -> int:
        made.setblocking(False)
        self._open[made.fileno()] = made
        return made.fileno()

    def socketpair(self, kind: int) -> tuple[int, int]:
        one, other = socket.socketpair(socket.AF_UNIX, kind)
        return self._socket(one), self._socket(other)

    def socket(self, family: int, kind: int) -> int:
        return self._socket(socket.socket(family, kind))

    def bind(self, fd: int, address: bytes) -> int:
        return _failure(self._open[fd].bind, _host_address(address)) or 0

    def connect(self, fd: int, address: bytes) -> int:
        return -self._open[fd].connect_ex(_host_address(address))

    def listen(self, fd: int, backlog: int) -> int:
        return _failure(self._open[fd].listen, backlog) or 0

    def accept(self, fd: int) -> int:
        got = _failure(self._open[fd].accept)
        return got if isinstance(got, int) else self._socket(got[0])

    def shutdown(self, fd: int, how: int) -> int:
        return _failure(self._open[fd].shutdown, how) or 0

    def send(self, fd: int, data: bytes, flags: int = 0x4000, to: bytes = b"") -> int:
        if to:
            return _failure(self._open[fd].sendto, data, flags, _host_address(to))
        return _failure(self._open[fd].send, data, flags)

    def recv(self, fd: int, n: int, flags: int = 0) -> bytes | int:
        return _failure(self._open[fd].recv, n, flags)

    def name(self, fd: int, call: str = "getsockname") -> bytes | int:
        got = _failure(getattr(self._open[fd], call))
        return got if isinstance(got, int) else _raw_address(got)

    def option(self, fd: int, level: int, option: int) -> int:
        return _failure(self._open[fd].getsockopt, level, option)


def _host_address(raw: bytes) -> Any:
    if raw[0] == 1:
        return raw[2:].split(b"\0")[0] if raw[2] else raw[2:]
    return socket.inet_ntoa(raw[4:8]), port_of(raw)


def _raw_address(address: Any) -> bytes:
    if isinstance(address, tuple):
        return inet(address[1], socket.inet_aton(address[0]))
    name = address if isinstance(address, bytes) else address.encode()
    return unix(name + b"\0" if name and name[0] else name)
