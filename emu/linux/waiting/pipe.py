"""Pipes (pipe(7)): a ring of pages, as in Linux, so that a pipe is full exactly when it is there."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from dataclasses import dataclass

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT
from emu.linux.files.owner import POLL_IN, POLL_OUT
from emu.linux.ground.failure import Errno
from emu.linux.waiting.readiness import WaitableFile

#: Pages of a new pipe, and the most that F_SETPIPE_SZ gives without privilege.
DEFAULT_PAGES, MOST_PAGES = 16, 256
FIONREAD = 0x541B


@dataclass
class _Slot:
    """One page of the ring, of which `done` bytes were read. packet: written with O_DIRECT, read as one."""

    data: bytes
    packet: bool = False
    done: int = 0


class Pipe:
    """What both ends share."""

    def __init__(self) -> None:
        self.slots: deque[_Slot] = deque()
        self.n_slots = DEFAULT_PAGES
        #: What the last `take` had of a page that it did not read to its end.
        self.cut = 0
        self.reader: PipeReader | None = None
        self.writer: PipeWriter | None = None

    @property
    def full(self) -> bool:
        """No page is free."""
        return len(self.slots) >= self.n_slots

    def held(self) -> int:
        """Bytes to read."""
        return sum(len(slot.data) - slot.done for slot in self.slots)

    def take(self, n: int) -> bytes:
        """At most n bytes; a packet's rest is lost."""
        taken = bytearray()
        while self.slots and len(taken) < n:
            slot = self.slots[0]
            if slot.packet and taken:
                break
            piece = slot.data[slot.done : slot.done + n - len(taken)]
            taken += piece
            slot.done += len(piece)
            self.cut = 0 if slot.done == len(slot.data) else len(piece)
            if slot.packet or slot.done == len(slot.data):
                self.slots.popleft()
            if slot.packet:
                break
        return bytes(taken)

    def whole_pages(self, taken: bytes) -> bytes:
        """What the last `take` gave, but for the part of a page that it had no room for, which stays."""
        if not self.cut:
            return taken
        if self.slots and self.slots[0].done >= self.cut:
            self.slots[0].done -= self.cut
        return taken[: -self.cut]

    def look(self, n: int) -> bytes:
        """The first n bytes, which stay."""
        return b"".join(slot.data[slot.done :] for slot in self.slots)[:n]

    def put_back(self, data: bytes) -> None:
        """What was taken and not needed is the next again."""
        if not data:
            return
        self.slots.appendleft(_Slot(data))
        if self.reader is not None:
            self.reader.announce(POLLIN)

    def put(self, data: bytes, packets: bool) -> int:
        """Write what there is room for; returns how many bytes. At most a page is written whole or not."""
        done = self._joined(len(data), packets)
        if done:
            self.slots[-1].data += data[:done]
        while done < len(data) and not self.full:
            self.slots.append(_Slot(data[done : done + PAGE_BYTES], packets))
            done += len(self.slots[-1].data)
        return done

    def _joined(self, n: int, packets: bool) -> int:
        """How many of n bytes to write go to the end of the last page: those beyond whole pages, or none."""
        odd = n % PAGE_BYTES
        if not odd or not self.slots or packets:
            return 0
        last = self.slots[-1]
        return 0 if last.packet or len(last.data) + odd > PAGE_BYTES else odd

    def whole(self, n: int, reach: int, packets: bool) -> int:
        """How many of n bytes are written of which only the first `reach` can be read: no part of a page."""
        joined = self._joined(n, packets)
        return joined + (reach - joined) // PAGE_BYTES * PAGE_BYTES if reach >= joined else 0

    def resize(self, size: int) -> int:
        """F_SETPIPE_SZ: at least `size` bytes. Returns the new size. Errno: EINVAL, EPERM, EBUSY."""
        if size < 0:
            raise Errno(errno.EINVAL)
        pages = 1 << (max(1, -(-size // PAGE_BYTES)) - 1).bit_length()
        if pages > MOST_PAGES:
            raise Errno(errno.EPERM)
        if pages < len(self.slots):
            raise Errno(errno.EBUSY)
        self.n_slots = pages
        if self.writer is not None:
            self.writer.announce(POLLOUT)
        return pages * PAGE_BYTES


class _PipeEnd(WaitableFile):
    mode = stat.S_IFIFO | 0o600
    is_async = True

    def __init__(self, pipe: Pipe, flags: int, inode: int) -> None:
        super().__init__(flags, inode)
        self.pipe = pipe
        self.name = f"pipe:[{inode}]"

    def pipe_size(self) -> int:
        """F_GETPIPE_SZ: bytes."""
        return self.pipe.n_slots * PAGE_BYTES

    def set_pipe_size(self, size: int) -> int:
        """F_SETPIPE_SZ."""
        return self.pipe.resize(size)

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """FIONREAD only."""
        if request != FIONREAD:
            raise Errno(errno.ENOTTY)
        return self.pipe.held().to_bytes(4, "little")


class PipeReader(_PipeEnd):
    """The end that is read."""

    def read(self, n: int) -> bytes:
        """At most n bytes; b"" once the other end is closed. Errno(EAGAIN): nothing is there."""
        if n == 0:
            return b""
        pipe = self.pipe
        if not pipe.slots:
            if pipe.writer is None:
                return b""
            raise Errno(errno.EAGAIN)
        was_full = pipe.full
        data = pipe.take(n)
        if was_full and not pipe.full and pipe.writer is not None:
            pipe.writer.announce(POLLOUT)
        if pipe.writer is not None:
            pipe.writer.tell_owner(POLL_OUT)
        return data

    def write(self, data: bytes) -> int:
        """Not this end."""
        raise Errno(errno.EBADF)

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return (POLLIN if self.pipe.slots else 0) | (POLLHUP if self.pipe.writer is None else 0)

    def close(self) -> None:
        """Nobody can read any more: writers get EPIPE."""
        self.pipe.reader = None
        self.changed.wake()
        if self.pipe.writer is not None:
            self.pipe.writer.announce(POLLERR | POLLOUT)
            self.pipe.writer.tell_owner(POLL_OUT)


class PipeWriter(_PipeEnd):
    """The end that is written to."""

    def read(self, n: int) -> bytes:
        """Not this end."""
        raise Errno(errno.EBADF)

    def write(self, data: bytes) -> int:
        """Returns how much was taken. Errno: EPIPE without a reader, EAGAIN without room."""
        pipe = self.pipe
        if not data:
            return 0
        if pipe.reader is None:
            raise Errno(errno.EPIPE)
        done = pipe.put(data, bool(self.flags & os.O_DIRECT))
        # Linux makes an edge of a write that found no room, too.
        pipe.reader.announce(POLLIN)
        pipe.reader.tell_owner(POLL_IN)
        if not done:
            raise Errno(errno.EAGAIN)
        return done

    def whole(self, n: int, reach: int) -> int:
        """How many of n bytes are written of which only the first `reach` can be read."""
        return self.pipe.whole(n, reach, bool(self.flags & os.O_DIRECT))

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return (0 if self.pipe.full else POLLOUT) | (POLLERR if self.pipe.reader is None else 0)

    def close(self) -> None:
        """Nobody can write any more: readers get the end."""
        self.pipe.writer = None
        self.changed.wake()
        if self.pipe.reader is not None:
            self.pipe.reader.announce(POLLHUP | POLLIN)
            self.pipe.reader.tell_owner(POLL_IN)


def open_pipe(flags: int, inode: int) -> tuple[PipeReader, PipeWriter]:
    """Both ends of a new pipe. flags: O_NONBLOCK and O_DIRECT."""
    pipe = Pipe()
    pipe.reader = PipeReader(pipe, os.O_RDONLY | flags, inode)
    pipe.writer = PipeWriter(pipe, os.O_WRONLY | flags, inode)
    return pipe.reader, pipe.writer
