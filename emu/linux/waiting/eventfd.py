"""Event counters (eventfd(2))."""

from __future__ import annotations

import errno
import os

from emu.linux.files.open_file import POLLERR, POLLIN, POLLOUT
from emu.linux.ground.failure import Errno
from emu.linux.waiting.readiness import PlacelessFile

_MOST = (1 << 64) - 1


class EventFile(PlacelessFile):
    """A 64-bit counter. semaphore: a read takes 1, else all of it."""

    name = "anon_inode:[eventfd]"
    normal_data = False

    def __init__(self, count: int, semaphore: bool, flags: int, inode: int) -> None:
        super().__init__(os.O_RDWR | flags, inode)
        self._count = count
        self._semaphore = semaphore

    def read(self, n: int) -> bytes:
        """8 bytes. Errno: EINVAL for less, EAGAIN while the counter is 0."""
        if n < 8:
            raise Errno(errno.EINVAL)
        if not self._count:
            raise Errno(errno.EAGAIN)
        taken = 1 if self._semaphore else self._count
        self._count -= taken
        self.announce(POLLOUT)
        return taken.to_bytes(8, "little")

    def write(self, data: bytes) -> int:
        """Add the number in exactly 8 bytes. Errno: EINVAL, EAGAIN while the counter would overflow."""
        more = int.from_bytes(data[:8], "little")
        if len(data) != 8 or more == _MOST:
            raise Errno(errno.EINVAL)
        if self._count + more >= _MOST:
            raise Errno(errno.EAGAIN)
        self._count += more
        self.announce(POLLIN)
        return 8

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return (
            (POLLIN if self._count else 0)
            | (POLLOUT if self._count < _MOST - 1 else 0)
            | (POLLERR if self._count == _MOST else 0)
        )

    def close(self) -> None:
        """Whoever watches it learns that it is gone."""
        self.changed.wake()
