"""/dev: the devices that programs use, all made here; none of the host's."""

from __future__ import annotations

import errno
import os
import random
import stat as modes
from collections.abc import Callable

from emu.linux.files.nodes import DEV_DEVICE, Node, Special, Symlink
from emu.linux.files.open_file import MappedFile, OpenFile, Stat
from emu.linux.ground.failure import Errno
from emu.linux.pseudo.builder import Builder


class Device(Special):
    """A character device. make: its open description, from flags; None: nothing is behind it (ENXIO)."""

    def __init__(self, status: Stat, make: Callable[[int, Device], OpenFile] | None) -> None:
        super().__init__(status)
        self._make = make

    def open(self, flags: int, path: str) -> OpenFile:
        """Open it. Raises Errno(ENXIO)."""
        if self._make is None:
            raise Errno(errno.ENXIO)
        file = self._make(flags, self)
        file.name = path
        return file


class OpenDevice(OpenFile):
    """A device without a position: /dev/null, and what the others have in common with it.

    blind: what is written to it need not be there.
    """

    blind = True

    def __init__(self, flags: int, node: Node) -> None:
        super().__init__(flags)
        self.node = node

    def read(self, n: int) -> bytes:
        """The end at once."""
        return b""

    def write(self, data: bytes) -> int:
        """Taken and forgotten."""
        return len(data)

    def pread(self, n: int, offset: int) -> bytes:
        """As a read."""
        return self.read(n)

    def pwrite(self, data: bytes, offset: int) -> int:
        """As a write."""
        return self.write(data)

    def seek(self, offset: int, whence: int) -> int:
        """Always at the beginning."""
        return 0

    def stat(self) -> Stat:
        """Of the device."""
        return self.node.stat()


class OpenZero(OpenDevice):
    """/dev/zero."""

    def read(self, n: int) -> bytes:
        """Zeros."""
        return bytes(n)

    def mapped(self) -> MappedFile:
        """Zeros, without end; a shared mapping of it is not kept."""
        return MappedZeros()


class OpenFull(OpenZero):
    """/dev/full."""

    def write(self, data: bytes) -> int:
        """No room, ever."""
        raise Errno(errno.ENOSPC)


class OpenRandom(OpenDevice):
    """/dev/random and /dev/urandom: numbers that the seed decides."""

    blind = False

    def __init__(self, flags: int, node: Node, source: random.Random) -> None:
        super().__init__(flags, node)
        self._source = source

    def read(self, n: int) -> bytes:
        """Random bytes."""
        return self._source.randbytes(n)


class MappedZeros(MappedFile):
    """Zeros without end. Every mapping is its own."""

    path = "/dev/zero"

    def __init__(self) -> None:
        self.key = self

    def size(self) -> int:
        """As large as a file may be."""
        return 1 << 62

    def page(self, offset: int, n: int) -> bytes:
        """Zeros."""
        return bytes(n)

    def write_back(self, offset: int, data: bytes) -> None:
        """Forgotten."""


def add_devices(builder: Builder, source: random.Random) -> None:
    """Fill /dev. source: of /dev/urandom's numbers."""
    makers: dict[str, tuple[int, int, Callable[[int, Device], OpenFile] | None]] = {
        "null": (1, 3, OpenDevice),
        "zero": (1, 5, OpenZero),
        "full": (1, 7, OpenFull),
        "random": (1, 8, lambda flags, node: OpenRandom(flags, node, source)),
        "urandom": (1, 9, lambda flags, node: OpenRandom(flags, node, source)),
        "tty": (5, 0, None),
    }
    directory = builder.directory("/dev")
    directory.fixed = True
    for name, (major, minor, make) in makers.items():
        number = os.makedev(major, minor)
        status = Stat(modes.S_IFCHR | 0o666, builder.inode(), DEV_DEVICE, uid=0, gid=0, special_device=number)
        directory.put(name, Device(status, make))
    links = {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }
    for name, target in links.items():
        status = Stat(modes.S_IFLNK | 0o777, builder.inode(), DEV_DEVICE, uid=0, gid=0)
        directory.put(name, Symlink(status, target))
    builder.directory("/dev/shm", 0o1777)
