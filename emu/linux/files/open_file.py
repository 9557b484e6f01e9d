"""The open file description: what descriptors, `dup` and threads share."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from emu.linux.files.open_flags import O_ASYNC
from emu.linux.files.owner import Owner
from emu.linux.ground.failure import Errno
from emu.linux.ground.wait import WaitQueue

#: Events of `poll` (poll(2)).
POLLIN, POLLPRI, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLRDHUP = 1, 2, 4, 8, 16, 32, 0x2000


@dataclass(frozen=True)
class Stat:
    """What `stat` tells, free of any ISA's layout. Times in nanoseconds since 1970."""

    mode: int
    inode: int = 1
    device: int = 1
    links: int = 1
    uid: int = 1000
    gid: int = 1000
    special_device: int = 0
    size: int = 0
    modified: int = 0
    changed: int = 0
    accessed: int = 0

    @property
    def blocks(self) -> int:
        """Blocks of 512 bytes."""
        return (self.size + 511) // 512


class OpenFile:
    """One open file. What a kind of file cannot do raises the error that Linux gives.

    flags: O_* as fcntl(F_GETFL) tells them: access mode and status flags. changed: woken whenever `poll` may
    tell something else than before. name: for /proc/self/fd and for people. is_async: it can tell its owner.
    """

    name = "anonymous"
    is_async = False

    def __init__(self, flags: int = 0) -> None:
        self.flags = flags
        self.changed = WaitQueue()
        #: Descriptors that refer to it, kept by the descriptor table.
        self.references = 0
        self.owner: Owner | None = None

    @property
    def readable(self) -> bool:
        """Opened for reading."""
        return self.flags & os.O_ACCMODE != os.O_WRONLY

    @property
    def writable(self) -> bool:
        """Opened for writing."""
        return self.flags & os.O_ACCMODE != os.O_RDONLY

    @property
    def sealed(self) -> bool:
        """No shared mapping of it may be written to (memfd_create(2))."""
        return False

    @property
    def nonblocking(self) -> bool:
        """O_NONBLOCK is set."""
        return bool(self.flags & os.O_NONBLOCK)

    def read(self, n: int) -> bytes:
        """At most n bytes; b"" at the end. Raises Errno; EAGAIN when nothing is there yet."""
        raise Errno(errno.EINVAL)

    def write(self, data: bytes) -> int:
        """Write; returns how many bytes were taken. Raises Errno; EAGAIN when there is no room yet."""
        raise Errno(errno.EINVAL)

    def pread(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on, the position stays."""
        raise Errno(errno.ESPIPE)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write at `offset`, the position stays."""
        raise Errno(errno.ESPIPE)

    def seek(self, offset: int, whence: int) -> int:
        """The new position."""
        raise Errno(errno.ESPIPE)

    def truncate(self, size: int) -> None:
        """Set the file's size."""
        raise Errno(errno.EINVAL)

    def entries(self) -> list[tuple[str, int, int]]:
        """Of a directory: (name, inode, d_type), sorted by name, with '.' and '..' first."""
        raise Errno(errno.ENOTDIR)

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """An ioctl that the file knows; argument and answer are the bytes at its pointer."""
        raise Errno(errno.ENOTTY)

    def tell_owner(self, happened: int) -> None:
        """Send the owner's signal if O_ASYNC is set. happened: POLL_IN and so on."""
        if self.owner is not None and self.is_async and self.flags & O_ASYNC:
            self.owner.post(self.owner, happened)

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return POLLIN | POLLOUT

    def stat(self) -> Stat:
        """What fstat tells."""
        raise Errno(errno.EINVAL)

    def mapped(self) -> MappedFile:
        """What mmap maps. Raises Errno(ENODEV) for what cannot be mapped."""
        raise Errno(errno.ENODEV)

    def opened_anew(self, flags: int) -> OpenFile:
        """What opening it by its link in /proc gives, in a way in which it is not open. Raises Errno."""
        raise Errno(errno.EACCES)

    def close(self) -> None:
        """The last descriptor is gone."""


class MappedFile:
    """A file's contents as memory sees them; mappings keep it after the descriptor is closed.

    path: in the guest, for /proc/self/maps and symbols. Two mappings of one file have the same `key`.
    """

    path = ""
    inode = 0
    key: object = None

    def size(self) -> int:
        """Bytes in the file now."""
        raise NotImplementedError

    def page(self, offset: int, n: int) -> bytes:
        """At most n bytes from `offset` on; fewer past the end."""
        raise NotImplementedError

    def write_back(self, offset: int, data: bytes) -> None:
        """A shared, writable mapping gives its bytes back (msync, munmap, the end)."""
        raise NotImplementedError
