"""Open descriptions of regular files, of directories, and of mere paths (O_PATH)."""

from __future__ import annotations

import errno
import os
import stat as modes

from emu.linux.files.nodes import SEAL_WRITE, Directory, FileNode, Node
from emu.linux.files.open_file import POLLIN, POLLNVAL, POLLOUT, MappedFile, OpenFile, Stat
from emu.linux.ground.failure import Errno

SEEK_DATA, SEEK_HOLE = 3, 4
_D_TYPES = {
    modes.S_IFREG: 8, modes.S_IFDIR: 4, modes.S_IFLNK: 10, modes.S_IFCHR: 2, modes.S_IFBLK: 6,
    modes.S_IFIFO: 1, modes.S_IFSOCK: 12,
}  # fmt: skip
_MOST = (1 << 63) - 1


class NodeFile(OpenFile):
    """A description of something that has an inode. path: its name when it was opened."""

    def __init__(self, node: Node, flags: int, path: str) -> None:
        super().__init__(flags)
        self.node = node
        self.name = path

    def stat(self) -> Stat:
        """What fstat tells."""
        return self.node.stat()

    def close(self) -> None:
        """The last descriptor is gone, and with it its lock."""
        if self.node.locks is not None:
            self.node.locks.release(self)


class OpenPath(NodeFile):
    """O_PATH: a place in the tree, and nothing can be done to its contents (open(2))."""

    def __init__(self, node: Node, flags: int, path: str) -> None:
        super().__init__(node, flags, path)
        if isinstance(node, FileNode):
            node.acquire()

    def close(self) -> None:
        """The last descriptor is gone."""
        if isinstance(self.node, FileNode):
            self.node.release()

    def read(self, n: int) -> bytes:
        """Never."""
        raise Errno(errno.EBADF)

    def write(self, data: bytes) -> int:
        """Never."""
        raise Errno(errno.EBADF)

    def pread(self, n: int, offset: int) -> bytes:
        """Never."""
        raise Errno(errno.EBADF)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Never."""
        raise Errno(errno.EBADF)

    def seek(self, offset: int, whence: int) -> int:
        """Never."""
        raise Errno(errno.EBADF)

    def truncate(self, size: int) -> None:
        """Never."""
        raise Errno(errno.EBADF)

    def entries(self) -> list[tuple[str, int, int]]:
        """Never."""
        raise Errno(errno.EBADF)

    def ioctl(self, request: int, argument: bytes) -> bytes:
        """Never."""
        raise Errno(errno.EBADF)

    def mapped(self) -> MappedFile:
        """Never."""
        raise Errno(errno.EBADF)

    def poll(self) -> int:
        """Not for poll."""
        return POLLNVAL


class OpenRegular(NodeFile):
    """A regular file and a position in it."""

    node: FileNode

    def __init__(self, node: FileNode, flags: int, path: str) -> None:
        super().__init__(node, flags, path)
        self.position = 0
        node.acquire()

    def read(self, n: int) -> bytes:
        """At most n bytes; b"" at the end."""
        data = self.pread(n, self.position)
        self.position += len(data)
        return data

    def write(self, data: bytes) -> int:
        """Write at the position, or at the end with O_APPEND."""
        if self.flags & os.O_APPEND and data:
            self.position = self.node.size()
        done = self._put(data, self.position)
        self.position += done
        return done

    def pread(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on."""
        return self.node.read(n, offset)

    def pwrite(self, data: bytes, offset: int) -> int:
        """Write at `offset`; with O_APPEND at the end all the same, as Linux does (pwrite(2), BUGS)."""
        return self._put(data, self.node.size() if self.flags & os.O_APPEND else offset)

    def _put(self, data: bytes, offset: int) -> int:
        return self.node.write(data, offset) if data else 0

    def seek(self, offset: int, whence: int) -> int:
        """The new position."""
        size = self.node.size()
        if whence in (SEEK_DATA, SEEK_HOLE):
            if not 0 <= offset < size:
                raise Errno(errno.ENXIO)
            position = self.node.next_data(offset, whence == SEEK_DATA)
            if whence == SEEK_DATA and position >= size:
                raise Errno(errno.ENXIO)
        elif whence in (os.SEEK_SET, os.SEEK_CUR, os.SEEK_END):
            position = offset + (0, self.position, size)[whence]
        else:
            raise Errno(errno.EINVAL)
        if not 0 <= position <= _MOST:
            raise Errno(errno.EINVAL)
        self.position = position
        return position

    def truncate(self, size: int) -> None:
        """Set the size."""
        if not self.writable or size < 0:
            raise Errno(errno.EINVAL)
        self.node.truncate(size)

    @property
    def sealed(self) -> bool:
        """F_SEAL_WRITE or F_SEAL_FUTURE_WRITE."""
        return bool(self.node.seals and self.node.seals & SEAL_WRITE)

    def mapped(self) -> MappedFile:
        """Its bytes for mmap."""
        return MappedNode(self.node, self.name)

    def poll(self) -> int:
        """Always ready."""
        return POLLIN | POLLOUT

    def close(self) -> None:
        """The last descriptor is gone."""
        super().close()
        self.node.release()


def mapped_key(node: Node) -> object:
    """What mappings of this file have as their `key`."""
    return (node.device, node.inode)


class MappedNode(MappedFile):
    """A regular file's contents, for mappings."""

    def __init__(self, node: FileNode, path: str) -> None:
        self._node = node
        self.path = path
        self.inode = node.inode
        self.key = mapped_key(node)
        # A mapping may live until the end of the run: it is not said when it is gone.
        node.acquire()

    def size(self) -> int:
        """Bytes in the file now."""
        return self._node.size()

    def page(self, offset: int, n: int) -> bytes:
        """At most n bytes from `offset` on."""
        return self._node.read(n, offset)

    def write_back(self, offset: int, data: bytes) -> None:
        """Bytes of a shared mapping; what lies past the end of the file is lost (mmap(2))."""
        data = data[: max(0, self._node.size() - offset)]
        if not data or self._node.read(len(data), offset) == data:
            return
        # A mapping that was there before its file was sealed still writes to it (F_SEAL_FUTURE_WRITE).
        seals, self._node.seals = self._node.seals, None
        try:
            done = 0
            while done < len(data):
                done += self._node.write(data[done:], offset + done)
        finally:
            self._node.seals = seals


class OpenDirectory(NodeFile):
    """A directory, and how far it was read. It is listed once, then anew after a rewind."""

    node: Directory

    def __init__(self, node: Directory, flags: int, path: str) -> None:
        super().__init__(node, flags, path)
        self.position = 0
        self._listing: list[tuple[str, int, int]] | None = None

    def read(self, n: int) -> bytes:
        """Directories are listed, not read."""
        raise Errno(errno.EISDIR)

    def pread(self, n: int, offset: int) -> bytes:
        """Directories are listed, not read."""
        raise Errno(errno.EISDIR)

    def write(self, data: bytes) -> int:
        """Never."""
        raise Errno(errno.EBADF)

    def seek(self, offset: int, whence: int) -> int:
        """A position is a number of entries; 0 reads the directory anew."""
        if whence not in (os.SEEK_SET, os.SEEK_CUR):
            raise Errno(errno.EINVAL)
        position = offset + (self.position if whence == os.SEEK_CUR else 0)
        if not 0 <= position <= _MOST:
            raise Errno(errno.EINVAL)
        if position == 0:
            self._listing = None
        self.position = position
        return position

    def entries(self) -> list[tuple[str, int, int]]:
        """(name, inode, d_type), sorted by name, with '.' and '..' first."""
        if self._listing is None:
            self._listing = self._list()
        return self._listing

    def _list(self) -> list[tuple[str, int, int]]:
        directory = self.node
        listing = [(".", directory.inode, 4), ("..", directory.parent.inode, 4)]
        if directory.removed:
            return []
        for name in directory.names():
            try:
                node = directory.lookup(name)
            except Errno:
                continue
            if node is not None:
                listing.append((name, node.inode, _D_TYPES.get(node.kind, 0)))
        return listing
