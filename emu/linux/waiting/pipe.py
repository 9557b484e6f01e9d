"""Pipes (pipe(7)): a ring of pages, as in Linux, so that a pipe is full exactly when it is there."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files.nodes import Node
from emu.linux.files.open_file import POLLERR, POLLHUP, POLLIN, POLLOUT, OpenFile, Stat
from emu.linux.files.open_flags import status_flags
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
    """What its ends share. readers, writers: those that are open; one may be both. reads, writes: how many
    were ever opened. opening: those of a named one whose opening waits for the other side."""

    def __init__(self) -> None:
        self.slots: deque[_Slot] = deque()
        self.n_slots = DEFAULT_PAGES
        #: What the last `take` had of a page that it did not read to its end.
        self.cut = 0
        self.readers: list[PipeReader] = []
        self.writers: list[PipeWriter] = []
        self.opening: list[_PipeEnd] = []
        self.reads = self.writes = 0

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
        self.to_readers(POLLIN)

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
        self.to_writers(POLLOUT)
        return pages * PAGE_BYTES

    def to_readers(self, events: int) -> None:
        """Tell all that can be read from, see `WaitableFile.announce`."""
        for end in self.readers:
            end.announce(events)

    def to_writers(self, events: int) -> None:
        """Tell all that can be written to."""
        for end in self.writers:
            end.announce(events)

    def joined(self) -> None:
        """The first to read, or to write, has come (wake_up_partner in fs/pipe.c)."""
        self.to_readers(0)
        for end in self.opening:
            end.changed.wake()

    def left(self) -> None:
        """An end was closed: whoever is still there learns that nobody reads, or writes, any more."""
        if self.readers and not self.writers:
            self.to_readers(POLLHUP | POLLIN)
        elif self.writers and not self.readers:
            self.to_writers(POLLERR | POLLOUT)
        if bool(self.readers) != bool(self.writers):
            _tell_owners(self.readers, POLL_IN)
            _tell_owners(self.writers, POLL_OUT)


def _tell_owners(ends: Sequence[WaitableFile], happened: int) -> None:
    """Whoever asked for signals (O_ASYNC)."""
    for end in ends:
        end.tell_owner(happened)


class _PipeEnd(WaitableFile):
    mode = stat.S_IFIFO | 0o600
    is_async = True

    def __init__(self, pipe: Pipe, flags: int, inode: int, node: Node | None = None) -> None:
        super().__init__(flags, inode)
        self.pipe, self.node = pipe, node
        self.name = f"pipe:[{inode}]"
        had = bool(pipe.readers), bool(pipe.writers)
        self._join()
        if had != (bool(pipe.readers), bool(pipe.writers)):
            pipe.joined()

    def _join(self) -> None:
        """One more end of the pipe."""

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

    def read(self, n: int) -> bytes:
        """Of what is not open for it."""
        raise Errno(errno.EBADF)

    def write(self, data: bytes) -> int:
        """Of what is not open for it."""
        raise Errno(errno.EBADF)

    def poll(self) -> int:
        """POLL* bits that hold now."""
        return 0

    def opened_anew(self, flags: int) -> OpenFile:
        """One more end, without waiting for another (fifo_open in fs/pipe.c)."""
        return end_of(self.pipe, status_flags(flags), self.inode)

    def stat(self) -> Stat:
        """What fstat tells: of a named one, what its name does."""
        return super().stat() if self.node is None else self.node.stat()

    def close(self) -> None:
        """It is no end any more, and has no lock."""
        if self.node is not None and self.node.locks is not None:
            self.node.locks.release(self)
        self.changed.wake()
        self.pipe.left()


class PipeReader(_PipeEnd):
    """An end that is read."""

    #: How many writers there had been when it was opened without one: until another comes, that there is none
    #: is no hang-up.
    not_yet: int | None = None

    def _join(self) -> None:
        super()._join()
        self.pipe.readers.append(self)
        self.pipe.reads += 1

    def read(self, n: int) -> bytes:
        """At most n bytes; b"" where nobody can write. Errno(EAGAIN): nothing is there."""
        if n == 0:
            return b""
        pipe = self.pipe
        if not pipe.slots:
            if not pipe.writers:
                return b""
            raise Errno(errno.EAGAIN)
        was_full = pipe.full
        data = pipe.take(n)
        if was_full and not pipe.full:
            pipe.to_writers(POLLOUT)
        _tell_owners(pipe.writers, POLL_OUT)
        return data

    def poll(self) -> int:
        """POLL* bits that hold now."""
        gone = not self.pipe.writers and self.not_yet != self.pipe.writes
        return super().poll() | (POLLIN if self.pipe.slots else 0) | (POLLHUP if gone else 0)

    def close(self) -> None:
        """One fewer can read: of none, writers get EPIPE."""
        self.pipe.readers.remove(self)
        super().close()


class PipeWriter(_PipeEnd):
    """An end that is written to."""

    def _join(self) -> None:
        super()._join()
        self.pipe.writers.append(self)
        self.pipe.writes += 1

    def write(self, data: bytes) -> int:
        """Returns how much was taken. Errno: EPIPE without a reader, EAGAIN without room."""
        pipe = self.pipe
        if not data:
            return 0
        if not pipe.readers:
            raise Errno(errno.EPIPE)
        done = pipe.put(data, bool(self.flags & os.O_DIRECT))
        # Linux makes an edge of a write that found no room, too.
        pipe.to_readers(POLLIN)
        _tell_owners(pipe.readers, POLL_IN)
        if not done:
            raise Errno(errno.EAGAIN)
        if self.node is not None:
            self.node.set_times(None, self.node.now())
        return done

    def whole(self, n: int, reach: int) -> int:
        """How many of n bytes are written of which only the first `reach` can be read."""
        return self.pipe.whole(n, reach, bool(self.flags & os.O_DIRECT))

    def poll(self) -> int:
        """POLL* bits that hold now."""
        events = (0 if self.pipe.full else POLLOUT) | (POLLERR if not self.pipe.readers else 0)
        return super().poll() | events

    def close(self) -> None:
        """One fewer can write: of none, readers get the end."""
        self.pipe.writers.remove(self)
        super().close()


class PipeBoth(PipeReader, PipeWriter):
    """One that is opened for both."""


_KINDS: dict[int, type[PipeReader] | type[PipeWriter]] = {
    os.O_RDONLY: PipeReader, os.O_WRONLY: PipeWriter, os.O_RDWR: PipeBoth,
}  # fmt: skip


def end_of(pipe: Pipe, flags: int, inode: int, node: Node | None = None) -> PipeReader | PipeWriter:
    """One more end. flags: how it is opened. node: of a name. Raises Errno(EINVAL): for neither way."""
    kind = _KINDS.get(flags & os.O_ACCMODE)
    if kind is None:
        raise Errno(errno.EINVAL)
    return kind(pipe, flags, inode, node)


def open_pipe(flags: int, inode: int) -> tuple[PipeReader, PipeWriter]:
    """Both ends of a new pipe. flags: O_NONBLOCK and O_DIRECT."""
    pipe = Pipe()
    return PipeReader(pipe, os.O_RDONLY | flags, inode), PipeWriter(pipe, os.O_WRONLY | flags, inode)
