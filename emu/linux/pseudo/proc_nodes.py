"""What /proc and /sys are made of: texts made when they are opened, links that jump, directories of them."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable

from emu.linux.files.nodes import PROC_DEVICE, Directory, Node, Special, Symlink
from emu.linux.files.open_file import POLLIN, POLLOUT, OpenFile, Stat
from emu.linux.files.regular import NodeFile
from emu.linux.ground.failure import Errno


def generated_status(
    inode: int, mode: int, device: int = PROC_DEVICE, time: int = 0, uid: int = 1000
) -> Stat:
    """Of a synthetic node: without a size."""
    return Stat(mode, inode, device, uid=uid, gid=uid, modified=time, changed=time, accessed=time)


class OpenText(NodeFile):
    """A text that is made at the first read, and again after a rewind to the beginning."""

    def __init__(self, node: GeneratedFile, flags: int, path: str) -> None:
        super().__init__(node, flags, path)
        self._make, self._take = node.make, node.take
        self.position = 0
        self._text: bytes | None = None

    def read(self, n: int) -> bytes:
        """At most n bytes; b"" at the end."""
        data = self.pread(n, self.position)
        self.position += len(data)
        return data

    def pread(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on."""
        if self._text is None or offset == 0:
            self._text = self._make()
        return self._text[offset : offset + n]

    def write(self, data: bytes) -> int:
        """Taken by the few files that can be written."""
        if self._take is None:
            raise Errno(errno.EACCES)
        self._take(data)
        return len(data)

    def pwrite(self, data: bytes, offset: int) -> int:
        """As a write."""
        return self.write(data)

    def seek(self, offset: int, whence: int) -> int:
        """The new position; there is no end to seek from."""
        if whence not in (os.SEEK_SET, os.SEEK_CUR):
            raise Errno(errno.EINVAL)
        position = offset + (self.position if whence == os.SEEK_CUR else 0)
        if position < 0:
            raise Errno(errno.EINVAL)
        self.position = position
        return position

    def poll(self) -> int:
        """Always ready."""
        return POLLIN | POLLOUT


class GeneratedFile(Special):
    """A regular file by its mode, with a text by a function. take: what a write does, None: EACCES."""

    def __init__(
        self, status: Stat, make: Callable[[], bytes], take: Callable[[bytes], None] | None = None
    ) -> None:
        super().__init__(status)
        self.make, self.take = make, take

    def open(self, flags: int, path: str) -> OpenFile:
        """A description with its own copy of the text."""
        return OpenText(self, flags, path)

    def set_mode(self, mode: int) -> None:
        """Never."""
        raise Errno(errno.EPERM)

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """Never."""
        raise Errno(errno.EPERM)

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """Without effect, as on Linux."""


class JumpLink(Symlink):
    """A link that leads straight to a node. text: what readlink tells; to: the node (raises Errno)."""

    def __init__(self, status: Stat, text: Callable[[], str], to: Callable[[], Node]) -> None:
        super().__init__(status, "")
        self._text, self._to = text, to

    def target(self) -> str:
        """What readlink tells."""
        return self._text()

    def jump(self) -> Node:
        """Where it leads. Raises Errno."""
        return self._to()


class TextLink(Symlink):
    """A link whose target is made when it is read, then resolved by name."""

    def __init__(self, status: Stat, text: Callable[[], str]) -> None:
        super().__init__(status, "")
        self._text = text

    def target(self) -> str:
        """What readlink tells."""
        return self._text()


class SameFile(Special):
    """What a link of /proc/self/fd leads to when there is no node: the very same open file."""

    def __init__(self, status: Stat, file: OpenFile) -> None:
        super().__init__(status)
        self._file = file

    def open(self, flags: int, path: str) -> OpenFile:
        """The description itself, if it allows the access, else perhaps another. Raises Errno."""
        if modes.S_ISSOCK(self._status.mode):
            raise Errno(errno.ENXIO)
        wanted = flags & os.O_ACCMODE
        if (wanted != os.O_WRONLY and not self._file.readable) or (wanted and not self._file.writable):
            return self._file.opened_anew(flags)
        return self._file


class GeneratedDirectory(Directory):
    """A directory that functions describe. find: a node by name; list_names: all of them."""

    def __init__(
        self,
        status: Stat,
        find: Callable[[str], Node | None] | None = None,
        list_names: Callable[[], list[str]] | None = None,
    ) -> None:
        super().__init__(status)
        self._find, self._list = find, list_names
        self._fixed_nodes: dict[str, Node] = {}

    def put(self, name: str, node: Node) -> None:
        """A name that is always there."""
        self._fixed_nodes[name] = node
        if isinstance(node, Directory):
            node.place(self, name)

    def lookup(self, name: str) -> Node | None:
        """What a name stands for now."""
        node = self._fixed_nodes.get(name)
        if node is None and self._find is not None:
            node = self._find(name)
            if isinstance(node, Directory):
                node.place(self, name)
        return node

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted([*self._fixed_nodes, *(self._list() if self._list else [])])

    def set_mode(self, mode: int) -> None:
        """Never."""
        raise Errno(errno.EPERM)

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """Never."""
        raise Errno(errno.EPERM)

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """Never."""
        raise Errno(errno.EPERM)
