"""A guest process without cores for tests of waiting calls."""

from __future__ import annotations

import errno
import os
import random
import struct
from types import GeneratorType, SimpleNamespace
from typing import Any

from fake_memory import FakeMemory

from emu.linux.calls import epoll as calls_epoll
from emu.linux.calls import files as calls_files
from emu.linux.calls import messages as calls_messages
from emu.linux.calls import pipes as calls_pipes
from emu.linux.calls import poll as calls_poll
from emu.linux.calls import sockets as calls_sockets
from emu.linux.calls import timerfd as calls_timerfd
from emu.linux.files.descriptors import Descriptors
from emu.linux.files.nodes import Special
from emu.linux.files.open_file import Stat
from emu.linux.ground.clock import VirtualClock
from emu.linux.ground.failure import Errno, Interrupted
from emu.linux.ground.limits import Limits
from emu.linux.ground.wait import Reason
from emu.linux.sockets.network import Network
from emu.linux.tasks.task import Task
from emu.linux.waiting.readiness import AnonymousInodes
from isa.x86_64.linux import LINUX_X86_64

HANDLERS: dict[str, Any] = {}
for _module in (
    calls_epoll, calls_files, calls_messages, calls_pipes, calls_poll, calls_sockets, calls_timerfd,
):  # fmt: skip
    HANDLERS.update({name: call.handler for name, call in _module.CALLS.items()})


class FakeSignals:
    """Keeps what was posted."""

    def __init__(self) -> None:
        self.posted: list[int] = []
        self.masks: list[int | None] = []

    def post(self, task: Task | None, signal: int, info: object = None) -> bool:
        self.posted.append(signal)
        return True

    def begin_mask(self, task: Task, mask: int) -> None:
        self.masks.append(mask)

    def end_mask(self, task: Task) -> None:
        self.masks.append(None)


class FakeFilesystem:
    """Sockets' paths only."""

    def __init__(self) -> None:
        self.nodes: dict[str, Special] = {}

    def create_special(self, path: str, kind: int, payload: object) -> Special:
        if path in self.nodes:
            raise Errno(errno.EADDRINUSE)
        self.nodes[path] = Special(Stat(mode=kind), payload)
        return self.nodes[path]

    def lookup(self, path: str) -> Special:
        if path not in self.nodes:
            raise Errno(errno.ENOENT)
        return self.nodes[path]


class Pending:
    """A call that waits."""

    def __init__(self, guest: Guest, task: Task, handler: Any) -> None:
        self._guest, self.task, self._handler = guest, task, handler
        self.result: int | str | None = None
        self._drive(None)

    def _drive(self, reason: Reason | None) -> None:
        try:
            wait = next(self._handler) if reason is None else self._handler.send(reason)
            self.task.begin_wait(wait)
        except StopIteration as end:
            self.result = end.value
        except Errno as failure:
            self.result = -failure.number
        except Interrupted as interrupted:
            self.result = "restart" if interrupted.restart else "EINTR"

    @property
    def wait(self) -> Any:
        return self.task.wait

    def resume(self) -> int | str | None:
        """Go on if the wait is over; the result, or None while it waits."""
        while self.result is None and self.task.reason is not None:
            reason, self.task.reason = self.task.reason, None
            self._drive(reason)
        return self.result

    def signal(self) -> int | str | None:
        """A signal comes."""
        self.task.end_wait(Reason.SIGNAL)
        return self.resume()


class Guest:
    """A process; addresses for a call's data are handed out by `put` and `room`."""

    def __init__(self) -> None:
        self.memory = FakeMemory((1 << 20) - 4096)
        self.clock = VirtualClock()
        self.signals = FakeSignals()
        self.limits = Limits()
        self.process: Any = SimpleNamespace(
            memory=self.memory,
            clock=self.clock,
            signals=self.signals,
            descriptors=Descriptors(self.limits),
            network=Network(),
            anonymous_inodes=AnonymousInodes(),
            filesystem=FakeFilesystem(),
            abi=LINUX_X86_64,
            pid=1234,
            ids=(1000, 1000),
            umask=0o022,
            random=random.Random(1),
            name="guest",
            space=SimpleNamespace(has_shared_files=False),
        )
        self._next_tid = 1234
        self._at = 8192

    def room(self, n: int) -> int:
        """An address for n bytes."""
        if self._at + n > len(self.memory.raw):
            self._at = 8192
        address, self._at = self._at, self._at + (n + 15 & ~15)
        return address

    def put(self, data: bytes) -> int:
        """The address of a copy of `data`."""
        address = self.room(len(data))
        self.memory.write(address, data)
        return address

    def begin(self, name: str, *arguments: int) -> Pending:
        """Begin a call in a task of its own."""
        task = Task(self._next_tid, self.process, b"", 1)
        self._next_tid += 1
        mask = (1 << 64) - 1
        return Pending(self, task, _as_generator(HANDLERS[name], task, [a & mask for a in arguments]))

    def call(self, name: str, *arguments: int) -> int:
        """A call that must not wait."""
        pending = self.begin(name, *arguments)
        assert isinstance(pending.result, int), f"{name} waits: {pending.wait}"
        return pending.result

    def advance(self, pending: Pending, ns: int) -> int | str | None:
        """Let time pass; end the wait if its deadline is over."""
        self.clock.skip_to(self.clock.monotonic() + ns)
        deadline = pending.wait.deadline
        if deadline is not None and self.clock.monotonic() >= deadline:
            pending.task.end_wait(Reason.TIMEOUT)
        return pending.resume()

    # What scripts for guest and host share. Results: as the calls give them, -errno for failures.

    def pipe(self, flags: int = os.O_NONBLOCK) -> tuple[int, int]:
        at = self.room(8)
        assert self.call("pipe2", at, flags) == 0
        return struct.unpack("<ii", self.memory.read(at, 8))

    def eventfd(self, count: int, flags: int) -> int:
        return self.call("eventfd2", count, flags | os.O_NONBLOCK)

    def read(self, fd: int, n: int) -> bytes | int:
        at = self.room(n)
        got = self.call("read", fd, at, n)
        return self.memory.read(at, got) if got >= 0 else got

    def write(self, fd: int, data: bytes) -> int:
        return self.call("write", fd, self.put(data), len(data))

    def close(self, fd: int) -> int:
        return self.call("close", fd)

    def dup(self, fd: int) -> int:
        return self.process.descriptors.add(self.process.descriptors.get(fd))

    def poll(self, fd: int) -> int:
        at = self.put(struct.pack("<ihh", fd, 0x23DF, 0))
        self.call("poll", at, 1, 0)
        return self.memory.read_number(at + 6, 2)

    def epoll(self) -> int:
        return self.call("epoll_create1", 0)

    def ctl(self, epfd: int, operation: int, fd: int, events: int = 0, data: int = 0) -> int:
        at = self.put(struct.pack("<IQ", events, data))
        return self.call("epoll_ctl", epfd, operation, fd, at)

    def events(self, epfd: int, most: int = 10) -> list[tuple[int, int]]:
        at = self.room(12 * most)
        n = self.call("epoll_wait", epfd, at, most, 0)
        raw = self.memory.read(at, 12 * n)
        return [(data, events) for events, data in struct.iter_unpack("<IQ", raw)]

    def socketpair(self, kind: int) -> tuple[int, int]:
        at = self.room(8)
        assert self.call("socketpair", 1, kind | os.O_NONBLOCK, 0, at) == 0
        return struct.unpack("<ii", self.memory.read(at, 8))

    def socket(self, family: int, kind: int) -> int:
        return self.call("socket", family, kind | os.O_NONBLOCK, 0)

    def bind(self, fd: int, address: bytes) -> int:
        return self.call("bind", fd, self.put(address), len(address))

    def connect(self, fd: int, address: bytes) -> int:
        return self.call("connect", fd, self.put(address), len(address))

    def listen(self, fd: int, backlog: int) -> int:
        return self.call("listen", fd, backlog)

    def accept(self, fd: int) -> int:
        return self.call("accept4", fd, 0, 0, os.O_NONBLOCK)

    def shutdown(self, fd: int, how: int) -> int:
        return self.call("shutdown", fd, how)

    def send(self, fd: int, data: bytes, flags: int = 0x4000, to: bytes = b"") -> int:
        return self.call("sendto", fd, self.put(data), len(data), flags, self.put(to) if to else 0, len(to))

    def recv(self, fd: int, n: int, flags: int = 0) -> bytes | int:
        at = self.room(n)
        got = self.call("recvfrom", fd, at, n, flags, 0, 0)
        return self.memory.read(at, min(got, n)) if got >= 0 else got

    def name(self, fd: int, call: str = "getsockname") -> bytes | int:
        at, length = self.room(128), self.put(struct.pack("<i", 128))
        failed = self.call(call, fd, at, length)
        return failed or self.memory.read(at, self.memory.read_number(length, 4))

    def option(self, fd: int, level: int, option: int) -> int:
        at, length = self.room(16), self.put(struct.pack("<i", 4))
        return self.call("getsockopt", fd, level, option, at, length) or self.memory.read_number(at, 4)


def _as_generator(handler: Any, task: Task, arguments: list[int]) -> Any:
    answer = handler(task, *arguments)
    if isinstance(answer, GeneratorType):
        return (yield from answer)
    return answer


def inet(port: int, host: bytes = b"\x7f\0\0\x01") -> bytes:
    """A struct sockaddr_in."""
    return struct.pack("<H", 2) + struct.pack(">H", port) + host + bytes(8)


def unix(name: bytes) -> bytes:
    """A struct sockaddr_un."""
    return struct.pack("<H", 1) + name


def port_of(address: bytes | int) -> int:
    """The port in a struct sockaddr_in."""
    assert isinstance(address, bytes)
    return int.from_bytes(address[2:4], "big")


def listen(guest: Guest, address: bytes, backlog: int = 5) -> tuple[int, bytes]:
    """A listening socket and its address."""
    fd = guest.socket(address[0], 1)
    assert guest.bind(fd, address) == 0
    assert guest.listen(fd, backlog) == 0
    name = guest.name(fd)
    assert isinstance(name, bytes)
    return fd, name


def blocking(guest: Guest, *fds: int) -> None:
    """Clear O_NONBLOCK."""
    for fd in fds:
        guest.process.descriptors.get(fd).flags &= ~os.O_NONBLOCK
