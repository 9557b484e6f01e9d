"""A random script of operations that guest and host both run: what each returns must be the same."""

from __future__ import annotations

import random
from typing import Any

from linux_io_factory import Guest
from linux_io_host import Host

IN, OUT, RDHUP, ONESHOT, EDGE = 1, 4, 0x2000, 1 << 30, 1 << 31
_OPERATIONS = (
    "add", "mod", "del", "write", "write", "write", "read", "read", "poll", "wait", "wait", "outer", "end",
)  # fmt: skip


def _open(kernel: Guest | Host, kind: str) -> tuple[int, ...]:
    if kind == "pipe":
        return kernel.pipe()
    if kind == "eventfd":
        return (kernel.eventfd(0, 0),)
    return kernel.socketpair(1)


class Script:
    """Files of some kinds, an epoll for them and one for that epoll; `sizes` of what is written."""

    def __init__(
        self, kernel: Guest | Host, seed: int, kinds: tuple[str, ...], sizes: tuple[int, ...]
    ) -> None:
        self._kernel, self._random, self._sizes = kernel, random.Random(seed), sizes
        self._files = [fd for kind in kinds for fd in _open(kernel, kind)]
        self._eventful = "eventfd" in kinds
        self._inner, self._outer = kernel.epoll(), kernel.epoll()
        edge = self._random.choice([0, EDGE])
        kernel.ctl(self._outer, 1, self._inner, IN | edge, self._inner)
        self._names: dict[int, Any] = {fd: i for i, fd in enumerate(self._files)} | {self._inner: "inner"}
        self._closed: set[int] = set()

    def run(self, steps: int) -> list[tuple[Any, ...]]:
        """What each operation returned."""
        log = []
        for step in range(steps):
            i, operation = self._random.randrange(len(self._files)), self._random.choice(_OPERATIONS)
            events = self._random.choice([IN, OUT, IN | OUT, IN | RDHUP, 0])
            events |= self._random.choice([0, 0, EDGE, ONESHOT, EDGE | ONESHOT])
            size = self._random.choice(self._sizes)
            if i not in self._closed:
                log.append((step, operation, i, events, size, self._do(operation, i, events, size)))
        return log

    def _do(self, operation: str, i: int, events: int, size: int) -> Any:
        kernel, fd = self._kernel, self._files[i]
        if operation in ("add", "mod", "del"):
            number = {"add": 1, "del": 2, "mod": 3}[operation]
            return kernel.ctl(self._inner, number, fd, 0 if operation == "del" else events, fd)
        if operation == "write":
            return kernel.write(fd, b"\x01" + bytes(7 if self._eventful else size - 1))
        if operation == "read":
            return kernel.read(fd, 8 if self._eventful else 2 * size)
        if operation == "poll":
            return kernel.poll(fd)
        if operation == "end":
            if self._random.random() < 0.15:
                self._closed.add(i)
                return kernel.close(fd)
            return None
        found = kernel.events(self._outer if operation == "outer" else self._inner, size % 3 + 1)
        return [(self._names[data], happened) for data, happened in found]


def both(seed: int, kinds: tuple[str, ...], sizes: tuple[int, ...], steps: int = 80) -> tuple[Any, Any]:
    """(host's results, guest's)."""
    with Host() as host:
        expected = Script(host, seed, kinds, sizes).run(steps)
    return expected, Script(Guest(), seed, kinds, sizes).run(steps)
