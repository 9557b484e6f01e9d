"""Host files below one root, reached safely: name by name, never through a link, never a special file."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from corebraid.base.errors import UsageError, unless_short
from emu.linux.ground.failure import Errno

#: File systems that are windows into the host's kernel and processes: closed even inside a bind.
_KERNEL_FILE_SYSTEMS = frozenset(
    {
        "proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs",
        "configfs", "bpf", "pstore", "efivarfs", "binfmt_misc", "autofs", "mqueue", "fusectl", "rpc_pipefs",
        "selinuxfs", "nsfs",
    }
)  # fmt: skip
_PATH_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILES = 64


@contextmanager
def host_errors() -> Iterator[None]:
    """A host error becomes the guest's, but for files that the host lets us open no more of: those are ours.
    Raises Errno, ShortageError."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            unless_short(error)
        raise Errno(error.errno or errno.EIO) from None


def encode(name: str) -> bytes:
    """A guest's name as bytes, whatever the host's locale."""
    return name.encode("utf-8", "surrogateescape")


def decode(name: bytes) -> str:
    """Bytes as a guest's name."""
    return name.decode("utf-8", "surrogateescape")


def kernel_devices() -> frozenset[int]:
    """Device numbers of the host's kernel file systems."""
    found = set()
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        before, _, after = line.partition(b" - ")
        if after.split(b" ", 1)[0].decode() in _KERNEL_FILE_SYSTEMS:
            major, minor = before.split()[2].split(b":")
            found.add(os.makedev(int(major), int(minor)))
    return frozenset(found)


def reopen(path_descriptor: int, flags: int) -> int:
    """Open what an O_PATH descriptor stands for, which cannot be swapped any more. Raises OSError."""
    return os.open(f"/proc/self/fd/{path_descriptor}", flags | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)


class HostFiles:
    """Host descriptors of files in use: few, the longest unused one is closed first."""

    def __init__(self, most: int = _OPEN_FILES) -> None:
        self._open: OrderedDict[object, int] = OrderedDict()
        self._pinned: dict[object, int] = {}
        self._most = most

    def __len__(self) -> int:
        return len(self._open) + len(self._pinned)

    def get(self, key: object) -> int | None:
        """The descriptor, if it is open."""
        if key in self._pinned:
            return self._pinned[key]
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        return None

    def put(self, key: object, descriptor: int) -> int:
        """Keep it, and close the longest unused one if there are too many."""
        self.drop(key)
        self._open[key] = descriptor
        if len(self._open) > self._most:
            os.close(self._open.popitem(last=False)[1])
        return descriptor

    def pin(self, key: object) -> None:
        """Keep an open one until it is dropped: its name goes away."""
        if key in self._open:
            self._pinned[key] = self._open.pop(key)

    def drop(self, key: object) -> None:
        """Close it, if it is open."""
        for table in (self._open, self._pinned):
            descriptor = table.pop(key, None)
            if descriptor is not None:
                os.close(descriptor)

    def close(self) -> None:
        """Close all."""
        for key in [*self._open, *self._pinned]:
            self.drop(key)

    def __del__(self) -> None:
        self.close()


class HostTree:
    """One host directory (or one file) and what is below it."""

    _root = -1

    def __init__(self, host: Path, files: HostFiles, forbidden: frozenset[int]) -> None:
        self.files, self._forbidden = files, forbidden
        where = str(host)
        try:
            self._root = os.open(os.path.realpath(host, strict=True), _PATH_FLAGS)
        except OSError as error:
            unless_short(error)
            raise UsageError(f"cannot be given to the guest: {error.strerror}", where=where) from None
        status = os.fstat(self._root)
        self.is_directory = modes.S_ISDIR(status.st_mode)
        wrong = "" if self.is_directory or modes.S_ISREG(status.st_mode) else "neither a file nor a directory"
        if status.st_dev in forbidden:
            wrong = "it belongs to the host's kernel"
        if wrong:
            self.close()
            raise UsageError(f"cannot be given to the guest: {wrong}", where=where)

    def close(self) -> None:
        """Let go of the root; nothing can be reached any more."""
        if self._root >= 0:
            os.close(self._root)
        self._root = -1

    def __del__(self) -> None:
        self.close()

    @contextmanager
    def path(self, parts: tuple[bytes, ...]) -> Iterator[int]:
        """An O_PATH descriptor of what is at `parts`: a link itself, if it is one. Raises Errno."""
        with host_errors():
            descriptor = self._walk(parts)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _walk(self, parts: tuple[bytes, ...]) -> int:
        if self._root < 0:
            raise Errno(errno.EIO)
        here = os.dup(self._root)
        for i, part in enumerate(parts):
            if part in (b"", b".", b"..") or b"/" in part or b"\0" in part:
                os.close(here)
                raise Errno(errno.ENOENT)
            flags = _PATH_FLAGS | (os.O_DIRECTORY if i + 1 < len(parts) else 0)
            try:
                below = os.open(part, flags, dir_fd=here)
            finally:
                os.close(here)
            here = below
            if os.fstat(here).st_dev in self._forbidden:
                os.close(here)
                raise Errno(errno.EACCES)
        return here


@dataclass(frozen=True)
class HostPlace:
    """A name in a host tree: the names from its root on."""

    tree: HostTree
    parts: tuple[bytes, ...] = ()

    def child(self, name: str) -> HostPlace:
        """The place of a name below."""
        return HostPlace(self.tree, (*self.parts, encode(name)))

    def status(self) -> os.stat_result:
        """lstat. Raises Errno."""
        with self.tree.path(self.parts) as here:
            return os.fstat(here)

    def target(self) -> str:
        """Where a link points. Raises Errno."""
        with self.tree.path(self.parts) as here, host_errors():
            return decode(os.readlink(b"", dir_fd=here))

    def names(self) -> list[str]:
        """The names in a directory, sorted. Raises Errno."""
        with self.tree.path(self.parts) as here, host_errors():
            descriptor = os.open(
                ".", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here
            )
            try:
                return sorted(decode(os.fsencode(name)) for name in os.listdir(descriptor))
            finally:
                os.close(descriptor)

    def open(self, flags: int, identity: tuple[int, int] | None = None) -> int:
        """A host descriptor of a regular file, which must still be the one of `identity` (ESTALE).

        Raises Errno.
        """
        with self.tree.path(self.parts) as here, host_errors():
            status = os.fstat(here)
            if not modes.S_ISREG(status.st_mode):
                raise Errno(errno.EACCES)
            if identity is not None and identity != (status.st_dev, status.st_ino):
                raise Errno(errno.ESTALE)
            return reopen(here, flags)


@dataclass
class HostFileBase:
    """The bytes of a host file as it was when the guest first saw it, to be read only."""

    place: HostPlace
    identity: tuple[int, int]
    size: int

    def read(self, n: int, offset: int) -> bytes:
        """At most n bytes from `offset` on. Raises Errno."""
        files = self.place.tree.files
        key = (self.identity, False)
        descriptor = files.get(key)
        if descriptor is None:
            descriptor = files.put(key, self.place.open(os.O_RDONLY, self.identity))
        with host_errors():
            return os.pread(descriptor, max(0, min(n, self.size - offset)), offset)
