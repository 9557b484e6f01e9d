"""Arguments that many calls on files share: paths, descriptors, vectors of buffers."""

from __future__ import annotations

import errno

from corebraid.base.memory import PAGE_BYTES
from emu.linux.files import open_flags as of
from emu.linux.files.host_tree import decode
from emu.linux.files.nodes import Directory, Node
from emu.linux.files.open_file import OpenFile
from emu.linux.files.path_walk import Found
from emu.linux.ground.failure import Errno
from emu.linux.ground.words import as_int, as_long
from emu.linux.tasks.task import Task

#: The most bytes that one call transfers (read(2)), and buffers that one vector names (readv(2)).
MOST_BYTES, MOST_BUFFERS = 0x7FFFF000, 1024
#: Where addresses of programs end (TASK_SIZE).
PROGRAM_END = (1 << 47) - PAGE_BYTES
_BUFFER_BYTES = 16


def file_of(task: Task, fd: int) -> OpenFile:
    """The open file. Raises Errno(EBADF)."""
    return task.process.descriptors.get(as_int(fd))


def path_of(task: Task, address: int) -> str:
    """A path in guest memory. Raises Errno(EFAULT, ENAMETOOLONG)."""
    return decode(task.process.memory.read_string(address, 4096))


def start_of(task: Task, dirfd: int, path: str) -> Directory | None:
    """Where a relative path begins; None: at the current directory. Raises Errno(ENOENT, EBADF, ENOTDIR)."""
    if not path:
        raise Errno(errno.ENOENT)
    if path.startswith("/") or as_int(dirfd) == of.AT_FDCWD:
        return None
    node = getattr(file_of(task, dirfd), "node", None)
    if not isinstance(node, Directory):
        raise Errno(errno.ENOTDIR)
    return node


def walk(task: Task, dirfd: int, address: int, follow: bool) -> Found:
    """Where a path relative to a descriptor leads. Raises Errno."""
    path = path_of(task, address)
    return task.process.filesystem.walk(path, start_of(task, dirfd, path), follow)


def node_at(task: Task, dirfd: int, address: int, flags: int) -> Node:
    """The node that a path means, or the descriptor itself with AT_EMPTY_PATH. Raises Errno."""
    path = path_of(task, address)
    if not path and flags & of.AT_EMPTY_PATH:
        if as_int(dirfd) == of.AT_FDCWD:
            return task.process.filesystem.cwd
        return node_of(file_of(task, dirfd))
    at = start_of(task, dirfd, path)
    return task.process.filesystem.walk(path, at, not flags & of.AT_SYMLINK_NOFOLLOW).existing()


def node_of(file: OpenFile) -> Node:
    """The node behind an open file; what has none gets one that cannot be changed."""
    node = getattr(file, "node", None)
    return node if isinstance(node, Node) else Nameless(file.stat())


class Nameless(Node):
    """A pipe or socket: changes of its permissions are accepted and forgotten."""

    def set_mode(self, mode: int) -> None:
        """Forgotten."""

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """Forgotten."""

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """Forgotten."""


def buffers(task: Task, address: int, count: int) -> list[tuple[int, int]]:
    """A vector of (address, bytes), cut at what one call transfers. Raises Errno(EINVAL, EFAULT)."""
    count = as_int(count)
    if not 0 <= count <= MOST_BUFFERS:
        raise Errno(errno.EINVAL)
    raw = task.process.memory.read(address, count * _BUFFER_BYTES) if count else b""
    found, left = [], MOST_BYTES
    for at in range(0, len(raw), _BUFFER_BYTES):
        base = int.from_bytes(raw[at : at + 8], "little")
        n = as_long(int.from_bytes(raw[at + 8 : at + 16], "little"))
        if n < 0:
            raise Errno(errno.EINVAL)
        n = min(n, left)
        left -= n
        found.append((base, n))
    return found
