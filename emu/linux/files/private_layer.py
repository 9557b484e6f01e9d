"""The guest's private layer: what it has written, kept in memory, and how much of that there may be."""

from __future__ import annotations

import errno
from typing import Protocol

from emu.linux.ground.clock import Clock
from emu.linux.ground.failure import Errno

#: Contents are kept in pieces of this many bytes; pieces never written take no memory.
CHUNK = 1 << 16
#: What a name with its inode counts as, in bytes: a guest must not fill memory with empty files.
NODE = 1024
#: The largest file, as a file system has one: 512 GiB.
MAX_FILE = 1 << 39


class Base(Protocol):
    """Bytes below a private file: those of a host file that must not change."""

    size: int

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on. Raises Errno."""


class PrivateLayer:
    """Counts bytes and hands out inode numbers, in the order of first visit, so that every run has the same.

    used: bytes held, never more than `limit`. changed: files of which bytes were, (device, inode) each, since
    somebody has emptied it.
    """

    def __init__(self, clock: Clock, limit: int) -> None:
        self.clock, self.limit, self.used = clock, limit, 0
        self.changed: set[object] = set()
        self._inodes = 1

    def now(self) -> int:
        """Nanoseconds since 1970, as the guest's clock has it."""
        return self.clock.realtime()

    def inode(self) -> int:
        """A fresh inode number."""
        self._inodes += 1
        return self._inodes

    def charge(self, n: int) -> None:
        """n more bytes (or fewer, if negative). Raises Errno(ENOSPC)."""
        if n > 0 and self.used + n > self.limit:
            raise Errno(errno.ENOSPC)
        self.used += n


class Contents:
    """A private file's bytes: what was written over an optional base. What was not written costs nothing."""

    def __init__(self, layer: PrivateLayer, base: Base | None = None) -> None:
        self._layer, self._base = layer, base
        self.size = base.size if base else 0
        #: The base shows through below this offset only: what was cut off stays cut off.
        self._base_end = self.size
        #: A piece may be shorter than CHUNK: zeros follow.
        self._chunks: dict[int, bytearray] = {}
        #: The base was changed, by writing or cutting.
        self.changed = base is None

    def __del__(self) -> None:
        self._layer.charge(-sum(map(len, self._chunks.values())))

    def prepare(self) -> None:
        """The base must be readable. Raises Errno."""
        if self._base is not None:
            self._base.read(0, 0)

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on; fewer at the end of the file."""
        end = min(offset + n, self.size)
        pieces = []
        while offset < end:
            index, start = divmod(offset, CHUNK)
            length = min(CHUNK - start, end - offset)
            pieces.append(self._piece(index, start, length))
            offset += length
        return b"".join(pieces)

    def write(self, data: bytes, offset: int) -> int:
        """Replace bytes, making the file longer where needed; returns how many there was room for.

        Raises Errno(EFBIG), and Errno(ENOSPC) if there was room for none.
        """
        if offset + len(data) > MAX_FILE:
            raise Errno(errno.EFBIG)
        done = 0
        while done < len(data):
            index, start = divmod(offset + done, CHUNK)
            length = min(CHUNK - start, len(data) - done)
            try:
                chunk = self._own(index, start + length)
            except Errno:
                if done:
                    break
                raise
            chunk[start : start + length] = data[done : done + length]
            done += length
            self.size = max(self.size, offset + done)
        self.changed = True
        return done

    def truncate(self, size: int) -> None:
        """Cut, or lengthen with a hole. Raises Errno(EFBIG)."""
        if size > MAX_FILE:
            raise Errno(errno.EFBIG)
        if size < self.size:
            last, rest = divmod(size, CHUNK)
            for index in [i for i in self._chunks if i > last or (i == last and not rest)]:
                self._layer.charge(-len(self._chunks.pop(index)))
            chunk = self._chunks.get(last)
            if chunk is not None and len(chunk) > rest:
                self._layer.charge(rest - len(chunk))
                del chunk[rest:]
            self._base_end = min(self._base_end, size)
        self.changed = self.changed or size != self.size
        self.size = size

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero, within the present size; whole pieces become holes. Raises Errno(ENOSPC)."""
        end = min(offset + length, self.size)
        if offset >= end:
            return
        first, last = offset // CHUNK, (end - 1) // CHUNK
        below = range(first, min(last + 1, -(-self._base_end // CHUNK)))
        for index in sorted({*below, *(i for i in self._chunks if first <= i <= last)}):
            start, stop = max(offset - index * CHUNK, 0), min(end - index * CHUNK, CHUNK)
            if stop - start < CHUNK:
                self._own(index, stop)[start:stop] = bytes(stop - start)
                continue
            self._layer.charge(-len(self._chunks.pop(index, b"")))
            if index * CHUNK < self._base_end:
                self._chunks[index] = bytearray()
        self.changed = True

    def is_data(self, index: int) -> bool:
        """The piece `index` is not a hole."""
        return index in self._chunks or index * CHUNK < self._base_end

    def next_data(self, offset: int, data: bool) -> int:
        """Where data (or a hole) begins at or after `offset` < size; `size` if nowhere (lseek(2))."""
        index = offset // CHUNK
        if self.is_data(index) == data:
            return offset
        if data:
            later = [i for i in self._chunks if i > index]
            return min(later) * CHUNK if later else self.size
        index = max(index, -(-self._base_end // CHUNK))
        while index in self._chunks:
            index += 1
        return min(index * CHUNK, self.size)

    def _piece(self, index: int, start: int, length: int) -> bytes:
        chunk = self._chunks.get(index)
        if chunk is not None:
            return bytes(chunk[start : start + length]).ljust(length, b"\0")
        offset = index * CHUNK + start
        if self._base is None or offset >= self._base_end:
            return bytes(length)
        return self._base.read(min(length, self._base_end - offset), offset).ljust(length, b"\0")

    def _own(self, index: int, end: int) -> bytearray:
        """The piece, brought into memory and at least `end` bytes long."""
        chunk = self._chunks.get(index)
        if chunk is None:
            below = max(0, min(CHUNK, self._base_end - index * CHUNK))
            self._layer.charge(max(end, below))
            try:
                chunk = bytearray(self._piece(index, 0, below)) if below else bytearray()
            except Errno:
                self._layer.charge(-max(end, below))
                raise
            self._chunks[index] = chunk
        else:
            self._layer.charge(max(0, end - len(chunk)))
        if len(chunk) < end:
            chunk.extend(bytes(end - len(chunk)))
        return chunk
