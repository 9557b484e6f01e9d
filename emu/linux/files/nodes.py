"""Inodes: what names in the guest's tree stand for."""

from __future__ import annotations

import errno
import stat as modes
from collections.abc import Callable
from dataclasses import replace

from emu.linux.files.file_locks import FileLocks
from emu.linux.files.open_file import OpenFile, Stat
from emu.linux.files.private_layer import PrivateLayer
from emu.linux.ground.failure import Errno

#: Device numbers that stat shows: of private and copy-on-write files, and of the synthetic trees.
DEVICE, DEV_DEVICE, PROC_DEVICE, SYS_DEVICE, PIPE_DEVICE, WRITABLE_DEVICE = 0x801, 5, 0x15, 0x16, 0xD, 0x802
#: F_SEAL_WRITE with F_SEAL_FUTURE_WRITE.
SEAL_WRITE = 8 | 16


def without_set_ids(mode: int) -> int:
    """A mode that has lost its set-user-ID bit, and set-group-ID where the group may execute (inode(7))."""
    return mode & ~(modes.S_ISUID | (modes.S_ISGID if mode & modes.S_IXGRP else 0))


class Node:
    """One inode. What a kind of node cannot do raises the error that Linux gives.

    touched: the guest made or changed it, so it belongs to what `--keep-writes` keeps. fresh: the guest gave
    it the name that it has. charged: bytes that it counts for in the private layer. locks: of flock, once
    there was one.
    """

    def __init__(self, status: Stat) -> None:
        self._status = status
        self.locks: FileLocks | None = None
        self.touched = False
        self.fresh = False
        self.charged = 0

    @property
    def kind(self) -> int:
        """S_IFMT bits."""
        return modes.S_IFMT(self.stat().mode)

    @property
    def inode(self) -> int:
        """Its number."""
        return self._status.inode

    @property
    def device(self) -> int:
        """The device that its number is of."""
        return self._status.device

    def stat(self) -> Stat:
        """What stat tells."""
        return self._status

    def open(self, flags: int, path: str) -> OpenFile:
        """Open it; `path` is only its name for people. Raises Errno."""
        raise Errno(errno.ENXIO)

    def now(self) -> int:
        """The time of a change, ns since 1970."""
        return self._status.changed

    def set_mode(self, mode: int) -> None:
        """New permission bits."""
        self._status = replace(self._status, mode=self.kind | mode & 0o7777, changed=self.now())
        self.touched = True

    def set_owner(self, uid: int | None, gid: int | None) -> None:
        """A new owner, None: as it is. What is no directory loses its set-ID bits, whoever is told."""
        old = self._status
        mode = old.mode if modes.S_ISDIR(old.mode) else without_set_ids(old.mode)
        uid, gid = old.uid if uid is None else uid, old.gid if gid is None else gid
        self._status = replace(old, mode=mode, uid=uid, gid=gid, changed=self.now())
        self.touched = True

    def set_times(self, accessed: int | None, modified: int | None) -> None:
        """New times, ns since 1970, None: as it is."""
        old = self._status
        self._status = replace(
            old,
            accessed=old.accessed if accessed is None else accessed,
            modified=old.modified if modified is None else modified,
            changed=self.now(),
        )
        self.touched = True

    def add_links(self, n: int) -> None:
        """n more names, or fewer."""
        self._status = replace(self._status, links=max(0, self._status.links + n), changed=self.now())


class FileNode(Node):
    """A regular file."""

    #: The directory tree that it may be linked and renamed within.
    volume: object = None
    #: A running program: it must not be written to (ETXTBSY).
    running = False
    #: Without a name, but it may get one (O_TMPFILE).
    linkable = False
    #: F_SEAL_* of a memory file (memfd_create(2)); None: it cannot be sealed.
    seals: int | None = None

    def size(self) -> int:
        """Bytes now."""
        return self.stat().size

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on. Raises Errno."""
        raise NotImplementedError

    def write(self, data: bytes, offset: int) -> int:
        """Write as much of `data` as there is room for, at least one byte; returns how many. Raises Errno."""
        raise Errno(errno.EACCES)

    def truncate(self, size: int) -> None:
        """Set the size. Raises Errno."""
        raise Errno(errno.EACCES)

    def zero(self, offset: int, length: int) -> None:
        """Make bytes zero, within the present size. Raises Errno."""
        raise Errno(errno.EOPNOTSUPP)

    def next_data(self, offset: int, data: bool) -> int:
        """SEEK_DATA or SEEK_HOLE of lseek(2), for an offset below the size."""
        return offset if data else self.size()

    def check(self, write: bool) -> None:
        """It is about to be opened or cut. Raises Errno(ETXTBSY) and what `prepare` does."""
        if write and self.running:
            raise Errno(errno.ETXTBSY)
        self.prepare(write)

    def prepare(self, write: bool) -> None:
        """Raises Errno where it cannot be opened so."""

    def acquire(self) -> None:
        """One more open description or mapping needs its bytes, whatever becomes of its names."""

    def release(self) -> None:
        """One fewer."""


class Symlink(Node):
    """A symbolic link; its target is resolved in the guest's root, wherever the link came from."""

    def __init__(self, status: Stat, target: str) -> None:
        super().__init__(replace(status, size=len(target.encode("utf-8", "surrogateescape"))))
        self._target = target

    def target(self) -> str:
        """What it points at."""
        return self._target

    def jump(self) -> Node | None:
        """A link of /proc leads straight to a node (or raises Errno); None: follow the target by name."""
        return None

    def open(self, flags: int, path: str) -> OpenFile:
        """Reached by O_NOFOLLOW only."""
        raise Errno(errno.ELOOP)


class Special(Node):
    """A socket's name, or a host file that is neither regular nor a directory: visible, never opened."""

    def __init__(self, status: Stat, payload: object = None) -> None:
        super().__init__(status)
        self.payload = payload


class Directory(Node):
    """A directory. parent and name say where it stands; the root is its own parent.

    fixed: the name that leads here can be neither removed nor renamed (EBUSY), as that of a mount.
    """

    def __init__(self, status: Stat) -> None:
        super().__init__(status)
        self.parent: Directory = self
        self.name = ""
        self.fixed = False
        self.removed = False

    @property
    def volume(self) -> object:
        """Nodes move and are linked within one volume only (EXDEV)."""
        return self

    def place(self, parent: Directory, name: str) -> None:
        """It now stands in `parent`."""
        self.parent, self.name, self.removed = parent, name, False

    def path(self) -> str:
        """Its absolute path in the guest."""
        names = []
        here = self
        while here.parent is not here:
            names.append(here.name)
            here = here.parent
        return "/" + "/".join(reversed(names))

    def lookup(self, name: str) -> Node | None:
        """What a name stands for, None: nothing. Raises Errno."""
        raise NotImplementedError

    def names(self) -> list[str]:
        """All names, sorted. Raises Errno."""
        raise NotImplementedError

    def add_file(self, name: str, mode: int) -> Node:
        """A new, empty regular file."""
        raise Errno(errno.EACCES)

    def add_directory(self, name: str, mode: int) -> None:
        """A new, empty directory."""
        raise Errno(errno.EACCES)

    def add_symlink(self, name: str, target: str) -> None:
        """A new symbolic link."""
        raise Errno(errno.EACCES)

    def add_node(self, name: str, node: Node) -> None:
        """A further name of a node of the same volume."""
        raise Errno(errno.EACCES)

    def add_special(self, name: str, mode: int, make: Callable[[Stat, PrivateLayer], Node]) -> Node:
        """A name for what is no file: in a directory of the host it would lead the host's own programs to
        what is not there."""
        raise Errno(errno.EPERM)

    def unnamed_file(self, mode: int) -> Node:
        """A file without a name, for O_TMPFILE."""
        raise Errno(errno.EOPNOTSUPP)

    def remove(self, name: str) -> None:
        """Take a name away; a directory must be empty, as the caller has seen to."""
        raise Errno(errno.EACCES)

    def move(self, name: str, target: Directory, new_name: str) -> None:
        """Rename within the volume, over what is there; the caller has checked kinds."""
        raise Errno(errno.EACCES)

    def swap(self, name: str, target: Directory, new_name: str) -> None:
        """Exchange two names of the volume (RENAME_EXCHANGE)."""
        raise Errno(errno.EINVAL)
