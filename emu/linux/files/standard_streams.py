"""Descriptors 0, 1 and 2: bytes given before the run, and a callback for what the guest prints."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable

from emu.linux.files import open_flags as of
from emu.linux.files.nodes import PIPE_DEVICE
from emu.linux.files.open_file import POLLHUP, POLLIN, POLLOUT, OpenFile, Stat
from emu.linux.ground.failure import Errno

FIONREAD = 0x541B


class StandardStream(OpenFile):
    """Looks like a pipe: no position, no size. inode: a small fixed number."""

    is_async = True

    def __init__(self, flags: int, inode: int) -> None:
        super().__init__(flags)
        self._inode = inode
        self.name = f"pipe:[{inode}]"

    def stat(self) -> Stat:
        """Of a pipe that is always there."""
        return Stat(modes.S_IFIFO | 0o600, self._inode, PIPE_DEVICE)

    def opened_anew(self, flags: int) -> OpenFile:
        """As a pipe, which can be opened in any way."""
        return OpenedAnew(self, of.status_flags(flags), self._inode)

    def give(self, data: bytes) -> None:
        """Written to it by who opened it anew."""
        self.write(data)

    def rest(self, n: int) -> bytes:
        """Read from it by such: at most n bytes."""
        return self.read(n)


class StandardInput(StandardStream):
    """What was given to the guest, to the end."""

    def __init__(self, data: bytes = b"") -> None:
        super().__init__(os.O_RDONLY, 1)
        self._data, self._position = data, 0

    def read(self, n: int) -> bytes:
        """At most n bytes, never blocking."""
        data = self._data[self._position : self._position + n]
        self._position += len(data)
        return data

    def write(self, data: bytes) -> int:
        """Never."""
        raise Errno(errno.EBADF)

    def give(self, data: bytes) -> None:
        """Comes behind what was given."""
        self._data += data

    def poll(self) -> int:
        """Readable; at the end the writer is gone."""
        left = self._position < len(self._data)
        return POLLIN if left else POLLHUP

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """FIONREAD."""
        if request == FIONREAD:
            return min(len(self._data) - self._position, 1 << 30).to_bytes(4, "little")
        raise Errno(errno.ENOTTY)


class StandardOutput(StandardStream):
    """Gives every write to `sink` at once."""

    def __init__(self, sink: Callable[[bytes], None], error: bool = False) -> None:
        super().__init__(os.O_WRONLY, 3 if error else 2)
        self._sink = sink

    def read(self, n: int) -> bytes:
        """Never."""
        raise Errno(errno.EBADF)

    def rest(self, n: int) -> bytes:
        """Who reads what is printed has it by then."""
        return b""

    def write(self, data: bytes) -> int:
        """All of it."""
        self._sink(data)
        return len(data)

    def poll(self) -> int:
        """Always writable."""
        return POLLOUT


class OpenedAnew(StandardStream):
    """A standard stream, opened by its name to be read or written, or both."""

    def __init__(self, stream: StandardStream, flags: int, inode: int) -> None:
        super().__init__(flags, inode)
        self._stream = stream

    def read(self, n: int) -> bytes:
        """At most n bytes, never blocking."""
        return self._stream.rest(n)

    def write(self, data: bytes) -> int:
        """All of it."""
        self._stream.give(data)
        return len(data)

    def poll(self) -> int:
        """As the stream's."""
        return self._stream.poll() | (POLLOUT if self.writable else 0)

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """What the stream knows."""
        return self._stream.ioctl(request, argument)
